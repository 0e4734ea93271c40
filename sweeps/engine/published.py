"""What others have published of a study's arms, declared beside them and printed as theirs, never as a measurement."""

from collections.abc import Collection
from dataclasses import dataclass, replace

LAST_BATCH = "last_batch_loss"  # the loss of one training batch, the last one


@dataclass(frozen=True)
class Figure:
    """The published number of one arm. `measure` is what ours is read from: the last training batch, or a curve's name
    at the last update, such as ``val_loss 128 tokens``; `note` says what a reader of the number must know."""

    arm: str
    value: float
    measure: str = LAST_BATCH
    note: str = ""


@dataclass(frozen=True)
class Published:
    """The figures of one `source`, each of one run, and all that is needed to hold runs against them.

    `sd` is how far a figure moves by chance alone, known from `sd_runs` runs of one recipe (`sd_reason` says which);
    `tolerance` is the largest difference that still counts as agreement. Both are fixed before any run. Raises
    ValueError where one of them cannot be.
    """

    source: str
    figures: tuple[Figure, ...]
    sd: float
    sd_runs: int
    sd_reason: str
    tolerance: float
    tolerance_reason: str

    def __post_init__(self) -> None:
        if not (self.sd > 0 and self.tolerance > 0 and self.sd_runs >= 2):
            raise ValueError(
                f"Published figures need an SD and a tolerance above zero and the two or more runs that the SD is "
                f"from, but were given {self.sd}, {self.tolerance} and {self.sd_runs}."
            )

    def of(self, arms: Collection[str]) -> "Published":
        """The figures of `arms` alone."""
        return replace(self, figures=tuple(figure for figure in self.figures if figure.arm in arms))


def check_pairs(pairs: tuple[tuple[str, str], ...], arms: Collection[str]) -> None:
    """Raise ValueError for a pair that names no two arms, and for an arm that is compared with more than one."""
    for arm, reference in pairs:
        if arm == reference or not {arm, reference} <= set(arms):
            raise ValueError(f"The pair {arm!r}, {reference!r} does not name two arms out of {', '.join(arms)}.")
    firsts = [arm for arm, _ in pairs]
    if repeated := sorted({arm for arm in firsts if firsts.count(arm) > 1}):
        raise ValueError(f"{', '.join(repeated)}: an arm is compared with one other, so name it first in one pair.")


def check_figures(published: Published, arms: Collection[str]) -> None:
    """Raise ValueError for a figure of no arm, and for two of the same arm by the same measure."""
    if strangers := [figure.arm for figure in published.figures if figure.arm not in arms]:
        raise ValueError(f"A figure was published of {', '.join(strangers)}, which the study has no arm for.")
    keys = [(figure.arm, figure.measure) for figure in published.figures]
    if repeated := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"More than one figure of {' by '.join(repeated[0])}; an arm has one by each measure.")
