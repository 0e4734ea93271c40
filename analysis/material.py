"""What a study's folder says, read once, and the plain facts that the page, the finding and the terminal all state."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis.compare import Analysis, analyse
from analysis.records import COMPLETED, SNAPSHOT, RecordError, Records
from analysis.wording import count, duration, listed, number, numbers, share

FORMAT = 1
REHEARSAL = (
    "This is a rehearsal, not a finding: it shows that everything works, with training too short and seeds too few "
    "to say anything about the question."
)


class Equality(NamedTuple):
    """What a study declares equal, and what was measured: the arm farthest from the baseline, as a share of it."""

    what: str
    tolerance: float
    farthest: str
    deviation: float

    @property
    def sentence(self) -> str:
        """The declaration beside the measurement."""
        if math.isnan(self.deviation):
            return f"{self.what.capitalize()}: declared equal within {share(self.tolerance)}; not measured yet."
        if self.deviation == 0:
            measured = "the same in every arm"
        else:
            word = "more" if self.deviation > 0 else "fewer"
            measured = f"the farthest arm, {self.farthest}, has {share(abs(self.deviation))} {word}"
        held = "Held" if abs(self.deviation) <= self.tolerance else "Not held"
        return f"{self.what.capitalize()}: declared equal within {share(self.tolerance)}; {measured}. {held}."


@dataclass(frozen=True)
class Material:
    """A study's snapshot, the runs and curves of its plan, and their analysis."""

    snapshot: Mapping[str, Any]
    runs: pd.DataFrame
    curves: pd.DataFrame
    analysis: Analysis

    @classmethod
    def read(cls, folder: Path) -> "Material":
        """From a folder alone. Raises RecordError when it is no study's folder or a part of it is unreadable."""
        records = Records(folder)
        snapshot = records.snapshot()
        if snapshot.get("format") != FORMAT:
            raise RecordError(
                f"{folder / SNAPSHOT} has format {snapshot.get('format')}, and this version reads format {FORMAT}. "
                "Give the study's command again to write it anew."
            )
        runs, curves = records.planned(snapshot)
        return cls(snapshot, runs, curves, analyse(runs, snapshot))

    @cached_property
    def arms(self) -> list[str]:
        """Names of the arms in the order of the plan."""
        return [arm["name"] for arm in self.snapshot["arms"]]

    @cached_property
    def plan(self) -> list[dict[str, Any]]:
        """Every planned run with what was recorded of it; ``status`` is "missing" where nothing was."""
        recorded: dict[str, dict[Any, Any]] = {row["run_id"]: row for row in self.runs.to_dict("records")}
        return [run | recorded.get(run["run_id"], {"status": "missing"}) for run in self.snapshot["runs"]]

    @cached_property
    def by_seed(self) -> dict[int, dict[str, dict[str, Any]]]:
        """The plan as a table: seed, then arm."""
        table: dict[int, dict[str, dict[str, Any]]] = {}
        for run in sorted(self.plan, key=lambda run: run["seed"]):
            table.setdefault(run["seed"], {})[run["arm"]] = run
        return table

    @property
    def joined(self) -> bool:
        """Whether a seed means the same data order in every arm: not where an arm repeats the baseline's recipe."""
        return not any(arm["replicate"] for arm in self.snapshot["arms"])

    @property
    def progress(self) -> str:
        """How much of the plan was recorded, in words."""
        return f"{len(self.runs):,} of {count(len(self.plan), 'planned run')} recorded"

    @property
    def completed(self) -> pd.DataFrame:
        """The runs that have a loss."""
        return self.runs[self.runs["status"] == COMPLETED]

    @property
    def curves_of_completed(self) -> pd.DataFrame:
        """Curves without those of diverged runs, which would bend a mean wherever they stop."""
        return self.curves[self.curves["run_id"].isin(self.completed["run_id"])]

    @property
    def cost(self) -> str:
        """Runs, their training and evaluation time together, and the time from the first start to the last end."""
        if self.runs.empty:
            return "nothing yet"
        seconds, last = self.runs["seconds"], self.runs["finished"].max()
        together = self.runs["cohort"].fillna(1)  # runs in lockstep share their time: each began with its cohort
        first = (self.runs["finished"] - pd.to_timedelta(seconds * together, unit="s")).min()
        return (
            f"{count(len(self.runs), 'run')}, {duration(float(seconds.sum()))} of computing, within "
            f"{duration((last - first).total_seconds())} from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
        )

    @property
    def versions(self) -> list[str]:
        """Every combination of package versions that runs were made with; more than one is worth knowing."""
        combinations = (json.loads(text) for text in sorted(set(self.runs["versions"])))
        return [", ".join(f"{package} {version}" for package, version in sorted(v.items())) for v in combinations]

    @property
    def commits(self) -> list[str]:
        """Every commit that runs were made at."""
        return sorted({commit for commit in self.runs["commit"] if isinstance(commit, str) and commit})

    @property
    def commit(self) -> str:
        """The commit of the study, and whether the tree differed from it, in words."""
        if not self.snapshot["commit"]:
            return "no commit was recorded"
        return f"{self.snapshot['commit']} " + (
            "with changes or files that are not committed" if self.snapshot["uncommitted"] else "(clean tree)"
        )

    @property
    def corpus(self) -> str:
        """The corpus in one line."""
        corpus = self.snapshot["corpus"]
        return (
            f"{corpus['name']}: {corpus['characters']:,} characters, vocabulary {corpus['vocabulary']:,} "
            f"({share(corpus['coverage'])} of the text), {corpus['train_tokens']:,} training and "
            f"{corpus['held_out_tokens']:,} held-out tokens"
        )

    @property
    def described(self) -> list[str]:
        """Arms that are neither the baseline nor compared with it."""
        compared = {comparison.arm for comparison in self.analysis.comparisons}
        return [arm for arm in self.arms if arm not in compared and arm != self.snapshot["baseline"]]

    @property
    def measured_equal(self) -> str:
        """What the completed runs themselves say that they share, as a sentence; empty when there are none."""
        done = self.completed
        if done.empty:
            return ""
        steps, tokens = (
            " to ".join(f"{n:,}" for n in sorted({done[c].min(), done[c].max()})) for c in ("steps", "tokens")
        )
        return f"Measured: every completed run made {steps} steps over {tokens} training tokens of the same corpus."

    @property
    def equalities(self) -> list[Equality]:
        """Each declared equality beside what completed runs measured (or, for parameters, the plan counted)."""
        baseline = self.snapshot["baseline"]
        result = []
        for what, tolerance in self.snapshot["equal"].items():
            measured = {arm["name"]: float(arm[what]) for arm in self.snapshot["arms"] if what in arm}
            if not measured and what in self.runs:
                measured = self.completed.groupby("arm")[what].median().to_dict()
            against = {arm: value / measured[baseline] - 1 for arm, value in measured.items() if baseline in measured}
            farthest = max(against, key=lambda arm: abs(against[arm]), default=baseline)
            result.append(Equality(what, tolerance, farthest, against.get(farthest, math.nan)))
        return result

    @property
    def methods(self) -> str:
        """The procedure as a paragraph for a paper."""
        s, others = self.snapshot, [comparison.arm for comparison in self.analysis.comparisons]
        pairs = sorted({comparison.n for comparison in self.analysis.comparisons})
        n = " to ".join(map(str, pairs if len(pairs) < 2 else (pairs[0], pairs[-1])))
        seeds = "a seed fixes the order of the training data, so runs that share a seed form a pair"
        if not self.joined:
            seeds += "; replicates repeat the baseline's recipe with seeds of their own"
        described = ""
        if self.described:
            described = f" {listed(self.described)} fix a stream of randomness and are described, not compared."
        return (
            f"Each of {count(len(s['arms']), 'arm')} was trained with seeds {numbers(s['seeds'])}; {seeds}. "
            f"The outcome is {s['metric_name']} in {s['unit']} over the whole held-out text "
            f"({s['corpus']['held_out_tokens']:,} tokens); lower is better. "
            f"{listed(others) or 'No arm'} {'was' if len(others) < 2 else 'were each'} compared with the baseline "
            f"{s['baseline']} (pairs: n = {n or 0}) by a two-sided paired t test on the per-seed differences, reported "
            "as their mean with a 95 % t interval, and for equivalence by two one-sided paired t tests (TOST) at 5 %, "
            f"that is, the 90 % interval inside a margin of ±{s['margin']:g} {s['unit']} that was fixed before any run "
            f"(reason: {s['margin_reason'].strip().rstrip('.')}). "
            f"The p values of both hypotheses of all compared arms (m = {len(others)}) were adjusted together by "
            "Holm's step-down method with Shaffer's multipliers, since an arm's two hypotheses exclude each other; a "
            "verdict needs an adjusted p below 0.05. The intervals are those of one arm alone. With fewer than three "
            "pairs, or when neither hypothesis is rejected, the verdict is undecided. Diverged runs are counted and "
            "named; losses are compared among the runs that converged, and only where the rates of divergence are "
            "compatible (Boschloo's exact test at 5 %)." + described
        )

    @property
    def missing(self) -> str:
        """Which planned runs are not recorded, by arm, as a sentence; empty when none is missing."""
        lost = {
            arm: [run["seed"] for run in self.plan if run["arm"] == arm and run["status"] == "missing"]
            for arm in self.arms
        }
        named = [
            f"{arm}, {'seed' if len(seeds) == 1 else 'seeds'} {numbers(seeds)}" for arm, seeds in lost.items() if seeds
        ]
        return f"Not recorded yet: {'; '.join(named)}. Give the same command again: only these run." if named else ""

    @property
    def trivial(self) -> str:
        """The trivial baselines in one line."""
        return listed([f"{name} {number(level, 0.05)}" for name, level in self.snapshot["baselines"].items()])


def loss_or_status(run: Mapping[str, Any]) -> str:
    """A planned run's held-out loss, or why it has none."""
    return number(run["val_loss"]) if run["status"] == COMPLETED else str(run["status"])
