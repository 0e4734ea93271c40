import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from analysis.intervals import paired_difference
from analysis.sequential import LOOKS, confidence_sequence, log_e, looks_up_to, open_ended, spend
from analysis.spending import calibrate, spending

EVERY_SEED = tuple(range(3, 21))
SCHEDULES = [LOOKS, EVERY_SEED, (3, 20), (5, 10, 15, 20), (3, 5, 8, 10)]
UNTIMED = settings(deadline=None)  # the first example finds thresholds, the others have them


def plan(looks):
    return spending(looks, tuple(look / looks[-1] for look in looks))


def lower_p(x_RN, looks, mean=0.0):
    """One-sided p of "the mean is `mean` or more" at each look: [looks, R]."""
    rows = [x_RN[:, :n] - mean for n in looks]
    t = [d.mean(1) / d.std(1, ddof=1) * d.shape[1] ** 0.5 for d in rows]
    return np.array([special.stdtr(n - 1, of) for n, of in zip(looks, t, strict=True)])


def two_sided(p):
    return 2 * np.minimum(p, 1 - p)


def lognormal(rng, shape):
    """Of skew 3.3, mean 0 and SD 1."""
    s = 0.7156
    return (np.exp(s * rng.normal(size=shape)) - math.exp(s**2 / 2)) / (math.expm1(s**2) * math.exp(s**2)) ** 0.5


def scenario(name, rng, replications=8_000, n=20):
    """Per-seed differences of two arms of the same mean: [replications, n]."""
    shape = (2, replications, n)
    if name == "lognormal":
        arm, baseline = lognormal(rng, shape)
    elif name == "t3":
        arm, baseline = rng.standard_t(3, shape)
    elif name == "5 % diverged":
        arm, baseline = rng.normal(size=shape) + 20 * (rng.random(shape) < 0.05)
    else:
        arm, baseline = rng.normal(size=shape)
        if name == "SD 1:3":
            arm = 3 * arm
        if name == "negative correlation":
            arm = 0.75**0.5 * arm - 0.5 * baseline
    return arm - baseline


MAIN = ["normal", "SD 1:3", "negative correlation", "lognormal", "t3", "5 % diverged"]


def stream(*of):
    return np.random.default_rng([41, *(ord(letter) for part in of for letter in str(part))])


# Looks


@pytest.mark.parametrize(
    ("most", "looks"),
    [
        (3, (3,)),
        (4, (3, 4)),
        (10, (3, 5, 8, 10)),
        (20, LOOKS),
        (21, (*LOOKS, 21)),
        (80, (*LOOKS, 40, 80)),
        (100, (*LOOKS, 40, 80, 100)),
    ],
)
def test_looks_lead_up_to_the_most_seeds(most, looks):
    assert looks_up_to(most) == looks


@pytest.mark.parametrize("most", [-1, 0, 2])
def test_too_few_seeds_are_refused(most):
    with pytest.raises(ValueError, match=f"needs 3 seeds or more, got at most {most}"):
        looks_up_to(most)


# Thresholds


def test_thresholds_are_the_known_table():
    """The table has them from 200,000 draws, good to 2 to 3 %."""
    assert plan(LOOKS).thresholds(0.05) == pytest.approx((0.0075, 0.0058, 0.0091, 0.0136, 0.0263), rel=0.03)


@pytest.mark.parametrize("alpha", [1e-7, 1e-4, 0.05, 0.10, 1.0])
@pytest.mark.parametrize("looks", SCHEDULES)
def test_the_first_look_spends_its_share_exactly_and_none_less_than_bonferroni(looks, alpha):
    found = plan(looks)
    assert found.thresholds(alpha)[0] == pytest.approx(alpha * looks[0] / looks[-1], rel=1e-9)
    assert all(p >= alpha * share * 0.98 for p, share in zip(found.thresholds(alpha), found.shares, strict=True))
    assert sum(found.shares) == pytest.approx(1)


@pytest.mark.parametrize("looks", [LOOKS, EVERY_SEED, (3, 5, 8, 10)])
def test_each_look_spends_what_it_may(looks):
    """Against plain simulation of whole studies, which is how the thresholds are not found."""
    p = two_sided(lower_p(stream("spent", looks).normal(size=(60_000, looks[-1])), looks))
    for alpha in (0.05, 0.3):
        hit = p <= np.array(plan(looks).thresholds(alpha))[:, None]
        first = hit & (np.cumsum(hit, axis=0) == 1)
        expected = alpha * np.array(plan(looks).shares)
        np.testing.assert_allclose(first.mean(1), expected, atol=4 * (expected.max() / 60_000) ** 0.5)


@given(st.lists(st.integers(1, 15), min_size=1, max_size=6, unique=True).map(sorted), st.integers(0, 99))
@settings(UNTIMED, max_examples=15)
def test_thresholds_rise_with_alpha_and_come_from_the_generator(looks, seed):
    fractions = [look / 15 for look in looks]
    one, same = (calibrate(looks, fractions, np.random.default_rng(seed), draws=5_000) for _ in range(2))
    np.testing.assert_array_equal(one.table, same.table)
    at = [one.thresholds(alpha) for alpha in (1e-6, 1e-4, 0.01, 0.05, 0.1, 0.5, 1)]
    for low, high in pairwise(at):
        assert all(a < b or a == b == 0 for a, b in zip(low, high, strict=True))


def test_one_look_more_changes_nothing_before_it():
    whole = plan(LOOKS)
    for taken in range(1, len(LOOKS)):
        part = spending(whole.counts[:taken], whole.fractions[:taken])
        assert part.thresholds(0.05) == whole.thresholds(0.05)[:taken]
    assert spending((), ()).thresholds(0.05) == ()


def test_a_look_that_cannot_reject_leaves_its_error_to_the_next():
    """Two pairs at first, and a look whose new seeds all diverged."""
    found = spending((2, 5, 5, 8), (0.15, 0.25, 0.4, 1.0))
    assert found.thresholds(0.05)[::2] == (0, 0)
    assert found.thresholds(0.05)[1] == pytest.approx(0.05 * 0.25)
    assert found.shares == pytest.approx((0, 0.25, 0, 0.75))
    straight = spending((5, 8), (0.25, 1.0))
    assert found.thresholds(0.05)[3] == pytest.approx(straight.thresholds(0.05)[1], rel=0.02)
    assert found.repeated_p([1e-9, 0.9, 1e-9, 0.9]) > 0.8


@pytest.mark.parametrize(
    ("counts", "fractions", "message"), [((3, 5), (0.5, 0.5), "increase"), ((5, 3), (0.5, 1), "fewer")]
)
def test_looks_out_of_order_are_our_mistake(counts, fractions, message):
    with pytest.raises(AssertionError, match=message):
        spending(counts, fractions)


# Repeated p-values


@UNTIMED
@given(st.floats(0, 1))
def test_a_single_look_has_the_p_that_it_has(p):
    assert spending((7,), (1.0,)).repeated_p([p]) == pytest.approx(p)


@UNTIMED
@given(st.integers(0, 4), st.floats(1e-7, 1).map(lambda a: a**2))
def test_the_repeated_p_inverts_the_thresholds(look, alpha):
    found = plan(LOOKS)
    threshold = found.thresholds(max(alpha, 1e-12))[look]
    before = [math.nan] * look
    assert found.repeated_p([*before, threshold]) <= max(alpha, 1e-5) * (1 + 1e-9)
    assert found.repeated_p([*before, min(1.0, threshold * 1.001)]) >= min(alpha, 1) * (1 - 1e-9)


P = st.floats(0, 1).map(lambda p: p**4)


@UNTIMED
@given(st.lists(P | st.just(math.nan), min_size=1, max_size=5), P)
def test_a_repeated_p_only_falls_and_rejects_when_a_look_does(p_values, alpha):
    found = plan(LOOKS)
    repeated = found.repeated_p(p_values)
    assert 0 <= repeated <= found.repeated_p(p_values[:-1]) <= 1
    if alpha > 1e-5:
        rejects = any(p <= t for p, t in zip(p_values, found.thresholds(alpha), strict=False))
        assert rejects == (repeated <= alpha) or repeated == pytest.approx(alpha)
    assert found.repeated(np.array([p_values, p_values]).T).tolist() == [repeated, repeated]


def test_no_p_value_never_rejects():
    assert plan(LOOKS).repeated_p([math.nan] * 5) == 1
    assert plan(LOOKS).repeated_p([]) == 1


@pytest.mark.parametrize("looks", SCHEDULES)
def test_a_repeated_p_is_valid_at_every_alpha(looks):
    """P(p <= a) is a, by simulation, from a thousandth to 90 %."""
    p = plan(looks).repeated(two_sided(lower_p(stream("valid", looks).normal(size=(40_000, looks[-1])), looks)))
    for a in (0.001, 0.01, 0.05, 0.1, 0.5, 0.9):
        assert np.mean(p <= a) == pytest.approx(a, abs=4 * (a * (1 - a) / 40_000) ** 0.5 + 0.005 * a)


# Error rates of adding seeds until decided


@pytest.mark.parametrize("name", MAIN)
def test_spending_keeps_the_error_rate_where_naive_peeking_does_not(name):
    """At no difference at most 5.6 % + 1 point for each schedule; the naive control is over 15 % on normal losses."""
    d = scenario(name, stream("difference", name))
    for looks in SCHEDULES:
        p = two_sided(lower_p(d, looks))
        assert np.mean(plan(looks).repeated(p) <= 0.05) <= 0.056 + 0.01
        if name == "normal" and looks in (LOOKS, EVERY_SEED):
            assert np.mean((p <= 0.05).any(0)) >= (0.15 if looks == LOOKS else 0.20)


@pytest.mark.parametrize("name", MAIN)
def test_at_a_difference_of_the_margin_few_studies_are_called_equivalent(name):
    """At most 5.5 % + 1 point, by spending and by the e-process; margins of 0.5 and 2 SD of the differences."""
    d = scenario(name, stream("equivalence", name))
    for margin in (0.5 * d.std(), 2 * d.std()):
        for looks in (LOOKS, EVERY_SEED):
            ends = lower_p(d + margin, looks, margin), 1 - lower_p(d + margin, looks, -margin)
            p = np.maximum(*(plan(looks).repeated(2 * p) for p in ends)) / 2
            assert np.mean(p <= 0.05) <= 0.055 + 0.01
    # The nearer end alone, which bounds what both say.
    inner = np.cumsum(d, axis=1).T[1:] < 0
    assert np.mean((inner & (log_e_along(d) >= math.log(10))).any(0)) <= 0.055 + 0.01


def test_a_difference_of_one_sd_is_found_with_13_seeds_on_average():
    """Looks 3, 5, 8, 12, 20: power at least 96 %, at most 13 seeds."""
    p = two_sided(lower_p(stream("power").normal(1, 1, size=(20_000, 20)), LOOKS))
    rejects = p <= np.array(plan(LOOKS).thresholds(0.05))[:, None]
    seeds = np.where(rejects.any(0), np.array(LOOKS)[rejects.argmax(0)], LOOKS[-1])
    assert rejects.any(0).mean() >= 0.96
    assert seeds.mean() <= 13


@pytest.mark.parametrize("name", MAIN)
def test_the_e_process_keeps_the_error_rate_whenever_one_looks(name):
    """At every n from 2 to 20, at most 3 % + 1 point."""
    d = scenario(name, stream("e", name))
    assert np.mean(log_e_along(d).max(0) >= math.log(20)) <= 0.03 + 0.01


def test_a_confidence_sequence_covers_at_all_n_together():
    """95 % and 90 %, normal differences, n = 2 to 60."""
    logs = log_e_along(stream("sequence").normal(size=(20_000, 60))).max(0)
    assert np.mean(logs < math.log(20)) >= 0.95
    assert np.mean(logs < math.log(10)) >= 0.90


def log_e_along(d_RN, g=0.25):
    """The formula at each n from 2 on: [n, R]."""
    n = np.arange(1, d_RN.shape[1] + 1)
    s, v = np.cumsum(d_RN, axis=1), np.cumsum(d_RN**2, axis=1)
    return (0.5 * np.log(g / (n + g)) + n / 2 * np.log((n + g) * v / ((n + g) * v - s**2))).T[1:]


# The e-process


@given(st.integers(2, 30), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_log_e_is_the_formula_and_has_no_unit(n, shift, seed):
    x = np.random.default_rng(seed).normal(shift, 1, n)
    assert log_e(x) == pytest.approx(log_e_along(x[None])[-1, 0])
    assert log_e(x) == pytest.approx(log_e(-1e-3 * x), abs=1e-9)
    assert log_e(x + 4, 4) == pytest.approx(log_e(x), abs=1e-9)


@pytest.mark.parametrize(("x", "g"), [([0.3, 1.1], 0.25), ([0.3, 1.1, -0.4, 2.0, 0.9], 0.25), ([1.0, 1.5, 0.8], 2.0)])
def test_log_e_is_a_mixture_of_likelihood_ratios(x, g):
    """Normal effects of variance 1 / g in SD, the SD itself integrated over its right Haar measure, numerically."""
    x = np.asarray(x)
    n, s, v = len(x), x.sum(), (x**2).sum()

    def likelihood(effect):
        """Of an effect in SD, with the scale integrated out: int sd^-(n+1) exp(-sum((x / sd - effect)^2) / 2) dsd."""
        of = lambda r: r ** (n - 1) * math.exp(-(v * r * r - 2 * effect * s * r + n * effect**2) / 2)  # noqa: E731
        return integrate.quad(of, 0, 30, limit=200)[0]

    mixed = integrate.quad(lambda d: stats.norm.pdf(d, 0, g**-0.5) * likelihood(d), -30, 30, limit=200)[0]
    assert log_e(x, 0.0, g) == pytest.approx(math.log(mixed / likelihood(0.0)), abs=1e-4)


def test_log_e_of_little():
    assert log_e([]) == 0
    assert log_e([3.0]) == pytest.approx(0)
    assert log_e([0.0, 0.0]) < 0


@given(st.integers(2, 30), st.floats(-3, 3), st.sampled_from([0.9, 0.95, 0.999]), st.integers(0, 2**32 - 1))
def test_a_confidence_sequence_is_where_e_stays_small(n, shift, confidence, seed):
    x = np.random.default_rng(seed).normal(shift, 0.01, n)
    interval, limit = confidence_sequence(x, confidence), -math.log(1 - confidence)
    if math.isinf(interval.high):
        assert math.isinf(interval.low)
        assert log_e(x, 1e6) < limit
        return
    for end, outside in ((interval.low, -1), (interval.high, 1)):
        assert log_e(x, end) == pytest.approx(limit, abs=1e-6)
        assert log_e(x, end + outside * 1e-4) > limit
    assert log_e(x, x.mean()) < limit


def test_few_values_bound_nothing_and_none_are_unknown():
    assert confidence_sequence([1.0, 1.1, 1.2], 0.95).high == math.inf
    assert confidence_sequence([1.0, 1.1, 1.2, 1.15, 1.05, 1.08], 0.95).high < 2
    for x in ([], [1.0], [1.0, 1.0, 1.0, 1.0, 1.0]):
        assert math.isnan(confidence_sequence(x, 0.95).low)


# Paths


def by_look(x, looks):
    return [x[:n] for n in looks]


PATHS = st.builds(
    lambda taken, mean, seed: (LOOKS[:taken], np.random.default_rng(seed).normal(mean, 1, 20)),
    st.integers(1, 5),
    st.floats(-2, 2),
    st.integers(0, 2**32 - 1),
)


@UNTIMED
@given(PATHS, st.floats(0.1, 3))
def test_a_path_of_declared_looks_agrees_with_its_intervals(path, margin):
    looks, x = path
    found, thresholds = spend(by_look(x, looks), looks, 20, margin), plan(LOOKS).thresholds(0.05)
    assert [look.seeds for look in found.looks] == [look.n for look in found.looks] == list(looks)
    for look, threshold in zip(found.looks, thresholds, strict=False):
        alone = paired_difference(x[: look.n], np.zeros(look.n))
        assert (look.difference, look.p_difference) == (alone.mean, alone.p_value)
        assert look.threshold == threshold
        assert (look.p_difference <= threshold) == (look.interval95.low > 0 or look.interval95.high < 0)
        assert (look.interval95.confidence, look.interval90.confidence) == (0.95, 0.90)
        assert look.interval95.low < look.interval90.low < look.difference < look.interval90.high
    now = found.looks[-1]
    assert (found.p_difference <= 0.05) == (not now.interval95.low <= 0 <= now.interval95.high)
    assert (found.p_equivalence <= 0.05) == (-margin < now.interval90.low and now.interval90.high < margin)


@given(PATHS, st.floats(0.1, 3))
def test_an_open_ended_path_agrees_with_its_intervals(path, margin):
    looks, x = path
    found = open_ended(by_look(x, looks), looks, margin)
    for look in found.looks:
        assert look.p_difference == pytest.approx(min(1, math.exp(-log_e(x[: look.n]))))
        assert (look.p_difference < 0.05) == (look.interval95.low > 0 or look.interval95.high < 0)
        assert (look.p_equivalence < 0.05) == (-margin < look.interval90.low and look.interval90.high < margin)
        assert look.threshold == 0.05
    now = found.looks[-1]
    assert (found.p_difference, found.p_equivalence) == (now.p_difference, now.p_equivalence)


@pytest.mark.parametrize("later", [(-0.02, 0.05), (0.2, 0.15)], ids=["wide", "against"])
@pytest.mark.parametrize("follow", [lambda d, m: spend(d, (3, 5), 20, m), lambda d, m: open_ended(d, (3, 5), m)])
def test_later_seeds_can_take_a_verdict_back(later, follow):
    """Three seeds agree almost too well, and the next two do not: the interval holds 0 then, so nothing is decided."""
    x = np.array([-0.100, -0.101, -0.099, *later])
    path = follow([x[:3], x], 0.02)
    assert path.looks[-1].interval95.low < 0 < path.looks[-1].interval95.high
    assert path.p_difference > 0.05
    assert path.p_equivalence > 0.05


@UNTIMED
@given(PATHS, st.floats(0.1, 3), st.floats(1e-3, 1e3))
def test_a_path_turns_with_the_sign_and_has_no_unit(path, margin, unit):
    looks, x = path
    for follow in (lambda d, m: spend(d, looks, 20, m), lambda d, m: open_ended(d, looks, m)):
        found, turned = follow(by_look(x, looks), margin), follow(by_look(-unit * x, looks), unit * margin)
        assert turned.p_difference == pytest.approx(found.p_difference, rel=1e-6)
        assert turned.p_equivalence == pytest.approx(found.p_equivalence, rel=1e-6)
        ends = [(look.interval95.low, look.interval95.high) for look in found.looks]
        back = [(-look.interval95.high / unit, -look.interval95.low / unit) for look in turned.looks]
        assert np.ravel(back) == pytest.approx(np.ravel(ends), rel=1e-6, abs=1e-9)


def test_a_fixed_design_is_a_path_of_one_look():
    x = np.random.default_rng(3).normal(0.3, 1, 10)
    path, alone = spend([x], [10], 10, 1.5), paired_difference(x, np.zeros(10))
    assert path.p_difference == pytest.approx(alone.p_value)
    assert path.p_equivalence == pytest.approx(stats.ttest_1samp(x, 1.5, alternative="less").pvalue)
    interval = path.looks[0].interval95
    assert (interval.low, interval.high) == pytest.approx((alone.interval95.low, alone.interval95.high))


def test_a_look_whose_new_seeds_diverged_keeps_what_was_known():
    x = np.random.default_rng(4).normal(2, 1, 20)
    path = spend([x[:2], x[:5], x[:5], x[:12]], LOOKS[:4], 20, 1.0)
    first, second, third, _ = path.looks
    assert (first.threshold, third.threshold) == (0, 0)
    assert (first.interval95.low, first.interval95.high) == (-math.inf, math.inf)
    assert third.interval95 == second.interval95
    assert path.p_difference < 0.05


@pytest.mark.parametrize("follow", [lambda d, m: spend(d, (3, 5), 20, m), lambda d, m: open_ended(d, (3, 5), m)])
@pytest.mark.parametrize(
    "x", [np.zeros(5), np.full(5, 0.25), 0.1 + 1e-14 * np.arange(5), 1e-15 * np.arange(5.0), np.ones(1), np.ones(0)]
)
def test_differences_that_do_not_vary_have_no_p_value_at_any_look(follow, x):
    path = follow([x[:3], x], 0.02)
    assert math.isnan(path.p_difference)
    assert math.isnan(path.p_equivalence)
    for look in path.looks:
        assert all(map(math.isnan, (look.p_difference, look.p_equivalence, look.interval95.low, look.interval90.high)))


@pytest.mark.parametrize("follow", [lambda d, m: spend(d, (3, 5), 20, m), lambda d, m: open_ended(d, (3, 5), m)])
def test_without_a_margin_nothing_is_equivalent(follow):
    x = np.random.default_rng(5).normal(2, 1, 5)
    path = follow([x[:3], x], math.nan)
    assert 0 < path.p_difference < 1
    assert all(map(math.isnan, (path.p_equivalence, *(look.p_equivalence for look in path.looks))))


def test_before_the_first_look_nothing_is_known():
    for path in (spend([], [], 20, 1.0), open_ended([], [], 1.0)):
        assert path.looks == ()
        assert math.isnan(path.p_difference)
        assert math.isnan(path.p_equivalence)
