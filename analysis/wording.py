"""Numbers as a person reads them: rounded by what is known about them, with true minus signs, and never "nan".

Every function returns text; a number that does not exist is an em dash.
"""

import math
from collections.abc import Sequence

from analysis.intervals import Interval
from analysis.verdict import decimals, seeds_text

NOTHING = "—"


def number(value: float | None, standard_error: float = math.nan, *, signed: bool = False) -> str:
    """`value` rounded by its standard error, to four places where that is not known; signed when it is a difference.

    Never "-0.000".
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{value:{'+' if signed else ''}.{decimals(standard_error)}f}"
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", "−")


def span(interval: Interval, standard_error: float = math.nan, *, signed: bool = False) -> str:
    """``[low, high]``, both rounded by the standard error of what lies between them."""
    ends = [number(end, standard_error, signed=signed) for end in (interval.low, interval.high)]
    return NOTHING if NOTHING in ends else f"[{ends[0]}, {ends[1]}]"


def mean_and_half(mean: float, interval: Interval, standard_error: float) -> str:
    """``4.151 ± 0.018``: a mean and half its interval; the mean alone when it has no interval."""
    half = (interval.high - interval.low) / 2
    return number(mean, standard_error) + (f" ± {number(half, standard_error)}" if math.isfinite(half) else "")


def error_of_mean(sd: float, n: int) -> float:
    """Standard error of a mean of `n` values with this SD."""
    return sd / n**0.5 if n else math.nan


def error_of_sd(sd: float, n: int) -> float:
    """Standard error of an SD of `n` normal values."""
    return sd / (2 * (n - 1)) ** 0.5 if n > 1 else math.nan


def p_value(p: float | None) -> str:
    """Two significant digits down to 0.001, "< 0.001" below."""
    if p is None or not math.isfinite(p):
        return NOTHING
    return "< 0.001" if p < 0.001 else f"{p:.{2 if p >= 0.1 else 3}f}"


def share(value: float, places: int = 2) -> str:
    """A fraction as a percentage with at most `places` digits after the point."""
    if not math.isfinite(100 * value):
        return NOTHING
    return f"{round(100 * value, places)}".removesuffix(".0").replace("-", "−") + " %"


def roots(variance: Interval) -> Interval:
    """The interval of an SD from that of its variance."""
    return Interval(variance.low**0.5, variance.high**0.5, variance.confidence)


def duration(seconds: float) -> str:
    """Seconds below two minutes, minutes below two hours, hours after that."""
    if not math.isfinite(seconds):
        return NOTHING
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def count(n: int, noun: str) -> str:
    """``1 run``, ``1,200 runs``."""
    return f"{n:,} {noun if n == 1 else noun + 's'}"


def listed(items: Sequence[str], most: int = 20) -> str:
    """``a``, ``a and b``, ``a, b and c``; beyond `most` the rest is counted: ``a, b and 7 more``."""
    if len(items) > most:
        items = [*items[: most - 1], f"{len(items) - most + 1:,} more"]
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def numbers(values: Sequence[int]) -> str:
    """Whole numbers as runs of neighbours: ``0–9, 12``."""
    groups: list[list[int]] = []
    for value in sorted(set(values)):
        if groups and value == groups[-1][-1] + 1:
            groups[-1].append(value)
        else:
            groups.append([value])
    return ", ".join(f"{g[0]}–{g[-1]}" if len(g) > 2 else ", ".join(map(str, g)) for g in groups)


def seeds_needed(needed: tuple[int, int] | None) -> str:
    """Total seeds per arm that decide whatever the truth, low to high; nothing where none are needed."""
    return NOTHING if needed is None else seeds_text(needed)


def known(value: object) -> str:
    """A recorded text or whole number as it is, an em dash where none was recorded (which pandas reads as NaN)."""
    if value is None or value != value:
        return NOTHING
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def ended(text: str) -> str:
    """`text` as a sentence: with a full stop if it has no end of its own."""
    text = text.strip()
    return text if not text or text[-1] in ".!?" else text + "."
