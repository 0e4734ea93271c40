"""What the text itself says of the chapter's trivial baselines."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from claims.claim import Claim
from model.corpus import tang
from model.corpus.baselines import unigram_loss
from model.corpus.text import Vocabulary

STUCK = (5.356, 5.357, 5.392)  # what the chapter's stuck runs end at
BATCHES = 20_000


def frequencies() -> Iterator[Claim]:
    """From the 4,003 poems, fetched where they are not cached."""
    poems = tang.documents()
    whole = "\n".join(poems)
    lines = whole.replace("\n", "")
    streams = {"without line ends": lines, "with them": whole}
    known = {name: Vocabulary.most_frequent(text, 1201) for name, text in streams.items()}
    tokens = {name: known[name].encode(text) for name, text in streams.items()}
    entropies = {name: unigram_loss(stream) for name, stream in tokens.items()}
    yield Claim(
        "2.0, 2.5", "Guessing evenly costs ln 1,200, guessing by frequency so much.", ("7.09", "5.672"),
        (math.log(1200), entropies["without line ends"]),
        "entropy of the poems without line ends, 1,200 characters known and one symbol for the rest; with line ends it "
        f"is {entropies['with them']:.3f}",
    )  # fmt: skip
    coverage = {name: known[name].coverage(text) for name, text in streams.items()}
    yield Claim(
        "2.1", "The text has 4,003 poems and 255,000 characters, and 1,200 of them cover 87.6 %.",
        ("4,003", "255,000", "87.6 %"), (len(poems), round(len(whole), -3), coverage["without line ends"]),
        f"{len(whole):,} characters with line ends, {len(lines):,} without, of which {coverage['with them']:.1%} and "
        f"{coverage['without line ends']:.2%} are covered: the count is of one stream and the coverage of the "
        "other".replace("%", " %"),
    )  # fmt: skip
    told = "; ".join(
        f"{entropies[name]:.3f} {name}, where {(costs <= STUCK[-1]).mean():.2%} of batches cost a guesser "
        f"5.392 or less and {(costs <= STUCK[0]).mean():.3%} cost 5.356 or less"
        for name, costs in ((name, _batches(tokens[name])) for name in streams)
    ).replace("%", " %")
    yield Claim(
        "2.0, 2.5", "Runs stuck at 5.356, 5.357 and 5.392, which give one distribution whatever their input, have "
        "learned 0.31 more than the frequencies of the text that they were scored on.", ("yes",),
        (bool(min(entropies.values()) <= max(STUCK)),),
        f"no fixed distribution scores below a text's own entropy (Gibbs), and that is {told}. So these figures are of "
        f"another text, of one stretch of this one (the cheapest twentieth costs such a guesser "
        f"{_cheapest(tokens['with them']):.3f} with line ends, {_cheapest(tokens['without line ends']):.3f} without), "
        "or of models that do use their input; 0.31 compares two texts",
    )  # fmt: skip


def _costs(tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """What each of `tokens` costs a guesser who knows the frequencies of all of them."""
    costs: NDArray[np.float64] = -np.log(np.bincount(tokens)[tokens] / len(tokens))
    return costs


def _cheapest(tokens: NDArray[np.int64], parts: int = 20) -> float:
    """The same by the token, of that of so many consecutive parts in which it is least."""
    return min(float(part.mean()) for part in np.array_split(_costs(tokens), parts))


def _batches(tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same by the token, of random batches."""
    cost = np.concatenate([[0.0], np.cumsum(_costs(tokens))])
    starts = np.random.default_rng(0).integers(0, len(tokens) - 64, (BATCHES, 32))
    means: NDArray[np.float64] = ((cost[starts + 64] - cost[starts]) / 64).mean(1)
    return means
