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
from analysis.published import Outcome, Spread, hold, pooled, scale
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


def test_what_is_within_the_tolerance_agrees_though_it_is_shown_to_differ() -> None:
    (found,) = hold([4.0], [[4.05] * 5], Spread(0.005, 19), 0.2, [1.0])
    assert max(found.p_adjusted, found.p_agreement) < 0.05
    assert found.outcome is Outcome.AGREES


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
    assert pooled(SD, RUNS, [[4.0], [5.0]], [1.0, 1.0]) == Spread(SD, 19)
    seen = pooled(SD, RUNS, [[4.0, 4.2], [5.0, 5.4], []], [1.0, 2.0, 1.0])
    assert seen.df == 20
    assert seen.sd**2 == pytest.approx((19 * SD**2 + (0.02 + 0.08 / 4) / 2) / 20)


def test_an_arm_whose_batches_vary_more_than_was_declared_has_that_sd() -> None:
    assert [scale(batch, 0.05) for batch in (0.04, 0.05, 0.1, np.nan)] == [1, 1, 2, 1]


EQUAL, RECORDED = np.full(28, SD), np.linspace(0.05, 0.081, 28)  # the second: from the least to the most of 28 recipes


def simulated(sds: np.ndarray, batch_sds: np.ndarray, n: int, shared: float) -> tuple[float, float, float]:
    """Shares, of studies with any false "differs", and of figures called agreeing that lie at the tolerance or are met.

    Runs and figures of each arm have its entry of `sds`; `batch_sds` is what is known of it beside the declared SD."""
    rng, arms, studies, alarms, agreed, right = np.random.default_rng(0), len(sds), 1_000, 0, 0, 0
    for _ in range(studies):
        known = SD * (rng.chisquare(RUNS - 1) / (RUNS - 1)) ** 0.5  # what twenty runs would say of the SD
        scales = [scale(batch, known) for batch in batch_sds]
        common, own = rng.normal(size=(1, n)), rng.normal(size=(arms, n))
        ours = sds[:, None] * (shared**0.5 * common + (1 - shared) ** 0.5 * own)
        spread = pooled(known, RUNS, list(ours), scales)
        theirs = sds * rng.normal(size=arms)
        found = [one.outcome for one in hold(theirs, list(ours), spread, TOLERANCE, scales)]
        alarms += Outcome.DIFFERS in found
        right += found.count(Outcome.AGREES)
        at_the_bound = hold(theirs + TOLERANCE, list(ours), spread, TOLERANCE, scales)
        agreed += sum(one.outcome is Outcome.AGREES for one in at_the_bound)
    return alarms / studies, agreed / studies / arms, right / studies / arms


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("shared", [0.0, 0.9], ids=["batches of their own", "the same batches in every arm"])
@pytest.mark.parametrize(
    ("sds", "batch_sds", "told"),
    [(EQUAL, np.full(28, np.nan), 0.5), (RECORDED, RECORDED, 0.3)],
    ids=["equal SDs", "recorded SDs"],
)
def test_error_rates(sds: np.ndarray, batch_sds: np.ndarray, told: float, n: int, shared: float) -> None:
    """One false "differs" or more in 5 % of studies at most, and 5 % of figures at the tolerance called agreeing, for
    28 arms; with 1,000 studies the standard error is 0.7 percentage points. Neither batches that arms share nor SDs
    that differ from arm to arm spoil them."""
    alarms, agreed, right = simulated(sds, batch_sds, n, shared)
    assert alarms < 0.05 + 3 * 0.007
    assert agreed < 0.055
    assert right > told  # the rule can tell: of figures that are met, so many are called so


def test_one_sd_for_arms_that_differ_would_fail() -> None:
    """The control: the declared SD for every arm makes more than twice as many false claims as it may."""
    assert simulated(RECORDED, np.full(28, np.nan), 1, 0.0)[0] > 0.1


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
    assert missed.why.startswith("By chance a single run, read off one batch, stays within the ± given beside ours; ")
    (gap,) = found.gaps
    assert (gap.arm, gap.against) == ("96x552", "128x256")
    assert gap.held.figure == pytest.approx(0.9)
    assert gap.held.outcome is Outcome.DIFFERS
    assert abs(gap.held_out) < 0.02
    assert found.sentences[0] == "Of 2 figures 1 agree, 1 differs and 0 cannot be told."
    assert found.offset == pytest.approx((met.held.difference + missed.held.difference) / 2)


@pytest.mark.parametrize(("value", "outcome"), [(5.257, Outcome.DIFFERS), (5.41, Outcome.OPEN)])
def test_a_figure_that_differs_below_the_unigram_of_a_stuck_arm_has_reasons_of_its_own(
    declared: dict[str, Any], make_runs: Callable[..., pd.DataFrame], value: float, outcome: Outcome
) -> None:
    """Where it cannot be told there is nothing to be explained."""
    declared["published"]["figures"] = [figure("128x256", value)]
    stuck = make_runs(declared, {"128x256": 5.515}, 0.001, np.random.default_rng(0), seeds=[0])
    stuck[LAST_BATCH] = 5.55
    found = hold_published(stuck, NO_CURVES, declared)
    assert found is not None
    assert found.gaps == ()
    (row,) = found.figures
    assert row.held.outcome is outcome
    own = "lies 0.253 below that: another text, a model that used its input, or the luck of one batch." in row.why
    assert own == (outcome is Outcome.DIFFERS)
    assert ("too far to tell a difference or to show one below 0.2" in row.why) == (outcome is Outcome.OPEN)


def test_a_figure_that_only_the_correction_leaves_open_says_so(
    declared: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    arms = [arm["name"] for arm in declared["arms"]]
    declared["published"]["figures"] = [figure(arm, 4.41 if arm == "128x256" else 4.25) for arm in arms]
    runs = make_runs(declared, dict.fromkeys(arms, 4.25), 0.001, np.random.default_rng(0), seeds=[0])
    runs[LAST_BATCH] = 4.25
    found = hold_published(runs, NO_CURVES, declared)
    assert found is not None
    row = next(row for row in found.figures if row.arm == "128x256")
    assert (row.held.outcome, row.held.p_difference < 0.05) == (Outcome.OPEN, True)
    assert row.why.startswith("Taken alone the difference is larger than the ± given")


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
    assert hold_published(runs, curves.iloc[:0], declared).figures[0].why == "No run has this measure."  # type: ignore[union-attr]
    assert hold_published(runs.iloc[:0], curves, declared).figures[0].why == "Nothing is recorded yet."  # type: ignore[union-attr]


def test_only_figures_by_the_measure_of_ours_are_averaged(declared: dict[str, Any], runs: pd.DataFrame) -> None:
    """Held-out text is another measure than what was published, be it of another length or not."""
    first = hold_published(runs, NO_CURVES, declared)
    declared["published"]["figures"].append(figure("128x256", 1.0, "val_loss", "Ours is of held-out text."))
    found = hold_published(runs, NO_CURVES, declared)
    assert first is not None
    assert found is not None
    assert found.figures[2].held.difference > 3
    assert (found.offset, found.read) == (first.offset, 2)
    assert found.sentences[2] == (
        f"By the same measure, the last batch, ours lie {-first.offset:.3f} below the figures on average, over 2 of "
        "them."
    )
    declared["published"]["figures"] = declared["published"]["figures"][2:]
    assert len(hold_published(runs, NO_CURVES, declared).sentences) == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("seeds", "said"), [((1, 1), "one seed"), ((2, 1), "fewer than 3 seeds"), ((1, 3), "one seed"), ((3, 10), "")]
)
def test_held_out_losses_have_an_interval_from_three_seeds_up(
    declared: dict[str, Any], runs: pd.DataFrame, seeds: tuple[int, int], said: str
) -> None:
    count = dict(zip(("128x256", "96x552"), seeds, strict=True))
    frame = runs[runs["seed"] < runs["arm"].map(count)]
    material = Material(declared, frame, NO_CURVES, analyse(frame, declared))
    assert material.published is not None
    for row in material.published.figures:
        losses = frame.loc[frame["arm"] == row.arm, "val_loss"]
        interval = np.nan, np.nan
        if len(losses) >= 3:
            interval = stats.t.interval(0.95, len(losses) - 1, losses.mean(), stats.sem(losses))
        assert (row.held_out95.low, row.held_out95.high) == pytest.approx(interval, nan_ok=True)
    finding, html = markdown(material), page(material)
    head = next(line for line in finding.splitlines() if line.startswith("| arm | measure"))
    assert ("± half its 95 % interval" in head) == (max(seeds) >= 3)
    for text in (finding, html):
        assert text.count("A held-out loss of ") == bool(said)
        assert text.count(f"A held-out loss of {said} has no interval.") == bool(said)


def test_diverged_runs_are_told(declared: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> None:
    frame = make_runs(
        declared, {"128x256": 4.2}, 0.01, np.random.default_rng(0), seeds=[0, 1], diverged=[("128x256", 1)]
    )
    found = hold_published(frame, NO_CURVES, declared)
    assert found is not None
    assert (found.figures[0].held.n, found.figures[0].diverged) == (1, 1)
    assert found.figures[0].why.startswith("1 of the runs diverged")
    lost = hold_published(frame[frame["seed"] == 1], NO_CURVES, declared)
    assert lost is not None
    assert lost.figures[0].why == "1 of the runs diverged and are not in the mean."


def test_gaps_are_of_two_runs_and_without_figures_there_is_nothing(
    declared: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    apart = make_runs(declared, {"128x256": 4.2, "96x552": 5.1}, 0.001, np.random.default_rng(0), seeds=[0, 1])
    one = apart[apart["seed"] == 0].assign(last_batch_loss=[4.15, 5.0])
    found = hold_published(one, NO_CURVES, declared)
    assert found is not None
    assert found.gaps[0].why.startswith("By chance the gap of two single runs lies anywhere within")
    assert found.gaps[0].why.endswith("no number of seeds takes it below 0.71 of that.")
    no_pair = apart[(apart["seed"] == 0) == (apart["arm"] == "96x552")]
    assert hold_published(no_pair, NO_CURVES, declared).gaps[0].why == "No seed has this measure of both."  # type: ignore[union-attr]
    assert hold_published(one, NO_CURVES, declared | {"published": declared["published"] | {"figures": []}}) is None
    declared["published"]["figures"] = declared["published"]["figures"][:1]
    assert len(hold_published(one, NO_CURVES, declared).sentences) == 2  # type: ignore[union-attr]


def test_each_figure_has_the_sd_of_its_own_arm(declared: dict[str, Any], runs: pd.DataFrame) -> None:
    """Losses of held-out text, which spread less than a figure does, are not pooled with those of batches."""
    declared["arms"][1]["batch"], declared["arms"][0]["batch"] = 4, 64
    runs = runs.assign(val_window_sd=0.2)
    found = hold_published(runs, NO_CURVES, declared)
    assert found is not None
    assert [row.scale for row in (*found.figures, *found.gaps)] == pytest.approx([1, 2, 5**0.5])
    assert found.figures[1].held.half95 == pytest.approx(2 * found.figures[0].held.half95)
    assert "more, up to " in found.rule
    assert "Where both are shown it agrees" in found.rule
    declared["published"]["figures"].append(figure("128x256", 4.2, "val_loss"))
    more = hold_published(runs, NO_CURVES, declared)
    assert more is not None
    assert more.spread == found.spread
    samples = [runs.loc[runs["arm"] == arm, LAST_BATCH] for arm in ("128x256", "96x552")]
    assert found.spread == pooled(SD, RUNS, samples, [1, 2])


def test_a_reason_that_figures_share_is_said_once_below_their_table(
    declared: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    frame = make_runs(declared, {"128x256": 4.2, "96x552": 4.8}, 0.001, np.random.default_rng(0), seeds=[0])
    frame = frame.assign(last_batch_loss=[4.1, 4.8])
    material = Material(declared, frame, NO_CURVES, analyse(frame, declared))
    why = material.published.figures[0].why  # type: ignore[union-attr]
    assert "cannot be told" in material.published.sentences[0]  # type: ignore[union-attr]
    for text in (markdown(material), page(material).replace("\N{NO-BREAK SPACE}", " ")):
        assert text.count(f"Cannot be told: {why}") == 1
        assert text.count(why) == 1
        assert "From its table." in text


def test_a_table_in_which_nothing_is_to_be_explained_has_no_column_for_it(
    declared: dict[str, Any], runs: pd.DataFrame
) -> None:
    declared["published"]["figures"] = [figure("128x256", 4.0), figure("96x552", 4.0, note="From its table.")]
    text = markdown(Material(declared, runs, NO_CURVES, analyse(runs, declared)))
    heads = [line for line in text.splitlines() if line.startswith("| arm | measure")]
    assert [head.endswith(" why |") for head in heads] == [True, False]


@pytest.mark.parametrize("recorded", [True, False], ids=["ten seeds", "nothing yet"])
def test_page_finding_and_json_have_the_figures(
    declared: dict[str, Any], runs: pd.DataFrame, recorded: bool, tmp_path: Path
) -> None:
    frame = runs if recorded else runs.iloc[:0]
    curves = NO_CURVES
    material = Material(declared, frame, curves, analyse(frame, declared))
    text, html = markdown(material), page(material)
    assert "## Published figures" in text
    assert "96x552 − 128x256 | last batch | 0.9 |" in text
    assert "128x256 | last batch | 4 |" in text
    assert "96x552 against 128x256" in text
    assert 'id="published"' in html
    assert ("cannot be told" in html) or recorded
    write(material, tmp_path)
    found = json.loads((tmp_path / "verdict.json").read_text())["published"]
    assert [row["held"]["outcome"] for row in found["figures"]] == (
        ["agrees", "differs"] if recorded else ["cannot be told"] * 2
    )


def test_published_figures_come_before_the_comparisons(declared: dict[str, Any], runs: pd.DataFrame) -> None:
    material = Material(declared, runs, NO_CURVES, analyse(runs, declared))
    text, html = markdown(material), page(material)
    assert text.index("**Question.**") < text.index("## Published figures") < text.index("## Verdict")
    assert html.index('id="published"') < html.index('id="verdicts"') < html.index('class="cards"')
    assert html.index('href="#published"') < html.index('href="#difference"')


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
