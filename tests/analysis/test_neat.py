import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.neat import CHANCE, grain, shifted, spread, tied_by_chance


@pytest.mark.parametrize("places", range(9))
def test_decimal_places_are_found(places):
    losses = np.round(np.random.default_rng(places).normal(4.1, 0.5, 50), places)
    assert grain(losses) == pytest.approx(10.0**-places)


def test_few_bits_are_found_too():
    losses = np.random.default_rng(0).normal(4.1, 0.02, 50)
    assert grain(losses) == np.spacing(np.abs(losses).max())
    assert grain(losses.astype(np.float16)) == 2.0**-8
    assert 2.0**-23 <= grain(losses.astype(np.float32)) <= 2.0**-21


def test_one_loss_has_a_spread_of_its_own_size():
    assert spread([4.0]) == 0.004
    assert spread([4.0, 4.2]) == pytest.approx(0.2 / 2**0.5)


@pytest.mark.parametrize(("places", "rho"), [(2, 0.0), (3, 0.0), (3, 0.8), (4, 0.5)])
def test_rounding_ties_no_more_often_than_is_allowed_for(places, rho):
    """Two arms with the same mean and an SD of 0.01: the bound lies above the share of seeds on which they tie."""
    rng = np.random.default_rng([places, int(10 * rho)])
    shared, *own = rng.normal(size=(3, 400_000))
    a, b = (np.round(4.1 + 0.01 * (rho**0.5 * shared + (1 - rho) ** 0.5 * x), places) for x in own)
    once = tied_by_chance(1, 1, 10.0**-places, 0.01)
    assert (a == b).mean() <= once


@given(ties=st.integers(1, 10), more=st.integers(0, 10), places=st.integers(1, 9))
def test_the_chance_of_ties_is_binomial(ties, more, places):
    n, step, sd = ties + more, 10.0**-places, 0.02
    once = min(1.0, step / (0.5 * sd * math.sqrt(2 * math.pi)))
    exact = sum(math.comb(n, k) * once**k * (1 - once) ** (n - k) for k in range(ties, n + 1))
    assert float(tied_by_chance(ties, n, step, sd)) == pytest.approx(exact, rel=1e-6, abs=1e-300)


def test_one_tie_of_full_doubles_is_no_chance_and_one_of_three_decimals_is():
    assert tied_by_chance(1, 1_000, np.spacing(4.0), 0.01) < CHANCE
    assert tied_by_chance(3, 10, 1e-3, 0.01) > CHANCE
    assert tied_by_chance(10, 10, 1e-4, 0.01) < CHANCE
    assert tied_by_chance(1, 3, 1e-3, 0.0) == 0.0


@pytest.mark.parametrize(("n", "at_most"), [(3, 0.01), (5, 0.001), (8, 0.001)])
@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.8])
def test_healthy_pairs_seldom_look_shifted(n, at_most, rho):
    """Correlation up to 0.8 between arms of a seed: at most 1 % at n = 3, 0.1 % from n = 5."""
    rng = np.random.default_rng([n, int(100 + 10 * rho)])
    a, b = np.moveaxis(rng.multivariate_normal([4.1, 4.15], [[1, rho], [rho, 1]], size=(40_000, n)), -1, 0)
    assert shifted(a, b).mean() <= at_most


def test_a_shift_is_seen_and_a_measurement_is_not():
    base = np.random.default_rng(0).normal(4.1, 0.02, 6)
    other = np.random.default_rng(1).normal(4.1, 0.02, 6)
    assert shifted(base + 0.1, base)
    assert shifted(base + 0.1 + 1e-6 * other, base)
    assert not shifted(other, base)
