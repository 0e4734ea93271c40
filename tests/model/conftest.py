import numpy as np
import pytest

from model.corpus.text import Corpus, build_corpus
from model.optimizer import AdamW
from model.parts.feedforward import GELUFeedForward
from model.train import Budget, Recipe
from model.transformer import ModelConfig


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """Forty documents of a language in which each letter is mostly followed by the next one."""
    rng = np.random.default_rng(0)
    documents = []
    for _ in range(40):
        letters = [int(rng.integers(10))]
        while len(letters) < 60:
            letters.append((letters[-1] + 1) % 10 if rng.random() < 0.9 else int(rng.integers(10)))
        documents.append("".join("abcdefghij"[i] for i in letters))
    return build_corpus("letters", documents, vocabulary_size=12, context_length=8)


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return Recipe(
        model=ModelConfig(layers=2, d_model=16, context=8, vocabulary=12, feedforward=GELUFeedForward(24)),
        optimizer=AdamW(learning_rate=1e-2, warmup=5),
        budget=Budget(steps=60, batch=8),
    )
