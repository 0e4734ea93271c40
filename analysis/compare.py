"""From a study's table of runs to guarded, paired, corrected comparisons with the baseline.

Arms are compared pairwise by seed, because the same seed sees the same batches in every arm. An arm that fixes a stream
of randomness (``streams.*`` among its differences) is described but not compared: its mean belongs to one draw of that
stream, so a test would call the same recipe different. Works at any moment of a study, from no runs at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

import pandas as pd

from analysis.guards import Alarm, Losses, Run, alarms, divergence, refuse_unfair, too_neat
from analysis.intervals import NAN, Interval, PairedDifference, mean_interval, paired_difference, sd_interval, sd_of
from analysis.noise import NoiseSummary, fixed_streams, summarise_noise
from analysis.power import seeds_needed
from analysis.records import COMPLETED, DIVERGED
from analysis.verdict import ALPHA, FEWEST_SEEDS, Verdict, decide, equivalence_p, holm_shaffer, sentence

__all__ = ["Alarm", "Analysis", "ArmSummary", "Comparison", "Dropped", "analyse", "verdict_json"]


@dataclass(frozen=True)
class Dropped:
    """A seed without a pair, and why."""

    seed: int
    why: str


@dataclass(frozen=True)
class Comparison:
    """An arm against the baseline over `n` paired seeds; `difference` is arm minus baseline, negative is better.

    Intervals are this arm's alone; the adjusted p-values, and so the verdict, belong to the family of all compared.
    `seeds_needed` (low, high) are total seeds per arm for 80 % power, only when undecided with an SD to plan from.
    """

    arm: str
    baseline: str
    verdict: Verdict
    n: int
    difference: float
    sd: float
    interval95: Interval
    interval90: Interval
    p_difference: float
    p_equivalence: float
    p_difference_adjusted: float
    p_equivalence_adjusted: float
    correlation: float
    seeds_needed: tuple[int, int] | None
    dropped: tuple[Dropped, ...]
    diverged_arm: int
    diverged_baseline: int
    sentence: str


@dataclass(frozen=True)
class ArmSummary:
    """Loss over an arm's `n` completed seeds; `diverged` counts runs, `missing` names planned seeds without one."""

    arm: str
    n: int
    mean: float
    sd: float
    interval95: Interval
    sd_interval95: Interval
    diverged: int
    missing: tuple[int, ...]


@dataclass(frozen=True)
class Analysis:
    """All that a report says; `rehearsal` marks results that are no finding, `noise` is None when not asked for."""

    comparisons: tuple[Comparison, ...]
    arms: tuple[ArmSummary, ...]
    noise: NoiseSummary | None
    alarms: tuple[Alarm, ...]
    rehearsal: bool = False


def analyse(runs: pd.DataFrame, snapshot: Mapping[str, Any], noise: bool = True) -> Analysis:
    """Guard, pair, compare and correct; `noise=False` leaves out the noise summary (for the running verdict).

    Raises ValueError for runs that must not be compared (`guards.refuse_unfair`).
    """
    table = _Table.read(runs, snapshot)
    pairs = {arm: table.pair(arm) for arm in table.compared}
    differences = {arm: [a - b for a, b in zip(*pair, strict=True)] for arm, pair in pairs.items()}
    return Analysis(
        comparisons=_comparisons(table, pairs),
        arms=tuple(_summary(arm["name"], table) for arm in snapshot["arms"]),
        noise=summarise_noise(table.runs, table.losses, differences, snapshot) if noise else None,
        alarms=alarms(table.losses, (table.baseline, *pairs), snapshot["baselines"]),
        rehearsal=bool(snapshot.get("rehearsal")),
    )


def verdict_json(analysis: Analysis) -> dict[str, Any]:
    """The verdict as data that JSON can hold: NaN and infinities become null, tuples lists."""
    comparisons = []
    for item in analysis.comparisons:
        fields = asdict(item)
        interval95, interval90 = fields.pop("interval95"), fields.pop("interval90")
        fields |= {"ci_low": interval95["low"], "ci_high": interval95["high"]}
        fields |= {"ci90_low": interval90["low"], "ci90_high": interval90["high"]}
        fields["p"] = fields.pop("p_difference")
        comparisons.append(fields)
    found = {
        "rehearsal": analysis.rehearsal,
        "comparisons": comparisons,
        "alarms": [asdict(a) for a in analysis.alarms],
    }
    cleaned: dict[str, Any] = _plain(found)
    return cleaned


@dataclass(frozen=True)
class _Table:
    """The recorded runs of a study beside its snapshot; `losses` holds completed runs, seeds in order."""

    runs: Sequence[Run]
    losses: Losses
    snapshot: Mapping[str, Any]

    @classmethod
    def read(cls, frame: pd.DataFrame, snapshot: Mapping[str, Any]) -> "_Table":
        unknown = sorted(set(frame["status"]) - {COMPLETED, DIVERGED})
        assert not unknown, f"a run's status is {COMPLETED} or {DIVERGED}, got {unknown}"
        columns = ["arm", "seed", "status", snapshot["metric"], "diverged_at"]
        columns += ["corpus_sha256", "recipe_version", "tokens", "last_batch_loss", "val_window_sd"]  # as Run has them
        cells = zip(*(frame[column].tolist() for column in columns), strict=True)
        runs = sorted(Run(arm, int(seed), status == COMPLETED, *rest) for arm, seed, status, *rest in cells)
        names = [arm["name"] for arm in snapshot["arms"]]
        own_budgets = any(key.startswith("budget.") for arm in snapshot["arms"] for key in arm["differences"])
        refuse_unfair(runs, names, own_budgets)
        losses = {name: {run.seed: run.loss for run in runs if run.arm == name and run.completed} for name in names}
        return cls(runs, losses, snapshot)

    @property
    def baseline(self) -> str:
        return str(self.snapshot["baseline"])

    @property
    def compared(self) -> list[str]:
        """The family: every arm with a comparison, whether or not it has runs yet."""
        return [a["name"] for a in self.snapshot["arms"] if a["name"] != self.baseline and not fixed_streams(a)]

    def pair(self, arm: str) -> tuple[list[float], list[float]]:
        """Losses of `arm` and of the baseline on the seeds that both completed."""
        ours, theirs = self.losses[arm], self.losses[self.baseline]
        seeds = [seed for seed in ours if seed in theirs]
        return [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]

    def diverged(self, arm: str) -> int:
        return sum(run.arm == arm and not run.completed for run in self.runs)

    def dropped(self, arm: str) -> tuple[Dropped, ...]:
        """Every seed, planned or recorded, without a whole pair."""
        found = {(run.arm, run.seed): run for run in self.runs}
        both = (arm, self.baseline)
        seeds = sorted({*self.snapshot["seeds"], *(run.seed for run in self.runs if run.arm in both)})
        why = {seed: [_absence(name, found.get((name, seed))) for name in both] for seed in seeds}
        return tuple(Dropped(seed, "; ".join(filter(None, absent))) for seed, absent in why.items() if any(absent))


def _absence(arm: str, run: Run | None) -> str:
    if run is None:
        return f"{arm} has no recorded run"
    if run.completed:
        return ""
    return f"{arm} diverged" + (f" at step {int(run.diverged_at)}" if isfinite(run.diverged_at) else "")


def _comparisons(table: _Table, pairs: Mapping[str, tuple[list[float], list[float]]]) -> tuple[Comparison, ...]:
    neat = {arm for arm, pair in pairs.items() if too_neat(*pair)}
    results = {arm: paired_difference(*pair) for arm, pair in pairs.items()}
    results |= {arm: replace(results[arm], p_value=NAN) for arm in neat}  # a p-value would read as evidence
    p_difference = [result.p_value for result in results.values()]
    p_equivalence = [equivalence_p(result, table.snapshot["margin"]) for result in results.values()]
    adjusted = holm_shaffer(p_difference, p_equivalence)
    ps = zip(p_equivalence, *(column.tolist() for column in adjusted), strict=True)
    return tuple(_comparison(table, arm, results[arm], arm in neat, *p) for arm, p in zip(results, ps, strict=True))


def _comparison(
    table: _Table,
    arm: str,
    result: PairedDifference,
    neat: bool,
    p_equivalence: float,
    adjusted: float,
    adjusted_e: float,
) -> Comparison:
    baseline, margin = table.baseline, table.snapshot["margin"]
    given, because = divergence({name: (table.diverged(name), len(table.losses[name])) for name in (arm, baseline)})
    if neat and result.n >= FEWEST_SEEDS and not because:
        because = "the losses are too neat to be independent measurements; see the alarms."
    verdict = Verdict.UNDECIDED if because else decide(result.n, result.mean, adjusted, adjusted_e)
    seeds = None
    if verdict is Verdict.UNDECIDED and not because and result.n >= FEWEST_SEEDS:
        seeds = seeds_needed(result.sd, result.n, margin, ALPHA / len(table.compared))
    words = sentence(verdict, result, (arm, baseline), table.snapshot["unit"], margin, seeds, because)
    return Comparison(
        arm=arm,
        baseline=baseline,
        verdict=verdict,
        n=result.n,
        difference=result.mean,
        sd=result.sd,
        interval95=result.interval95,
        interval90=result.interval90,
        p_difference=result.p_value,
        p_equivalence=p_equivalence,
        p_difference_adjusted=adjusted,
        p_equivalence_adjusted=adjusted_e,
        correlation=result.correlation,
        seeds_needed=seeds,
        dropped=table.dropped(arm),
        diverged_arm=table.diverged(arm),
        diverged_baseline=table.diverged(baseline),
        sentence=words if because else given + words,
    )


def _summary(arm: str, table: _Table) -> ArmSummary:
    values = list(table.losses[arm].values())
    recorded = {run.seed for run in table.runs if run.arm == arm}
    missing = sorted({run["seed"] for run in table.snapshot["runs"] if run["arm"] == arm} - recorded)
    mean = sum(values) / len(values) if values else NAN
    intervals = mean_interval(values, 0.95), sd_interval(values, 0.95)
    return ArmSummary(arm, len(values), mean, sd_of(values), *intervals, table.diverged(arm), tuple(missing))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Verdict):
        return value.value
    return None if isinstance(value, float) and not isfinite(value) else value
