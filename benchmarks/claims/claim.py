"""One checkable number or statement of the chapter, and whether it holds: decided by the digits that it printed."""

from dataclasses import dataclass
from typing import Literal

Held = Literal["holds", "holds in part", "does not hold"]


@dataclass(frozen=True)
class Claim:
    """What a section `says`: `printed` are its numbers as it prints them, `found` the same as they come out.

    A number holds when it rounds to the printed one, or lies within the share `within` of it where the printed one is a
    single draw; a statement is printed as "yes" and found as a bool. `how` says how `found` was computed.
    """

    section: str
    says: str
    printed: tuple[str, ...]
    found: tuple[float | bool, ...]
    how: str
    within: float = 0.0

    def __post_init__(self) -> None:
        assert len(self.printed) == len(self.found) > 0, self.says

    @property
    def texts(self) -> tuple[str, ...]:
        """`found` with as many digits as were printed."""
        return tuple(_like(printed, value) for printed, value in zip(self.printed, self.found, strict=True))

    @property
    def held(self) -> Held:
        right = [ours == theirs for ours, theirs in zip(self.texts, self.printed, strict=True)]
        if self.within:
            pairs = zip(self.found, map(float, self.printed), strict=True)
            right = [abs(ours / theirs - 1) <= self.within for ours, theirs in pairs]
        return "holds" if all(right) else "holds in part" if any(right) else "does not hold"


def _like(printed: str, value: float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    percent = printed.endswith(" %")
    mantissa, e, exponent = printed.removesuffix(" %").partition("e")
    places = len(mantissa.partition(".")[2])
    text = f"{(100 * value if percent else value) / 10.0 ** int(exponent or 0):,.{places}f}"
    return (text if any(digit in text for digit in "123456789") else text.lstrip("-")) + e + exponent + " %" * percent
