import math

import numpy as np
import pytest

from analysis.alarms import FEW_ARMS, SHOWN, alarms
from analysis.guards import too_neat
from analysis.tuning import ArmTuning, PointSummary, Tuning
from analysis.verdict import Verdict

POINTS = (3e-4, 1e-3, 3e-3)
FLOORS = {"uniform": 7.09, "unigram": 5.51}


def names(losses, arms=None, floors=FLOORS, tuning=None):
    return [alarm.name for alarm in alarms(losses, arms or tuple(losses), floors, tuning)]


def normal(n, seed=0, mean=4.1, sd=0.02):
    return dict(enumerate(np.random.default_rng(seed).normal(mean, sd, n).tolist()))


def test_healthy_losses_raise_no_alarm():
    assert names({"base": normal(5), "wide": normal(5, 1)}) == []
    assert names({}) == []


def test_two_seeds_are_few():
    (alarm,) = alarms({"base": normal(3), "wide": normal(2, 1), "narrow": {}}, ("base", "wide", "narrow"), FLOORS)
    assert alarm.arms == ("wide", "narrow")
    assert "wide (2) and narrow (0)" in alarm.sentence


def test_bit_equal_losses_of_two_arms_on_a_seed_are_too_neat():
    base = normal(4)
    wide = normal(4, 1) | {2: base[2]}
    (alarm,) = alarms({"base": base, "wide": wide}, ("base", "wide"), FLOORS)
    assert (alarm.name, alarm.arms) == ("equal losses", ("base", "wide"))
    assert "on seed 2" in alarm.sentence
    assert too_neat(list(wide.values()), list(base.values()))
    assert names({"base": base, "fixed order": wide}, ("base",)) == []  # not compared, so no twin


def test_arms_other_than_the_baseline_are_held_against_each_other():
    wide = normal(4, 1)
    (alarm,) = alarms({"base": normal(4), "wide": wide, "wider": dict(wide)}, ("base", "wide", "wider"), FLOORS)
    assert alarm.arms == ("wide", "wider")
    assert "on seeds 0–3" in alarm.sentence


def test_the_same_losses_on_other_seeds_are_no_tie():
    base = normal(5)
    assert names({"base": base, "wide": {seed + 5: loss for seed, loss in base.items()}}) == []


def test_a_seed_that_changes_nothing_is_seen():
    same = dict.fromkeys(range(4), 4.2)
    assert names({"base": normal(4), "wide": same}) == ["zero seed variance"]
    assert too_neat(list(same.values()), list(normal(4).values()))


def test_a_constant_shift_is_seen():
    base = normal(4)
    assert names({"base": base, "wide": {seed: loss + 0.1 for seed, loss in base.items()}}) == ["constant shift"]
    assert too_neat([loss + 0.1 for loss in base.values()], list(base.values()))


def test_rounding_is_named_where_it_may_be_the_cause():
    base = {0: 4.15, 1: 4.16, 2: 4.15, 3: 4.17}
    (alarm,) = alarms({"base": base, "wide": {s: round(x + 0.1, 2) for s, x in base.items()}}, ("base", "wide"), FLOORS)
    assert alarm.name == "constant shift"
    assert "rounded to 0.01" in alarm.sentence


@pytest.mark.parametrize("places", [2, 3, 4, 5])
def test_rounded_losses_of_many_arms_tie_without_an_alarm(places):
    """Twenty arms of twenty seeds with an SD of 0.02, of which hundreds of pairs tie."""
    table = np.round(np.random.default_rng(places).normal(4.1, 0.02, (20, 20)), places)
    losses = {f"arm {i}": dict(enumerate(row.tolist())) for i, row in enumerate(table)}
    assert names(losses) == []


@pytest.mark.parametrize(
    ("loss", "named"), [(5.357, None), (5.495, None), (5.505, "unigram"), (5.6, "unigram"), (7.085, "uniform")]
)
def test_a_model_that_ignores_its_input_is_named_with_the_baseline_that_it_reaches(loss, named):
    found = alarms({"base": normal(4), "stuck": normal(4, 1, mean=loss, sd=1e-4)}, ("base", "stuck"), FLOORS)
    assert [a.name for a in found] == (["ignores its input"] if named else [])
    assert all(f"the {named} baseline" in a.sentence for a in found)


@pytest.mark.parametrize(("loss", "said"), [(5.503, "only 0.007 below"), (5.51, "not below"), (5.53, "not below")])
def test_how_far_a_stuck_model_lies_below_the_baseline_is_told_as_it_is(loss, said):
    (alarm,) = alarms({"stuck": {seed: loss + d for seed, d in enumerate((-1e-4, 0.0, 1e-4))}}, ("stuck",), FLOORS)
    assert f"ends at a mean loss of {loss:.3f}, {said} the unigram baseline (5.510): it has learned hardly more" in (
        alarm.sentence
    )


def test_a_task_on_which_every_arm_is_stuck_shows_nothing():
    stuck = {arm: normal(4, seed, mean=5.52, sd=1e-3) for seed, arm in enumerate(("base", "wide"))}
    assert names(stuck) == ["ignores its input", "ignores its input", "task shows nothing"]
    assert names(stuck | {"narrow": normal(4, 3)}) == ["ignores its input", "ignores its input"]
    assert names(stuck, floors={}) == []


def test_a_task_that_every_arm_solves_shows_nothing():
    solved = {arm: normal(4, seed, mean=0.004, sd=1e-3) for seed, arm in enumerate(("base", "wide"))}
    (alarm,) = alarms(solved, tuple(solved), FLOORS)
    assert (alarm.name, alarm.arms) == ("task shows nothing", ("base", "wide"))
    assert "perfect" in alarm.sentence
    assert names(solved | {"narrow": normal(4, 3, mean=0.1)}) == []
    assert names(solved, floors={}) == []  # in another unit 0.004 may be a poor score


@pytest.mark.parametrize(
    ("contrasts", "shown"),
    [
        ([], False),
        ([Verdict.UNDECIDED, Verdict.EQUIVALENT], False),
        ([Verdict.UNDECIDED, Verdict.BETTER], True),
        ([Verdict.WORSE_WITHIN_MARGIN], True),
    ],
)
def test_solved_models_that_are_told_apart_when_scored_otherwise_show_something(contrasts, shown):
    solved = {arm: normal(4, seed, mean=0.004, sd=1e-3) for seed, arm in enumerate(("base", "wide"))}
    stuck = {arm: normal(4, seed, mean=5.52, sd=1e-3) for seed, arm in enumerate(("base", "wide"))}
    raised = [
        "task shows nothing" in [alarm.name for alarm in alarms(losses, tuple(losses), FLOORS, contrasts=contrasts)]
        for losses in (solved, stuck)
    ]
    assert raised == [not shown, True]  # what has learned nothing has nothing to be told apart


def test_a_trivial_baseline_that_has_seen_the_text_is_too_good():
    """The source chapter's 6-gram scored 0.006 on its own training text; a bigram scores some 4.9."""
    losses = {"base": normal(4), "wide": normal(4, 1)}
    (alarm,) = alarms(losses, ("base", "wide"), FLOORS | {"6-gram": 0.006})
    assert alarm.name == "too good"
    assert "6-gram scores 0.006" in alarm.sentence
    assert names(losses, floors=FLOORS | {"bigram": 4.9}) == []
    assert names(losses, floors={"6-gram": 0.006}) == ["too good"]


def tuned(*means, selected=(1e-3, 1e-3), edge=(False, False)):
    arms = [
        ArmTuning(
            arm,
            tuple(PointSummary(p, 0 if math.isnan(m) else 3, m, 0.01, 0) for p, m in zip(POINTS, row, strict=True)),
            s,
            e,
        )
        for arm, row, s, e in zip(("base", "wide"), means, selected, edge, strict=True)
    ]
    return Tuning("optimizer.learning_rate", POINTS, 3, tuple(arms), ())


def test_an_optimum_at_the_edge_of_the_grid_is_told_with_its_side():
    losses = {"base": normal(4), "wide": normal(4, 1)}
    grid = tuned((4.4, 4.2, 4.3), (4.41, 4.31, 4.21), selected=(1e-3, 3e-3), edge=(False, True))
    (alarm,) = alarms(losses, ("base", "wide"), FLOORS, grid)
    assert (alarm.name, alarm.arms) == ("optimum at the edge", ("wide",))
    assert "The best learning rate of wide is 0.003, the highest of the grid" in alarm.sentence
    grid = tuned((4.2, 4.25, 4.3), (4.41, 4.31, 4.51), selected=(3e-4, 1e-3), edge=(True, False))
    assert "base is 0.0003, the lowest" in alarms(losses, ("base", "wide"), FLOORS, grid)[0].sentence


def test_points_of_the_grid_with_equal_means_are_too_neat():
    losses = {"base": normal(4), "wide": normal(4, 1)}
    (alarm,) = alarms(losses, ("base", "wide"), FLOORS, tuned((4.4, 4.2, 4.3), (4.5, 4.3, 4.6)))
    assert alarm.name == "equal losses"
    assert "base at 0.003 and wide at 0.001" in alarm.sentence
    unmeasured = (math.nan, math.nan, math.nan)
    assert names(losses, tuning=tuned(unmeasured, unmeasured, selected=(None, None), edge=(True, True))) == []


def test_many_alarms_of_one_kind_are_counted():
    losses = {f"arm {i}": dict.fromkeys(range(3), 4 + i / 7) for i in range(30)}
    found = alarms(losses, tuple(losses), {})
    assert [a.name for a in found] == ["zero seed variance"] * (SHOWN + 1)
    assert "raised 25 times more, of arm 5, arm 6, arm 7, arm 8 and 21 more" in found[-1].sentence
    assert found[-1].arms == tuple(f"arm {i}" for i in range(SHOWN, 30))


def test_of_many_arms_each_is_held_against_the_baseline_and_twins_are_found_anywhere():
    losses = {f"arm {i}": normal(5, i) for i in range(FEW_ARMS + 5)}
    losses["arm 7"] = {seed: loss + 0.25 for seed, loss in losses["arm 0"].items()}
    losses["arm 9"] = {seed: loss + 0.25 for seed, loss in losses["arm 8"].items()}
    losses["arm 12"] = dict(losses["arm 11"])
    found = {(a.name, a.arms) for a in alarms(losses, tuple(losses), FLOORS)}
    assert found == {("equal losses", ("arm 11", "arm 12")), ("constant shift", ("arm 0", "arm 7"))}
