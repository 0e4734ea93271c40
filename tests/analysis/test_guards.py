import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.guards import Run, alarms, divergence, refuse_unfair, too_neat

FLOORS = {"uniform": 7.09, "unigram": 5.51}
ARMS = ("base", "wide", "narrow")


def run(arm="base", seed=0, **changes):
    return Run(arm, seed, True, 4.1 + seed / 100, math.nan, "ab" * 32, 1, 1000, 4.0, 0.3)._replace(**changes)


def table(**changes):
    """Three arms, four seeds, with `changes` to (wide, seed 2)."""
    runs = [run(arm, seed) for arm in ARMS for seed in range(4)]
    return [r._replace(**changes) if (r.arm, r.seed) == ("wide", 2) else r for r in runs]


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


def names(losses, arms=None):
    return [alarm.name for alarm in alarms(losses, arms or tuple(losses), FLOORS)]


def normal(n, seed=0, mean=4.1, sd=0.02):
    return dict(enumerate(np.random.default_rng(seed).normal(mean, sd, n).tolist()))


def test_healthy_losses_raise_no_alarm():
    assert names({"base": normal(5), "wide": normal(5, 1)}) == []


def test_two_seeds_are_few():
    (alarm,) = alarms({"base": normal(3), "wide": normal(2, 1), "narrow": {}}, ("base", "wide", "narrow"), FLOORS)
    assert alarm.arms == ("wide", "narrow")
    assert "wide (2), narrow (0)" in alarm.sentence


def test_bit_equal_losses_of_two_arms_on_a_seed_are_too_neat():
    base = normal(4)
    wide = normal(4, 1) | {2: base[2]}
    (alarm,) = alarms({"base": base, "wide": wide}, ("base", "wide"), FLOORS)
    assert (alarm.name, alarm.arms) == ("equal losses", ("base", "wide"))
    assert "seed 2" in alarm.sentence
    assert too_neat(list(wide.values()), list(base.values()))
    assert names({"base": base, "fixed order": wide}, ("base",)) == []  # not compared, so no twin


def test_a_seed_that_changes_nothing_is_seen():
    same = dict.fromkeys(range(4), 4.2)
    assert names({"base": normal(4), "wide": same}) == ["zero seed variance"]
    assert too_neat(list(same.values()), list(normal(4).values()))


def test_a_constant_shift_is_seen():
    base = normal(4)
    assert names({"base": base, "wide": {seed: loss + 0.1 for seed, loss in base.items()}}) == ["constant shift"]
    assert too_neat([loss + 0.1 for loss in base.values()], list(base.values()))


@pytest.mark.parametrize(
    ("loss", "named"), [(5.357, None), (5.495, None), (5.505, "unigram"), (5.6, "unigram"), (7.085, "uniform")]
)
def test_a_model_that_ignores_its_input_is_named_with_the_baseline_that_it_reaches(loss, named):
    found = alarms({"base": normal(4), "stuck": normal(4, 1, mean=loss, sd=1e-4)}, ("base", "stuck"), FLOORS)
    assert [a.name for a in found] == (["ignores its input"] if named else [])
    assert all(f"the {named} baseline" in a.sentence for a in found)


@pytest.mark.parametrize(("n", "at_most"), [(3, 0.01), (5, 0.001)])
def test_healthy_pairs_seldom_look_too_neat(n, at_most):
    """Correlation 0.8 between arms of a seed: false alarms at most 1 % at n = 3, 0.1 % at n = 5."""
    rng = np.random.default_rng(n)
    shared, own_a, own_b = rng.normal(size=(3, 8_000, n))
    a, b = (0.8**0.5 * shared + 0.2**0.5 * own for own in (own_a, own_b))
    found = [
        alarms({"a": dict(enumerate(x)), "b": dict(enumerate(y))}, ("a", "b"), {}) for x, y in zip(a, b, strict=True)
    ]
    assert np.mean([bool(f) for f in found]) <= at_most + 0.001
    assert not any(too_neat(x, y) for x, y in zip(a[:500], b[:500], strict=True))


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
