from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("no clock", deadline=None)  # how long an example takes says what else the machine does
settings.load_profile("no clock")


@pytest.fixture(scope="session")
def letters() -> list[str]:
    """Forty documents of sixty letters from a to j, each letter followed by the next one nine times in ten.

    Its entropy rate is about 0.52 nats a letter: -0.91 ln 0.91 - 9 (0.01 ln 0.01).
    """
    rng = np.random.default_rng(0)
    documents = []
    for _ in range(40):
        letters = [int(rng.integers(10))]
        while len(letters) < 60:
            letters.append((letters[-1] + 1) % 10 if rng.random() < 0.9 else int(rng.integers(10)))
        documents.append("".join("abcdefghij"[i] for i in letters))
    return documents


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest-randomly, which shuffles
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """The studies first: they take longest, most of it waiting, and of two processes none should be left with them."""
    yield
    items.sort(key=lambda item: "sweeps" not in item.path.parts)
