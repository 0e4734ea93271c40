import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.corpus.baselines import GUESS, unigram_loss
from model.corpus.ngrams import ngram_losses
from model.corpus.tasks import CopyTask
from model.corpus.text import Corpus, build_corpus, read_documents
from model.memory import memory
from model.optimizer import AdamW
from model.parts.feedforward import GELUFeedForward
from model.recipe import Budget, Precision, Recipe
from model.seeding import Fixed, Streams
from model.transformer import ModelConfig
from sweeps.engine.plan import Cohort, Plan, Run, make_plan
from sweeps.engine.snapshot import make_snapshot
from sweeps.engine.source import CommitState
from sweeps.engine.study import Arm, Study, StudyError


@pytest.fixture
def study(tiny: ModuleType) -> Study:
    made: Study = tiny.study()
    return made


def test_arms_advance_together(study: Study, corpus: Corpus) -> None:
    plan = make_plan(study, corpus, [])
    assert [(run.seed, run.arm) for run in plan.runs[:4]] == [(0, "narrow"), (0, "wide"), (0, "wild"), (1, "narrow")]
    assert len({run.run_id for run in plan.runs}) == len(plan.runs) == 9


def test_only_what_is_missing_would_run(study: Study, corpus: Corpus) -> None:
    whole = make_plan(study, corpus, [])
    some = [run.run_id for run in whole.runs[:5]]
    plan = make_plan(study, corpus, [*some, "of another study"])
    assert plan.missing == whole.runs[5:]
    assert plan.recorded == set(some)
    assert make_plan(study, corpus, [run.run_id for run in whole.runs]).missing == ()


def test_more_seeds_and_fewer_arms_keep_identities(study: Study, corpus: Corpus) -> None:
    known = [run.run_id for run in make_plan(study, corpus, []).runs]
    more = make_plan(study.replace(seeds=tuple(range(5))), corpus, known)
    assert {run.seed for run in more.missing} == {3, 4}
    fewer = make_plan(study.with_arms(("wide",)), corpus, known)
    assert fewer.missing == ()


def test_steps_and_text_change_identities(study: Study, corpus: Corpus) -> None:
    known = [run.run_id for run in make_plan(study, corpus, []).runs]
    assert len(make_plan(study.with_steps(31), corpus, known).missing) == 9
    other = replace(corpus, sha256="0" * 64)
    assert len(make_plan(study, other, known).missing) == 9


def small(d_ff: int, rate: float = 1e-2, precision: Precision = "fp32") -> Recipe:
    model = ModelConfig(layers=1, d_model=16, context=8, vocabulary=12, feedforward=GELUFeedForward(d_ff))
    return Recipe(model, AdamW(learning_rate=rate, warmup=3), Budget(30, batch=8), precision=precision)


# Seven arms of four programs: two learning rates and a fixed stream of one, a width, a precision of another width.
RECIPES = [
    small(8),
    small(32),
    small(8, 1e-3),
    replace(small(8), streams=Streams(order=Fixed(0))),
    small(32, precision="bf16"),
    small(32, 1e-3),
    small(16),
]
ONE = max(memory(recipe, 1).total for recipe in RECIPES)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Some arms over some seeds, some of whose runs are recorded."""
    chosen = draw(st.lists(st.sampled_from(range(len(RECIPES))), min_size=2, max_size=6, unique=True))
    seeds = draw(st.lists(st.integers(0, 99), min_size=1, max_size=12, unique=True))
    arms = tuple(Arm(f"arm{i}", RECIPES[i], "") for i in chosen)
    varies = ("model", "optimizer", "streams", "precision")
    study = Study("s", "?", arms, arms[0].name, varies, 0.1, seeds=tuple(seeds))
    runs = tuple(Run(f"{arm.name}-{seed}", arm.name, arm.recipe, seed) for seed in seeds for arm in arms)
    recorded = draw(st.sets(st.sampled_from([run.run_id for run in runs])))
    return Plan(study, runs, frozenset(recorded))


def ids(cohorts: Sequence[Cohort]) -> list[list[str]]:
    return [[run.run_id for run in cohort] for cohort in cohorts]


def rounds(cohorts: Sequence[Cohort]) -> list[tuple[int, Recipe]]:
    """For each cohort, how many of its program came before it, and its program."""
    programs = [cohort[0].recipe.program for cohort in cohorts]
    return [(programs[:place].count(program), program) for place, program in enumerate(programs)]


@given(plan=plans(), places=st.integers(1, 6), room=st.integers(1, 9), most=st.integers(1, 10))
def test_cohorts(plan: Plan, places: int, room: int, most: int) -> None:
    """Every missing run once, in order, with its like; as large as allowed, as even as possible; arms advance together.

    `room` is the memory in units of what the largest single run needs.
    """
    cohorts = plan.cohorts(places, room * ONE, most)
    assert sorted(chain(*ids(cohorts))) == sorted(run.run_id for run in plan.missing)
    assert all(len({run.recipe.program for run in cohort}) == 1 for cohort in cohorts)
    assert all(memory(cohort[0].recipe, len(cohort)).total <= room * ONE for cohort in cohorts)
    programs = list(dict.fromkeys(run.recipe.program for run in plan.missing))
    for program in programs:
        alike = [run for run in plan.missing if run.recipe.program == program]
        own = [cohort for cohort in cohorts if cohort[0].recipe.program == program]
        assert [run for cohort in own for run in cohort] == alike
        largest = min(most, -(-len(alike) // places))
        while memory(program, largest).total > room * ONE:
            largest -= 1
        assert len(own) == -(-len(alike) // largest)
        sizes = [len(cohort) for cohort in own]
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) - min(sizes) <= 1
    turns = [(turn, programs.index(program)) for turn, program in rounds(cohorts)]
    assert turns == sorted(turns)


@given(plan=plans(), places=st.tuples(st.integers(1, 6), st.integers(1, 6)), data=st.data())
def test_cohorts_of_an_earlier_launch_stay_as_they_were(
    plan: Plan, places: tuple[int, int], data: st.DataObject
) -> None:
    before = plan.cohorts(places[0], 9 * ONE)
    recorded = data.draw(st.sets(st.sampled_from([run.run_id for run in plan.runs])))
    now = plan.after(recorded)
    cohorts = now.cohorts(places[1], 9 * ONE, earlier=ids(before))
    whole = [cohort for cohort in before if not recorded & {run.run_id for run in cohort}]
    assert cohorts[: len(whole)] == whole
    assert sorted(chain(*ids(cohorts))) == sorted(run.run_id for run in now.missing)
    assert plan.cohorts(places[1], 9 * ONE, earlier=[["of another plan"]]) == plan.cohorts(places[1], 9 * ONE)


def test_an_earlier_cohort_that_no_longer_fits_is_cut_again(study: Study, corpus: Corpus) -> None:
    plan = make_plan(study, corpus, [])
    room = memory(study.arms[1].recipe, 2).total
    large = plan.cohorts(1, 100 * room)
    smaller = plan.cohorts(1, room, earlier=ids(large))
    assert max(map(len, large)) == 6
    assert smaller == plan.cohorts(1, room)
    assert max(map(len, smaller)) == 2


def test_ten_runs_in_fours_are_four_three_and_three(study: Study, corpus: Corpus) -> None:
    plan = make_plan(study.with_arms(("wide",)).replace(seeds=tuple(range(10))), corpus, [])
    cohorts = plan.cohorts(1, 2**40, most=4)
    assert [(cohort[0].arm, [run.seed for run in cohort]) for cohort in cohorts] == [
        ("narrow", [0, 1, 2, 3]),
        ("wide", [0, 1, 2, 3]),
        ("narrow", [4, 5, 6]),
        ("wide", [4, 5, 6]),
        ("narrow", [7, 8, 9]),
        ("wide", [7, 8, 9]),
    ]


def test_learning_rates_of_one_arm_train_together(study: Study, corpus: Corpus) -> None:
    (first, *_) = make_plan(study, corpus, []).cohorts(1, 2**40)
    assert {run.arm for run in first} == {"narrow", "wild"}


def test_a_run_that_does_not_fit_is_refused_with_both_numbers(study: Study, corpus: Corpus) -> None:
    plan = make_plan(study, corpus, [])
    need = memory(study.arms[0].recipe, 1).total
    with pytest.raises(StudyError, match=rf"needs {need / 2**30:.3g} GiB of memory, and a worker has 1e-05 GiB"):
        plan.cohorts(1, round(1e-5 * 2**30))


def test_another_vocabulary_is_refused(study: Study, corpus: Corpus, text: Path) -> None:
    smaller = build_corpus("letters.txt", read_documents(text), 8, 8)
    with pytest.raises(StudyError, match="has a vocabulary of 12, but the text was read with 8"):
        make_plan(study, smaller, [])


def test_the_snapshot_of_a_task_counts_answers_alone(study: Study) -> None:
    """A symbol is guessed among the 9 of 12 that are not padding, separator or unknown. A copy of four is so short that
    six tokens tell some of it."""
    task = study.replace(text=CopyTask(2, 4, 500, 300))
    corpus = task.corpus()
    snapshot = make_snapshot(make_plan(task, corpus, []), corpus)
    assert snapshot["unit"] == "nats per answer"
    assert snapshot["baselines"] == {GUESS: math.log(9), "unigram": pytest.approx(math.log(9), abs=0.01)}
    assert snapshot["guesses"] == {}
    assert snapshot["local"] == {"6-gram (Kneser-Ney)": ngram_losses(corpus).best[1]}


def test_the_snapshot_tells_windows_in_a_batch(study: Study, corpus: Corpus) -> None:
    arms = tuple(replace(arm, recipe=replace(arm.recipe, budget=Budget(20, batch=3))) for arm in study.arms)
    snapshot = make_snapshot(make_plan(study.replace(arms=arms), corpus, []), corpus)
    assert {arm["batch"] for arm in snapshot["arms"]} == {3}


def test_the_snapshot_tells_arms_apart_and_what_they_share(study: Study, corpus: Corpus) -> None:
    snapshot = make_snapshot(make_plan(study, corpus, []), corpus, "python tiny.py", CommitState("abc", True))
    assert [arm["differences"] for arm in snapshot["arms"]] == [
        {},
        {"model.feedforward.d_ff": "32"},
        {"optimizer.learning_rate": "1e+30"},
    ]
    assert "model.feedforward.d_ff" not in snapshot["held_equal"]
    assert snapshot["held_equal"]["model.d_model"] == "16"
    assert snapshot["baselines"] == {"uniform": math.log(12), "unigram": unigram_loss(corpus.held_out[1:])}
    order, loss = ngram_losses(corpus).best
    assert snapshot["local"] == {f"{order}-gram (Kneser-Ney)": loss}
    assert snapshot["unit"] == "nats per character"
    assert len(snapshot["runs"]) == 9
    assert (snapshot["commit"], snapshot["uncommitted"]) == ("abc", True)
