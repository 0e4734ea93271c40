"""A member of a cohort is the run that it would be alone."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.intervals import paired_difference
from analysis.verdict import Verdict, decide, equivalence_p
from model.cohort import Cohort
from model.corpus.tasks import Brackets, Facts, FactsAndBrackets
from model.corpus.text import Corpus
from model.initializer import ScaledNormal
from model.optimizer import AdamW
from model.parts.block import PostNorm
from model.parts.feedforward import GELUFeedForward
from model.parts.norm import RMSNorm
from model.recipe import Budget, Member, Recipe
from model.seeding import Fixed, Follow, Streams
from model.train import Result, train

Loop = Callable[[Member], tuple[list[float], list[float]]]
UPDATES = 50


def losses(result: Result, name: str = "train_loss") -> list[float]:
    return [point.value for point in result.curve if point.name == name]


def timeless(result: Result) -> str:
    """What a result says of its run alone, to the last bit, NaN included, as text."""
    return repr(replace(result, seconds=0.0, cohort=0))


def various(recipe: Recipe) -> list[Member]:
    """Members that differ in everything that a cohort may hold side by side."""
    recipe = replace(recipe, budget=Budget(UPDATES, batch=8))
    model = recipe.model
    return [
        Member(recipe, 0),
        Member(recipe, 7),
        Member(replace(recipe, optimizer=AdamW(3e-2, warmup=0, weight_decay=0.5)), 1),
        Member(replace(recipe, optimizer=AdamW(1e-3, (0.8, 0.99), 1e-6, 0.0, warmup=40, clip=0.05)), 2),
        Member(replace(recipe, model=replace(model, initializer=ScaledNormal(0.2))), 3),
        Member(replace(recipe, streams=Streams(Fixed(5), Follow(100))), 4),
    ]


@pytest.mark.parametrize("part", [{}, {"placement": PostNorm()}, {"norm": RMSNorm()}], ids=["pre", "post", "rms"])
def test_in_float64_a_member_is_the_plain_loop(
    corpus: Corpus, recipe: Recipe, plain_loop: Loop, part: dict[str, object]
) -> None:
    """Every loss and gradient norm of 50 updates and the final held-out loss, to 1e-9."""
    exact = replace(recipe, precision="fp64", model=replace(recipe.model, **part))
    members = various(exact)
    for member, result in zip(members, train(members, corpus), strict=True):
        expected, norms = plain_loop(member)
        np.testing.assert_allclose([*losses(result), result.val_loss], expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(losses(result, "grad_norm"), norms, rtol=1e-9, atol=0)


def test_on_a_task_a_member_is_the_plain_loop(recipe: Recipe, plain_loop_on: Callable[..., Any]) -> None:
    """Documents at a stride, and answers that alone are asked; windows hold different numbers of them."""
    task = FactsAndBrackets(Facts(4, 40, 6), Brackets(2, 3, 40, 6)).build(21, 8)
    assert task.stride > 1
    assert task.train_asked is not None
    exact = replace(recipe, precision="fp64", model=replace(recipe.model, vocabulary=21), budget=Budget(20, batch=8))
    members = [Member(exact, 0), Member(exact, 7)]
    for member, result in zip(members, train(members, task), strict=True):
        _, expected, norms = plain_loop_on(member, task)
        np.testing.assert_allclose(losses(result), expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(losses(result, "grad_norm"), norms, rtol=1e-9, atol=0)


def test_in_float32_a_member_is_the_plain_loop_up_to_rounding(corpus: Corpus, recipe: Recipe, plain_loop: Loop) -> None:
    """Rounding differs and training amplifies it: within 2e-6 nats over the first 20 updates."""
    members = various(recipe)
    for member, result in zip(members, train(members, corpus), strict=True):
        expected, _ = plain_loop(member)
        np.testing.assert_allclose(losses(result)[:20], expected[:20], rtol=0, atol=2e-6)


def test_final_losses_are_those_of_plain_loops_in_distribution(
    corpus: Corpus, recipe: Recipe, plain_loop: Loop
) -> None:
    """By this project's own verdict at a margin of 0.01 nats: 200 updates in float32, ten seeds in one cohort against
    the same seeds one by one are equivalent, and a quarter of the learning rate is not."""
    long = replace(recipe, budget=Budget(200, batch=8))
    lower = replace(long, optimizer=replace(long.optimizer, learning_rate=recipe.optimizer.learning_rate / 4))
    together, other = (train([Member(r, seed) for seed in range(10)], corpus) for r in (long, lower))
    alone = [plain_loop(Member(long, seed))[0][-1] for seed in range(10)]
    assert verdict(together, alone) is Verdict.EQUIVALENT
    assert verdict(other, alone) is not Verdict.EQUIVALENT


def verdict(results: list[Result], alone: list[float]) -> Verdict:
    pair = paired_difference([result.val_loss for result in results], alone)
    return decide(pair.n, pair.mean, pair.p_value, equivalence_p(pair, margin=0.01))


@pytest.fixture(scope="module")
def alone(corpus: Corpus, recipe: Recipe) -> list[Result]:
    """The `various` members in float64, each trained by itself."""
    return [train([member], corpus)[0] for member in various(replace(recipe, precision="fp64"))]


@given(seats=st.permutations(range(6)), size=st.integers(1, 6))
@settings(max_examples=10, deadline=None)
def test_no_seat_is_better_than_another(
    corpus: Corpus, recipe: Recipe, alone: list[Result], seats: list[int], size: int
) -> None:
    """Whoever the others are and wherever a member sits: the same run, in float64 to 1e-10."""
    members = various(replace(recipe, precision="fp64"))
    chosen = seats[:size]
    for seat, result in zip(chosen, train([members[i] for i in chosen], corpus), strict=True):
        np.testing.assert_allclose(losses(result), losses(alone[seat]), rtol=0, atol=1e-10)
        assert result.val_loss == pytest.approx(alone[seat].val_loss, abs=1e-10)
        assert result.val_window_sd == pytest.approx(alone[seat].val_window_sd, abs=1e-10)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_cohort_repeats_itself_bit_for_bit(corpus: Corpus, recipe: Recipe, precision: str) -> None:
    members = various(replace(recipe, precision=precision))
    first, again = train(members, corpus), train(members, corpus)
    assert list(map(timeless, first)) == list(map(timeless, again))


def test_a_diverged_member_touches_nobody(corpus: Corpus, recipe: Recipe) -> None:
    """Its neighbours' losses are bit for bit those that they have beside a healthy member."""
    wild = Member(replace(recipe, optimizer=AdamW(1e30, warmup=0)), 9)
    calm = [Member(recipe, seed) for seed in range(3)]
    beside_wild = train([*calm[:2], wild, calm[2]], corpus)
    beside_calm = train([*calm[:2], Member(recipe, 9), calm[2]], corpus)
    assert beside_wild[2].diverged_at is not None
    assert math.isnan(beside_wild[2].val_loss)
    assert beside_calm[2].diverged_at is None
    for seat in (0, 1, 3):
        assert timeless(beside_wild[seat]) == timeless(beside_calm[seat])


def test_members_that_diverge_are_no_longer_computed(
    corpus: Corpus, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of four diverge: from then on the cohort holds one, whose run is what it is alone."""
    held: list[int] = []
    update = Cohort.update

    def watched(cohort: Cohort, step: int) -> tuple[list[float], list[float]]:
        held.append(len(cohort.weights_MP))
        return update(cohort, step)

    monkeypatch.setattr(Cohort, "update", watched)
    exact = replace(recipe, precision="fp64")
    wild = replace(exact, optimizer=AdamW(1e60, warmup=0))
    members = [Member(wild, 0), Member(exact, 1), Member(wild, 2), Member(wild, 3)]
    results = train(members, corpus)
    assert [r.diverged_at is None for r in results] == [False, True, False, False]
    assert all(r.steps == r.diverged_at + 1 for r in results if r.diverged_at is not None)
    assert held[0] == 4
    assert held[-1] == 1
    assert len(held) == recipe.budget.steps
    (alone,) = train([members[1]], corpus)
    np.testing.assert_allclose(losses(results[1]), losses(alone), rtol=0, atol=1e-10)


def test_all_members_may_diverge(corpus: Corpus, recipe: Recipe) -> None:
    wild = replace(recipe, optimizer=AdamW(1e30, warmup=0))
    results = train([Member(wild, 0), Member(wild, 1)], corpus)
    assert all(r.diverged_at is not None and r.steps < 20 for r in results)


def test_bf16_rounds_matrix_products_and_nothing_else(corpus: Corpus, recipe: Recipe) -> None:
    """Weights, moments and losses stay float32; the losses differ from float32's by about bfloat16's rounding, 2^-9."""
    members = [Member(replace(recipe, precision=precision), 0) for precision in ("fp32", "bf16")]
    cohort = Cohort(members[1:], corpus, "cpu", compiled=False)
    cohort.update(0)
    moments = [m for state in cohort.optimizer.state.values() for m in state.values()]
    assert {t.dtype for t in (cohort.weights_MP, cohort.gradients_MP, *moments)} == {torch.float32}
    single, half = (losses(train([member], corpus)[0])[:20] for member in members)
    differences = np.abs(np.subtract(single, half))
    assert 0 < differences.max() < 0.02


def test_only_members_of_one_program_are_a_cohort(corpus: Corpus, recipe: Recipe) -> None:
    wide = replace(recipe, model=replace(recipe.model, feedforward=GELUFeedForward(8)))
    assert all(member.recipe.program == recipe_of(various(recipe)).program for member in various(recipe))
    for other in (wide, replace(recipe, budget=Budget(61, 8)), replace(recipe, precision="bf16")):
        assert other.program != recipe.program
        with pytest.raises(AssertionError, match="different programs"):
            train([Member(recipe, 0), Member(other, 0)], corpus)


def recipe_of(members: list[Member]) -> Recipe:
    return members[0].recipe
