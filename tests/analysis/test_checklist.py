"""The checklist: what it calls verified is in the records, and what a table cannot tell it does not claim."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.checklist import Point, checklist
from analysis.compare import Comparison, analyse
from analysis.power import detectable_difference
from analysis.verdict import Verdict

BASE, WIDE, MIDDLE = "128x256", "96x552", "112x392"
JUDGED = {"source": "results.csv", "rows": 30, "note": ""}
MEANS = {BASE: 4.15, WIDE: 4.20, MIDDLE: 4.15}
QUESTION, NUISANCE, TUNING, NOISE, BASELINES, TASK, LIMITS = range(7)
Asked = Callable[..., tuple[Point, ...]]


@pytest.fixture
def asked(snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> Asked:
    def ask(means: dict[str, float] = MEANS, sd: float = 0.01, n: int = 10, **changes: Any) -> tuple[Point, ...]:
        runs = make_runs(snapshot, means, sd, np.random.default_rng(3), seeds=range(n))
        snapshot.update(changes)
        return checklist(snapshot, runs, analyse(runs, snapshot), {})

    return ask


def test_a_whole_study_has_seven_answers(asked: Asked) -> None:
    points = asked()
    assert [point.answer for point in points] == [
        "declared",
        "verified",
        "not met",
        "verified",
        "verified",
        "verified",
        "declared",
    ]
    assert all(point.question.endswith("?") and point.why.endswith(".") for point in points)
    assert "nan" not in " ".join(point.why for point in points)


def test_nothing_is_verified_before_there_is_a_run(asked: Asked) -> None:
    points = asked(n=0)
    assert [points[i].answer for i in (NUISANCE, NOISE, BASELINES, TASK)] == [
        "declared",
        "not known",
        "declared",
        "not known",
    ]


def test_nuisance_names_what_is_the_same_and_what_differs(asked: Asked, snapshot: dict[str, Any]) -> None:
    point = asked()[NUISANCE]
    for part in ("30 completed runs", "ababababab", "recipe version 1", "2,457,600 training tokens", "model.d_ff"):
        assert part in point.why


def test_an_equality_that_is_not_held_is_not_met(asked: Asked, snapshot: dict[str, Any]) -> None:
    snapshot["arms"][1]["parameters"] = 750_000
    point = asked()[NUISANCE]
    assert (point.answer, "Not held" in point.why) == ("not met", True)


def test_runs_of_two_precisions_are_not_pinned(
    snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    runs = make_runs(snapshot, MEANS, 0.01, np.random.default_rng(3))
    runs.loc[3, "precision"] = "fp32"
    assert checklist(snapshot, runs, analyse(runs, snapshot), {})[NUISANCE].answer == "not met"
    snapshot["arms"][1]["differences"] = {"precision": "fp32"}
    assert checklist(snapshot, runs, analyse(runs, snapshot), {})[NUISANCE].answer == "verified"


@pytest.mark.parametrize(
    ("differences", "answer"),
    [
        ({"model.norm": "RMSNorm"}, "not met"),
        ({"optimizer.learning_rate": "0.001"}, "declared"),
        ({"streams.init": "0"}, "verified"),
    ],
)
def test_arms_that_were_not_tuned(
    asked: Asked, snapshot: dict[str, Any], differences: dict[str, str], answer: str
) -> None:
    for arm in snapshot["arms"][1:]:
        arm["differences"] = differences
    snapshot["held_equal"]["optimizer.learning_rate"] = "0.003"
    point = asked()[TUNING]
    assert point.answer == answer
    assert ("learning rate of 0.003" in point.why) == (answer == "not met")


def test_equal_tuning_is_verified_by_counting_its_runs(
    snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    rng, seeds, points = np.random.default_rng(3), (1_000_000, 1_000_001, 1_000_002), (1e-3, 3e-3, 1e-2)
    grid = {"key": "optimizer.learning_rate", "points": list(points), "seeds": list(seeds)}
    tried = [
        make_runs(snapshot, {arm: mean + lift for arm, mean in MEANS.items()}, 0.01, rng, seeds=seeds).assign(
            stage="tune", point=point
        )
        for point, lift in zip(points, (0.1, 0.0, 0.3), strict=True)
    ]
    runs = pd.concat([*tried, make_runs(snapshot, MEANS, 0.01, rng)], ignore_index=True)
    snapshot["tuning"] = grid
    whole = checklist(snapshot, runs, analyse(runs, snapshot), {})[TUNING]
    assert whole.answer == "verified"
    assert "same 3 learning rates with the same 3 seeds, 9 runs an arm, all recorded" in whole.why
    assert checklist(snapshot, runs[1:], analyse(runs[1:], snapshot), {})[TUNING].answer == "declared"
    # the lowest loss at the lowest point of the grid
    snapshot["tuning"] = grid | {"points": [3e-3, 1e-2]}
    runs = runs[runs["point"] != 1e-3]
    assert "edge of the grid" in checklist(snapshot, runs, analyse(runs, snapshot), {})[TUNING].why


def test_noise_is_measured_from_three_seeds_and_told_beside_the_margin(asked: Asked) -> None:
    few, enough = asked(n=2)[NOISE], asked(n=6)[NOISE]
    assert (few.answer, enough.answer) == ("not met", "verified")
    assert "the margin is 0.02" in enough.why


def test_the_difference_that_would_be_found_is_that_of_a_fixed_n(
    snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    runs = make_runs(snapshot, MEANS, 0.01, np.random.default_rng(3))
    analysis = analyse(runs, snapshot)
    largest = max(detectable_difference(c.n, c.sd, 0.05 / 2) for c in analysis.comparisons)
    said = checklist(snapshot, runs, analysis, {})[NOISE].why.split("a difference of ")[1].split(" ")[0]
    assert float(said) == pytest.approx(largest, abs=0.0005)


def test_an_arm_at_a_trivial_baseline_is_not_anchored(asked: Asked) -> None:
    point = asked(MEANS | {WIDE: 5.6})[BASELINES]
    assert (point.answer, "unigram" in point.why) == ("not met", True)
    assert asked(baselines={})[BASELINES].answer == "not known"
    assert asked(baselines={"uniform": 7.09, "6-gram": 0.006})[BASELINES].answer == "not met"


def test_the_task_shows_effects_or_could_have(asked: Asked) -> None:
    alike = dict.fromkeys(MEANS, 4.15)
    assert "told apart" in asked()[TASK].why
    assert (asked(alike)[TASK].answer, asked(alike, sd=0.2, n=4)[TASK].answer) == ("verified", "not met")
    assert asked(dict.fromkeys(MEANS, 5.52))[TASK].answer == "not met"
    assert asked(alike, margin=None, judged=JUDGED)[TASK].answer == "not known"


def test_contrasts_show_effects_too(snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> None:
    """Also where the arms show none, or are not compared at all."""

    def task(means: dict[str, float], *contrasts: Comparison, compared: bool = True) -> Point:
        runs = make_runs(snapshot, means, 0.01, np.random.default_rng(3))
        found = analyse(runs, snapshot, contrasts=contrasts)
        found = found if compared else replace(found, comparisons=())
        return checklist(snapshot, runs, found, {f"contrast {i}": c for i, c in enumerate(contrasts)})[TASK]

    alike, solved = dict.fromkeys(MEANS, 4.15), dict.fromkeys(MEANS, 0.0)
    worse, same = analyse(make_runs(snapshot, MEANS, 0.01, np.random.default_rng(3)), snapshot).comparisons
    assert (worse.verdict.told_apart, same.verdict.told_apart) == (True, False)
    both = f"{WIDE} and {BASE} are told apart; the sides of 1 of 2 contrasts are told apart."
    assert task(MEANS, worse, same).why == f"It shows differences: {both}"
    alone = ("verified", "It shows differences: the sides of 1 of 2 contrasts are told apart.")
    for point in (task(alike, worse, same), task(solved, worse, same), task(alike, worse, same, compared=False)):
        assert (point.answer, point.why) == alone
    assert task(solved, same).answer == "not met"
    wide = replace(same, verdict=Verdict.UNDECIDED, standard_error=0.1)
    blind = task(alike, wide)
    assert (blind.answer, "of contrast 0 only a difference of" in blind.why) == ("not met", True)


def test_limits_must_be_named(asked: Asked) -> None:
    assert asked(not_controlled=[])[LIMITS].answer == "not met"


def test_of_a_table_from_elsewhere_little_is_known(asked: Asked, snapshot: dict[str, Any]) -> None:
    for arm in snapshot["arms"]:
        arm |= {"parameters": None, "differences": {}}
    plain = {"held_equal": {}, "varies": [], "equal": {}, "not_controlled": [], "baselines": {}, "corpus": None}
    points = asked(judged=JUDGED, **plain)
    assert [point.answer for point in points] == [
        "not known",
        "not known",
        "not known",
        "verified",
        "not known",
        "verified",
        "not known",
    ]
