from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from model.batches import IGNORED, training_batch
from model.corpus.text import Corpus, build_corpus
from model.optimizer import AdamW
from model.parts.feedforward import GELUFeedForward
from model.recipe import Budget, Member, Recipe
from model.transformer import ModelConfig


@pytest.fixture(scope="session")
def corpus(letters: list[str]) -> Corpus:
    return build_corpus("letters", letters, vocabulary_size=12, context_length=8)


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return Recipe(
        model=ModelConfig(layers=2, d_model=16, context=8, vocabulary=12, feedforward=GELUFeedForward(24)),
        optimizer=AdamW(learning_rate=1e-2, warmup=5),
        budget=Budget(steps=60, batch=8),
    )


@pytest.fixture(scope="session")
def plain_loop(corpus: Corpus) -> Callable[[Member], tuple[list[float], list[float]]]:
    """`train_plainly` on the letters, with the held-out loss as the last of the losses."""

    def train(member: Member) -> tuple[list[float], list[float]]:
        model, losses, norms = train_plainly(member, corpus)
        return [*losses, held_out_loss(model, corpus, member.recipe.model.context)], norms

    return train


@pytest.fixture(scope="session")
def plain_loop_on() -> Callable[[Member, Corpus], tuple[nn.Module, list[float], list[float]]]:
    return train_plainly


def train_plainly(member: Member, corpus: Corpus) -> tuple[nn.Module, list[float], list[float]]:
    """The loop that a user would write for one run, with nothing of cohorts in it: the model, and the training losses
    and gradient norms of every update."""
    recipe, dtype = member.recipe, torch.float64 if member.recipe.precision == "fp64" else torch.float32
    config, budget, adamw = recipe.model, recipe.budget, recipe.optimizer
    model = config.build(recipe.streams.init.at(member.seed)).to(dtype)
    tensors = list(model.parameters())
    numbers = {"lr": adamw.learning_rate, "betas": adamw.betas, "eps": adamw.eps}
    groups = [
        {"params": [p for p in tensors if p.ndim == 2], "weight_decay": adamw.weight_decay},
        {"params": [p for p in tensors if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, **numbers)
    losses, norms = [], []
    for step in range(budget.steps):
        order = recipe.streams.order.at(member.seed)
        batch = training_batch(corpus, config.context, budget.batch, order, step)
        for group in optimizer.param_groups:
            group["lr"] = adamw.rate(step, budget.steps)
        logits_BTV, targets = model(batch.inputs_BT), batch.targets_BT.flatten()
        loss = nn.functional.cross_entropy(logits_BTV.flatten(0, 1), targets, ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(tensors, adamw.clip).item())
        optimizer.step()
        losses.append(loss.item())
    return model, losses, norms


@torch.no_grad()
def held_out_loss(model: nn.Module, corpus: Corpus, context: int) -> float:
    """Every held-out token but the first once, each seen from the start of its window, window by window."""
    stream = torch.from_numpy(np.array(corpus.held_out))
    total = 0.0
    for start in range(0, len(stream) - 1, context):
        window = stream[start : start + context + 1]
        total += nn.functional.cross_entropy(model(window[None, :-1])[0], window[1:], reduction="sum").item()
    return total / (len(stream) - 1)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Models this small gain nothing from a second thread, and threads that wait for each other lose much when another
    process takes a core."""
    torch.set_num_threads(1)
