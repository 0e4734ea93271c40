"""Faults against alarms: in how many models of each arm was which alarm raised, and was it the right one?

An arm that bears the name of an alarm has that fault on purpose; every other arm is held to be healthy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from scipy.stats import binomtest

from analysis.intervals import Interval
from analysis.wording import count, listed, share

KNOWN_BY = {  # fault: the number that it is known by, and where that lies when the alarm is raised, as the model has it
    "eps-too-large": ("what the weakest norm gives before training, where 1 is whole", "≤ 0.707"),
    "unbounded-residual": ("factor by which a block multiplies the stream before training", "≥ 1.05"),
    "no-final-norm": ("degree of the logits in the last stream: 1 follows it, 0 is a norm between", "≥ 0.5"),
    "dead-units": ("share of units that give exactly nothing, in the layer with most", "≥ 0.05"),
    "no-output-projection": ("how far attention's output is from its heads' means, in units of theirs", "≤ 0.01"),
    "norm-between-blocks": ("degree of what a block passes on or reads in its stream: 0 is a norm on both", "≤ 0.5"),
    "norm-over-wrong-axis": ("how far a norm's output moves where its input does not, over where it does", "≥ 0.001"),
    "norm-after-head": ("degree of the logits in the output matrix: 1 follows it, 0 is a norm behind it", "≤ 0.5"),
    "dtype-drift": ("share of the stream's numbers that bfloat16 holds, highest less lowest place", "≥ 0.5"),
}
ALARM, CHECK, SYMPTOM = "alarm ", "check ", "symptom "  # what the names of these curves begin with


@dataclass(frozen=True)
class Row:
    """One arm: of how many of its `n` completed models each finding is true, in the order of the columns."""

    arm: str
    n: int
    raised: tuple[int, ...]


@dataclass(frozen=True)
class Symptom:
    """The number that a fault is known by: lowest, median and highest in the arm that has it and in healthy ones."""

    fault: str
    faulty: tuple[float, float, float]
    healthy: tuple[float, float, float] | None  # None where no arm is healthy

    @property
    def number(self) -> str:
        """What is measured; empty for a fault that is not one of the nine."""
        return KNOWN_BY.get(self.fault, ("", ""))[0]

    @property
    def alarm_when(self) -> str:
        """Where the number lies when the alarm is raised; empty for a fault that is not one of the nine."""
        return KNOWN_BY.get(self.fault, ("", ""))[1]


@dataclass(frozen=True)
class Diagnosis:
    """`columns` are the alarms and then the checks before training; `rows` the arms that were diagnosed."""

    alarms: tuple[str, ...]
    checks: tuple[str, ...]
    rows: tuple[Row, ...]
    symptoms: tuple[Symptom, ...]
    false_alarms: Interval | None  # of the share of healthy models that raise any alarm (Clopper & Pearson 1934)
    healthy: int
    alarmed: int  # of the healthy models

    @property
    def columns(self) -> tuple[str, ...]:
        return self.alarms + self.checks

    @property
    def sentences(self) -> Iterator[str]:
        """How many faults were named, how often something else was, and what healthy models raised."""
        faulty = [row for row in self.rows if row.arm in self.alarms]
        own = [(row, row.raised[self.alarms.index(row.arm)]) for row in faulty]
        if own:
            models, named = sum(row.n for row in faulty), sum(hits for _, hits in own)
            yield f"The fault of {named} of {count(models, 'faulty model')} was named."
            missed = [f"{row.arm} in {row.n - hits} of {row.n}" for row, hits in own if hits < row.n]
            if missed:
                yield f"It was missed: {listed(missed)}."
            others = sum(sum(row.raised[: len(self.alarms)]) - hits for row, hits in own)
            yield f"In the same models {count(others, 'alarm')} named another fault than the one that was built in."
        if self.false_alarms is not None:
            yield (
                f"{self.alarmed} of {count(self.healthy, 'healthy model')} raised an alarm (95 % interval of it: "
                f"{share(self.false_alarms.low, 1)} to {share(self.false_alarms.high, 1)})."
            )


def diagnose(curves: pd.DataFrame, arms: Sequence[str]) -> Diagnosis | None:
    """From the curves of completed runs; None where no model was diagnosed."""
    last = curves.sort_values("step").groupby(["name", "arm", "seed"], sort=False)["value"].last()
    names = list(dict.fromkeys(curves["name"]))
    alarms, checks = (tuple(n.removeprefix(kind) for n in names if n.startswith(kind)) for kind in (ALARM, CHECK))
    if not alarms:
        return None
    alarms = _in_the_order_of(arms, alarms)
    found = {kind + name: last[kind + name] for kind, own in ((ALARM, alarms), (CHECK, checks)) for name in own}
    table = pd.DataFrame(found).dropna(subset=[ALARM + alarms[0]])
    rows = []
    for arm in arms:
        if arm in table.index.get_level_values("arm"):
            own = table.loc[[arm]]
            rows.append(Row(arm, len(own), tuple(int(own[name].sum()) for name in table)))
    healthy = table[~table.index.get_level_values("arm").isin(alarms)]
    alarmed = int(healthy[[ALARM + alarm for alarm in alarms]].any(axis=1).sum())
    return Diagnosis(
        alarms,
        checks,
        tuple(rows),
        tuple(_symptoms(last, [row.arm for row in rows if row.arm in alarms], alarms)),
        _share_interval(alarmed, len(healthy)) if len(healthy) else None,
        len(healthy),
        alarmed,
    )


def _in_the_order_of(arms: Sequence[str], alarms: Sequence[str]) -> tuple[str, ...]:
    """The alarms of the arms first, so that the right ones lie on the diagonal."""
    return tuple(sorted(alarms, key=lambda alarm: arms.index(alarm) if alarm in arms else len(arms)))


def _symptoms(last: pd.Series, faulty: Sequence[str], alarms: Sequence[str]) -> Iterator[Symptom]:
    for fault in faulty:
        if SYMPTOM + fault in last.index:
            values = last[SYMPTOM + fault]
            sound = values[~values.index.get_level_values("arm").isin(alarms)]
            if fault in values.index:
                yield Symptom(fault, _spread(values[fault]), _spread(sound) if len(sound) else None)


def _share_interval(hits: int, n: int) -> Interval:
    found = binomtest(hits, n).proportion_ci(0.95, "exact")
    return Interval(float(found.low), float(found.high), 0.95)


def _spread(values: pd.Series) -> tuple[float, float, float]:
    return float(values.min()), float(values.median()), float(values.max())
