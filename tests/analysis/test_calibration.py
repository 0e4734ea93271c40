"""The short form of `benchmarks/calibration.py`: error rates on fixed streams, in bounds that a wrong method fails."""

import csv
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.guards import divergence
from analysis.intervals import paired_difference, welch_difference
from analysis.robustness import usable_range
from analysis.sequential import LOOKS, log_e, open_ended, spend
from analysis.tuning import _spread, select
from analysis.verdict import Verdict, decide, equivalence_p

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import calibration
from rates import batch, fixed, looks, many, page, published, rivals, scenarios, tuned
from rates.bars import FEWEST, Bar, Row, measure, stream
from rates.habits import HABITS
from rates.scenarios import MAIN, NORMAL, RESPONSES, SD_RATIO, STRESS

FLAT, BOWL, SHARP, POINTED, TILTED, WALL, CLIFF = RESPONSES


def met(cells, **bounds):
    return measure(Bar("short form", cells, **bounds), FEWEST).met != "no"


# The simulations use vectorised forms; each is held to the function that a study uses.


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def pairs_of(rng, n=6, studies=40):
    return rng.normal(4.1, 0.03, (2, studies, n))


@pytest.mark.parametrize("n", [3, 8])
def test_many_differences_are_those_of_one_study(rng, n):
    ours, theirs = pairs_of(rng, n)
    for many_at_once, one in ((batch.paired, paired_difference), (batch.welch, welch_difference)):
        found = many_at_once(ours, theirs)
        each = [one(*pair) for pair in zip(ours, theirs, strict=True)]
        np.testing.assert_allclose(found.mean_R, [d.mean for d in each])
        np.testing.assert_allclose(found.error_R, [d.standard_error for d in each])
        np.testing.assert_allclose(found.p(), [d.p_value for d in each])
        np.testing.assert_allclose(found.mean_R - found.half(0.05), [d.interval95.low for d in each])
        np.testing.assert_allclose(found.mean_R + found.half(0.10), [d.interval90.high for d in each])
        np.testing.assert_allclose(found.equivalence_p(0.03), [equivalence_p(d, 0.03) for d in each])


def test_the_rule_of_many_studies_is_that_of_one(rng):
    ours, theirs = pairs_of(rng, 4, 400)
    found, margin = batch.paired(ours, theirs), 0.03
    verdicts = []
    for pair in zip(ours, theirs, strict=True):
        one = paired_difference(*pair)
        verdicts.append(decide(one.n, one.mean, one.p_value, equivalence_p(one, margin)))
    assert len(set(verdicts)) >= 4
    differs = [v not in (Verdict.EQUIVALENT, Verdict.UNDECIDED) for v in verdicts]
    within = [v is Verdict.EQUIVALENT or "within" in v for v in verdicts]
    np.testing.assert_array_equal(found.excludes(), differs)
    np.testing.assert_array_equal(found.within(margin), within)


def test_diverged_runs_drop_their_pair_or_the_decision(rng):
    ours, theirs = (np.where(rng.random(x.shape) < 0.4, np.nan, x) for x in pairs_of(rng, 8, 80))
    found, compatible = batch.paired(ours, theirs), batch.compatible_rates(ours, theirs)
    few = 0
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        lost = [int(np.isnan(x).sum()) for x in (a, b)]
        assert compatible[i] == (not divergence({"a": (lost[0], 8 - lost[0]), "b": (lost[1], 8 - lost[1])})[1])
        both = np.isfinite(a) & np.isfinite(b)
        few += both.sum() < 3
        one = paired_difference(a[both], b[both])
        expected = one.p_value if both.sum() >= 3 else math.nan
        assert found.p()[i] == pytest.approx(expected, nan_ok=True)
    assert few
    assert not compatible.all()


@pytest.mark.parametrize("counts", [LOOKS, (3, 4, 5, 6)])
def test_many_paths_are_those_of_one_study(rng, counts):
    d, margin = rng.normal(0.7, 1.0, (60, counts[-1])), 1.5
    claims, equivalent = looks.spend_claims(d, counts), looks.spend_equivalent(d, counts, margin)
    e_claims = looks.e_claims(d, counts)
    for i, x in enumerate(d):
        for j in range(1, len(counts) + 1):
            by_look = [x[:n] for n in counts[:j]]
            path = spend(by_look, counts[:j], counts[-1], margin)
            assert claims[j - 1, i] == (path.p_difference <= 0.05)
            assert equivalent[j - 1, i] == (path.p_equivalence <= 0.05)
            assert e_claims[j - 1, i] == (open_ended(by_look, counts[:j], margin).p_difference <= 0.05)
        assert batch.running_log_e(x[None])[0, -1] == pytest.approx(log_e(x))
    assert claims.any()
    assert equivalent.any()


def grids_of(rng, response, studies=50, seeds=4):
    return scenarios.draw_grid(rng, response, rng.standard_normal((studies, seeds)), 0.5)


def test_many_grids_are_judged_like_one(rng):
    for response in RESPONSES:
        grids = grids_of(rng, response)
        assert batch.selected(grids).tolist() == [select(grid) for grid in grids]
        np.testing.assert_allclose(batch.spread(grids), [_spread(grid) for grid in grids])


@pytest.mark.parametrize("seeds", [3, 4, 7])
def test_many_usable_ranges_are_those_of_one_study(rng, seeds):
    for ours, theirs in ((FLAT, SHARP), (CLIFF, TILTED), (POINTED.steeper(10), POINTED.steeper(10))):
        grids = grids_of(rng, ours, seeds=seeds), grids_of(rng, theirs, seeds=seeds)
        found, each = (
            batch.usable_ranges(*grids, 10.0),
            [usable_range(*pair, 10.0) for pair in zip(*grids, strict=True)],
        )
        np.testing.assert_allclose(found.mean_R, [one.difference for one in each])
        np.testing.assert_allclose(found.p(), [one.p_value for one in each], rtol=1e-6)
        np.testing.assert_allclose(found.mean_R - found.half(0.05), [one.interval95.low for one in each], rtol=1e-6)


# What is simulated is what it is called.


@pytest.mark.parametrize("scenario", [*MAIN, STRESS], ids=lambda s: s.name)
def test_scenarios_have_no_true_difference_and_the_correlation_asked_for(scenario):
    arm, baseline = scenario.draw(stream(scenario.name), 20_000, 10, 0.7)
    assert arm.mean() == pytest.approx(baseline.mean(), abs=4 * arm.std() / arm.size**0.5)
    if not scenario.outliers:
        assert baseline.std() == pytest.approx(1, rel=0.15 if scenario.baseline is scenarios.t3 else 0.03)
        assert arm.std() / baseline.std() == pytest.approx(scenario.sd, rel=0.15)
    same_shape = scenario.arm is scenario.baseline is scenarios.normal and not scenario.outliers
    assert not same_shape or np.corrcoef(arm.ravel(), baseline.ravel())[0, 1] == pytest.approx(0.7, abs=0.01)


def test_skewness_is_what_the_shapes_say():
    z, rng = np.random.default_rng(1).standard_normal(1_000_000), np.random.default_rng(2)
    assert stats.skew(scenarios.lognormal(z, rng)) == pytest.approx(scenarios.SKEW, abs=0.15)
    assert stats.skew(scenarios.gamma(z, rng)) == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("response", [*RESPONSES, SHARP.steeper(10), CLIFF.steeper(10)], ids=lambda r: r.name)
def test_the_true_excess_is_that_of_very_many_seeds(rng, response):
    grid = scenarios.draw_grid(rng, response, np.zeros((1, 100_001)), 0.0)
    best = np.median(grid[0], axis=0).min()
    assert response.excess(10.0) == pytest.approx(np.minimum(grid[0] - best, 10.0).mean(), abs=0.02)


# Error rates, and wrong methods that miss them.


def test_false_differences_at_a_fixed_number_of_seeds():
    assert met(fixed.at_truth_0(MAIN, [3, 5, 20], [-0.5, 0.7]), high=5.5)
    assert met(fixed.at_truth_0([NORMAL], [3, 5, 20], [-0.5, 0.7], unpaired_method=None), low=4.5)
    assert met(fixed.at_truth_0([scenarios.RECORDED], [5, 10], [0.5], unpaired_method=None), high=5.5)
    assert met(fixed.at_truth_0([STRESS], [3, 5, 10], paired_method=None), high=11)


@pytest.mark.parametrize(
    ("scenario", "n", "rho", "claims"),
    [
        (NORMAL, 10, -0.5, fixed.welch_claims),
        (SD_RATIO, 3, 0.0, rivals.by_p(stats.ttest_ind)),
        (NORMAL, 5, 0.5, rivals.z_bands(pairs=True)),
        (STRESS, 20, 0.0, rivals.by_p(stats.mannwhitneyu)),
    ],
    ids=["Welch of pairs", "one SD", "1.96 SE", "Mann-Whitney"],
)
def test_a_wrong_test_fails_the_bound_of_false_differences(scenario, n, rho, claims):
    cells = fixed.at_truth_0([scenario], [n], [rho], None, claims)
    assert not met(cells, high=11 if scenario is STRESS else 5.5)


def test_coverage():
    cells = fixed.at_truth_0([NORMAL, SD_RATIO], [3, 5, 10], [-0.5, 0.7], covered=True)
    assert met(cells, low=94)
    assert met({name: cell for name, cell in cells.items() if "unpaired, n = 3" not in name}, high=96.5)
    assert met(cells, high=97.5)


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_the_bootstrap_fails_the_bound_of_coverage(n, method):
    claims = rivals.bootstrap(method, pairs=True)
    cells = fixed.at_truth_0([NORMAL], [n], [0.0], None, claims, covered=True)
    assert not met(cells, low=94)
    assert n > 3 or met(cells, high=90)


def test_false_verdicts_and_a_tost_at_the_wrong_level_that_fails():
    assert met(fixed.false_verdicts(MAIN, [3, 10], [0.7], [1.0, 8.0]), high=5.8)
    assert not met(fixed.false_verdicts([NORMAL], [10], [0.7], [8.0], levels=(0.05, 0.10)), high=5.8)
    assert not met(fixed.false_verdicts([NORMAL], [10], [0.7], [1.0], levels=(0.10, 0.05)), high=5.8)


def test_equivalence_is_found():
    assert met(fixed.equivalence(8), low=87)
    assert met(fixed.equivalence(10), low=94)


def test_healthy_pairs_raise_no_alarm():
    assert met(fixed.shift_alarms(published.HEALTHY, [3]), high=1)
    assert met(fixed.shift_alarms(published.HEALTHY, [5, 20]), high=0.1)


SCHEDULES = (LOOKS, (3, 20), (3, 4, 5, 6))


def test_looking_again_is_paid_for_and_not_paying_fails():
    assert met(looks.false_differences([NORMAL, SD_RATIO, MAIN[3]], SCHEDULES), high=5.6)
    assert not met(looks.false_differences([NORMAL], [LOOKS], looks.naive_claims), high=5.6)
    assert met(looks.false_differences([NORMAL], [LOOKS], looks.naive_claims), low=15)


def test_equivalence_by_looking_again_is_paid_for_and_not_paying_fails():
    assert met(looks.false_equivalents([NORMAL], SCHEDULES), high=5.5)
    assert not met(looks.false_equivalents([NORMAL], [LOOKS], looks.naive_equivalent), high=5.5)


def test_spending_finds_a_large_difference_early_and_the_e_process_errs_rarely():
    power, pairs = looks.found_by(looks.spend_claims)
    assert met(power, low=96)
    assert met(pairs, high=13, unit="pairs")
    assert met(looks.false_differences(MAIN, [looks.EVERY], looks.e_claims), high=3)


def test_arms_judged_on_fresh_seeds_after_tuning_and_a_claim_about_the_best_that_is_not_widened():
    shapes = (SHARP, CLIFF)
    assert met(tuned.best_of_tuned(tuned.about_the_selected, 5, shapes), high=6)
    assert met(tuned.best_of_tuned(tuned.about_the_best_widened, 20, shapes), high=5)
    assert not met(tuned.best_of_tuned(tuned.about_the_best, 20, (SHARP,)), high=10.5)


@pytest.mark.parametrize(
    "habit", [name for name in HABITS if "grid" in name or "tuning seeds" in name or "width" in name]
)
def test_judging_where_one_tuned_fails(habit):
    assert not met({habit: HABITS[habit]}, high=6)


def test_any_false_rejection_among_nine_arms_and_a_common_variance_that_fails():
    ours, pooled = (many.family(test, ["one arm"], [5]) for test in (many.holm_test, many.pooled_test))
    assert met({name: cell for name, cell in ours.items() if "margin 4" in name}, high=5.6)
    assert not met({name: cell for name, cell in pooled.items() if name.startswith("all at 0")}, high=5.6)


def test_equal_usable_ranges_are_rarely_told_apart_and_others_covered():
    same = [(one, one) for one in (FLAT, SHARP.steeper(10), CLIFF)]
    other = [(FLAT, POINTED.steeper(10)), (BOWL, WALL)]
    assert met(tuned.usable(same, [5]), high=8.5)
    assert met(tuned.usable(other, [5], covered=True), low=91)


# The page.


@pytest.fixture
def measured():
    numbers = np.random.default_rng(0)
    return {
        section: [Row(bar, "somewhere", numbers.uniform(0, 30), 0.1, FEWEST) for bar in bars]
        for section, bars in published.sections().items()
    }


def test_the_page_shows_every_bar_and_the_table_every_number(measured):
    text, rows = page.page(measured), list(csv.DictReader(page.table(measured).splitlines()))
    assert [row["bar"] for row in rows] == [row.bar.name for of_section in measured.values() for row in of_section]
    for row in measured[published.BARS]:
        assert f"| {row.bar.name} | {row.bar.required} | " in text
    missed = [row for row in measured[published.BARS] if row.met == "no"]
    assert missed
    assert all(f"- {row.bar.name}: " in text for row in missed)
    assert all(method.name in text for method in rivals.METHODS)
    figure = page.figure(measured)
    assert figure == page.figure(measured)
    assert all(method.name in figure for method in rivals.METHODS)


def test_the_committed_page_is_made_of_the_committed_numbers():
    folder = Path(calibration.__file__).parents[1] / "docs" / "benchmarks"
    rows = list(csv.DictReader((folder / "calibration.csv").read_text(encoding="utf-8").splitlines()))
    numbers = {(row["section"], row["bar"]): row for row in rows}
    measured = {}
    for section, bars in published.sections().items():
        found = [(bar, numbers[section, bar.name]) for bar in bars]
        measured[section] = [
            Row(bar, row["worst_case"], float(row["measured"]), float(row["monte_carlo_error"]), int(row["studies"]))
            for bar, row in found
        ]
    texts = page.page(measured), (folder / "calibration.md").read_text(encoding="utf-8")
    made, committed = (re.sub(r"NumPy [\d.]+, SciPy [\d.]+,", "", text) for text in texts)
    number = r"\d+\.\d+"  # rounded once already in the table of numbers
    assert re.sub(number, "", made) == re.sub(number, "", committed)
    ours, theirs = ([float(found) for found in re.findall(number, text)] for text in (made, committed))
    assert ours == pytest.approx(theirs, abs=0.11)


def test_no_name_is_given_twice(measured):
    for rows in measured.values():
        assert len({row.bar.name for row in rows}) == len(rows)


def test_a_row_says_whether_its_bar_is_met():
    bar = Bar("b", {}, low=2, high=5)
    rows = {value: Row(bar, "", value, 0.2, FEWEST).met for value in (1.9, 2.0, 5.0, 5.3, 5.5)}
    assert rows == {1.9: "within error", 2.0: "yes", 5.0: "yes", 5.3: "within error", 5.5: "no"}
    assert Row(bar, "", 7.0, 3.0, FEWEST).met == "no"
    assert Row(Bar("b", {}), "", 7.0, 3.0, FEWEST).met == ""
    assert bar.required == "≥ 2 and ≤ 5 %"


def test_too_few_studies_publish_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["calibration.py", "--studies", "10", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="fewer than 4000 studies, got --studies 10"):
        calibration.main()
    assert not list(tmp_path.iterdir())
