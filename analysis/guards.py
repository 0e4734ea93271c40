"""What is checked before any statistic: runs that must not be compared, and pairs that cannot be measurements.

A refusal is an UnfairError that lists each offender. What leaves the numbers standing is an alarm (`analysis.alarms`).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from analysis.alarms import Alarm, Losses, alarms
from analysis.intervals import no_variation
from analysis.neat import CHANCE, SHIFT, grain, spread, tied_by_chance
from analysis.verdict import ALPHA

__all__ = ["SHIFT", "Alarm", "Losses", "Run", "UnfairError", "alarms", "divergence", "refuse_unfair", "too_neat"]

EXACT = 100  # runs of two arms up to which Boschloo's test is quick


class UnfairError(ValueError):
    """Runs that must not be compared; the message lists each offender."""


class Run(NamedTuple):
    """One recorded run, as far as a comparison needs it."""

    arm: str
    seed: int
    completed: bool
    loss: float
    diverged_at: float
    corpus_sha256: str
    recipe_version: int
    tokens: int
    batch_loss: float
    window_sd: float


def refuse_unfair(runs: Sequence[Run], arms: Sequence[str], own_budgets: bool = False) -> None:
    """Raise UnfairError for runs that must not be compared, listing every offender.

    That is: an arm outside the study, a repeated (arm, seed), a completed run without a finite loss, or completed runs
    that differ in corpus, recipe version or training tokens. With `own_budgets` (the study varies the budget and says
    so) tokens need to agree only within an arm.
    """
    strangers = sorted({run.arm for run in runs} - set(arms))
    if strangers:
        raise UnfairError(
            f"Runs of arms that are not in this study: {', '.join(strangers)}. Its arms: {', '.join(arms)}."
        )
    keys = [run[:2] for run in runs]
    if len(set(keys)) < len(keys):
        repeated = [key for key, count in Counter(keys).items() if count > 1]
        named = ", ".join(f"{arm} seed {seed}" for arm, seed in sorted(repeated))
        raise UnfairError(
            f"More than one run of the same arm and seed: {named}. Keep one of each and give the command again."
        )
    completed = [run for run in runs if run.completed]
    broken = [run for run in completed if not isfinite(run.loss)]
    if broken:
        raise UnfairError(
            f"Completed without a finite loss: {_named(broken)}. Train these runs again in an empty results folder."
        )
    offenders = _odd_ones(completed, "corpus_sha256") + _odd_ones(completed, "recipe_version")
    for group in [[run for run in completed if run.arm == arm] for arm in arms] if own_budgets else [completed]:
        offenders += _odd_ones(group, "tokens")
    if offenders:
        raise UnfairError(
            "These runs cannot be compared with the rest: "
            + "; ".join(offenders)
            + ". Give the study's command again with an empty folder for --results, so that all runs are made alike."
        )


def _odd_ones(runs: Sequence[Run], field: str) -> list[str]:
    """Runs whose `field` is not that of most runs (of the first, on a tie), in words."""
    if len({getattr(run, field) for run in runs}) < 2:
        return []
    by_value = defaultdict(list)
    for run in runs:
        by_value[getattr(run, field)].append(run)
    usual = max(by_value, key=lambda value: len(by_value[value]), default=None)
    return [
        f"{_named(odd)} with {field} {value} instead of {usual}" for value, odd in by_value.items() if value != usual
    ]


def _named(runs: Sequence[Run]) -> str:
    return ", ".join(f"{run.arm} seed {run.seed}" for run in runs)


def too_neat(arm: ArrayLike, baseline: ArrayLike) -> bool:
    """Whether paired losses, both [n], cannot be two independent measurements, so that no verdict may rest on them.

    True when pairs are equal to the last digit, more of them than rounding explains, or when the values of an arm, or
    the differences, do not vary.
    """
    a, b = np.asarray(arm, dtype=float), np.asarray(baseline, dtype=float)
    if len(a) == 0:
        return False
    scale, ties = float(np.abs([a, b]).max()), int((a == b).sum())
    if any(no_variation(x, scale) for x in (a, b, a - b)):
        return True
    return ties > 0 and bool(tied_by_chance(ties, len(a), grain([a, b]), min(spread(a), spread(b))) < CHANCE)


def divergence(counts: Mapping[str, tuple[int, int]]) -> tuple[str, str]:
    """What two arms' (diverged, completed) runs add to a sentence: a condition, or the reason why losses do not decide.

    Survivors of unequal rates are selected differently, so their losses no longer answer the question. Rates are called
    different at 5 % by Boschloo's (1970, Stat. Neerl. 24:1) exact test, which takes long for large counts: beyond a
    hundred runs it is Fisher's, which is conservative.
    """
    if not any(diverged for diverged, _ in counts.values()):
        return "", ""
    rates = " and ".join(f"{bad} of {bad + good} runs of {arm}" for arm, (bad, good) in counts.items()) + " diverged"
    test, p = _rates_test(tuple(counts.values()))
    if p < ALPHA:
        return "", f"the rates of divergence differ ({rates}; {test}'s exact test, p = {p:.2g})."
    return f"Given convergence ({rates}): ", ""


@lru_cache(maxsize=4096)
def _rates_test(counts: tuple[tuple[int, int], ...]) -> tuple[str, float]:
    if not all(map(sum, counts)):
        return "", 1.0
    if sum(map(sum, counts)) > EXACT:
        return "Fisher", float(stats.fisher_exact(counts).pvalue)
    return "Boschloo", float(stats.boschloo_exact(counts).pvalue)
