import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.stats.power import TTestPower

from analysis.power import (
    SEEDS_CAP,
    detectable_difference,
    difference_power,
    equivalence_power,
    sd_upper_bound,
    seeds_as_measured,
    seeds_for_difference,
    seeds_for_equivalence,
    seeds_needed,
)


@pytest.mark.parametrize(
    ("n", "in_sd"),
    [(2, 11.5), (3, 3.26), (4, 2.13), (5, 1.68), (8, 1.16), (10, 1.00), (15, 0.78), (20, 0.66), (30, 0.53)],
)
def test_detectable_difference_is_the_known_table(n, in_sd):
    assert detectable_difference(n, 1.0) == pytest.approx(in_sd, abs=0.05 if n == 2 else 0.005)
    assert detectable_difference(n, 0.03) == pytest.approx(0.03 * detectable_difference(n, 1.0))


@pytest.mark.parametrize(("n", "margin"), [(3, 2.66), (5, 1.60), (10, 1.00), (20, 0.68)])
def test_equivalence_margin_at_80_percent_power_is_the_known_table(n, margin):
    found = optimize.brentq(lambda m: equivalence_power(n, 1.0, m) - 0.8, 0.1, 10)
    assert found == pytest.approx(margin, abs=0.006)


@pytest.mark.parametrize("n", [3, 4, 7, 12, 40, 400])
@pytest.mark.parametrize("effect", [0.05, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_difference_power_is_statsmodels(n, effect, alpha):
    expected = TTestPower().power(effect, n, alpha, alternative="two-sided")
    found = difference_power(n, 2.0, -2.0 * effect, alpha)
    # statsmodels has NaN where the tail below the critical value vanishes
    assert found > 1 - 1e-8 if np.isnan(expected) else found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("n", "margin", "truth", "alpha"),
    [(2, 4.0, 0.0, 0.05), (3, 2.0, 0.5, 0.05), (5, 1.6, 0.0, 0.025), (10, 1.0, 1.0, 0.05), (30, 0.7, -0.3, 0.05)],
)
def test_equivalence_power_is_what_a_simulation_counts(n, margin, truth, alpha):
    rng = np.random.default_rng(n)
    d = rng.normal(truth, 1.0, size=(100_000, n))
    half = stats.t.ppf(1 - alpha, n - 1) * d.std(1, ddof=1) / n**0.5
    share = np.mean((d.mean(1) - half > -margin) & (d.mean(1) + half < margin))
    assert equivalence_power(n, 1.0, margin, alpha, truth) == pytest.approx(share, abs=4 * 0.5 / 100_000**0.5)


@given(st.integers(3, 50), st.floats(0.05, 5))
def test_equivalence_is_declared_at_the_margin_at_most_at_alpha(n, margin):
    assert equivalence_power(n, 1.0, margin, truth=margin) <= 0.05 + 1e-9


@given(st.floats(0.05, 4.0), st.sampled_from([0.05, 0.025, 0.005]))
def test_fewest_seeds_reach_the_power_and_one_fewer_does_not(ratio, alpha):
    n = seeds_for_difference(1.0, ratio, alpha)
    assert difference_power(n, ratio, 1.0, alpha) >= 0.8
    assert n == 2 or difference_power(n - 1, ratio, 1.0, alpha) < 0.8
    n = seeds_for_equivalence(1.0, ratio, alpha)
    assert equivalence_power(n, ratio, 1.0, alpha) >= 0.8
    assert n == 2 or equivalence_power(n - 1, ratio, 1.0, alpha) < 0.8


@given(st.integers(2, 20), st.floats(0.001, 1.0), st.integers(1, 9))
def test_a_plan_is_a_range_above_what_is_there_and_wider_for_more_arms(n, sd, arms):
    low, high = seeds_needed(sd, n, 0.02, 0.05 / arms)
    assert min(max(n + 1, 3), SEEDS_CAP) <= low <= high <= SEEDS_CAP
    alone = seeds_needed(sd, n, 0.02, 0.05)
    assert alone[0] <= low
    assert alone[1] <= high


@given(st.integers(2, 20), st.floats(0.001, 1.0), st.floats(0.02, 1.0), st.integers(1, 9))
def test_a_difference_as_large_as_measured_takes_fewer_seeds_than_one_of_the_margin(n, sd, difference, arms):
    alpha = 0.05 / arms
    low, high = seeds_as_measured(sd, n, difference, alpha)
    assert (low, high) == seeds_as_measured(sd, n, -difference, alpha)
    assert min(max(n + 1, 3), SEEDS_CAP) <= low <= high <= SEEDS_CAP
    for total, sigma in ((low, sd), (high, sd_upper_bound(sd, n))):
        assert total == SEEDS_CAP or difference_power(total, sigma, difference, alpha) >= 0.8
        assert total == max(n + 1, 3) or difference_power(total - 1, sigma, difference, alpha) < 0.8
    assert all(a <= b for a, b in zip((low, high), seeds_needed(sd, n, 0.02, alpha), strict=True))


def test_the_plan_of_a_hopeless_study_stops_at_the_cap():
    assert seeds_needed(10.0, 5, 0.02) == (SEEDS_CAP, SEEDS_CAP)
    assert seeds_for_difference(1e-9, 1.0) == SEEDS_CAP


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_upper_bound_of_the_sd_holds_in_80_percent_of_pilots(n):
    sds = np.random.default_rng(n).normal(size=(50_000, n)).std(1, ddof=1)
    assert np.mean([sd_upper_bound(sd, n) >= 1 for sd in sds]) == pytest.approx(0.8, abs=0.01)


def test_a_study_planned_with_the_upper_bound_realises_its_power():
    """Pilots of 5; the mean power at the planned n, over pilots, is at least 85 % although each SD is a guess."""
    pilots = np.random.default_rng(7).normal(size=(400, 5)).std(1, ddof=1)
    planned = [seeds_needed(sd, 5, 1.0)[1] for sd in pilots]
    assert np.mean([difference_power(n, 1.0, 1.0) for n in planned]) >= 0.85
    assert np.mean([equivalence_power(n, 1.0, 1.0) for n in planned]) >= 0.85
