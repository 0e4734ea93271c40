"""The methods paragraph says what was done, and nothing of what was not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.compare import analyse
from analysis.material import Material
from analysis.methods import INFLATED, methods
from analysis.records import CURVES

BASE, WIDE, MIDDLE = "128x256", "96x552", "112x392"
MEANS = {BASE: 4.15, WIDE: 4.20, MIDDLE: 4.15}
JUDGED = {"source": "results.csv", "rows": 30, "note": "Read from results.csv."}
SEQUENTIAL = ("looked at", "Looks", "spending", "e-process", "repeated", INFLATED)
Said = Callable[..., str]


@pytest.fixture
def said(snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> Said:
    def say(n: int = 10, **changes: Any) -> str:
        runs = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(3), seeds=range(n))
        snapshot.update(changes)
        runs = runs[runs["arm"].isin([arm["name"] for arm in snapshot["arms"]])]
        return methods(Material(snapshot, runs, CURVES.empty_table().to_pandas(), analyse(runs, snapshot)))

    return say


def test_a_fixed_paired_study(said: Said) -> None:
    text = said()
    for part in (
        "Each of 3 arms was trained with seeds 0–9; a seed fixes the order of the training data",
        "held-out loss in nats per character over the whole held-out text (25,600 tokens)",
        "96x552 and 112x392 were each compared with the baseline 128x256 (pairs: n = 10) by a two-sided paired t test",
        "TOST",
        "margin of ±0.02 nats per character that was fixed before any run",
        "(m = 2) were adjusted together by Holm's step-down method with Shaffer's multipliers",
        "an adjusted p value below 0.05",
    ):
        assert part in text
    assert not any(part in text for part in (*SEQUENTIAL, "Welch", "tuned", "one-sided towards"))


def test_looks_declared_beforehand_are_paid_for_by_spending(said: Said) -> None:
    text = said(seeds=list(range(20)), design={"kind": "until_decided", "looks": [3, 5, 8, 12, 20]}, n=8)
    for part in (
        "at most 20 seeds",
        "after 3, 5, 8, 12 and 20 seeds",
        "alpha spending",
        "Kim and DeMets 1987",
        INFLATED,
    ):
        assert part in text
    assert "The last looks: 96x552 after 8 seeds" in text
    assert "e-process" not in text


def test_looks_that_nobody_declared_are_paid_for_by_an_e_process(said: Said) -> None:
    text = said(design={"kind": "open", "looks": [5, 10]})
    for part in ("looked at after 5 and 10 seeds", "Gaussian-mixture e-process", "g = 0.25", INFLATED):
        assert part in text
    assert "spending" not in text


def test_a_grid_is_told_with_both_of_its_answers(said: Said) -> None:
    grid = {"key": "optimizer.learning_rate", "points": [0.001, 0.003], "seeds": [1_000_000, 1_000_001, 1_000_002]}
    text = said(tuning=grid)
    assert "the learning rate of every arm was tuned on one grid (0.001 and 0.003) with the same 3 seeds" in text
    assert "widened by 2 SD / √3" in text
    assert "usable range" in text


def test_an_unpaired_table_from_elsewhere(said: Said) -> None:
    text = said(judged=JUDGED, corpus=None, paired=False, margin_reason="given on the command line without a reason")
    for part in (
        "The losses of 3 arms (30 runs) were read from results.csv",
        "(n = 10 against 10 runs) by Welch's two-sided t test",
        "two one-sided Welch's t tests",
        "a margin of ±0.02 nats per character (given on the command line without a reason)",
        "fewer than three runs of either arm",
    ):
        assert part in text
    assert not any(part in text for part in (*SEQUENTIAL, "pair", "trained with", "before any run"))


def test_a_target(said: Said) -> None:
    text = said(judged=JUDGED, corpus=None, target=4.18, alpha=0.01, margin=None, baseline="target 4.18", unit="")
    for part in (
        "The means of 128x256, 96x552 and 112x392 (n = 10 runs) were each compared with the fixed number 4.18",
        "one-sample t test at 0.01, one-sided",
        "The outcome is held-out loss; lower is better.",
        "(m = 3) were adjusted by Holm's step-down method; a verdict needs an adjusted p value below 0.01",
    ):
        assert part in text
    assert not any(part in text for part in (*SEQUENTIAL, "TOST", "margin", "pair", "baseline", "Boschloo"))


def test_one_comparison_is_not_adjusted(said: Said, snapshot: dict[str, Any]) -> None:
    text = said(arms=snapshot["arms"][:2], runs=[run for run in snapshot["runs"] if run["arm"] != MIDDLE])
    assert "Holm" not in text
    assert "A verdict needs a p value below 0.05." in text


def contrast(name: str, arm: str, scoring: str) -> dict[str, Any]:
    """Of `arm` scored under a condition against itself without."""
    sides = {
        side: {"label": f"{arm} {one}".strip(), "arm": arm, "scoring": one, "less": None}
        for side, one in (("cell", scoring), ("baseline", ""))
    }
    return {"name": name, **sides}


LOOKS = {"kind": "until_decided", "looks": [3, 5, 10]}


@pytest.mark.parametrize(
    ("arms", "contrasts", "needed", "undecided"),
    [
        (1, 2, "A verdict needs an adjusted p value below 0.05. The intervals are those of one contrast", "contrasts"),
        (1, 1, "A verdict needs a p value below 0.05.", "contrasts"),
        (2, 2, "A verdict on the arm needs a p value below 0.05, one on a contrast an", "comparisons or contrasts"),
        (2, 1, "A verdict needs a p value below 0.05.", "comparisons or contrasts"),
        (3, 2, "a verdict needs an adjusted p value below 0.05. The intervals are", "comparisons or contrasts"),
    ],
)
def test_what_a_verdict_needs_and_who_gets_more_seeds(
    said: Said, snapshot: dict[str, Any], arms: int, contrasts: int, needed: str, undecided: str
) -> None:
    """With contrasts as well or alone."""
    names = [arm["name"] for arm in snapshot["arms"][:arms]]
    text = said(
        arms=snapshot["arms"][:arms],
        runs=[run for run in snapshot["runs"] if run["arm"] in names],
        contrasts=[contrast(name, BASE, f"at {name}") for name in ("128", "256")[:contrasts]],
        design=LOOKS,
    )
    assert needed in text
    assert f"Only arms of {undecided} that were still undecided were given more seeds, and whatever was" in text


def test_without_contrasts_none_are_spoken_of(said: Said) -> None:
    assert "Only arms of comparisons that were still undecided were given more seeds" in said(design=LOOKS)
