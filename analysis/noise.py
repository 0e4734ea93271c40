"""How much the seed moves a result, and what that lets a study detect.

The noise floor of a study: each arm's SD over seeds beside the SD of the last training batch's loss (the number often
quoted as a result), the smallest difference that n seeds detect, how often the test calls a recipe different from
itself, and which stream of randomness the variance comes from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special

from analysis.design import reference
from analysis.guards import Losses, Run
from analysis.intervals import NAN, Interval, sd_interval, sd_of
from analysis.power import detectable_difference
from analysis.verdict import ALPHA, FEWEST_SEEDS
from analysis.wording import number

STREAMS = "streams."  # differences under this prefix say how a stream of randomness depends on the seed
SEEDS_SHOWN = (3, 5, 10, 20)
CHAPTER_GAP = 0.05  # nats; a gap that single runs have been used to argue from
CHAPTER_NOISE = 0.1  # nats; the lower end of the noise that the source chapter reads off single runs' last batches
RELABELLINGS = 2_000
SHARED_FROM = 10  # runs; the SD over fewer is known to a factor of two or three, and a share takes two of them


@dataclass(frozen=True)
class ArmNoise:
    """SD over `n` completed seeds of the held-out loss and of the last training batch's loss, each with its interval.

    `expected_batch_sd` is what drawing one batch of windows gives by itself: the mean SD of a window's loss over the
    square root of the batch size (NaN when the snapshot does not tell that size).
    """

    arm: str
    n: int
    sd: float
    sd_interval95: Interval
    batch_sd: float
    batch_sd_interval95: Interval
    expected_batch_sd: float


@dataclass(frozen=True)
class Detectable:
    """The true difference that `n` paired seeds find with 80 % power at 5 %; low..high from the SD's 95 % interval."""

    n: int
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class FalseAlarms:
    """One recipe against itself: `losses` results with every label exchangeable.

    `paired_t`: share of random splits into two sets of n pairs that a paired t-test at 5 % calls different.
    `pairs_beyond_gap`, `pairs_beyond_margin`: share of all pairs of single runs further apart than `gap`, `margin`.
    """

    losses: int
    n: int
    splits: int
    paired_t: float
    gap: float
    pairs_beyond_gap: float
    margin: float
    pairs_beyond_margin: float


@dataclass(frozen=True)
class Measurement:
    """One recipe's `n` runs read in two ways: by the loss of all held-out text and by that of the last training batch.

    Both carry what the seed does to the model; the second carries the draw of its batch too. `share` is the part of the
    second's variance that the first's does not account for, at least 0. `batch_pairs_beyond` and `pairs_beyond` are the
    shares of all pairs of runs that lie further apart than `gap` by the last batch and by the held-out text.
    """

    n: int
    batch_sd: float
    sd: float
    share: float
    gap: float
    batch_pairs_beyond: float
    pairs_beyond: float

    @property
    def sentence(self) -> str:
        """What the two readings say, in words."""
        drawn = (
            f"{self.share:.0%} of the variance of the first is the draw of one batch, not what the seed did to the "
            "model"
            if self.n >= SHARED_FROM
            else f"part of the first is the draw of one batch, how much {self.n} runs do not tell"
        )
        return (
            f"Over {self.n} runs of one recipe the loss of the last training batch has an SD of "
            f"{number(self.batch_sd, self.batch_sd / 10)}, the held-out loss one of {number(self.sd, self.sd / 10)}: "
            f"{drawn}. Of all pairs of single runs, "
            f"{self.batch_pairs_beyond:.0%} differ by more than {self.gap:g} by the last batch and "
            f"{self.pairs_beyond:.0%} by the held-out text."
        ).replace("%", " %")


@dataclass(frozen=True)
class Share:
    """Variance of the loss over `n` runs, the streams in `fixed` the same for all.

    `share` is of the variance of all runs of one recipe, the baseline's and its replicates' together.
    """

    arm: str
    fixed: tuple[str, ...]
    n: int
    variance: float
    variance_interval95: Interval
    share: float


@dataclass(frozen=True)
class NoiseSummary:
    """`detectable_from` names the two arms whose differences gave `detectable`; empty or None: nothing to tell."""

    arms: tuple[ArmNoise, ...]
    measurement: Measurement | None
    detectable: tuple[Detectable, ...]
    detectable_from: tuple[str, str] | None
    false_alarms: FalseAlarms | None
    shares: tuple[Share, ...]


def fixed_streams(arm: Mapping[str, Any]) -> tuple[str, ...]:
    """The streams of randomness that this arm of a snapshot holds at one value for all seeds, such as ("init",).

    A stream that only follows the seed at another offset (``streams.init.offset``) is not fixed.
    """
    kinds = {key.removeprefix(STREAMS): kind for key, kind in arm["differences"].items() if key.startswith(STREAMS)}
    return tuple(name for name, kind in sorted(kinds.items()) if "." not in name and kind != "Follow")


def summarise_noise(
    runs: Sequence[Run], losses: Losses, differences: Mapping[str, Sequence[float]], snapshot: Mapping[str, Any]
) -> NoiseSummary:
    """All of it, from completed runs; `differences` are each compared arm's paired differences to the baseline."""
    replicates = [arm["name"] for arm in snapshot["arms"] if arm["replicate"]]
    completed: dict[str, list[Run]] = {arm["name"]: [] for arm in snapshot["arms"]}
    for run in runs:
        if run.completed:
            completed[run.arm].append(run)
    source = _source(differences, replicates)
    same_recipe = [arm for arm in (snapshot["baseline"], *replicates) if arm in completed]
    return NoiseSummary(
        arms=tuple(_arm_noise(arm, completed[arm["name"]], snapshot) for arm in snapshot["arms"]),
        measurement=_measurement([run for arm in same_recipe for run in completed[arm]]),
        detectable=_detectable(differences[source]) if source else (),
        detectable_from=(source, reference(snapshot, source)) if source else None,
        false_alarms=_false_alarms(same_recipe, losses, snapshot["margin"]) if replicates else None,
        shares=_shares(same_recipe, losses, snapshot),
    )


def _arm_noise(arm: Mapping[str, Any], completed: Sequence[Run], snapshot: Mapping[str, Any]) -> ArmNoise:
    final, batch_losses = [run.loss for run in completed], [run.batch_loss for run in completed]
    return ArmNoise(
        arm["name"],
        len(final),
        sd_of(final),
        sd_interval(final, 0.95),
        sd_of(batch_losses),
        sd_interval(batch_losses, 0.95),
        drawn_batch_sd(arm, [run.window_sd for run in completed], snapshot),
    )


def drawn_batch_sd(arm: Mapping[str, Any], window_sds: Sequence[float], snapshot: Mapping[str, Any]) -> float:
    """The SD that drawing one batch gives the loss of `arm` (of a snapshot) by itself, from its runs' SDs over windows.

    NaN without runs, and where the snapshot does not tell the size of the arm's batch.
    """
    known = arm["differences"].get("budget.batch", snapshot["held_equal"].get("budget.batch", NAN))
    batch = float(arm.get("batch", known))
    return float(np.mean(window_sds) / batch**0.5) if len(window_sds) else NAN


def _measurement(runs: Sequence[Run]) -> Measurement | None:
    losses, batch_losses = [run.loss for run in runs], [run.batch_loss for run in runs]
    sd, batch_sd = sd_of(losses), sd_of(batch_losses)
    if len(runs) < FEWEST_SEEDS or not batch_sd > 0:
        return None
    beyond = (_pairs_beyond(values, CHAPTER_NOISE) for values in (batch_losses, losses))
    return Measurement(len(runs), batch_sd, sd, max(0.0, 1 - sd**2 / batch_sd**2), CHAPTER_NOISE, *beyond)


def _pairs_beyond(values: Sequence[float], limit: float) -> float:
    """The share of all pairs of `values` that lie more than `limit` apart; NaN without a pair."""
    gaps = np.array([abs(a - b) for a, b in combinations(values, 2)])
    return float((gaps > limit).mean()) if len(gaps) else NAN


def _source(differences: Mapping[str, Sequence[float]], replicates: Sequence[str]) -> str | None:
    """The arm whose differences measure the noise: the replicate with most pairs, else the arm with the largest SD."""
    usable = [arm for arm in differences if sd_of(differences[arm]) > 0]
    replicated = [arm for arm in usable if arm in replicates]
    if replicated:
        return max(replicated, key=lambda arm: len(differences[arm]))
    return max(usable, key=lambda arm: sd_of(differences[arm]), default=None)


def _detectable(differences: Sequence[float]) -> tuple[Detectable, ...]:
    interval = sd_interval(differences, 0.95)
    sds = sd_of(differences), interval.low, interval.high
    return tuple(Detectable(n, *(detectable_difference(n, sd) for sd in sds)) for n in SEEDS_SHOWN)


def _false_alarms(arms: Sequence[str], losses: Losses, margin: float) -> FalseAlarms:
    """Relabel the pooled losses at random, with a Generator of its own so that the answer is always the same."""
    pool = np.array([loss for arm in arms for loss in losses[arm].values()])
    n = len(pool) // 2
    beyond_gap, beyond_margin = (_pairs_beyond(list(pool), limit) for limit in (CHAPTER_GAP, margin))
    called = NAN
    if n >= 2 and np.ptp(pool) > 0:
        shuffled = np.random.default_rng(0).permuted(np.tile(pool, (RELABELLINGS, 1)), axis=1)
        d = shuffled[:, :n] - shuffled[:, n : 2 * n]
        critical = special.stdtrit(n - 1, 1 - ALPHA / 2)
        called = float((abs(d.mean(1)) > critical * d.std(1, ddof=1) / n**0.5).mean())
    return FalseAlarms(len(pool), n, RELABELLINGS, called, CHAPTER_GAP, beyond_gap, margin, beyond_margin)


def _shares(same_recipe: Sequence[str], losses: Losses, snapshot: Mapping[str, Any]) -> tuple[Share, ...]:
    """All runs of one recipe together (every stream varies), then each arm that fixes some; empty without such arms."""
    fixing = [arm for arm in snapshot["arms"] if fixed_streams(arm)]
    if not fixing:
        return ()
    whole = [loss for arm in same_recipe for loss in losses[arm].values()]
    groups: list[tuple[str, tuple[str, ...], list[float]]] = [(" and ".join(same_recipe), (), whole)]
    groups += [(arm["name"], fixed_streams(arm), list(losses[arm["name"]].values())) for arm in fixing]
    shares = []
    for name, fixed, values in groups:
        sd, variance = sd_interval(values, 0.95), sd_of(values) ** 2
        interval = Interval(sd.low**2, sd.high**2, sd.confidence)
        share = variance / sd_of(whole) ** 2 if sd_of(whole) > 0 else NAN
        shares.append(Share(name, fixed, len(values), variance, interval, share))
    return tuple(shares)
