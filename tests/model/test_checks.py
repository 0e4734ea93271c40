"""The checks before training must catch what they are for, so each is shown a model with its fault."""

import pytest
import torch
from torch import Tensor, nn

from model.batches import Batch
from model.checks import CAUSALITY, INITIAL_LOSS, SHAPE, failed_checks
from model.parts.block import PostNorm
from model.transformer import ModelConfig

CONFIG = ModelConfig(layers=2, d_model=16, context=8, vocabulary=50)


@pytest.fixture
def batch() -> Batch:
    tokens = torch.randint(0, 50, (4, 9), generator=torch.Generator().manual_seed(0))
    return Batch(tokens[:, :-1], tokens[:, 1:])


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.healthy = CONFIG.build(seed=0)


class SeesTheFuture(Broken):
    def forward(self, tokens_BT: Tensor) -> Tensor:
        logits: Tensor = self.healthy(tokens_BT)
        return logits + 1e-3 * logits.roll(-1, dims=1)


class Deaf(Broken):
    def forward(self, tokens_BT: Tensor) -> Tensor:
        return self.healthy(torch.zeros_like(tokens_BT))  # type: ignore[no-any-return]


class Confident(Broken):
    def forward(self, tokens_BT: Tensor) -> Tensor:
        return 100 * self.healthy(tokens_BT)  # type: ignore[no-any-return]


class Overflowing(Broken):
    def forward(self, tokens_BT: Tensor) -> Tensor:
        return self.healthy(tokens_BT) / 0  # type: ignore[no-any-return]


class Short(Broken):
    def forward(self, tokens_BT: Tensor) -> Tensor:
        return self.healthy(tokens_BT)[:, :-1]  # type: ignore[no-any-return]


class ConfidentAboutTheFuture(SeesTheFuture):
    def forward(self, tokens_BT: Tensor) -> Tensor:
        return 100 * super().forward(tokens_BT)


@pytest.mark.parametrize(
    ("model", "messages"),
    [
        (SeesTheFuture, {CAUSALITY: "sees its future"}),
        (Deaf, {CAUSALITY: "does not change the output there"}),
        (Confident, {INITIAL_LOSS: "the loss before training"}),
        (Overflowing, {INITIAL_LOSS: "the loss before training"}),
        (ConfidentAboutTheFuture, {INITIAL_LOSS: "the loss before training", CAUSALITY: "sees its future"}),
        (Short, {SHAPE: "shape"}),
    ],
)
def test_a_faulty_model_is_caught(model: type[nn.Module], messages: dict[str, str], batch: Batch) -> None:
    failed = failed_checks(model(), CONFIG, batch)
    assert list(failed) == list(messages)
    for name, message in messages.items():
        assert message in str(failed[name])


@pytest.mark.parametrize("config", [CONFIG, ModelConfig(layers=1), ModelConfig(layers=1, placement=PostNorm())])
def test_healthy_models_pass(config: ModelConfig, batch: Batch) -> None:
    for seed in range(3):
        assert not failed_checks(config.build(seed), config, batch)


@pytest.mark.parametrize("vocabulary", [3, 11, 30, 1200])
def test_a_healthy_model_of_few_symbols_passes(vocabulary: int) -> None:
    """At the chapter's width a token expects itself by a logit of 2.6, which costs 0.7 nats among 11 symbols."""
    config = ModelConfig(vocabulary=vocabulary)
    tokens = torch.randint(0, vocabulary, (8, 65), generator=torch.Generator().manual_seed(0))
    assert not failed_checks(config.build(seed=0), config, Batch(tokens[:, :-1], tokens[:, 1:]))
