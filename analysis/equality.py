"""What a study declares equal over its arms, beside what was measured."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from analysis.records import COMPLETED
from analysis.wording import share


class Equality(NamedTuple):
    """What a study declares equal, and what was measured: the arm farthest from the baseline, as a share of it."""

    what: str
    tolerance: float
    farthest: str
    deviation: float

    @property
    def held(self) -> bool | None:
        """Whether the farthest arm lies within the tolerance; None while nothing is measured."""
        return None if math.isnan(self.deviation) else abs(self.deviation) <= self.tolerance

    @property
    def sentence(self) -> str:
        """The declaration beside the measurement."""
        if self.held is None:
            return f"{self.what.capitalize()}: declared equal within {share(self.tolerance)}; not measured yet."
        if self.deviation == 0:
            measured = "the same in every arm"
        else:
            word = "more" if self.deviation > 0 else "fewer"
            measured = f"the farthest arm, {self.farthest}, has {share(abs(self.deviation))} {word}"
        held = "Held" if self.held else "Not held"
        return f"{self.what.capitalize()}: declared equal within {share(self.tolerance)}; {measured}. {held}."


def equalities(snapshot: Mapping[str, Any], runs: pd.DataFrame) -> list[Equality]:
    """Each declared equality beside what completed `runs` measured or, for parameters, what the plan counted."""
    baseline, completed = snapshot["baseline"], runs[runs["status"] == COMPLETED]
    result = []
    for what, tolerance in snapshot["equal"].items():
        measured = {arm["name"]: float(arm[what]) for arm in snapshot["arms"] if what in arm}
        if not measured and what in runs:
            measured = completed.groupby("arm")[what].median().to_dict()
        against = {arm: value / measured[baseline] - 1 for arm, value in measured.items() if baseline in measured}
        farthest = max(against, key=lambda arm: abs(against[arm]), default=baseline)
        result.append(Equality(what, tolerance, farthest, against.get(farthest, math.nan)))
    return result
