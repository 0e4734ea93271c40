"""What others have published of a study's arms, declared beside them and printed as theirs, never as a measurement."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from analysis.publication import LAST_BATCH
from analysis.scorings import SCORE
from model.recipe import Recipe
from sweeps.engine.contrasts import check_streams


@dataclass(frozen=True)
class Figure:
    """The published number of one arm. `measure` is what ours is read from: the last training batch, ``val_loss`` for
    the held-out loss, or one of the arm's scorings, such as ``val_loss at 128``; `note` says what a reader of the
    number must know."""

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


def check_pairs(pairs: tuple[tuple[str, str], ...], recipes: Mapping[str, Recipe]) -> None:
    """Raise ValueError for a pair that names no two arms (`recipes` are theirs), for one with an arm that fixes a
    stream of randomness, and for an arm that is compared with more than one."""
    for arm, reference in pairs:
        if arm == reference or not {arm, reference} <= set(recipes):
            raise ValueError(f"The pair {arm!r}, {reference!r} does not name two arms out of {', '.join(recipes)}.")
        for one in (arm, reference):
            check_streams(f"The pair {arm!r}, {reference!r}", one, recipes[one])
    firsts = [arm for arm, _ in pairs]
    if repeated := sorted({arm for arm in firsts if firsts.count(arm) > 1}):
        raise ValueError(f"{', '.join(repeated)}: an arm is compared with one other, so name it first in one pair.")


def check_figures(published: Published, recipes: Mapping[str, Recipe]) -> None:
    """Raise ValueError for a figure of no arm (`recipes` are the arms'), for one by a measure that the arm's runs are
    not given, and for two of the same arm by the same measure."""
    if strangers := [figure.arm for figure in published.figures if figure.arm not in recipes]:
        raise ValueError(f"A figure was published of {', '.join(strangers)}, which the study has no arm for.")
    for figure in published.figures:
        known = [LAST_BATCH, "val_loss", *(SCORE + scoring.name for scoring in recipes[figure.arm].scored)]
        if figure.measure not in known:
            raise ValueError(
                f"A figure of {figure.arm} is by {figure.measure!r}, but its runs are measured by {', '.join(known)}."
            )
    keys = [(figure.arm, figure.measure) for figure in published.figures]
    if repeated := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"More than one figure of {' by '.join(repeated[0])}; an arm has one by each measure.")
