"""The chapter's runs are those of the studies they come from, and its figures the printed ones."""

import importlib
from dataclasses import replace

import pytest

from model.corpus.text import Corpus
from model.recipe import Recipe
from model.scoring import AtLength
from model.seeding import Fixed, Streams
from sweeps import chapter, context_length
from sweeps.engine.fingerprint import recipe_text, run_id
from sweeps.engine.plan import judged_runs
from sweeps.engine.published import Figure, check_figures, check_pairs
from sweeps.engine.study import Arm, StudyError

STUDY = chapter.study()
ARMS = {arm.name: arm for arm in STUDY.arms}


def of_arm(arm: Arm, seed: int = 0) -> str:
    return run_id(arm.recipe, "text", seed)


@pytest.mark.parametrize(
    ("experiment", "study"),
    [("depth", "norm_depth"), ("residual", "residual"), ("positions", "positions")],
)
def test_runs_are_those_of_the_study_of_the_question(experiment: str, study: str) -> None:
    own = importlib.import_module(f"sweeps.{study}").study()
    for arm in own.arms:
        assert of_arm(ARMS[f"{experiment}-{arm.name}"]) == of_arm(arm)
        assert of_arm(ARMS[f"{experiment}-{arm.name}"], 1) != of_arm(arm)


def test_an_update_is_of_32_windows_as_in_the_chapter() -> None:
    """Those of context too, so that windows of 8 characters see an eighth of the text."""
    assert {arm.recipe.budget.batch for arm in STUDY.arms} == {32}
    own = {of_arm(arm) for arm in context_length.study().arms}
    assert {of_arm(ARMS[f"context-{length}"]) for length in (8, 16, 32, 64, 128)} < own
    assert ARMS["context-8"].recipe.tokens * 8 == ARMS["context-64"].recipe.tokens


def test_the_rates_are_the_judged_runs_of_the_tuned_study(corpus: Corpus) -> None:
    """Whichever point is selected there, its judged runs are runs of the chapter."""
    own = importlib.import_module("sweeps.norm_placement_lr").study()
    for point in own.tune.points:
        judged = judged_runs(own, corpus, {"pre": 1, "post": 1}, {"pre": point, "post": point})
        for run in judged:
            ours = ARMS[f"rate-{run.arm}-{point:g}"]
            assert run_id(ours.recipe, corpus.sha256, run.seed) == run.run_id


def test_there_are_28_runs_and_every_arm_has_its_figures() -> None:
    assert STUDY.seeds == (0,)
    assert len({of_arm(arm) for arm in STUDY.arms}) == len(STUDY.arms) == 28
    counts = {name: [f.measure for f in STUDY.published.figures if f.arm == name] for name in ARMS}
    for name, measures in counts.items():
        at = ["val_loss at 128", "val_loss at 256"] if name.startswith("positions-") else []
        assert measures == ["last_batch_loss", *at], name


def test_a_figure_at_another_length_is_one_that_is_recorded() -> None:
    for figure in STUDY.published.figures:
        if figure.measure.startswith("val_loss "):
            names = [f"val_loss {scoring.name}" for scoring in ARMS[figure.arm].recipe.scored]
            assert figure.measure in names


def test_arms_of_a_pair_differ_in_what_their_experiment_varies() -> None:
    alike = {"budget.steps", "optimizer.warmup", "model.vocabulary", "model.d_model"}
    for arm, other in STUDY.pairs:
        ours, theirs = recipe_text(ARMS[arm].recipe), recipe_text(ARMS[other].recipe)
        assert arm.split("-")[0] == other.split("-")[0]
        assert all(ours[key] == theirs[key] for key in alike)
        assert "context" in arm or ARMS[arm].recipe.tokens == ARMS[other].recipe.tokens


def test_figures_are_of_the_chapter_s_text_and_steps_alone() -> None:
    few = STUDY.with_arms(("context-16",))
    assert few.published is not None
    assert few.with_steps(700).published is None
    assert few.with_text(None, 80).published is None
    assert few.as_rehearsal().published is None


@pytest.mark.parametrize("name", ["chapter", "init_scale", "batch_size"])
def test_it_has_a_form_of_the_size_of_a_test(name: str) -> None:
    whole = importlib.import_module(f"sweeps.{name}").study()
    quick = whole.as_rehearsal()
    assert quick.rehearsal
    assert all(quick.arm(arm.name).recipe.budget.steps == max(2, arm.recipe.budget.steps // 10) for arm in whole.arms)


def test_arms_bring_what_they_are_compared_with() -> None:
    some = STUDY.with_arms(("residual-without-2",))
    assert {arm.name for arm in some.arms} == {"depth-pre-12", "residual-without-2", "residual-with-2"}
    assert some.pairs == (("residual-without-2", "residual-with-2"),)
    assert {figure.arm for figure in some.published.figures} == {arm.name for arm in some.arms}
    with pytest.raises(StudyError, match="None of residual-with-2 is compared with another arm"):
        STUDY.with_arms(("residual-with-2",))


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ((("a", "a"),), "does not name two arms"),
        ((("a", "z"),), "does not name two arms"),
        ((("a", "b"), ("a", "c")), "an arm is compared with one other"),
    ],
)
def test_pairs_that_cannot_be(pairs: tuple[tuple[str, str], ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_pairs(pairs, dict.fromkeys("abc", Recipe()))


@pytest.mark.parametrize("place", [0, 1])
def test_an_arm_that_fixes_a_stream_is_in_no_pair(place: int) -> None:
    changed = STUDY.arm(STUDY.pairs[0][place])
    fixed = replace(changed, recipe=replace(changed.recipe, streams=Streams(order=Fixed(0))))
    arms = tuple(fixed if arm is changed else arm for arm in STUDY.arms)
    with pytest.raises(StudyError, match=f"The pair .* is of '{fixed.name}', which fixes a stream of randomness"):
        STUDY.replace(arms=arms, varies=(*STUDY.varies, "streams"))


def test_figures_that_cannot_be() -> None:
    recipes = {"a": Recipe(), "b": Recipe(scored=(AtLength(128),))}

    def check(*figures: Figure) -> None:
        check_figures(replace(STUDY.published, figures=figures), recipes)

    check(Figure("a", 1.0), Figure("a", 1.0, "val_loss"), Figure("b", 1.0, "val_loss at 128"))
    with pytest.raises(ValueError, match="published of z, which"):
        check(Figure("z", 1.0))
    with pytest.raises(ValueError, match="More than one figure of a by last_batch_loss"):
        check(Figure("a", 1.0), Figure("a", 2.0))
    for arm, measure in (("a", "val_loss at 128"), ("b", "val_loss at 182"), ("b", "last_batch"), ("b", "seconds")):
        with pytest.raises(ValueError, match=f"A figure of {arm} is by '{measure}', but its runs are measured by last"):
            check(Figure(arm, 1.0, measure))
    with pytest.raises(ValueError, match="above zero"):
        replace(STUDY.published, sd=0.0)
