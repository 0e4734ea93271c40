import math

import numpy as np
import pytest

from analysis.compare import analyse
from analysis.guards import Run
from analysis.intervals import sd_interval
from analysis.noise import CHAPTER_GAP, SEEDS_SHOWN, _measurement, fixed_streams
from analysis.power import detectable_difference


def arm(name, replicate=False, **differences):
    dotted = {key.replace("__", "."): value for key, value in differences.items()}
    return {"name": name, "note": name, "parameters": 689_920, "replicate": replicate, "differences": dotted}


@pytest.fixture
def floor_study(snapshot):
    """The noise study: the baseline, itself again, and two arms that each fix one stream."""
    arms = [
        arm("both"),
        arm("again", True, streams__init__offset="1000", streams__order__offset="1000"),
        arm("init", streams__order="Fixed", streams__order__offset="absent", streams__order__value="0"),
        arm("order", streams__init="Fixed", streams__init__offset="absent", streams__init__value="0"),
    ]
    plan = [
        {"run_id": f"{seed}{a['name']}", "arm": a["name"], "seed": seed, "stage": "judge", "point": None}
        for seed in range(20)
        for a in arms
    ]
    return snapshot | {"baseline": "both", "arms": arms, "seeds": list(range(20)), "runs": plan}


MEANS = {"both": 4.15, "again": 4.15, "init": 4.16, "order": 4.13}


def test_a_stream_is_fixed_by_its_own_key_and_not_by_an_offset(floor_study):
    assert [fixed_streams(a) for a in floor_study["arms"]] == [(), (), ("order",), ("init",)]
    assert fixed_streams(arm("freed", streams__init="Follow", streams__init__value="absent")) == ()


def test_arms_that_fix_a_stream_are_described_but_not_compared(floor_study, make_runs):
    analysis = analyse(make_runs(floor_study, MEANS, 0.03, np.random.default_rng(0)), floor_study)
    assert [c.arm for c in analysis.comparisons] == ["again"]
    assert [a.arm for a in analysis.arms] == [a.arm for a in analysis.noise.arms] == list(MEANS)
    assert analysis.alarms == ()


def test_each_arm_is_its_sd_beside_that_of_one_batch(floor_study, make_runs):
    runs = make_runs(floor_study, MEANS, 0.03, np.random.default_rng(1))
    noise = analyse(runs, floor_study).noise.arms[1]
    again = runs[runs["arm"] == "again"]
    assert noise.n == 20
    assert noise.sd == pytest.approx(again["val_loss"].std())
    assert noise.sd_interval95 == sd_interval(again["val_loss"], 0.95)
    assert noise.batch_sd == pytest.approx(again["last_batch_loss"].std())
    assert noise.expected_batch_sd == pytest.approx(again["val_window_sd"].mean() / 32**0.5)


def test_a_batch_size_that_the_study_varies_is_the_arms_own_or_unknown(floor_study, make_runs):
    del floor_study["held_equal"]["budget.batch"]
    floor_study["arms"].append(arm("large", budget__batch="64"))
    runs = make_runs(floor_study, MEANS | {"large": 4.1}, 0.03, np.random.default_rng(1))
    noise = {a.arm: a.expected_batch_sd for a in analyse(runs, floor_study).noise.arms}
    assert math.isnan(noise["both"])
    assert noise["large"] == pytest.approx(runs.loc[runs["arm"] == "large", "val_window_sd"].mean() / 8)


def test_what_is_detectable_comes_from_the_replicate(floor_study, make_runs):
    runs = make_runs(floor_study, MEANS, 0.03, np.random.default_rng(2))
    noise = analyse(runs, floor_study).noise
    loss = runs.pivot(index="seed", columns="arm", values="val_loss")
    d = loss["again"] - loss["both"]
    interval = sd_interval(d, 0.95)
    assert noise.detectable_from == ("again", "both")
    assert tuple(row.n for row in noise.detectable) == SEEDS_SHOWN
    for row in noise.detectable:
        assert row.difference == pytest.approx(detectable_difference(row.n, d.std()))
        assert (row.low, row.high) == pytest.approx(
            tuple(detectable_difference(row.n, s) for s in (interval.low, interval.high))
        )


def test_without_a_replicate_the_noisiest_comparison_counts_and_nothing_is_said_of_false_alarms(snapshot, make_runs):
    runs = make_runs(snapshot, {"128x256": 4.15, "96x552": 4.2, "112x392": 4.15}, 0.02, np.random.default_rng(3))
    analysis = analyse(runs, snapshot)
    noisiest = max(analysis.comparisons, key=lambda c: c.sd)
    assert analysis.noise.detectable_from == (noisiest.arm, "128x256")
    assert analysis.noise.false_alarms is None
    assert analysis.noise.shares == ()


def test_the_paired_test_calls_a_recipe_different_from_itself_about_one_time_in_twenty(floor_study, make_runs):
    runs = make_runs(floor_study, MEANS, 0.03, np.random.default_rng(4))
    found = analyse(runs, floor_study).noise.false_alarms
    assert (found.losses, found.n, found.splits) == (40, 20, 2000)
    assert found.paired_t == pytest.approx(0.05, abs=0.015)
    pool = runs.loc[runs["arm"].isin(["both", "again"]), "val_loss"].to_numpy()
    gaps = np.abs(pool[:, None] - pool)[np.triu_indices(40, 1)]
    assert found.pairs_beyond_gap == pytest.approx((gaps > CHAPTER_GAP).mean())
    assert found.pairs_beyond_margin == pytest.approx((gaps > 0.02).mean())
    assert analyse(runs.sample(frac=1, random_state=1), floor_study).noise.false_alarms == found


def test_variance_by_source(floor_study, make_runs):
    rng = np.random.default_rng(5)
    runs = make_runs(floor_study, MEANS, 0.04, rng)
    narrow = runs["arm"] == "order"
    runs.loc[narrow, "val_loss"] = 4.13 + (runs.loc[narrow, "val_loss"] - 4.13) / 4
    whole, init, order = analyse(runs, floor_study).noise.shares
    assert [(s.arm, s.fixed) for s in (whole, init, order)] == [
        ("both and again", ()),
        ("init", ("order",)),
        ("order", ("init",)),
    ]
    assert whole.share == 1
    loss = runs[narrow]["val_loss"]
    assert order.variance == pytest.approx(loss.var())
    pooled = runs.loc[runs["arm"].isin(["both", "again"]), "val_loss"]
    assert whole.n == len(pooled) == 40
    assert order.share == pytest.approx(loss.var() / pooled.var())
    assert (order.variance_interval95.low, order.variance_interval95.high) == pytest.approx(
        (sd_interval(loss, 0.95).low ** 2, sd_interval(loss, 0.95).high ** 2)
    )
    assert init.variance_interval95.low > order.variance_interval95.high


@pytest.mark.parametrize("n", [0, 1, 2])
def test_at_the_start_of_a_study_there_is_little_to_say_and_no_warning(floor_study, make_runs, n):
    runs = make_runs(floor_study, MEANS, 0.03, np.random.default_rng(6), seeds=range(n))
    noise = analyse(runs, floor_study).noise
    assert [a.n for a in noise.arms] == [n] * 4
    assert bool(noise.detectable) == (noise.detectable_from is not None) == (n == 2)
    assert math.isnan(noise.false_alarms.paired_t) == (n < 2)


def test_measurement_by_hand():
    """Variances of about 1 held out and 16 by the last batch: fifteen parts in sixteen are the draw of the batch."""
    values = [(1.0, 1.0), (1.08, 5.0), (3.0, 9.0)]
    runs = [Run("a", seed, True, loss, math.nan, "ab", 1, 10, batch, 0.4) for seed, (loss, batch) in enumerate(values)]
    found = _measurement(runs)
    assert found.batch_sd == pytest.approx(4.0)
    assert found.share == pytest.approx(1 - np.var([1.0, 1.08, 3.0], ddof=1) / 16)
    assert found.batch_pairs_beyond == 1.0
    assert found.pairs_beyond == pytest.approx(2 / 3)  # 1.08 and 1.0 lie within 0.1
    assert "SD of 4.0, the held-out loss one of 1.13: part of the first is the draw of one batch, how much 3 runs" in (
        found.sentence
    )
    assert _measurement(runs[:2]) is None


def test_measurement_pools_the_runs_of_one_recipe_and_no_others(floor_study, make_runs):
    noise = analyse(make_runs(floor_study, MEANS, 0.03, np.random.default_rng(0)), floor_study).noise
    assert noise.measurement.n == 40  # both and again, twenty seeds each
