import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.guards import EXACT, Run, divergence, refuse_unfair, too_neat

ARMS = ("base", "wide", "narrow")


def run(arm="base", seed=0, **changes):
    return Run(arm, seed, True, 4.1 + seed / 100, math.nan, "ab" * 32, 1, 1000, 4.0, 0.3)._replace(**changes)


def table(**changes):
    """Three arms, four seeds, with `changes` to (wide, seed 2)."""
    runs = [run(arm, seed) for arm in ARMS for seed in range(4)]
    return [r._replace(**changes) if (r.arm, r.seed) == ("wide", 2) else r for r in runs]


def test_rates_of_divergence_are_compared_by_the_test_that_is_named():
    """Ten runs a side: by Boschloo's test 4 of 10 against none differ (SciPy: 0.033), by Fisher's they would not."""
    counts = {"a": (4, 6), "b": (0, 10)}
    assert "Boschloo's exact test, p = 0.033" in divergence(counts)[1]
    assert stats.fisher_exact(list(counts.values())).pvalue > 0.05


def test_fair_runs_pass():
    refuse_unfair(table(), ARMS)
    refuse_unfair([], ARMS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus_sha256": "cd" * 32}, "wide seed 2 with corpus_sha256 cdcd.* instead of abab"),
        ({"recipe_version": 2}, "wide seed 2 with recipe_version 2 instead of 1"),
        ({"tokens": 999}, "wide seed 2 with tokens 999 instead of 1000"),
        ({"loss": math.nan}, "without a finite loss: wide seed 2"),
        ({"loss": math.inf}, "without a finite loss: wide seed 2"),
        ({"seed": 1}, "More than one run of the same arm and seed: wide seed 1"),
        ({"arm": "wider"}, "not in this study: wider. Its arms: base, wide, narrow"),
    ],
)
def test_unfair_runs_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        refuse_unfair(table(**changes), ARMS)


def test_every_offender_is_listed():
    runs = [*table(tokens=999), run("base", 9, recipe_version=2), run("narrow", 9, tokens=999)]
    with pytest.raises(
        ValueError, match=r"base seed 9 with recipe_version 2 .*wide seed 2, narrow seed 9 with tokens 999"
    ):
        refuse_unfair(runs, ARMS)


def test_a_diverged_run_stopped_early_and_that_is_fair():
    refuse_unfair(table(completed=False, loss=math.nan, tokens=10), ARMS)


def test_a_study_of_budgets_needs_equal_tokens_only_within_an_arm():
    runs = [run(arm, seed, tokens=1000 * (1 + ARMS.index(arm))) for arm in ARMS for seed in range(3)]
    with pytest.raises(ValueError, match="tokens"):
        refuse_unfair(runs, ARMS)
    refuse_unfair(runs, ARMS, own_budgets=True)
    with pytest.raises(ValueError, match="base seed 9 with tokens 1 instead of 1000"):
        refuse_unfair([*runs, run("base", 9, tokens=1)], ARMS, own_budgets=True)


def normal(n, seed=0, mean=4.1, sd=0.02):
    return np.random.default_rng(seed).normal(mean, sd, n)


def test_measurements_are_not_too_neat():
    assert not too_neat(normal(5), normal(5, 1))
    assert not too_neat([], [])


def test_one_equal_pair_of_full_precision_is_too_neat():
    a, b = normal(6), normal(6, 1)
    b[2] = a[2]
    assert too_neat(a, b)
    assert too_neat(a[:1], a[:1])


@pytest.mark.parametrize("places", [2, 3, 4])
def test_rounded_losses_that_tie_here_and_there_are_measurements(places):
    """Ten seeds with an SD of 0.01: three places tie in one pair of arms in three."""
    rng = np.random.default_rng(places)
    pairs = np.round(rng.normal(4.1, 0.01, (500, 2, 10)), places)
    tied = (pairs[:, 0] == pairs[:, 1]).any(1)
    assert tied.any()
    assert not any(too_neat(a, b) for a, b in pairs)


def test_rounded_losses_that_tie_on_nearly_every_seed_are_not():
    a = np.round(normal(10, sd=0.01), 4)
    b = a.copy()
    b[0] += 0.0123
    assert too_neat(a, b)


def test_losses_that_do_not_vary_are_too_neat():
    assert too_neat(np.full(4, 4.2), normal(4))
    assert too_neat(normal(4) + 0.1, normal(4))


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
def test_divergence_is_silent_a_condition_or_a_reason(bad_a, good_a, bad_b, good_b):
    given_, because = divergence({"a": (bad_a, good_a), "b": (bad_b, good_b)})
    assert not (given_ and because)
    assert bool(given_ or because) == bool(bad_a or bad_b)
    assert f"{bad_a} of {bad_a + good_a} runs of a" in (given_ or because or f"{bad_a} of {bad_a + good_a} runs of a")


def test_rates_of_divergence_that_differ_are_a_reason():
    assert divergence({"a": (0, 10), "b": (0, 10)}) == ("", "")
    assert divergence({"a": (1, 9), "b": (0, 10)})[0].startswith("Given convergence (1 of 10 runs of a and 0 of 10")
    assert "rates of divergence differ" in divergence({"a": (6, 4), "b": (0, 10)})[1]


@pytest.mark.parametrize(
    ("bad", "good"), [((9, 0), (51, 60)), ((2, 1), (998, 999)), ((40_000, 39_000), (460_000, 461_000))]
)
def test_large_counts_are_compared_by_fishers_test(bad, good):
    table = {arm: (b, g) for arm, b, g in zip("ab", bad, good, strict=True)}
    assert sum(bad) + sum(good) > EXACT
    p = stats.fisher_exact(list(table.values())).pvalue
    given_, because = divergence(table)
    assert bool(because) == (p < 0.05)
    assert bool(given_) == (p >= 0.05)
    if because:
        assert f"Fisher's exact test, p = {p:.2g}" in because


def test_runs_of_which_only_the_loss_is_known_are_not_refused():
    runs = [run(arm, seed, corpus_sha256="", recipe_version=0, tokens=0) for arm in ARMS for seed in range(3)]
    refuse_unfair(runs, ARMS)
