import math
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from analysis.intervals import paired_difference
from analysis.verdict import Verdict, decide, decimals, equivalence_p, holm, holm_shaffer, seeds_text, sentence

P = st.floats(0, 1).map(lambda p: p**3)
FAMILIES = st.lists(st.tuples(P, P), min_size=1, max_size=4)


def adjusted(family):
    return np.column_stack(holm_shaffer([d for d, _ in family], [e for _, e in family]))


def by_enumeration(family):
    """Shaffer's step-down, slowly: list every state of the truth and count the hypotheses that may yet be true."""
    states = [
        {(arm, which) for arm, which in enumerate(state) if which is not None}
        for state in product([0, 1, None], repeat=len(family))  # an arm's D true, its E true, or neither
    ]
    result, rejected, largest = np.empty((len(family), 2)), set(), 0.0
    for p, key in sorted((family[arm][which], (arm, which)) for arm in range(len(family)) for which in (0, 1)):
        most = max(len(true) for true in states if not true & rejected)
        largest = max(largest, min(1.0, p * most))
        result[key] = largest
        rejected.add(key)
    return result


@given(FAMILIES)
def test_shaffer_is_its_definition(family):
    np.testing.assert_allclose(adjusted(family), by_enumeration(family))


@settings(max_examples=10)  # statsmodels takes 70 ms a call
@given(FAMILIES)
def test_adjusted_lies_between_raw_and_holm_over_all_hypotheses(family):
    raw = np.array(family)
    holm = multipletests(raw.ravel(), method="holm")[1].reshape(raw.shape)
    assert (adjusted(family) >= raw).all()
    assert (adjusted(family) <= holm + 1e-12).all()


@given(P, P)
def test_one_arm_needs_no_correction(d, e):
    np.testing.assert_array_equal(adjusted([(d, e)]), [[d, e]])


@given(FAMILIES, st.randoms(use_true_random=False))
def test_the_order_of_arms_does_not_matter(family, random):
    order = random.sample(range(len(family)), len(family))
    np.testing.assert_array_equal(adjusted([family[i] for i in order]), adjusted(family)[order])


@given(FAMILIES)
def test_an_arm_without_p_values_counts_but_never_decides(family):
    with_nan = adjusted([*family, (math.nan, math.nan)])
    assert np.isnan(with_nan[-1]).all()
    np.testing.assert_array_equal(with_nan[:-1], adjusted([*family, (1.0, 1.0)])[:-1])


@settings(max_examples=10)
@given(st.lists(P, min_size=1, max_size=6))
def test_one_hypothesis_an_arm_is_holms(p):
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])


def test_no_arms_no_p_values():
    assert [len(p) for p in holm_shaffer([], [])] == [0, 0]


@given(st.integers(2, 10), st.floats(0.005, 0.1), st.integers(0, 2**32 - 1))
def test_equivalence_p_is_statsmodels_tost_and_agrees_with_the_90_percent_interval(n, margin, seed):
    a, b = np.random.default_rng(seed).normal(4.1, 0.03, (2, n))
    pair = paired_difference(a, b)
    p = equivalence_p(pair, margin)
    assert p == pytest.approx(ttost_paired(a, b, -margin, margin)[0], abs=1e-12)
    assert (p < 0.05) == (-margin < pair.interval90.low and pair.interval90.high < margin)


def test_equal_losses_are_not_equivalent_by_infinite_evidence():
    a = np.array([4.1, 4.2, 4.15])
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        assert ttost_paired(a, a, -0.02, 0.02)[0] == 0  # what would otherwise be believed
    assert math.isnan(equivalence_p(paired_difference(a, a), 0.02))


@pytest.mark.parametrize(
    ("difference", "p_difference", "p_equivalence", "verdict"),
    [
        (-0.1, 0.01, 0.9, Verdict.BETTER),
        (0.1, 0.01, 0.9, Verdict.WORSE),
        (0.001, 0.6, 0.01, Verdict.EQUIVALENT),
        (-0.01, 0.01, 0.01, Verdict.BETTER_WITHIN_MARGIN),
        (0.01, 0.01, 0.01, Verdict.WORSE_WITHIN_MARGIN),
        (0.02, 0.2, 0.4, Verdict.UNDECIDED),
        (0.02, 0.05, 0.05, Verdict.UNDECIDED),
        (0.02, math.nan, math.nan, Verdict.UNDECIDED),
    ],
)
def test_the_rule(difference, p_difference, p_equivalence, verdict):
    assert decide(3, difference, p_difference, p_equivalence) is verdict
    assert decide(2, difference, p_difference, p_equivalence) is Verdict.UNDECIDED


def simulated_verdicts(truth, margin, n, replications, rng):
    """Verdicts of three arms against one shared baseline, p-values by SciPy alone: [replications, 3]."""
    baseline = rng.normal(size=(replications, 1, n))
    d = truth + rng.normal(size=(replications, 3, n)) - baseline
    p_difference = stats.ttest_1samp(d, 0.0, axis=-1).pvalue
    sides = [
        stats.ttest_1samp(d, m, axis=-1, alternative=a).pvalue for m, a in [(-margin, "greater"), (margin, "less")]
    ]
    p_equivalence, mean = np.maximum(*sides), d.mean(-1)
    rows = []
    for differences, p_d, p_e in zip(mean, p_difference, p_equivalence, strict=True):
        rows.append([decide(n, *row) for row in zip(differences, *holm_shaffer(p_d, p_e), strict=True)])
    return rows


WITHIN = {Verdict.BETTER_WITHIN_MARGIN, Verdict.WORSE_WITHIN_MARGIN}
DIFFERENT = {Verdict.BETTER, Verdict.WORSE} | WITHIN
SAME = {Verdict.EQUIVALENT} | WITHIN


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("margin", [0.5, 2.0])
def test_at_no_difference_a_study_of_three_arms_seldom_calls_any_different(n, margin):
    """Family-wise at most 5.5 % + 1 point of Monte Carlo error; three uncorrected arms would give over 10 %."""
    rows = simulated_verdicts(0.0, margin, n, 4_000, np.random.default_rng(n))
    assert np.mean([any(verdict in DIFFERENT for verdict in row) for row in rows]) <= 0.055 + 0.01


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_at_a_difference_of_the_margin_a_study_of_three_arms_seldom_calls_any_equivalent(n):
    rows = simulated_verdicts(2.0, 2.0, n, 4_000, np.random.default_rng(40 + n))
    assert np.mean([any(verdict in SAME for verdict in row) for row in rows]) <= 0.055 + 0.01


def test_the_verdict_finds_what_there_is():
    """Power: SD of the differences 1.41, n = 20; a difference of 2 and, elsewhere, none within a margin of 2."""
    rng = np.random.default_rng(5)
    far = simulated_verdicts(2.0, 0.5, 20, 300, rng)
    near = simulated_verdicts(0.0, 2.0, 20, 300, rng)
    assert np.mean([verdict is Verdict.WORSE for row in far for verdict in row]) > 0.95
    assert np.mean([verdict in SAME for row in near for verdict in row]) > 0.95


@pytest.mark.parametrize(
    ("error", "places"), [(0.0084, 3), (0.02, 3), (0.03, 2), (0.31, 1), (3.0, 0), (80.0, 0), (math.nan, 4), (0.0, 4)]
)
def test_numbers_are_rounded_by_their_standard_error(error, places):
    assert decimals(error) == places


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        ((14, 22), "14 to 22"),
        ((20, 20), "20"),
        ((4205, 10_000), "4,205 to more than 10,000"),
        ((10_000,) * 2, "more than 10,000"),
    ],
)
def test_seeds_in_words(seeds, text):
    assert seeds_text(seeds) == text


PAIR = paired_difference([4.181, 4.19, 4.162, 4.17], [4.15, 4.151, 4.149, 4.147])


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (Verdict.WORSE, "wide is worse than base by 0.026 nats (95 % interval 0.009 to 0.044, 4 paired seeds)."),
        (
            Verdict.WORSE_WITHIN_MARGIN,
            "wide is worse than base by 0.026 nats (95 % interval 0.009 to 0.044, 4 paired seeds); "
            "that is within the margin of ±0.05, too little to matter.",
        ),
        (
            Verdict.EQUIVALENT,
            "wide and base are equivalent: the difference lies within the margin of ±0.05 nats "
            "(+0.026, 90 % interval 0.013 to 0.040, 4 paired seeds). Taken alone the difference is not zero either; "
            "corrected for the other comparisons that is open.",
        ),
    ],
)
def test_sentences(verdict, text):
    assert sentence(verdict, PAIR, ("wide", "base"), "nats", 0.05, "4 paired seeds") == text


def test_a_better_arm_is_better_by_a_positive_amount():
    pair = paired_difference([4.15, 4.151, 4.149, 4.147], [4.181, 4.19, 4.162, 4.17])
    text = "wide is better than base by 0.026 nats (95 % interval 0.009 to 0.044, 4 paired seeds)."
    assert sentence(Verdict.BETTER, pair, ("wide", "base"), "nats", 0.05, "4 paired seeds") == text


def test_an_undecided_sentence_says_how_many_seeds_would_decide():
    pair = paired_difference([4.11, 4.19, 4.12, 4.17], [4.15, 4.151, 4.149, 4.147])
    assert sentence(Verdict.UNDECIDED, pair, ("wide", "base"), "nats", 0.02, "4 paired seeds", seeds=(14, 22)) == (
        "wide against base is undecided: the difference is −0.002 nats (95 % interval −0.063 to 0.060, "
        "4 paired seeds), the margin ±0.02. About 14 to 22 seeds per arm in all would decide with 80 % power even if "
        "the true difference is only the margin, or none."
    )
    both = sentence(
        Verdict.UNDECIDED, pair, ("a", "b"), "", 0.02, "4 seeds", seeds=(694, 3097), seeds_as_measured=(5, 11)
    )
    assert both.endswith(
        "About 694 to 3,097 seeds per arm in all would decide with 80 % power even if the true difference is only the "
        "margin, or none; if it is as large as measured, 5 to 11."
    )
    one = paired_difference([4.11], [4.15])
    assert sentence(Verdict.UNDECIDED, one, ("wide", "base"), "nats", 0.02, "1 paired seed").endswith(
        "1 paired seed is there, and a verdict needs at least 3."
    )


def test_a_sentence_without_unit_or_margin_has_neither():
    pair = paired_difference([4.11, 4.19, 4.12, 4.17], [4.15, 4.151, 4.149, 4.147])
    assert sentence(Verdict.UNDECIDED, pair, ("wide", "base"), "", None, "4 paired seeds") == (
        "wide against base is undecided: the difference is −0.002 (95 % interval −0.063 to 0.060, 4 paired seeds)."
    )


def test_the_smallest_error_there_is_has_decimals_too() -> None:
    assert decimals(5e-324) == 324
