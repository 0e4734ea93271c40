"""The runs of a study as comparisons need them: by arm and seed, with what is missing named."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import Any

import pandas as pd

from analysis.design import JUDGE, UNTIL_DECIDED
from analysis.guards import Losses, Run, refuse_unfair
from analysis.noise import fixed_streams
from analysis.records import COMPLETED, DIVERGED

_COLUMNS = ("diverged_at", "corpus_sha256", "recipe_version", "tokens", "last_batch_loss", "val_window_sd")


@dataclass(frozen=True)
class Dropped:
    """A seed without a pair, and why."""

    seed: int
    why: str


@dataclass(frozen=True)
class Table:
    """The recorded runs of one stage beside the snapshot; `losses` holds completed runs, arms and seeds in order."""

    runs: Sequence[Run]
    losses: Losses
    snapshot: Mapping[str, Any]

    @classmethod
    def read(cls, frame: pd.DataFrame, snapshot: Mapping[str, Any]) -> "Table":
        """The judged runs of `frame`. Raises ValueError for runs that must not be compared."""
        unknown = sorted(set(frame["status"]) - {COMPLETED, DIVERGED})
        assert not unknown, f"a run's status is {COMPLETED} or {DIVERGED}, got {unknown}"
        frame = frame[frame["stage"] == JUDGE].sort_values(["arm", "seed"])
        completed = frame["status"] == COMPLETED
        columns = [frame["arm"], frame["seed"], completed, frame[snapshot["metric"]], *(frame[c] for c in _COLUMNS)]
        runs = list(map(Run._make, zip(*(column.tolist() for column in columns), strict=True)))
        names = [arm["name"] for arm in snapshot["arms"]]
        own_budgets = any(key.startswith("budget.") for arm in snapshot["arms"] for key in arm["differences"])
        refuse_unfair(runs, names, own_budgets)
        losses: dict[str, dict[int, float]] = {name: {} for name in names}
        for run in runs:
            if run.completed:
                losses[run.arm][run.seed] = run.loss
        return cls(runs, losses, snapshot)

    @property
    def baseline(self) -> str:
        return str(self.snapshot["baseline"])

    @property
    def target(self) -> float | None:
        """The fixed number that arms are compared with in place of a baseline."""
        return None if self.snapshot["target"] is None else float(self.snapshot["target"])

    @cached_property
    def compared(self) -> list[str]:
        """The family: every arm with a comparison, whether or not it has runs yet."""
        return [a["name"] for a in self.snapshot["arms"] if a["name"] != self.baseline and not fixed_streams(a)]

    def sample(self, arm: str, first: int | None = None) -> tuple[list[float], list[float]]:
        """Losses of `arm` and what they are compared with.

        Paired: those of the seeds that both completed, in the order of the study's seeds and out of its `first` ones.
        Unpaired: all of both. Against a target: that number once per loss.
        """
        ours = self.losses[arm]
        if self.target is not None:
            return list(ours.values()), [self.target] * len(ours)
        theirs = self.losses[self.baseline]
        if not self.snapshot["paired"]:
            return list(ours.values()), list(theirs.values())
        # A study that was judged with other seeds before keeps them in its records: planned seeds alone are its own.
        seeds = [seed for seed in islice(self.snapshot["seeds"], first) if seed in ours and seed in theirs]
        return [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]

    def looks_taken(self, arm: str) -> list[int]:
        """The declared looks, in seeds, whose planned runs of `arm` and of the baseline are all recorded."""
        seeds, planned = list(self.snapshot["seeds"]), self._planned[arm] & self._planned[self.baseline]
        recorded = self._recorded(arm) & self._recorded(self.baseline)
        return [look for look in self.snapshot["design"]["looks"] if planned & recorded >= set(seeds[:look])]

    def diverged(self, arm: str) -> int:
        return len(self._diverged[arm])

    def missing(self, arm: str) -> tuple[int, ...]:
        """Planned seeds without a recorded run."""
        return tuple(sorted(self._planned[arm] - self._recorded(arm)))

    def dropped(self, arm: str) -> tuple[Dropped, ...]:
        """Every seed, planned or recorded, without a whole pair; without pairs, without a loss of the arm."""
        paired = self.snapshot["paired"] and self.target is None
        both = (arm, self.baseline) if paired else (arm,)
        # An arm that was decided at an early look has fewer seeds than the baseline, and lacks none.
        asked = (arm,) if self.snapshot["design"]["kind"] == UNTIL_DECIDED else both
        seeds = set[int]().union(*(self._planned[name] | self._recorded(name) for name in asked))
        whole = set.intersection(*(set(self.losses[name]) for name in both))
        return tuple(
            Dropped(seed, "; ".join(filter(None, (self._absence(name, seed) for name in both))))
            for seed in sorted(seeds - whole)
        )

    def _absence(self, arm: str, seed: int) -> str:
        if seed in self.losses[arm]:
            return ""
        run = self._diverged[arm].get(seed)
        if run is None:
            return f"{arm} has no recorded run"
        return f"{arm} diverged" + (f" at step {int(run.diverged_at)}" if isfinite(run.diverged_at) else "")

    def _recorded(self, arm: str) -> set[int]:
        return self.losses[arm].keys() | self._diverged[arm].keys()

    @cached_property
    def _diverged(self) -> Mapping[str, Mapping[int, Run]]:
        found: dict[str, dict[int, Run]] = defaultdict(dict)
        for run in self.runs:
            if not run.completed:
                found[run.arm][run.seed] = run
        return found

    @cached_property
    def _planned(self) -> Mapping[str, set[int]]:
        planned: dict[str, set[int]] = defaultdict(set)
        for run in self.snapshot["runs"]:
            if run["stage"] == JUDGE:
                planned[run["arm"]].add(run["seed"])
        return planned
