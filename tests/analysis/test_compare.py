import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.compare import Dropped, analyse, verdict_json
from analysis.intervals import paired_difference
from analysis.power import seeds_as_measured, seeds_needed
from analysis.verdict import Verdict, equivalence_p, holm_shaffer

BASE, WIDE, MIDDLE = "128x256", "96x552", "112x392"
MEANS = {BASE: 4.15, WIDE: 4.20, MIDDLE: 4.15}
MIRROR = {
    Verdict.BETTER: Verdict.WORSE,
    Verdict.WORSE: Verdict.BETTER,
    Verdict.BETTER_WITHIN_MARGIN: Verdict.WORSE_WITHIN_MARGIN,
    Verdict.WORSE_WITHIN_MARGIN: Verdict.BETTER_WITHIN_MARGIN,
}
SEEDED = st.integers(0, 2**32 - 1)
per_example = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def two_arms(snapshot):
    """A study of the baseline and one arm, so that nothing is corrected."""
    snapshot["arms"] = snapshot["arms"][:2]
    snapshot["runs"] = [run for run in snapshot["runs"] if run["arm"] != MIDDLE]
    return snapshot


def test_a_whole_study(snapshot, make_runs):
    runs = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(1))
    analysis = analyse(runs, snapshot)
    wide, middle = analysis.comparisons
    assert (wide.arm, wide.baseline, wide.n, wide.dropped) == (WIDE, BASE, 10, ())
    assert wide.verdict is Verdict.WORSE
    assert wide.seeds_needed is None
    assert middle.verdict is Verdict.EQUIVALENT
    assert [a.n for a in analysis.arms] == [10, 10, 10]
    assert analysis.arms[0].mean == pytest.approx(runs.loc[runs["arm"] == BASE, "val_loss"].mean())
    assert analysis.alarms == ()


def test_every_number_is_that_of_the_paired_losses(snapshot, make_runs):
    runs = make_runs(snapshot, MEANS, 0.03, np.random.default_rng(2), seeds=range(6))
    loss = runs.pivot(index="seed", columns="arm", values="val_loss")
    pairs = [paired_difference(loss[arm], loss[BASE]) for arm in (WIDE, MIDDLE)]
    p_difference, p_equivalence = [pair.p_value for pair in pairs], [equivalence_p(pair, 0.02) for pair in pairs]
    adjusted = zip(*holm_shaffer(p_difference, p_equivalence), strict=True)
    for c, pair, p_e, (d, e) in zip(analyse(runs, snapshot).comparisons, pairs, p_equivalence, adjusted, strict=True):
        assert (c.difference, c.sd, c.interval95, c.interval90) == (
            pair.mean,
            pair.sd,
            pair.interval95,
            pair.interval90,
        )
        assert (c.p_difference, c.p_equivalence, c.correlation) == (pair.p_value, p_e, pair.correlation)
        assert (c.p_difference_adjusted, c.p_equivalence_adjusted) == (d, e)


def test_an_undecided_arm_is_told_how_many_seeds_it_needs(snapshot, make_runs):
    runs = make_runs(snapshot, MEANS | {MIDDLE: 4.16}, 0.03, np.random.default_rng(3), seeds=range(5))
    undecided = [c for c in analyse(runs, snapshot).comparisons if c.verdict is Verdict.UNDECIDED]
    assert undecided
    for c in undecided:
        assert c.seeds_needed == seeds_needed(c.sd, 5, 0.02, 0.05 / 2)
        low, high = c.seeds_needed
        assert f"About {low} to {high} seeds per arm in all would decide with 80 % power even if" in c.sentence
        assert (c.seeds_as_measured is not None) == (abs(c.difference) > 0.02)


def test_a_difference_larger_than_the_margin_has_a_plan_of_its_own(snapshot, make_runs):
    runs = make_runs(snapshot, MEANS | {WIDE: 4.45}, 0.2, np.random.default_rng(2), seeds=range(3))
    found = {c.arm: c for c in analyse(runs, snapshot).comparisons}
    wide = found[WIDE]
    assert wide.verdict is Verdict.UNDECIDED
    assert wide.seeds_as_measured == seeds_as_measured(wide.sd, 3, wide.difference, 0.05 / 2)
    low, high = wide.seeds_as_measured
    assert wide.sentence.endswith(f"; if it is as large as measured, {low} to {high}.")
    entry = verdict_json(analyse(runs, snapshot))["comparisons"][0]
    assert (entry["arm"], entry["seeds_as_measured"]) == (WIDE, [low, high])


def test_a_diverged_and_a_missing_run_drop_their_pairs_by_name(two_arms, make_runs):
    runs = make_runs(two_arms, {BASE: 4.15, WIDE: 4.25}, 0.02, np.random.default_rng(4), diverged=[(WIDE, 3)])
    runs = runs[~((runs["arm"] == BASE) & (runs["seed"] == 7))]
    (c,) = analyse(runs, two_arms).comparisons
    assert c.dropped == (Dropped(3, f"{WIDE} diverged at step 312"), Dropped(7, f"{BASE} has no recorded run"))
    assert (c.n, c.diverged_arm, c.diverged_baseline) == (8, 1, 0)
    assert c.sentence.startswith(
        f"So far, 9 of 10 planned seeds: Given convergence (1 of 10 runs of {WIDE} and 0 of 9 runs of {BASE} "
        f"diverged): {WIDE} is worse"
    )
    assert [(a.n, a.diverged, a.missing) for a in analyse(runs, two_arms).arms] == [(9, 0, (7,)), (9, 1, ())]


def test_rates_of_divergence_that_differ_leave_the_losses_undecided(two_arms, make_runs):
    lost = [(WIDE, seed) for seed in range(6)]
    runs = make_runs(two_arms, {BASE: 4.15, WIDE: 4.45}, 0.02, np.random.default_rng(5), diverged=lost)
    (c,) = analyse(runs, two_arms).comparisons
    assert c.p_difference_adjusted < 0.05
    assert c.verdict is Verdict.UNDECIDED
    assert c.seeds_needed is None
    assert f"the rates of divergence differ (6 of 10 runs of {WIDE} and 0 of 10 runs of {BASE} diverged" in c.sentence


def _equal(loss):
    return loss


def _equal_once(loss):
    return loss + 0.01 * np.arange(len(loss))


def _shifted(loss):
    return loss + 0.01


def _seedless(loss):
    return loss * 0 + 4.2


@pytest.mark.parametrize("twin", [_equal, _equal_once, _shifted, _seedless])
def test_losses_that_are_too_neat_are_undecided_with_an_alarm(two_arms, make_runs, twin):
    runs = make_runs(two_arms, {BASE: 4.15, WIDE: 4.15}, 0.02, np.random.default_rng(6))
    loss = runs[runs["arm"] == BASE].set_index("seed")["val_loss"]
    runs.loc[runs["arm"] == WIDE, "val_loss"] = twin(loss).to_numpy()
    analysis = analyse(runs, two_arms)
    (c,) = analysis.comparisons
    assert c.verdict is Verdict.UNDECIDED
    assert math.isnan(c.p_difference)
    assert math.isnan(c.p_equivalence_adjusted)
    assert c.seeds_needed is None
    assert "too neat" in c.sentence
    assert analysis.alarms


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_seeds_say_so_and_decide_nothing(snapshot, make_runs, n):
    runs = make_runs(snapshot, {BASE: 4.1, WIDE: 9.0, MIDDLE: 4.1}, 0.001, np.random.default_rng(7), seeds=range(n))
    analysis = analyse(runs, snapshot)
    for c in analysis.comparisons:
        assert (c.verdict, c.n, c.seeds_needed) == (Verdict.UNDECIDED, n, None)
        assert "a verdict needs at least 3" in c.sentence
        assert [d.seed for d in c.dropped] == list(range(n, 10))
    assert "fewer than 3 seeds" in [a.name for a in analysis.alarms]
    json.dumps(verdict_json(analysis), allow_nan=False)


def test_an_arm_without_runs_yet_counts_in_the_family(snapshot, make_runs):
    runs = make_runs(snapshot, {BASE: 4.15, WIDE: 4.16}, 0.02, np.random.default_rng(8))
    first, second = analyse(runs, snapshot).comparisons
    raw = sorted([first.p_difference, first.p_equivalence])
    adjusted = sorted([first.p_difference_adjusted, first.p_equivalence_adjusted])
    assert adjusted == pytest.approx([min(1, 2 * p) for p in raw])
    assert (second.n, second.verdict) == (0, Verdict.UNDECIDED)


@per_example
@given(seed=SEEDED, n=st.integers(3, 8), gap=st.sampled_from([0.0, 0.01, 0.03, 0.1]))
def test_swapping_arm_and_baseline_mirrors_the_answer(two_arms, make_runs, seed, n, gap):
    runs = make_runs(two_arms, {BASE: 4.15, WIDE: 4.15 + gap}, 0.01, np.random.default_rng(seed), seeds=range(n))
    (there,) = analyse(runs, two_arms, noise=False).comparisons
    (back,) = analyse(runs, two_arms | {"baseline": WIDE}, noise=False).comparisons
    assert back.verdict is MIRROR.get(there.verdict, there.verdict)
    assert back.difference == pytest.approx(-there.difference)
    assert back.interval95.low == pytest.approx(-there.interval95.high)
    assert back.p_difference_adjusted == pytest.approx(there.p_difference_adjusted)
    assert back.p_equivalence_adjusted == pytest.approx(there.p_equivalence_adjusted)


@per_example
@given(seed=SEEDED, n=st.integers(2, 8), constant=st.floats(-3, 1), shuffle=st.integers(0, 1000))
def test_constants_the_order_of_rows_and_the_names_of_seeds_change_nothing(
    snapshot, make_runs, seed, n, constant, shuffle
):
    runs = make_runs(snapshot, MEANS, 0.03, np.random.default_rng(seed), seeds=range(n))
    changed = runs.sample(frac=1, random_state=shuffle).assign(val_loss=lambda frame: frame["val_loss"] + constant)
    changed["seed"] = changed["seed"].map(dict(enumerate(np.random.default_rng(shuffle).permutation(n))))
    for a, b in zip(
        analyse(runs, snapshot, noise=False).comparisons,
        analyse(changed, snapshot, noise=False).comparisons,
        strict=True,
    ):
        assert a.verdict is b.verdict
        assert (a.n, a.seeds_needed, a.dropped) == (b.n, b.seeds_needed, b.dropped)
        assert a.difference == pytest.approx(b.difference, abs=1e-12)
        assert a.p_difference_adjusted == pytest.approx(b.p_difference_adjusted, nan_ok=True, rel=1e-6)


@per_example
@given(seed=SEEDED, spread=st.floats(0.0005, 0.1), gap=st.floats(-0.2, 0.2), n=st.integers(0, 10))
def test_verdict_sentence_and_plan_agree(snapshot, make_runs, seed, spread, gap, n):
    means = MEANS | {WIDE: 4.15 + gap}
    for c in analyse(
        make_runs(snapshot, means, spread, np.random.default_rng(seed), seeds=range(n)), snapshot
    ).comparisons:
        assert c.verdict is Verdict.UNDECIDED or n >= 3
        assert (c.seeds_needed is not None) == (c.verdict is Verdict.UNDECIDED and n >= 3)
        assert c.verdict.value.split()[0] in c.sentence
        if c.verdict in MIRROR:
            assert (c.difference < 0) == c.verdict.startswith("better")
            assert not c.interval95.low <= 0 <= c.interval95.high
        if "within" in c.verdict or c.verdict is Verdict.EQUIVALENT:
            assert -0.02 < c.interval90.low <= c.interval90.high < 0.02


def test_mixed_corpora_are_refused_and_a_budget_that_the_study_varies_is_not(snapshot, make_runs):
    runs = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(9))
    mixed = runs.assign(corpus_sha256=runs["corpus_sha256"].where(runs.index != 4, "cd" * 32))
    with pytest.raises(ValueError, match=rf"{MIDDLE} seed 4 with corpus_sha256"):
        analyse(mixed, snapshot)
    longer = runs.assign(tokens=runs["tokens"].where(runs["arm"] != WIDE, 5))
    with pytest.raises(ValueError, match=rf"{WIDE} seed 0, {WIDE} seed 1.* with tokens 5 instead"):
        analyse(longer, snapshot)
    snapshot["arms"][1]["differences"] = {"budget.steps": "5"}
    analyse(longer, snapshot)


def test_a_run_twice_is_refused(snapshot, make_runs):
    runs = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(9))
    with pytest.raises(ValueError, match=f"{BASE} seed 5"):
        analyse(pd.concat([runs, runs[(runs["arm"] == BASE) & (runs["seed"] == 5)]]), snapshot)


def test_the_verdict_as_data(snapshot, make_runs):
    runs = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(10), diverged=[(WIDE, 1)])
    analysis = analyse(runs, snapshot | {"rehearsal": True})
    found = json.loads(json.dumps(verdict_json(analysis), allow_nan=False))
    assert found["rehearsal"] is True
    for entry, c in zip(found["comparisons"], analysis.comparisons, strict=True):
        assert (entry["arm"], entry["baseline"], entry["verdict"]) == (c.arm, c.baseline, c.verdict.value)
        assert (entry["ci_low"], entry["ci_high"], entry["p"]) == (c.interval95.low, c.interval95.high, c.p_difference)
        assert entry["seeds_needed"] == (list(c.seeds_needed) if c.seeds_needed else None)
    assert found["comparisons"][0]["dropped"] == [{"seed": 1, "why": f"{WIDE} diverged at step 312"}]
    assert found["alarms"] == [dataclasses.asdict(a) for a in analysis.alarms]
