import pytest

from model.corpus.text import Corpus, build_corpus
from model.optimizer import AdamW
from model.parts.feedforward import GELUFeedForward
from model.train import Budget, Recipe
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
