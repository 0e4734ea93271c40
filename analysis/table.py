"""The runs of a study as comparisons need them: by arm and seed, with what is missing named."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import Any, ClassVar, Self

import pandas as pd

from analysis.design import FIXED, JUDGE, UNTIL_DECIDED, reference
from analysis.guards import Losses, Run, refuse_unfair
from analysis.noise import fixed_streams
from analysis.records import COMPLETED, DIVERGED
from analysis.wording import count

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

    absent: ClassVar[str] = "has no recorded run"  # said of a seed without a loss that did not diverge either
    neat: ClassVar[str] = "the losses are too neat to be independent measurements; see the alarms."

    @classmethod
    def read(cls, frame: pd.DataFrame, snapshot: Mapping[str, Any]) -> Self:
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
        if pairs := self.snapshot.get("pairs"):
            return [arm for arm, _ in pairs]
        return [a["name"] for a in self.snapshot["arms"] if a["name"] != self.baseline and not fixed_streams(a)]

    def against(self, arm: str) -> str:
        """The arm that `arm` is compared with."""
        return reference(self.snapshot, arm)

    def sample(self, arm: str, first: int | None = None) -> tuple[list[float], list[float]]:
        """Losses of `arm` and what they are compared with.

        Paired: those of the seeds that both completed, in the order of the study's seeds and out of its `first` ones.
        Unpaired: all of both. Against a target: that number once per loss.
        """
        ours = self.losses[arm]
        if self.target is not None:
            return list(ours.values()), [self.target] * len(ours)
        theirs = self.losses[self.against(arm)]
        if not self.snapshot["paired"]:
            return list(ours.values()), list(theirs.values())
        # A study that was judged with other seeds before keeps them in its records: planned seeds alone are its own.
        seeds = [seed for seed in islice(self.snapshot["seeds"], first) if seed in ours and seed in theirs]
        return [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]

    def looks_taken(self, arm: str) -> list[int]:
        """The declared looks, in seeds, whose planned runs of `arm` and what it is compared with are all recorded."""
        other = self.against(arm)
        seeds, planned = list(self.snapshot["seeds"]), self._planned[arm] & self._planned[other]
        recorded = self._recorded(arm) & self._recorded(other)
        return [look for look in self.snapshot["design"]["looks"] if planned & recorded >= set(seeds[:look])]

    def so_far(self, arm: str) -> str:
        """What a sentence on `arm` begins with while a study's fixed number of seeds is not all recorded: its verdict
        is not the planned one. Empty otherwise."""
        if self.snapshot["judged"] is not None or self.snapshot["design"]["kind"] != FIXED:
            return ""
        seeds = set(self.snapshot["seeds"])
        done = seeds & self._recorded(arm)
        if self.target is None:
            done &= self._recorded(self.against(arm))
        return "" if done == seeds else f"So far, {len(done)} of {count(len(seeds), 'planned seed')}: "

    def diverged(self, arm: str) -> int:
        return len(self._diverged[arm])

    def missing(self, arm: str) -> tuple[int, ...]:
        """Planned seeds without a recorded run."""
        return tuple(sorted(self._planned[arm] - self._recorded(arm)))

    def dropped(self, arm: str) -> tuple[Dropped, ...]:
        """Every seed, planned or recorded, without a whole pair; without pairs, without a loss of the arm."""
        paired = self.snapshot["paired"] and self.target is None
        both = (arm, self.against(arm)) if paired else (arm,)
        asked = [self._planned[name] | self._recorded(name) for name in both]
        # Of two arms the one that was decided at an earlier look has fewer seeds, and lacks none.
        shared = self.snapshot["design"]["kind"] == UNTIL_DECIDED
        seeds = set.intersection(*asked) if shared else set.union(*asked)
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
            return f"{arm} {self.absent}"
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
