"""Runs held against figures that others have published: each agrees, differs, or cannot be told.

A published figure is taken for one draw: one run, read off one batch of text, that moves by chance with an SD that is
declared with its source. That SD is of one recipe; where drawing a batch gives an arm a larger one by itself, its
figure has that (`scale`). If runs of ours are draws of the same, the figure lies about the mean of n of them with an SD
of sd sqrt(1 + 1 / n), and so it never gets more certain than sd, however many runs we add. The rule is fixed before
any run:

- *agrees*: the difference is shown to lie within the declared tolerance (two one-sided t tests at 5 %, each figure for
  itself),
- *differs*: the figure is shown to be no such draw (two-sided t test, Holm's method over all figures and gaps, so that
  one of them or more is called different by chance in 5 % of studies at most),
- *cannot be told*: neither. Where both are shown, of a small difference that is known well, it *agrees*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.intervals import NAN, sd_of
from analysis.verdict import ALPHA, holm


class Outcome(StrEnum):
    AGREES = "agrees"
    DIFFERS = "differs"
    OPEN = "cannot be told"


@dataclass(frozen=True)
class Spread:
    """The SD over chance of a figure whose scale is 1, with its degrees of freedom."""

    sd: float
    df: float


@dataclass(frozen=True)
class Held:
    """One figure beside `n` runs of ours by the same measure; `difference` is ours minus the figure.

    `half95` is half the 95 % prediction interval: so far from our mean a further single run may lie by chance.
    `p_adjusted` belongs to the family of all figures and gaps, `p_agreement` to this one alone.
    """

    figure: float
    n: int
    ours: float
    difference: float
    half95: float
    p_difference: float
    p_adjusted: float
    p_agreement: float
    outcome: Outcome


def scale(batch_sd: float, sd: float) -> float:
    """An arm's SD in declared `sd`: at least 1, and no less than `batch_sd`, which drawing one batch of its windows
    gives by itself, with no difference between models. 1 where that is not known (NaN)."""
    return max(1.0, batch_sd / sd)  # in this order, for a NaN


def pooled(sd: float, runs: int, samples: Sequence[ArrayLike], scales: Sequence[float]) -> Spread:
    """The declared `sd` of `runs` runs together with what the study's own `samples` [arm][seed] say, each over the
    arm's entry in `scales`: arms differ in their SD. All must be read off single batches, as what was declared is.

    Arms of one seed may have been read off the same batch, so all of them together are worth one arm's degrees of
    freedom, seeds less one.
    """
    own = [np.asarray(sample, dtype=float) / by for sample, by in zip(samples, scales, strict=True)]
    own = [sample for sample in own if len(sample) > 1]
    declared, more = runs - 1.0, max((len(sample) - 1.0 for sample in own), default=0.0)
    variance = float(np.mean([sd_of(sample) ** 2 for sample in own])) if own else 0.0
    return Spread(((declared * sd**2 + more * variance) / (declared + more)) ** 0.5, declared + more)


def hold(
    figures: Sequence[float],
    samples: Sequence[ArrayLike],
    spread: Spread,
    tolerance: float,
    scales: Sequence[float],
) -> list[Held]:
    """Each of `figures` beside its `samples` [figure][run]; an SD is `spread` times the figure's entry in `scales`.

    A sample that is empty decides nothing.
    """
    values = [np.asarray(sample, dtype=float) for sample in samples]
    counts = [len(sample) for sample in values]
    means = [float(sample.mean()) if len(sample) else NAN for sample in values]
    errors = [spread.sd * scale * (1 + 1 / n) ** 0.5 if n else NAN for n, scale in zip(counts, scales, strict=True)]
    differences = [mean - figure for mean, figure in zip(means, figures, strict=True)]
    sizes = [(abs(d), e) for d, e in zip(differences, errors, strict=True)]
    p = [float(2 * special.stdtr(spread.df, -d / e)) for d, e in sizes]
    p_agreement = [float(special.stdtr(spread.df, (d - tolerance) / e)) for d, e in sizes]
    reach = float(special.stdtrit(spread.df, 1 - ALPHA / 2))
    rows = zip(figures, counts, means, differences, errors, p, holm(p).tolist(), p_agreement, strict=True)
    return [
        Held(figure, n, mean, difference, reach * error, one, adjusted, agreement, _outcome(adjusted, agreement))
        for figure, n, mean, difference, error, one, adjusted, agreement in rows
    ]


def _outcome(p_adjusted: float, p_agreement: float) -> Outcome:
    if p_agreement < ALPHA:
        return Outcome.AGREES
    return Outcome.DIFFERS if p_adjusted < ALPHA else Outcome.OPEN
