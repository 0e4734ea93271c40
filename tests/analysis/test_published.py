"""Published figures: the rule against formulas, its error rates by simulation, and what a study's records say."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.compare import analyse
from analysis.finding import markdown
from analysis.material import Material
from analysis.publication import LAST_BATCH, hold_published
from analysis.published import Outcome, Spread, hold, pooled
from analysis.records import CURVES
from analysis.report import page, write

SD, RUNS, TOLERANCE = 0.05, 20, 0.2
NO_CURVES = CURVES.empty_table().to_pandas()


def figure(arm: str, value: float, measure: str = LAST_BATCH, note: str = "") -> dict[str, Any]:
    return {"arm": arm, "value": value, "measure": measure, "note": note}


@pytest.fixture
def declared(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The synthetic study with figures of two arms, which are compared with each other."""
    return snapshot | {
        "pairs": [["96x552", "128x256"]],
        "published": {
            "source": "a book",
            "figures": [figure("128x256", 4.0), figure("96x552", 4.9, note="From its table.")],
            "sd": SD,
            "sd_runs": RUNS,
            "sd_reason": "twenty runs",
            "tolerance": TOLERANCE,
            "tolerance_reason": "it says so",
        },
    }


@pytest.fixture
def runs(declared: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> pd.DataFrame:
    """Last batches lie 0.2 below the held-out loss, so those of 128x256 lie at the figure."""
    return make_runs(declared, {"128x256": 4.2, "96x552": 4.2}, 0.01, np.random.default_rng(1))


@given(
    st.lists(st.floats(3, 6), min_size=1, max_size=6),
    st.floats(3, 6),
    st.floats(0.01, 0.5),
    st.floats(2, 50),
    st.sampled_from([1.0, 2**0.5]),
)
def test_the_rule_is_the_t_test_of_one_further_run(
    sample: list[float], value: float, sd: float, df: float, scale: float
) -> None:
    (found,) = hold([value], [sample], Spread(sd, df), TOLERANCE, [scale])
    error = sd * scale * (1 + 1 / len(sample)) ** 0.5
    difference = np.mean(sample) - value
    assert found.difference == pytest.approx(difference)
    assert found.p_difference == pytest.approx(2 * stats.t(df).sf(abs(difference) / error), abs=1e-9)
    assert found.p_agreement == pytest.approx(stats.t(df).cdf((abs(difference) - TOLERANCE) / error), abs=1e-9)
    assert found.half95 == pytest.approx(stats.t(df).ppf(0.975) * error)
    if found.outcome is Outcome.AGREES:
        assert abs(difference) < TOLERANCE
    if found.outcome is Outcome.DIFFERS:
        assert abs(difference) > found.half95


def test_nothing_measured_decides_nothing() -> None:
    empty, far = hold([4.0, 4.0], [[], [9.0]], Spread(SD, 19), TOLERANCE, [1.0, 1.0])
    assert empty.outcome is Outcome.OPEN
    assert np.isnan([empty.ours, empty.p_difference, empty.p_adjusted]).all()
    assert far.outcome is Outcome.DIFFERS


def test_more_figures_make_a_difference_harder_to_claim() -> None:
    def outcome(others: int) -> Outcome:
        return hold([4.0] * (1 + others), [[4.24], *[[4.0]] * others], Spread(SD, 19), 0.05, [1.0] * (1 + others))[
            0
        ].outcome

    assert outcome(0) is Outcome.DIFFERS
    assert outcome(33) is Outcome.OPEN


def test_the_spread_joins_what_is_declared_with_what_is_seen() -> None:
    assert pooled(SD, RUNS, [[4.0], [5.0]]) == Spread(SD, 19)
    seen = pooled(SD, RUNS, [[4.0, 4.2], [5.0, 5.4], []])
    assert seen.df == 20
    assert seen.sd**2 == pytest.approx((19 * SD**2 + (0.02 + 0.08) / 2) / 20)


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("shared", [0.0, 0.9], ids=["batches of their own", "the same batches in every arm"])
def test_error_rates(n: int, shared: float) -> None:
    """One false "differs" or more in 5 % of studies at most, and 5 % of figures at the tolerance called agreeing, for
    28 arms; with 1,000 studies the standard error is 0.7 percentage points. Batches that arms share spoil neither."""
    rng, arms, studies, alarms, agreed, right = np.random.default_rng(0), 28, 1_000, 0, 0, 0
    for _ in range(studies):
        known = SD * (rng.chisquare(RUNS - 1) / (RUNS - 1)) ** 0.5  # what twenty runs would say of the SD
        common, own = rng.normal(size=(1, n)), rng.normal(size=(arms, n))
        ours = SD * (shared**0.5 * common + (1 - shared) ** 0.5 * own)
        spread = pooled(known, RUNS, list(ours))
        theirs = SD * rng.normal(size=arms)
        found = [one.outcome for one in hold(theirs, list(ours), spread, TOLERANCE, [1.0] * arms)]
        alarms += Outcome.DIFFERS in found
        right += found.count(Outcome.AGREES)
        at_the_bound = hold(theirs + TOLERANCE, list(ours), spread, TOLERANCE, [1.0] * arms)
        agreed += sum(one.outcome is Outcome.AGREES for one in at_the_bound)
    assert alarms / studies < 0.05 + 3 * 0.007
    assert agreed / studies / arms < 0.055
    assert right / studies / arms > 0.5  # the rule can tell: of figures that are met, more than half are called so


def test_a_rule_without_correction_would_fail(declared: dict[str, Any]) -> None:
    """The control: p values that are not adjusted call one of 28 true figures different in most studies."""
    rng, studies = np.random.default_rng(0), 300
    wrong = 0
    for _ in range(studies):
        ours, theirs = SD * rng.normal(size=(28, 1)), SD * rng.normal(size=28)
        wrong += min(one.p_difference for one in hold(theirs, list(ours), Spread(SD, 19), TOLERANCE, [1.0] * 28)) < 0.05
    assert wrong / studies > 0.5


def test_the_records_are_held_against_the_figures(declared: dict[str, Any], runs: pd.DataFrame) -> None:
    found = hold_published(runs, NO_CURVES, declared)
    assert found is not None
    met, missed = found.figures
    assert (met.arm, met.held.n, met.held.outcome, met.why) == ("128x256", 10, Outcome.AGREES, "")
    batches = runs.loc[runs["arm"] == "128x256", LAST_BATCH]
    assert met.held.ours == pytest.approx(batches.mean())
    assert met.held_out == pytest.approx(runs.loc[runs["arm"] == "128x256", "val_loss"].mean())
    assert missed.held.outcome is Outcome.DIFFERS
    assert "By chance one run read off one batch lies within" in missed.why
    (gap,) = found.gaps
    assert (gap.arm, gap.against) == ("96x552", "128x256")
    assert gap.held.figure == pytest.approx(0.9)
    assert gap.held.outcome is Outcome.DIFFERS
    assert abs(gap.held_out) < 0.02
    assert found.sentences[0] == "Of 2 figures 1 agree, 1 differs and 0 cannot be told."
    assert found.offset == pytest.approx((met.held.difference + missed.held.difference) / 2)


def test_a_figure_below_the_unigram_of_a_stuck_arm_is_of_another_text(
    declared: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    declared["published"]["figures"] = [figure("128x256", 5.357)]
    stuck = make_runs(declared, {"128x256": 5.515}, 0.001, np.random.default_rng(0), seeds=[0])
    stuck[LAST_BATCH] = 5.55
    found = hold_published(stuck, NO_CURVES, declared)
    assert found is not None
    assert found.gaps == ()
    assert "the figure lies 0.153 below that, so it was read off another text" in found.figures[0].why


def test_a_figure_at_another_length_is_read_from_its_curve(declared: dict[str, Any], runs: pd.DataFrame) -> None:
    declared["published"]["figures"] = [figure("128x256", 4.5, "val_loss at 128")]
    ids = runs.loc[runs["arm"] == "128x256", "run_id"].tolist()
    curves = pd.DataFrame(
        [
            {"run_id": run, "name": name, "step": step, "value": value + seed / 100}
            for seed, run in enumerate(ids)
            for name, step, value in (("val_loss", 9, 1.0), ("val_loss at 128", 9, 4.4), ("val_loss at 128", 3, 7.0))
        ]
    )
    found = hold_published(runs, curves, declared)
    assert found is not None
    assert found.figures[0].held.ours == pytest.approx(4.4 + 0.045)
    assert found.figures[0].held_out == pytest.approx(4.4 + 0.045)
    assert hold_published(runs, curves.iloc[:0], declared).figures[0].why == "Nothing is recorded yet."  # type: ignore[union-attr]


def test_diverged_runs_are_told(declared: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> None:
    frame = make_runs(
        declared, {"128x256": 4.2}, 0.01, np.random.default_rng(0), seeds=[0, 1], diverged=[("128x256", 1)]
    )
    found = hold_published(frame, NO_CURVES, declared)
    assert found is not None
    assert (found.figures[0].held.n, found.figures[0].diverged) == (1, 1)
    assert found.figures[0].why.startswith("1 of the runs diverged")


@pytest.mark.parametrize("recorded", [True, False], ids=["ten seeds", "nothing yet"])
def test_page_finding_and_json_have_the_figures(
    declared: dict[str, Any], runs: pd.DataFrame, recorded: bool, tmp_path: Path
) -> None:
    frame = runs if recorded else runs.iloc[:0]
    curves = NO_CURVES
    material = Material(declared, frame, curves, analyse(frame, declared))
    text, html = markdown(material), page(material)
    assert "## Published figures" in text
    assert "96x552 − 128x256 | last batch | 0.9000" in text
    assert "96x552 against 128x256" in text
    assert 'id="published"' in html
    assert ("cannot be told" in html) or recorded
    write(material, tmp_path)
    found = json.loads((tmp_path / "verdict.json").read_text())["published"]
    assert [row["held"]["outcome"] for row in found["figures"]] == (
        ["agrees", "differs"] if recorded else ["cannot be told"] * 2
    )


def test_a_study_without_figures_has_no_such_section(snapshot: dict[str, Any], runs: pd.DataFrame) -> None:
    curves = NO_CURVES
    material = Material(snapshot, runs, curves, analyse(runs, snapshot))
    assert material.published is None
    assert "Published" not in markdown(material) + page(material)


def test_pairs_are_compared_in_place_of_the_baseline(
    snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    """A comparison of a pair is that of a study whose baseline the second of the two is."""
    frame = make_runs(snapshot, {"128x256": 4.2, "96x552": 4.3, "112x392": 4.25}, 0.01, np.random.default_rng(2))
    paired = copy.deepcopy(snapshot) | {"pairs": [["112x392", "96x552"]]}
    alone = copy.deepcopy(snapshot) | {"baseline": "96x552", "arms": snapshot["arms"][1:]}
    (ours,) = analyse(frame, paired).comparisons
    (theirs,) = analyse(frame[frame["arm"] != "128x256"], alone).comparisons
    assert (ours.arm, ours.baseline) == ("112x392", "96x552")
    assert ours == theirs
