"""What a study asks for next, from records that are written here without training anything."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from analysis.compare import analyse
from analysis.design import JUDGE, TUNE
from analysis.records import CURVES, RUNS, Records
from model.corpus.text import Corpus
from model.scoring import Ablated
from sweeps.engine.contrasts import Cell, Contrast
from sweeps.engine.grid import FIRST_TUNING_SEED, Grid
from sweeps.engine.plan import Run, make_plan, whole
from sweeps.engine.published import Figure, Published
from sweeps.engine.rounds import asked, judged_seeds, told
from sweeps.engine.snapshot import asked_since, make_snapshot, opened, refuse_another_question
from sweeps.engine.study import MOST_SEEDS, Study, StudyError

RATES = (1e-3, 1e-2, 1e-1)
FIGURES = Published("a book", (Figure("wide", 2.0),), 0.05, 20, "it says so", 0.2, "it says so")
KEY = "optimizer.learning_rate"


@pytest.fixture
def study(tiny: ModuleType) -> Study:
    """Two arms, narrow and wide."""
    two: Study = tiny.study().with_arms(("wide",))
    return two


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "study")


def row(run: Run, loss: float) -> dict[str, Any]:
    diverged = not np.isfinite(loss)
    told = {"run_id": run.run_id, "study": "s", "arm": run.arm, "seed": run.seed}
    told |= {"status": "diverged" if diverged else "completed", "diverged_at": 3 if diverged else None}
    told |= {"val_loss": loss, "recipe_version": 2, "tokens": 9, "corpus_sha256": "a", "finished": datetime.now(UTC)}
    return {name: told.get(name) for name in RUNS.names}


@pytest.fixture
def record(records: Records) -> Callable[..., None]:
    """Record `runs` with the losses that `loss` gives, by run."""

    def write(runs: Iterable[Run], loss: Callable[[Run], float]) -> None:
        for run in runs:
            point = {
                "run_id": run.run_id,
                "arm": run.arm,
                "seed": run.seed,
                "step": 1,
                "name": "val_loss",
                "value": 1.0,
            }
            assert point.keys() == set(CURVES.names)
            records.append([row(run, loss(run))], [point])

    return write


def noise(run: Run) -> float:
    """Of a run, always the same, with an SD of 0.001."""
    return float(np.random.default_rng(int(run.run_id, 16)).normal(0, 0.001))


def same(run: Run) -> float:
    """Losses far noisier than the margin of 0.05, whose arms do not differ."""
    return 2.0 + 300 * noise(run)


def test_a_fixed_study_asks_for_all_at_once(study: Study, corpus: Corpus, records: Records, record: Any) -> None:
    plan = asked(study, corpus, records)
    assert plan == make_plan(study, corpus, []) == whole(plan, corpus)
    record(plan.runs, same)
    assert asked(study, corpus, records).missing == ()


def test_only_what_is_undecided_gets_more_seeds(
    tiny: ModuleType, corpus: Corpus, records: Records, record: Any
) -> None:
    """Of three arms one is far better from the first look on, another never decided."""
    study = tiny.study().until_decided(8)

    def loss(run: Run) -> float:
        return {"narrow": 2.0, "wide": 1.0, "wild": 2.0}[run.arm] + (300 if run.arm == "wild" else 1) * noise(run)

    rounds, lines = [], []
    plan = asked(study, corpus, records)
    while plan.missing:
        rounds.append({arm: len(seeds) for arm, seeds in judged_seeds(plan).items()})
        record(plan.missing, loss)
        before, plan = plan, asked(study, corpus, records)
        if plan.missing:
            snapshot = make_snapshot(plan, corpus)
            lines += told(before, plan, analyse(records.planned_runs(snapshot), snapshot, noise=False))
    assert rounds == [
        {"narrow": 3, "wide": 3, "wild": 3},
        {"narrow": 5, "wide": 3, "wild": 5},
        {"narrow": 8, "wide": 3, "wild": 8},
    ]
    assert lines[0] == "Look at 3 seeds: wide better; wild undecided and goes on."
    assert asked(study, corpus, records).missing == ()
    snapshot = make_snapshot(plan, corpus)
    wide, wild = analyse(records.planned_runs(snapshot), snapshot).comparisons
    assert [look.seeds for look in wide.looks] == [3]
    assert [look.seeds for look in wild.looks] == [3, 5, 8]


def test_what_an_undecided_arm_is_compared_with_gets_seeds_too(
    tiny: ModuleType, corpus: Corpus, records: Records, record: Any
) -> None:
    """The baseline, which is in no pair that is undecided, gets none."""
    study = tiny.study().replace(pairs=(("wide", "narrow"), ("wild", "wide"))).until_decided(8)
    losses = {"narrow": 2.0, "wide": 1.0, "wild": 1.0}
    first = asked(study, corpus, records).missing
    record(first, lambda run: losses[run.arm] + (300 if run.arm == "wild" else 1) * noise(run))
    plan = asked(study, corpus, records)
    assert {arm: len(seeds) for arm, seeds in judged_seeds(plan).items()} == {"narrow": 3, "wide": 5, "wild": 5}


def test_a_round_that_was_stopped_goes_on_where_it_was(
    study: Study, corpus: Corpus, records: Records, record: Any
) -> None:
    looked_at = study.until_decided(8)
    first = asked(looked_at, corpus, records)
    record(first.runs, same)
    second = asked(looked_at, corpus, records)
    record(second.missing[:1], same)
    third = asked(looked_at, corpus, records)
    assert third.runs == second.runs
    assert third.missing == second.missing[1:]


def test_the_grid_comes_first_and_then_other_seeds_at_the_selected_points(
    study: Study, corpus: Corpus, records: Records, record: Any
) -> None:
    tuned = study.replace(tune=Grid(KEY, RATES, seeds=3))
    best = {"narrow": 1e-2, "wide": 1e-3}
    plan = asked(tuned, corpus, records)
    assert {run.stage for run in plan.runs} == {TUNE}
    assert len(plan.runs) == 2 * 3 * 3
    assert min(run.seed for run in plan.runs) == FIRST_TUNING_SEED >= MOST_SEEDS
    assert all(run.recipe.optimizer.learning_rate == run.point for run in plan.runs)
    record(plan.runs[:-1], lambda run: 2.0 + abs(np.log(run.point / best[run.arm])) + noise(run))
    assert asked(tuned, corpus, records).runs == plan.runs
    record(plan.runs[-1:], lambda run: 2.0 + abs(np.log(run.point / best[run.arm])) + noise(run))
    judged = asked(tuned, corpus, records)
    assert judged.selected == best
    assert [run.stage for run in judged.missing] == [JUDGE] * 6
    assert {run.seed for run in judged.missing} == {0, 1, 2}
    for run in judged.missing:
        assert (run.point, run.recipe.optimizer.learning_rate) == (best[run.arm], best[run.arm])
    (line,) = told(
        plan, judged, analyse(records.planned_runs(make_snapshot(judged, corpus)), make_snapshot(judged, corpus))
    )
    assert line == "Selected learning rates: 0.01 for narrow, 0.001 for wide. Judged on other seeds from here on."
    assert [arm["selected"] for arm in make_snapshot(judged, corpus)["arms"]] == [1e-2, 1e-3]
    record(judged.missing, same)
    assert asked(tuned, corpus, records).missing == ()


def test_a_point_where_a_run_diverged_is_not_selected(
    study: Study, corpus: Corpus, records: Records, record: Any
) -> None:
    tuned = study.replace(tune=Grid(KEY, RATES, seeds=3))
    plan = asked(tuned, corpus, records)
    lost = (RATES[-1], FIRST_TUNING_SEED)
    record(plan.runs, lambda run: np.inf if (run.point, run.seed) == lost else 2.0 - run.point + noise(run))
    assert asked(tuned, corpus, records).selected == {"narrow": RATES[1], "wide": RATES[1]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda s: s.until_decided(12),
            "--until-decided --max-seeds 8, and now it is --until-decided --max-seeds 12",
        ),
        (
            lambda s: s.replace(looks=(), seeds=(0, 1, 2)),
            "--max-seeds 8, and now it is 3 seeds. That is fixed before there are data: ask as before",
        ),
        (lambda s: s.replace(pairs=(("narrow", "wide"),)), "other pairs of arms to compare than now"),
        (lambda s: s.replace(published=FIGURES), "other published figures, or another rule"),
    ],
    ids=["more", "fixed", "pairs", "figures"],
)
def test_looks_that_change_after_the_data_are_refused(
    study: Study, corpus: Corpus, records: Records, record: Any, change: Callable[[Study], Study], said: str
) -> None:
    looked_at = study.until_decided(8)
    first = asked(looked_at, corpus, records)
    records.write_snapshot(make_snapshot(first, corpus))
    refuse_another_question(records, make_snapshot(asked(change(looked_at), corpus, records), corpus))  # no data yet
    record(first.runs, same)
    refuse_another_question(records, make_snapshot(asked(looked_at, corpus, records), corpus))
    with pytest.raises(StudyError, match=said) as refused:
        refuse_another_question(records, make_snapshot(asked(change(looked_at), corpus, records), corpus))
    assert "name" not in str(refused.value)  # under another one the same runs would be taken over


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tune": Grid(KEY, RATES[:2], seeds=3)}, f"at {KEY} .*, 0.1, and now it is 3 seeds at {KEY} 0.001, 0.01"),
        ({"tune": Grid(KEY, RATES, seeds=4)}, f"3 seeds at {KEY} .* and now it is 4 seeds"),
        ({"published": replace(FIGURES, tolerance=0.3)}, "other published figures, or another rule"),
        ({"published": replace(FIGURES, sd=0.1)}, "other published figures, or another rule"),
        ({"published": replace(FIGURES, sd_runs=5)}, "other published figures, or another rule"),
        ({"published": replace(FIGURES, figures=(Figure("wide", 2.5),))}, "other published figures, or another rule"),
    ],
    ids=["points", "tuning seeds", "tolerance", "sd", "sd runs", "figures"],
)
def test_a_grid_and_a_rule_for_figures_that_change_after_the_data_are_refused(
    study: Study, corpus: Corpus, records: Records, record: Any, change: dict[str, Any], said: str
) -> None:
    before = study.replace(tune=Grid(KEY, RATES, seeds=3), published=FIGURES)
    first = asked(before, corpus, records)
    records.write_snapshot(make_snapshot(first, corpus))
    record(first.runs, same)
    refuse_another_question(records, make_snapshot(asked(before, corpus, records), corpus))
    with pytest.raises(StudyError, match=said):
        refuse_another_question(records, make_snapshot(asked(before.replace(**change), corpus, records), corpus))


def test_seeds_added_after_a_verdict_open_the_design(
    study: Study, corpus: Corpus, records: Records, record: Any
) -> None:
    first = make_snapshot(asked(study, corpus, records), corpus)
    assert opened(records, first) == {"kind": "fixed", "looks": [3]}
    records.write_snapshot(first)
    more = study.replace(seeds=tuple(range(6)))
    plan = asked(study, corpus, records)
    record(plan.runs[:-1], same)
    assert (
        opened(records, make_snapshot(asked(more, corpus, records), corpus))["kind"] == "fixed"
    )  # two seeds have no verdict
    record(plan.runs[-1:], same)
    assert opened(records, make_snapshot(asked(study, corpus, records), corpus)) == {"kind": "fixed", "looks": [3]}
    six = make_snapshot(asked(more, corpus, records), corpus)
    six["design"] = opened(records, six)
    assert six["design"] == {"kind": "open", "looks": [3, 6]}
    records.write_snapshot(six)
    nine = make_snapshot(asked(study.replace(seeds=tuple(range(9))), corpus, records), corpus)
    assert opened(records, nine) == {"kind": "open", "looks": [3, 6, 9]}


@pytest.mark.parametrize(
    ("done", "seeds", "looks"),
    [(2, 5, None), (5, 10, None), (5, 5, [5]), (9, 20, [9, 20]), (9, 3, [3])],
    ids=["no verdict", "the same command", "fewer", "more", "few"],
)
def test_a_verdict_that_was_seen_before_all_seeds_were_recorded_is_a_look(
    study: Study, corpus: Corpus, records: Records, record: Any, done: int, seeds: int, looks: list[int] | None
) -> None:
    """Of ten seeds `done` are recorded, and one more of one arm; then `seeds` are asked for, twice."""
    ten = study.replace(seeds=tuple(range(10)))
    plan = asked(ten, corpus, records)
    records.write_snapshot(make_snapshot(plan, corpus))
    record(plan.runs[: 2 * done + 1], same)
    then = ten.replace(seeds=tuple(range(seeds)))
    expected = {"kind": "open", "looks": looks} if looks else {"kind": "fixed", "looks": [seeds]}
    for _ in range(2):
        now = make_snapshot(asked(then, corpus, records), corpus)
        now["design"] = opened(records, now)
        assert now["design"] == expected
        records.write_snapshot(now)


def test_a_comparison_is_seen_though_another_arm_lags(
    tiny: ModuleType, corpus: Corpus, records: Records, record: Any
) -> None:
    study = tiny.study().replace(seeds=tuple(range(8)))
    plan = asked(study, corpus, records)
    records.write_snapshot(make_snapshot(plan, corpus))
    record([run for run in plan.runs if run.seed < (4 if run.arm != "wild" else 2)], same)
    then = study.replace(seeds=tuple(range(12)))
    assert opened(records, make_snapshot(asked(then, corpus, records), corpus)) == {"kind": "open", "looks": [4, 12]}


def test_a_contrast_is_seen_too(study: Study, corpus: Corpus, records: Records, record: Any) -> None:
    """Of one arm alone, which no other is compared with."""
    off = Ablated(attention=1.0)
    arm = replace(study.arms[0], recipe=replace(study.arms[0].recipe, scored=(off,)))
    alone = study.replace(arms=(arm,), contrasts=(Contrast("need", Cell("narrow", off), Cell("narrow")),))
    plan = asked(alone, corpus, records)
    records.write_snapshot(make_snapshot(plan, corpus))
    record(plan.runs, same)
    then = alone.replace(seeds=tuple(range(6)))
    assert opened(records, make_snapshot(asked(then, corpus, records), corpus)) == {"kind": "open", "looks": [3, 6]}


def test_a_question_is_as_old_as_it_has_been_asked_so(
    study: Study, corpus: Corpus, records: Records, record: Any
) -> None:
    """With other seeds, arms or margin it is another one, but for seeds that are added to an open design."""

    def since(other: Study, kind: str = "fixed") -> str:
        snapshot = make_snapshot(asked(other, corpus, records), corpus)
        return asked_since(records, snapshot | {"design": {**snapshot["design"], "kind": kind}})

    first = make_snapshot(asked(study, corpus, records), corpus)
    assert datetime.now(UTC) - datetime.fromisoformat(since(study)) < timedelta(minutes=1)
    records.write_snapshot(first)
    assert since(study) > "2020"  # the folder does not say since when it is asked
    records.write_snapshot(first | {"asked": "2020-01-01T00:00:00+00:00"})
    record(make_plan(study, corpus, []).runs[:2], same)
    assert since(study) == "2020-01-01T00:00:00+00:00"
    more = study.replace(seeds=tuple(range(6)))
    assert since(more, "open") == "2020-01-01T00:00:00+00:00"
    for other in (more, study.replace(margin=0.01), study.with_steps(20), study.until_decided(8)):
        assert since(other) > "2021"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s.replace(tune=Grid(KEY, (1e-3,))), "has 1 point"),
        (lambda s: s.replace(tune=Grid(KEY, (1e-2, 1e-3))), "must increase from above zero"),
        (lambda s: s.replace(tune=Grid(KEY, (0.0, 1e-3))), "must increase from above zero"),
        (lambda s: s.replace(tune=Grid(KEY, RATES, seeds=1)), "the luckiest of single runs"),
        (lambda s: s.replace(tune=Grid("optimizer.rate", RATES)), "no setting 'optimizer.rate'"),
        (lambda s: s.replace(tune=Grid("model.norm", RATES)), "model.norm is no number"),
        (lambda s: s.replace(tune=Grid("model.feedforward.d_ff", (8, 16))), "The arms wide set model.feedforward.d_ff"),
        (
            lambda s: s.replace(tune=Grid("optimizer.warmup", (1.2, 2.4))),
            "warmup is a whole number, .* cannot hold 1.2",
        ),
        (lambda s: s.replace(tune=Grid("optimizer.warmup", (10, 30))), "A warmup of 30 updates leaves nothing of 30"),
        (lambda s: s.replace(tune=Grid("budget.batch", (4, 8))), "tokens equal .* narrow at 4 has 960, wide at 4 has"),
        (
            lambda s: s.replace(tune=Grid(KEY, RATES), seeds=(0, FIRST_TUNING_SEED)),
            "The seed 1000000 may serve to tune",
        ),
        (lambda s: s.until_decided(2), "--max-seeds is 3 at least and 10,000 at most, but it is 2"),
        (lambda s: s.until_decided(10**9), "but it is 1,000,000,000"),
    ],
)
def test_grids_and_looks_that_cannot_be(study: Study, make: Callable[[Study], Study], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(study)


def test_a_grid_keeps_whole_numbers_whole_and_touches_nothing_else(study: Study) -> None:
    recipe = study.arms[0].recipe
    changed = Grid("optimizer.warmup", (1, 2)).at(recipe, 2.0)
    assert changed == replace(recipe, optimizer=replace(recipe.optimizer, warmup=2))
    assert type(changed.optimizer.warmup) is int
