"""What a study cannot be asked with, whatever its arms are."""

import math
from collections import Counter

MOST_SEEDS = 10_000


class StudyError(ValueError):
    """A study that cannot be asked as it stands."""


def check_margin(study: str, margin: float | None) -> None:
    """Raise StudyError unless `margin` is a positive number."""
    if not isinstance(margin, int | float) or not (margin > 0 and math.isfinite(margin)):
        raise StudyError(
            f"The study {study} needs a margin above zero, the smallest difference that matters, but was given "
            f"{'none' if margin is None else repr(margin)}."
        )


def check_seeds(study: str, seeds: tuple[int, ...]) -> None:
    """Raise StudyError for no seeds, too many, repeated ones and negative ones."""
    if len(seeds) > MOST_SEEDS:
        raise StudyError(f"{len(seeds):,} seeds are more than the {MOST_SEEDS:,} that a study may have.")
    if not seeds:
        raise StudyError(f"The study {study} has no seeds; give at least one, and three for any verdict.")
    repeated = sorted(seed for seed, count in Counter(seeds).items() if count > 1)
    if repeated:
        raise StudyError(f"The seeds {', '.join(map(str, repeated))} are given more than once; each counts once only.")
    if min(seeds) < 0:
        raise StudyError(f"Seeds are whole numbers from 0 up, but {min(seeds)} was given.")
