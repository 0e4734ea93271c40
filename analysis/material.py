"""What a study's folder says, read once, and the plain facts that the page, the finding and the terminal all state."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.checklist import Point, checklist
from analysis.compare import Analysis, Comparison, analyse
from analysis.design import JUDGE, TUNE
from analysis.equality import Equality, equalities
from analysis.publication import Publication, hold_published
from analysis.records import COMPLETED, RUNS, SNAPSHOT, RecordError, Records
from analysis.scorings import Scored, scored
from analysis.verdict import ALPHA
from analysis.wording import count, duration, listed, number, numbers, share

FORMAT = 2
MISSING = "missing"  # the status of a planned run of which nothing is recorded
PLANNED = ("run_id", "arm", "seed", "stage", "point")  # what the plan says of a run
MOST_LISTED, MOST_SHOWN, MOST_JOINED = 2_000, 40, 50  # runs in tables, arms in figures and words, seeds in lines
REHEARSAL = (
    "This is a rehearsal, not a finding: it shows that everything works, with training too short and seeds too few "
    "to say anything about the question."
)


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
        contrasts = scored(runs, curves, snapshot).contrasts.values()
        return cls(snapshot, runs, curves, analyse(runs, snapshot, contrasts=contrasts))

    @cached_property
    def arms(self) -> list[str]:
        """Names of the arms in the order of the plan."""
        return [arm["name"] for arm in self.snapshot["arms"]]

    @cached_property
    def table(self) -> pd.DataFrame:
        """Every planned run, in the plan's order, with what was recorded of it or the status "missing".

        Columns: run_id, arm, seed, stage, point, and those of the records but the study's name.
        """
        plan = pd.DataFrame(self.snapshot["runs"], columns=list(PLANNED)).astype({"point": float})
        recorded = self.runs.drop(columns=["study", *PLANNED[1:]])
        table = plan.merge(recorded, on="run_id", how="left", validate="many_to_one")
        return table.assign(status=table["status"].fillna(MISSING))

    @cached_property
    def plan(self) -> list[dict[Any, Any]]:
        """The table row by row."""
        return self.table.to_dict("records")

    @cached_property
    def by_seed(self) -> dict[int, dict[str, dict[str, Any]]]:
        """The judged runs of the plan as a table: seed, then arm."""
        table: dict[int, dict[str, dict[str, Any]]] = {}
        for run in sorted((run for run in self.plan if run["stage"] == JUDGE), key=lambda run: run["seed"]):
            table.setdefault(run["seed"], {})[run["arm"]] = run
        return table

    @property
    def csv(self) -> str:
        """The table as text: a line per run, what is not known left empty."""
        first = [*PLANNED[1:], "status", "val_loss", "run_id"]
        rest = [] if self.judged else [column for column in self.table if column not in first]
        whole = {field.name: "Int64" for field in RUNS if pa.types.is_integer(field.type) and field.name in rest}
        return self.table[[*first, *rest]].astype(whole).to_csv(index=False, lineterminator="\n")

    @property
    def judged(self) -> bool:
        """Whether these are losses from elsewhere, of which nothing but arm, seed and loss is known."""
        return self.snapshot["judged"] is not None

    @property
    def small(self) -> bool:
        """Whether a page can list every run."""
        return len(self.snapshot["runs"]) <= MOST_LISTED

    @property
    def joined(self) -> bool:
        """Whether to join the runs of one seed: where it means the same data order in every arm, and seeds are few."""
        replicated = any(arm["replicate"] for arm in self.snapshot["arms"])
        return self.snapshot["paired"] and not replicated and len(self.snapshot["seeds"]) <= MOST_JOINED

    @cached_property
    def scored(self) -> Scored:
        """The trained models scored under other conditions, and the contrasts that the study declares."""
        return scored(self.judging, self.curves, self.snapshot)

    @property
    def outcome(self) -> str:
        """What was measured and against what, in words."""
        s = self.snapshot
        text = f"Outcome: {s['metric_name']}{', ' if s['unit'] else ''}{s['unit']}, lower is better."
        if s["target"] is not None:
            return f"{text} Target: {s['target']:g}, at a one-sided error rate of {s.get('alpha', ALPHA):g}."
        if s["margin"] is None:
            return text
        reason = f" ({' '.join(s['margin_reason'].split()).rstrip('.')})" if s["margin_reason"].strip() else ""
        return f"{text} Margin, the smallest difference that matters: {s['margin']:g}{reason}."

    @property
    def progress(self) -> str:
        """How much of the plan was recorded, in words."""
        if self.judged:
            return f"{count(len(self.runs), 'run')} read"
        return f"{len(self.runs):,} of {count(len(self.snapshot['runs']), 'planned run')} recorded"

    @property
    def completed(self) -> pd.DataFrame:
        """The runs that have a loss."""
        return self.runs[self.runs["status"] == COMPLETED]

    @cached_property
    def judging(self) -> pd.DataFrame:
        """The recorded runs that verdicts are made of."""
        return self.runs[self.runs["stage"] == JUDGE]

    @cached_property
    def tuning(self) -> pd.DataFrame:
        """The recorded runs that served to select points of a grid."""
        return self.runs[self.runs["stage"] == TUNE]

    @property
    def curves_of_completed(self) -> pd.DataFrame:
        """Curves without those of tuning, and of diverged runs, which would bend a mean wherever they stop."""
        done = self.judging[self.judging["status"] == COMPLETED]
        return self.curves[self.curves["run_id"].isin(done["run_id"])]

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
        combinations = (json.loads(text) for text in sorted(set(self.runs["versions"].dropna())))
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
        """The corpus in one line; a study's alone."""
        corpus = self.snapshot["corpus"]
        return (
            f"{corpus['name']}: {corpus['characters']:,} characters, vocabulary {corpus['vocabulary']:,} "
            f"({share(corpus['coverage'])} of the text), {corpus['train_tokens']:,} training and "
            f"{corpus['held_out_tokens']:,} held-out tokens"
        )

    @property
    def described(self) -> list[str]:
        """Arms that take part in no comparison."""
        pairs = {arm for c in self.analysis.comparisons for arm in (c.arm, c.baseline)} | {self.snapshot["baseline"]}
        return [arm for arm in self.arms if arm not in pairs]

    @property
    def measured_equal(self) -> str:
        """What the completed runs themselves say that they share, as a sentence; empty when there are none."""
        done = self.completed
        if done.empty or self.judged:
            return ""
        steps, tokens = (
            " to ".join(f"{n:,}" for n in sorted({done[c].min(), done[c].max()})) for c in ("steps", "tokens")
        )
        return f"Measured: every completed run made {steps} steps over {tokens} training tokens of the same corpus."

    @cached_property
    def published(self) -> Publication | None:
        """The figures that others have published, beside what was measured; None where the study declares none."""
        return hold_published(self.judging, self.curves, self.snapshot)

    @cached_property
    def checklist(self) -> tuple[Point, ...]:
        """The seven points of the design, answered."""
        return checklist(self.snapshot, self.runs, self.analysis, self.scored.contrasts)

    @property
    def equalities(self) -> list[Equality]:
        """Each declared equality beside what was measured."""
        return equalities(self.snapshot, self.runs)

    @property
    def missing(self) -> str:
        """Which of a study's planned runs are not recorded, by arm, as a sentence; empty when none is missing."""
        lost = self.table[(self.table["status"] == MISSING) & (not self.judged)]
        named = []
        for (arm, stage), runs in lost.groupby(["arm", "stage"], sort=False):
            seeds = f"{'seed' if len(runs) == 1 else 'seeds'} {numbers(runs['seed'].tolist())}"
            named.append(f"{arm}, {seeds if stage == JUDGE else count(len(runs), 'tuning run')}")
        return f"Not recorded yet: {'; '.join(named)}. Give the same command again: only these run." if named else ""

    @property
    def trivial(self) -> str:
        """The trivial baselines in one line, and the best n-gram where it is known."""
        levels = self.snapshot["baselines"] | self.snapshot.get("local", {})
        return listed([f"{name} {number(level, 0.05)}" for name, level in levels.items()])


def sample_size(comparison: Comparison) -> str:
    """Pairs, or the runs of arm and baseline."""
    if comparison.paired or not comparison.n_baseline:
        return f"{comparison.n:,}"
    return f"{comparison.n_arm:,} / {comparison.n_baseline:,}"


def loss_or_status(run: Mapping[str, Any]) -> str:
    """A planned run's held-out loss, or why it has none."""
    return number(run["val_loss"]) if run["status"] == COMPLETED else str(run["status"])
