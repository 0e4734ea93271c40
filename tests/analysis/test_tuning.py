import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.compare import analyse
from analysis.intervals import Interval
from analysis.robustness import usable_range
from analysis.tuning import BEST_ON_GRID, select, selections, summarise_tuning
from analysis.verdict import Verdict, holm

POINTS, SEEDS = (3e-4, 1e-3, 3e-3), (1_000_000, 1_000_001, 1_000_002, 1_000_003, 1_000_004)
BASE, WIDE, MIDDLE = "128x256", "96x552", "112x392"
GRIDS = {BASE: (4.40, 4.20, 4.30), WIDE: (4.30, 4.31, 4.90), MIDDLE: (4.5, 4.4, 4.3)}
JUDGED = {BASE: 4.15, WIDE: 4.25, MIDDLE: 4.155}


@pytest.fixture
def tuned(snapshot):
    """The study of three arms with a grid of learning rates."""
    grid = {"key": "optimizer.learning_rate", "points": list(POINTS), "seeds": list(SEEDS)}
    runs = [
        {"run_id": f"{arm['name']}/{p}/{s}", "arm": arm["name"], "seed": s, "stage": "tune", "point": p}
        for arm in snapshot["arms"]
        for p in POINTS
        for s in SEEDS
    ]
    return snapshot | {"tuning": grid, "runs": [*runs, *snapshot["runs"]]}


def grid_runs(make_runs, snapshot, rng, sd=0.02, diverged=(), grids=GRIDS):
    """The tuning runs of `grids`; those in `diverged` (arm, point, seed) have no loss."""
    frames = []
    for i, point in enumerate(POINTS):
        means = {arm: losses[i] for arm, losses in grids.items()}
        lost = [(arm, seed) for arm, p, seed in diverged if p == point]
        frame = make_runs(snapshot, means, sd, rng, seeds=SEEDS, diverged=lost)
        frames.append(frame.assign(stage="tune", point=point, run_id=frame["run_id"] + f"/{point}"))
    return pd.concat(frames, ignore_index=True)


LOSSES = arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(0, 10) | st.just(math.inf))


@given(LOSSES)
def test_the_selected_point_diverges_least_and_is_the_lowest_of_those(losses):
    index = select(losses)
    finite = np.isfinite(losses)
    assert finite[:, index].sum() == finite.sum(0).max()
    rivals = [i for i in range(losses.shape[1]) if finite[:, i].sum() == finite[:, index].sum()]
    if finite[:, index].any():
        means = {i: losses[finite[:, i], i].mean() for i in rivals}
        assert means[index] == min(means.values())


@given(LOSSES, st.floats(-5, 5), st.randoms(use_true_random=False))
def test_the_selection_ignores_the_order_of_seeds(losses, constant, random):
    order = random.sample(range(len(losses)), len(losses))
    exact = np.round(losses, 1)  # a sum in another order may differ in its last bit, and so break a tie otherwise
    assert np.isfinite(exact).sum() == np.isfinite(losses).sum()
    chosen, other = select(exact), select(exact[order])
    means = [column[np.isfinite(column)].mean() if np.isfinite(column).any() else math.inf for column in exact.T]
    assert chosen == other or means[chosen] == pytest.approx(means[other])


def test_nothing_is_selected_while_a_run_is_missing(tuned, make_runs):
    runs = grid_runs(make_runs, tuned, np.random.default_rng(0))
    assert selections(runs, tuned) == {BASE: 1e-3, WIDE: 3e-4, MIDDLE: 3e-3}
    assert selections(runs.drop(index=7), tuned) is None
    assert selections(runs.iloc[:0], tuned) is None
    assert select([[1.0, math.nan]]) is None


def test_an_arm_that_diverged_everywhere_still_gets_a_point_so_that_its_rate_is_judged(tuned, make_runs):
    lost = [(WIDE, point, seed) for point in POINTS for seed in SEEDS]
    runs = grid_runs(make_runs, tuned, np.random.default_rng(1), diverged=lost)
    assert selections(runs, tuned)[WIDE] == POINTS[0]


def test_the_summary_tells_points_edges_and_divergence(tuned, make_runs):
    runs = grid_runs(make_runs, tuned, np.random.default_rng(2), diverged=[(BASE, 3e-3, SEEDS[1])])
    found = summarise_tuning(runs, tuned, {})
    assert (found.setting, found.seeds, found.points) == ("learning rate", 5, POINTS)
    base, wide, middle = found.arms
    assert [(p.n, p.diverged) for p in base.points] == [(5, 0), (5, 0), (4, 1)]
    own = runs[(runs["arm"] == BASE) & (runs["point"] == 3e-4)]["val_loss"]
    assert (base.points[0].mean, base.points[0].sd) == (pytest.approx(own.mean()), pytest.approx(own.std()))
    assert [(a.selected, a.at_edge) for a in (base, wide, middle)] == [(1e-3, False), (3e-4, True), (3e-3, True)]


def test_the_usable_range_is_that_of_the_whole_rows_and_widens_the_judged_interval(tuned, make_runs):
    runs = grid_runs(make_runs, tuned, np.random.default_rng(3))
    own = Interval(-0.01, 0.03, 0.95)
    (one,) = summarise_tuning(runs, tuned, {WIDE: own}).ranges
    grids = {
        arm: runs[runs["arm"] == arm].pivot(index="seed", columns="point", values="val_loss").to_numpy()
        for arm in (WIDE, BASE)
    }
    assert one.range == usable_range(grids[WIDE], grids[BASE])
    assert one.p_adjusted == one.range.p_value
    spread = max(np.mean(grid.var(0, ddof=1)) ** 0.5 for grid in grids.values())
    assert one.widened95.low == pytest.approx(own.low - BEST_ON_GRID * spread / 5**0.5)
    assert one.widened95.high == pytest.approx(own.high + BEST_ON_GRID * spread / 5**0.5)
    assert one.sentence.startswith(f"{WIDE} loses more over these 3 points of learning rate than {BASE}: mean excess")
    missing = runs[~((runs["arm"] == WIDE) & (runs["seed"] == SEEDS[0]) & (runs["point"] == 1e-3))]
    (rest,) = summarise_tuning(missing, tuned, {WIDE: own}).ranges
    assert rest.range == usable_range(grids[WIDE][1:], grids[BASE][1:])
    assert "is not known: 4 tuning seeds are there, and a claim takes 5" in rest.sentence


def test_ranges_are_one_family_and_either_arm_may_lose_less(tuned, make_runs):
    turned = tuned | {"baseline": WIDE}
    runs = grid_runs(make_runs, turned, np.random.default_rng(3))
    ranges = summarise_tuning(runs, turned, dict.fromkeys((BASE, MIDDLE), Interval(-0.01, 0.03, 0.95))).ranges
    raw = [one.range.p_value for one in ranges]
    adjusted = [one.p_adjusted for one in ranges]
    assert adjusted == pytest.approx(holm(raw).tolist())
    assert min(adjusted) == pytest.approx(2 * min(raw))
    for one in ranges:
        assert one.sentence.startswith(f"{one.arm} loses less over these 3 points of learning rate than {WIDE}: ")


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ((1.0, 2**0.5, 2.0), f"{WIDE} is usable over a narrower range of learning rate than {BASE}: "),
        ((1.0, 1.5, 2.0), f"{WIDE} loses more over these 3 points of learning rate than {BASE}: "),
        ((1.0, 1.4, 2.0), f"{WIDE} loses more over these 3 points of learning rate than {BASE}: "),
    ],
)
def test_a_range_is_claimed_only_on_a_grid_of_half_octaves(tuned, make_runs, points, words):
    runs = grid_runs(make_runs, tuned, np.random.default_rng(3))
    runs["point"] = runs["point"].map(dict(zip(POINTS, points, strict=True)))
    tuned["tuning"]["points"] = list(points)
    (one,) = summarise_tuning(runs, tuned, {WIDE: Interval(-0.01, 0.03, 0.95)}).ranges
    assert one.sentence.startswith(words)


@pytest.mark.parametrize("steady", [BASE, WIDE])
def test_an_interval_is_widened_by_the_spread_that_is_known_whichever_arm_it_is_of(tuned, make_runs, steady):
    """Of an arm that has one finite loss at each point, nothing of its spread is known."""
    lost = [(steady, point, seed) for point in POINTS for seed in SEEDS[1:]]
    runs = grid_runs(make_runs, tuned, np.random.default_rng(3), diverged=lost)
    (one,) = summarise_tuning(runs, tuned, {WIDE: Interval(-0.01, 0.03, 0.95)}).ranges
    other = runs[runs["arm"] == (WIDE if steady == BASE else BASE)]
    spread = other.groupby("point")["val_loss"].var().mean() ** 0.5
    assert one.widened95.high == pytest.approx(0.03 + BEST_ON_GRID * spread / 5**0.5)


def test_a_study_without_a_grid_has_no_tuning(snapshot, make_runs):
    assert analyse(make_runs(snapshot, JUDGED, 0.02, np.random.default_rng(4)), snapshot).tuning is None


def test_only_fresh_seeds_are_judged_and_the_sentence_names_the_points(tuned, make_runs):
    rng = np.random.default_rng(5)
    runs = pd.concat([grid_runs(make_runs, tuned, rng), make_runs(tuned, JUDGED, 0.01, rng)], ignore_index=True)
    for arm, point in selections(runs, tuned).items():
        next(a for a in tuned["arms"] if a["name"] == arm)["selected"] = point
    analysis = analyse(runs, tuned)
    wide, middle = analysis.comparisons
    assert (wide.n, wide.verdict, middle.verdict) == (10, Verdict.WORSE, Verdict.EQUIVALENT)
    assert wide.sentence.startswith(f"At the selected learning rates (0.0003 for {WIDE}, 0.001 for {BASE}): {WIDE} is")
    assert [one.arm for one in analysis.tuning.ranges] == [WIDE, MIDDLE]
    assert any("edge" in alarm.name or "edge" in alarm.sentence for alarm in analysis.alarms)


def test_before_the_grid_is_done_nothing_is_judged(tuned, make_runs):
    analysis = analyse(grid_runs(make_runs, tuned, np.random.default_rng(6)).head(20), tuned)
    assert all(c.verdict is Verdict.UNDECIDED and c.n == 0 for c in analysis.comparisons)
    assert all(math.isnan(one.widened95.low) for one in analysis.tuning.ranges)


def test_each_arm_of_a_pair_is_held_against_the_other_on_the_grid_too(tuned, make_runs):
    """As in a study whose baseline the second of the two is."""
    rng = np.random.default_rng(3)
    runs = pd.concat([grid_runs(make_runs, tuned, rng), make_runs(tuned, JUDGED, 0.01, rng)], ignore_index=True)
    paired = analyse(runs, tuned | {"pairs": [[WIDE, BASE], [MIDDLE, WIDE]]}).tuning.ranges
    assert [(one.arm, one.baseline) for one in paired] == [(WIDE, BASE), (MIDDLE, WIDE)]
    (alone,) = [one for one in analyse(runs, tuned | {"baseline": WIDE}).tuning.ranges if one.arm == MIDDLE]
    assert paired[1].range == alone.range
    assert paired[1].widened95 == alone.widened95
    assert MIDDLE in paired[1].sentence
    assert WIDE in paired[1].sentence
