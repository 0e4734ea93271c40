"""What is checked before any statistic: runs that must not be compared, and results that are too neat or too poor.

A refusal is an UnfairError that lists each offender. An alarm leaves the numbers standing and says what to look at.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from analysis.intervals import no_variation, sd_of
from analysis.verdict import ALPHA, FEWEST_SEEDS

NEAR = 0.01  # a mean loss this close to a trivial baseline has learned nothing from its input, in nats
SHIFT = 0.05  # SD of the differences below this share of an arm's own SD: on healthy pairs (rho <= 0.8) under 1 %

Losses = Mapping[str, Mapping[int, float]]  # arm -> seed -> final loss of a completed run


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


@dataclass(frozen=True)
class Alarm:
    """Something about `arms` that makes their numbers doubtful; `sentence` says what to look at next."""

    name: str
    arms: tuple[str, ...]
    sentence: str


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
    repeated = [key for key, count in Counter((run.arm, run.seed) for run in runs).items() if count > 1]
    if repeated:
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

    True when any pair is equal to the last bit, or when the values of an arm, or the differences, do not vary.
    """
    a, b = np.asarray(arm, dtype=float), np.asarray(baseline, dtype=float)
    if len(a) == 0:
        return False
    scale = float(np.abs([a, b]).max())
    return bool((a == b).any()) or any(no_variation(x, scale) for x in (a, b, a - b))


def divergence(counts: Mapping[str, tuple[int, int]]) -> tuple[str, str]:
    """What two arms' (diverged, completed) runs add to a sentence: a condition, or the reason why losses do not decide.

    Survivors of unequal rates are selected differently, so their losses no longer answer the question. Rates are called
    different by Boschloo's (1970, Stat. Neerl. 24:1) exact test at 5 %.
    """
    if not any(diverged for diverged, _ in counts.values()):
        return "", ""
    rates = " and ".join(f"{bad} of {bad + good} runs of {arm}" for arm, (bad, good) in counts.items()) + " diverged"
    p = stats.boschloo_exact(list(counts.values())).pvalue if all(map(sum, counts.values())) else 1.0
    if p < ALPHA:
        return "", f"the rates of divergence differ ({rates}; Boschloo's exact test, p = {p:.2g})."
    return f"Given convergence ({rates}): ", ""


def alarms(losses: Losses, compared_arms: Sequence[str], floors: Mapping[str, float]) -> tuple[Alarm, ...]:
    """Every alarm of a study's completed losses; `floors` are the trivial baselines by name, in nats per token.

    Pairs are looked at among `compared_arms` only: an arm that fixes a stream may rightly meet the baseline on a seed.
    """
    found = _few_seeds({arm: len(of_arm) for arm, of_arm in losses.items()})
    found += [alarm for arm in losses for alarm in _alarms_of_arm(arm, list(losses[arm].values()), floors)]
    for first, second in combinations(compared_arms, 2):
        shared = sorted(losses[first].keys() & losses[second].keys())
        a, b = (np.array([losses[arm][seed] for seed in shared]) for arm in (first, second))
        found += _alarms_of_pair(first, second, shared, a, b)
    return tuple(found)


def _few_seeds(counts: Mapping[str, int]) -> list[Alarm]:
    few = {arm: n for arm, n in counts.items() if n < FEWEST_SEEDS}
    named = ", ".join(f"{arm} ({n})" for arm, n in few.items())
    text = (
        f"Fewer than {FEWEST_SEEDS} completed seeds: {named}. No verdict is given from so few; run more with --seeds."
    )
    return [Alarm("fewer than 3 seeds", tuple(few), text)] if few else []


def _alarms_of_arm(arm: str, values: Sequence[float], floors: Mapping[str, float]) -> list[Alarm]:
    found = []
    if len(values) >= 2 and no_variation(values, float(np.abs(values).max())):
        text = (
            f"Every seed of {arm} ends at the same loss ({values[0]:.6g}): the seed does not reach the training. "
            "Look at how the run's seed is handed to the initial weights and the batch order."
        )
        found.append(Alarm("zero seed variance", (arm,), text))
    reached = [(floor, name) for name, floor in floors.items() if values and np.mean(values) >= floor - NEAR]
    if reached:
        floor, name = max(reached)
        text = (
            f"{arm} ends at a mean loss of {np.mean(values):.3f}, not below the {name} baseline ({floor:.3f}): the "
            "model ignores its input. Look at its learning curve and gradient norms, then at learning rate and warmup."
        )
        found.append(Alarm("ignores its input", (arm,), text))
    return found


def _alarms_of_pair(first: str, second: str, seeds: Sequence[int], a: np.ndarray, b: np.ndarray) -> list[Alarm]:
    equal = [seed for seed, x, y in zip(seeds, a, b, strict=True) if x == y]
    if equal:
        text = (
            f"{first} and {second} end at exactly the same loss on seed {', '.join(map(str, equal))}: too neat for two "
            "different configurations. Look at whether the setting that differs reaches the model."
        )
        return [Alarm("equal losses", (first, second), text)]
    if len(seeds) >= FEWEST_SEEDS and sd_of(a - b) < SHIFT * min(sd_of(a), sd_of(b)):
        text = (
            f"{first} and {second} differ by nearly the same amount ({(a - b).mean():+.4g}) on every seed: too neat "
            "for two trainings. Look at whether both are scored on the same text, by the same code."
        )
        return [Alarm("constant shift", (first, second), text)]
    return []
