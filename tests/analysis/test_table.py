"""The runs of a study as comparisons need them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.table import Table

BASE, WIDE, MIDDLE = "128x256", "96x552", "112x392"


@pytest.mark.parametrize("kind", ["fixed", "until_decided", "open"])
def test_a_fixed_number_of_seeds_is_told_of_until_all_are_recorded(
    snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame], kind: str
) -> None:
    """By what both arms have of the ten; a run that diverged is recorded."""
    snapshot["design"] = {"kind": kind, "looks": [10]}
    runs = make_runs(
        snapshot, dict.fromkeys((BASE, WIDE, MIDDLE), 4.0), 0.1, np.random.default_rng(0), diverged=[(WIDE, 2)]
    )
    some = Table.read(runs[(runs["seed"] < 5) | (runs["arm"] == MIDDLE)], snapshot)
    whole = Table.read(runs[(runs["seed"] < 9) | (runs["arm"] != MIDDLE)], snapshot)
    expected = ("So far, 5 of 10 planned seeds: ", "So far, 9 of 10 planned seeds: ") if kind == "fixed" else ("", "")
    assert (some.so_far(MIDDLE), whole.so_far(MIDDLE)) == expected
    assert whole.so_far(WIDE) == ""


def test_a_table_from_elsewhere_has_no_plan(snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> None:
    snapshot["judged"] = {"source": "results.csv", "rows": 10, "note": ""}
    runs = make_runs(snapshot, {BASE: 4.0, WIDE: 4.0}, 0.1, np.random.default_rng(0), seeds=range(5))
    assert Table.read(runs, snapshot).so_far(WIDE) == ""
