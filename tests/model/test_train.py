import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from model.batches import evaluation_batches, training_batch
from model.corpus.baselines import unigram_loss
from model.corpus.text import Corpus
from model.optimizer import AdamW
from model.parts.feedforward import GELUFeedForward
from model.seeding import Fixed, Follow, Streams
from model.train import Budget, Member, Progress, Recipe, Result, evaluate, train, training


def losses(result: Result, name: str = "train_loss") -> list[float]:
    return [point.value for point in result.curve if point.name == name]


def timeless(result: Result) -> Result:
    return replace(result, seconds=0.0)


def test_training_is_the_plain_loop(corpus: Corpus, recipe: Recipe) -> None:
    """The loop that a user would write, with the same first weights and batches, gives the same numbers bit for bit."""
    config, budget = recipe.model, recipe.budget
    model = config.build(seed=3)
    decay = [p for p in model.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), fused=True)
    expected = []
    for step in range(budget.steps):
        batch = training_batch(corpus.train, config.context, budget.batch, 3, step)
        for group in optimizer.param_groups:
            group["lr"] = recipe.optimizer.rate(step, budget.steps)
        loss = nn.functional.cross_entropy(model(batch.inputs_BT).flatten(0, 1), batch.targets_BT.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        expected.append(loss.item())
    (result,) = train([Member(recipe, seed=3)], corpus)
    assert losses(result) == expected
    assert result.last_batch_loss == expected[-1]
    assert result.initial_loss == expected[0]
    scored = evaluate(model, evaluation_batches(corpus.held_out, config.context, budget.batch))
    assert result.val_loss == scored.loss
    assert result.val_window_sd == scored.window_sd


def test_training_learns(corpus: Corpus, recipe: Recipe) -> None:
    """The language's own entropy is about 0.52 nats; a model that ignores its input cannot beat the unigram loss."""
    longer = replace(recipe, budget=Budget(steps=300, batch=16))
    (result,) = train([Member(longer, seed=0)], corpus)
    assert 0.5 < result.val_loss < 1.2 < unigram_loss(corpus.held_out[1:])


def test_a_member_does_not_know_its_cohort(corpus: Corpus, recipe: Recipe) -> None:
    other = replace(recipe, model=replace(recipe.model, feedforward=GELUFeedForward(8)))
    together = train([Member(recipe, 0), Member(other, 1), Member(recipe, 2)], corpus)
    alone = [train([member], corpus)[0] for member in (Member(recipe, 0), Member(other, 1), Member(recipe, 2))]
    assert list(map(timeless, together)) == list(map(timeless, alone))


def test_a_diverged_member_is_recorded_and_touches_nobody(corpus: Corpus, recipe: Recipe) -> None:
    wild = replace(recipe, optimizer=replace(recipe.optimizer, learning_rate=1e30, warmup=0))
    before, diverged, after = train([Member(recipe, 0), Member(wild, 0), Member(recipe, 0)], corpus)
    assert diverged.diverged_at is not None
    assert diverged.steps == diverged.diverged_at + 1 < recipe.budget.steps
    assert math.isnan(diverged.val_loss)
    assert diverged.tokens == diverged.steps * 8 * 8
    assert before.diverged_at is None
    assert timeless(before) == timeless(after)


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
    a, b, other = train([Member(still, 1), Member(wide, 1), Member(still, 2)], corpus)
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
    assert {p.name for p in result.curve} == {"train_loss", "grad_norm", "learning_rate", "val_loss"}


def test_progress_counts_up_to_the_whole_cohort(corpus: Corpus, recipe: Recipe) -> None:
    seen: list[Progress] = list(training([Member(recipe, 0), Member(recipe, 1)], corpus, "cpu"))
    assert [p.steps_done for p in seen] == list(range(120))
    assert {p.steps_total for p in seen} == {120}


def test_evaluation_is_the_slow_mean(corpus: Corpus, recipe: Recipe) -> None:
    """Every held-out token once, each seen from the start of its window, whatever the batch size."""
    model = recipe.model.build(seed=0)
    context, stream = recipe.model.context, torch.from_numpy(corpus.held_out.copy())
    total, windows = 0.0, []
    for start in range(0, len(stream) - 1, context):
        window = stream[start : start + context + 1]
        each = nn.functional.cross_entropy(model(window[None, :-1])[0], window[1:], reduction="none").double()
        total += each.sum().item()
        if len(each) == context:
            windows.append(each.mean().item())
    for batch in (1, 5, 1000):
        scored = evaluate(model, evaluation_batches(corpus.held_out, context, batch))
        assert scored.loss == pytest.approx(total / (len(stream) - 1), abs=1e-6)
        assert scored.window_sd == pytest.approx(np.std(windows, ddof=1), abs=1e-6)


def test_results_hold_plain_numbers(corpus: Corpus, recipe: Recipe) -> None:
    (result,) = train([Member(recipe, 0)], corpus)
    assert result.tokens == recipe.tokens == 60 * 8 * 8
    assert result.parameters == sum(p.numel() for p in recipe.model.build(0).parameters())
    for field in dataclasses.fields(result):
        assert type(getattr(result, field.name)) in (int, float, tuple, type(None)), field.name


def test_budgets_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="steps must be at least 1"):
        Budget(steps=0)
    with pytest.raises(ValueError, match="A warmup of 100 updates leaves nothing of 100 steps"):
        Recipe(budget=Budget(steps=100))
