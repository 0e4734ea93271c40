import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from model.cohort import Cohort
from model.corpus.baselines import unigram_loss
from model.corpus.text import Corpus
from model.diagnostics.live import INSIDE
from model.hardware import has_compiler
from model.optimizer import AdamW
from model.parts.feedforward import GELUFeedForward
from model.recipe import Budget, Member, Recipe
from model.seeding import Fixed, Follow, Streams
from model.train import Progress, Result, train, training, worth_compiling


def losses(result: Result, name: str = "train_loss") -> list[float]:
    return [point.value for point in result.curve if point.name == name]


def test_training_learns(corpus: Corpus, recipe: Recipe) -> None:
    """The language's own entropy is about 0.52 nats; a model that ignores its input cannot beat the unigram loss."""
    longer = replace(recipe, budget=Budget(steps=300, batch=16))
    (result,) = train([Member(longer, seed=0)], corpus)
    assert 0.5 < result.val_loss < 1.2 < unigram_loss(corpus.held_out[1:])


def test_a_result_tells_its_first_and_last_batch_apart(corpus: Corpus, recipe: Recipe) -> None:
    (result,) = train([Member(recipe, seed=0)], corpus)
    assert (result.initial_loss, result.last_batch_loss) == (losses(result)[0], losses(result)[-1])
    assert len({result.initial_loss, result.last_batch_loss, result.val_loss, result.val_window_sd}) == 4


def test_divergence_in_the_last_update_is_found(corpus: Corpus, recipe: Recipe) -> None:
    """The last training loss is still finite; only the evaluation after the update shows what it did."""
    one = replace(recipe, budget=Budget(steps=1, batch=8), optimizer=AdamW(learning_rate=1e30, warmup=0))
    (result,) = train([Member(one, 0)], corpus)
    assert math.isfinite(result.last_batch_loss)
    assert result.diverged_at == 0
    assert math.isnan(result.val_loss)


def test_the_same_seed_sees_the_same_text_in_every_arm(corpus: Corpus, recipe: Recipe) -> None:
    """With a rate too small to learn, two arms' losses move together because their batches are the same."""
    still = replace(recipe, optimizer=AdamW(learning_rate=1e-12, warmup=0))
    wide = replace(still, model=replace(still.model, feedforward=GELUFeedForward(48)))
    (a, other), (b,) = train([Member(still, 1), Member(still, 2)], corpus), train([Member(wide, 1)], corpus)
    assert np.corrcoef(losses(a), losses(b))[0, 1] > 0.8
    assert abs(np.corrcoef(losses(a), losses(other))[0, 1]) < 0.5


def test_streams_can_be_followed_fixed_and_shifted(corpus: Corpus, recipe: Recipe) -> None:
    def final(streams: Streams, seed: int) -> float:
        return train([Member(replace(recipe, streams=streams), seed)], corpus)[0].val_loss

    plain = final(Streams(), 5)
    assert final(Streams(Follow(2), Follow(2)), 3) == plain
    assert final(Streams(Fixed(5), Fixed(5)), 9) == plain
    fixed_order = [final(Streams(order=Fixed(5)), seed) for seed in (5, 6)]
    fixed_init = [final(Streams(init=Fixed(5)), seed) for seed in (5, 6)]
    assert fixed_order[0] == fixed_init[0] == plain
    assert len({plain, fixed_order[1], fixed_init[1]}) == 3


def test_curves_hold_the_whole_run(corpus: Corpus, recipe: Recipe) -> None:
    longer = replace(recipe, budget=Budget(steps=450, batch=2))
    (result,) = train([Member(longer, 0)], corpus)
    steps = [p.step for p in result.curve if p.name == "train_loss"]
    assert steps == [*range(0, 450, 2), 449]
    evaluated = [p.step for p in result.curve if p.name == "val_loss"]
    assert evaluated == [*range(57, 450, 57), 450]
    assert losses(result, "val_loss")[-1] == result.val_loss
    whole = {p.name for p in result.curve if not p.name.startswith(INSIDE)}
    assert whole == {"train_loss", "grad_norm", "learning_rate", "val_loss"}


def test_progress_counts_up_to_the_whole_cohort(corpus: Corpus, recipe: Recipe) -> None:
    seen: list[Progress] = list(training([Member(recipe, 0), Member(recipe, 1)], corpus, "cpu"))
    assert [p.steps_done for p in seen] == list(range(2, 121, 2))
    assert {p.steps_total for p in seen} == {120}


def test_the_spread_over_windows_is_that_of_full_windows(corpus: Corpus, recipe: Recipe) -> None:
    """Whatever the batch size, and with a rate too small to change the first weights."""
    still = replace(recipe, budget=Budget(1, 1), optimizer=AdamW(learning_rate=1e-12, warmup=0))
    model = recipe.model.build(seed=0)
    context, stream = recipe.model.context, torch.from_numpy(corpus.held_out.copy())
    windows = []
    for start in range(0, len(stream) - context, context):
        window = stream[start : start + context + 1]
        windows.append(nn.functional.cross_entropy(model(window[None, :-1])[0], window[1:]).item())
    for batch in (1, 5, 1000):
        (result,) = train([Member(replace(still, budget=Budget(1, batch)), 0)], corpus)
        assert result.val_window_sd == pytest.approx(np.std(windows, ddof=1), abs=1e-6)


def test_a_cohort_without_room_is_halved_and_loses_nobody(
    corpus: Corpus, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device that holds two members, five are trained as 2 + 1 + 2; one that does not fit alone is an error."""
    room, sizes = 2, []
    update = Cohort.update

    def small_device(cohort: Cohort, step: int) -> tuple[list[float], list[float]]:
        if len(cohort.members) > room:
            raise torch.OutOfMemoryError("out of memory")
        sizes.append(len(cohort.members))
        return update(cohort, step)

    monkeypatch.setattr(Cohort, "update", small_device)
    exact = replace(recipe, precision="fp64")
    results = train([Member(exact, seed) for seed in range(5)], corpus)
    assert [result.seed for result in results] == [0, 1, 2, 3, 4]
    assert sizes == [2] * 60 + [1] * 60 + [2] * 60
    (alone,) = train([Member(exact, 4)], corpus)
    assert results[4].val_loss == pytest.approx(alone.val_loss, abs=1e-10)
    room = 0
    with pytest.raises(torch.OutOfMemoryError):
        train([Member(exact, 0), Member(exact, 1)], corpus)


def test_short_work_is_not_compiled(recipe: Recipe) -> None:
    """Three minutes of one core at 100 GFLOP/s are where compiling begins to pay."""
    chapter = Recipe()
    assert not worth_compiling([Member(recipe, seed) for seed in range(10)], "cpu")
    assert not worth_compiling([Member(replace(chapter, budget=Budget(110)), 0)], "cpu")
    assert worth_compiling([Member(chapter, seed) for seed in range(8)], "cpu") == has_compiler("cpu")
    faulty = replace(chapter, wrong_on_purpose=True)
    assert not worth_compiling([Member(faulty, seed) for seed in range(8)], "cpu")  # a compiler may mend a fault


def test_results_hold_plain_numbers(corpus: Corpus, recipe: Recipe) -> None:
    (result,) = train([Member(recipe, 0)], corpus)
    assert result.tokens == recipe.tokens == 60 * 8 * 8
    assert result.parameters == sum(p.numel() for p in recipe.model.build(0).parameters())
    for field in dataclasses.fields(result):
        assert type(getattr(result, field.name)) in (int, float, tuple, type(None)), field.name
    assert result.cohort == 1


def test_budgets_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="steps must be at least 1"):
        Budget(steps=0)
    with pytest.raises(ValueError, match="A warmup of 100 updates leaves nothing of 100 steps"):
        Recipe(budget=Budget(steps=100))
