"""What the last few tokens alone can predict: k-gram tables as they are, and smoothed by Kneser and Ney's method.

A loss here is on the very targets that a model is scored on, in nats per token. A k-gram always sees the k - 1 tokens
before its target, also where a model's window has only just begun, so the comparison favours the baseline a little.

``python -m model.corpus.ngrams [FILE]`` prints the table by order, for the Tang poems or any text.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.corpus.baselines import scored
from model.corpus.text import Corpus, CorpusError
from model.corpus.texts import TangPoems, text_called

LONGEST = 6  # tokens, the predicted one included; of the poems a seventh gains 0.0005 nats
FALLBACK = (0.5, 1.0, 1.5)  # discounts where the counts are too few for an estimate (KenLM has the same)

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]
Probabilities = NDArray[np.float64]


@dataclass(frozen=True)
class Losses:
    """Mean losses by order: entry k - 1 is that of k-grams, which see k - 1 tokens."""

    raw: tuple[float, ...]
    kneser_ney: tuple[float, ...]

    @property
    def best(self) -> tuple[int, float]:
        """The order with the lowest Kneser-Ney loss, and that loss; of equal ones the lowest order. It is chosen on
        what is scored, so it is a little too good: a baseline may be."""
        order = 1 + min(range(len(self.kneser_ney)), key=self.kneser_ney.__getitem__)
        return order, self.kneser_ney[order - 1]


def ngram_losses(corpus: Corpus, longest: int = LONGEST) -> Losses:
    """The losses of orders 1 to `longest` on the held-out targets of `corpus`, counted on its training targets."""
    targets = scored(corpus)
    tables = Tables(corpus.train, corpus.held_out, corpus.vocabulary.size, longest, corpus.train_asked)
    return Losses(
        raw=tuple(_loss(tables.raw(order)[targets]) for order in range(1, longest + 1)),
        kneser_ney=tuple(_loss(probability[targets]) for probability in tables.kneser_ney()),
    )


class Tables:
    """The k-grams of two streams of ids in [0, `vocabulary`), for every k up to `longest`.

    Counted are the k-grams that end at the tokens of `train` that are `asked` (all of them by default); probabilities
    are those of every token of `predicted`. Before each stream stand symbols for its beginning, which are never
    predicted.
    """

    def __init__(self, train: Ids, predicted: Ids, vocabulary: int, longest: int, asked: Mask | None = None) -> None:
        assert longest >= 1
        assert train.size > 0
        self.vocabulary, self.longest = vocabulary, longest
        beginning = np.full(longest, vocabulary)
        tokens = np.concatenate([beginning, train, beginning, predicted])
        self.counted = longest + np.flatnonzero(np.ones(train.size, bool) if asked is None else asked)
        self.predicted = np.arange(tokens.size - predicted.size, tokens.size)
        self.names = [np.zeros(tokens.size, np.int64)]  # names[k][i]: one number for the k tokens that end at i
        for _ in range(longest):
            longer = np.roll(self.names[-1], 1) * (vocabulary + 1) + tokens
            self.names.append(np.unique(longer, return_inverse=True)[1].astype(np.int64))

    def raw(self, order: int) -> Probabilities:
        """Count / count of the context for each predicted token, and 1 / V where the k-gram was never counted.

        A plain table as it is often used. It is no distribution: what it gives to the unseen is taken from nobody, so
        that its loss may be lower than that of any distribution.
        """
        seen = self._tally(self.names[order], self.counted)[self.names[order][self.predicted]]
        context = self._contexts(order)
        total = self._tally(context, self.counted)[context[self.predicted]]
        return np.where(seen > 0, seen / np.maximum(total, 1), 1 / self.vocabulary)

    def kneser_ney(self) -> Iterator[Probabilities]:
        """Interpolated modified Kneser-Ney (Chen & Goodman 1998, section 4.1.6) for each predicted token; by order.

        In a model of some order the longest k-grams have their counts, and shorter ones the number of different tokens
        that precede them. Each level has three discounts, estimated from how many k-grams have a count of 1 to 4;
        below the single tokens lies 1 / V.
        """
        below = np.full(self.predicted.size, 1 / self.vocabulary)
        for order in range(1, self.longest + 1):
            yield self._level(order, self.counted, below)
            if order < self.longest:
                below = self._level(order, _one_of_each(self.names[order + 1], self.counted), below)

    def _level(self, k: int, ends: Ids, below: Probabilities) -> Probabilities:
        """(count - discount) / total + what the discounts of that context leave over * `below`, counted at `ends`."""
        grams, contexts = self.names[k], self._contexts(k)
        count = self._tally(grams, ends)
        kinds = _one_of_each(grams, ends)
        discount = np.array((0.0, *_discounts(count[grams[kinds]])))
        taken = discount[np.minimum(count, 3)]
        total = self._tally(contexts, ends)[contexts[self.predicted]]
        left_over = np.bincount(contexts[kinds], taken[grams[kinds]], minlength=grams.size)[contexts[self.predicted]]
        own = (count - taken)[grams[self.predicted]]
        return np.where(total > 0, (own + left_over * below) / np.maximum(total, 1), below)

    def _contexts(self, k: int) -> Ids:
        """By the place of its last token, the name of a k-gram's first k - 1 tokens."""
        return np.roll(self.names[k - 1], 1)

    def _tally(self, names: Ids, places: Ids) -> Ids:
        """How often each name occurs at `places`."""
        return np.bincount(names[places], minlength=names.size)


def _one_of_each(names: Ids, places: Ids) -> Ids:
    """One of `places` for each different name there."""
    place_of = np.full(names.size, -1)
    place_of[names[places]] = places
    return place_of[place_of >= 0]


def _discounts(counts: Ids) -> Sequence[float]:
    """What is taken from a count of 1, of 2, and of 3 or more (Chen & Goodman 1998, eq. 26)."""
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == count)) for count in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if min(found) > 0 else FALLBACK


def _loss(probability: Probabilities) -> float:
    return float(-np.log(probability).mean()) + 0.0  # + 0.0: certainty scores 0, not -0


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the held-out losses of a text by order, and those of raw tables on the text that they were counted from."""
    parser = argparse.ArgumentParser(prog="python -m model.corpus.ngrams", description=main.__doc__)
    parser.add_argument("text", type=Path, nargs="?", help="a UTF-8 text, or tang-all (default: the 4,003 Tang poems)")
    parser.add_argument("--vocabulary", type=int, default=1200, help="symbols, the unknown one included")
    options = parser.parse_args(arguments)
    try:
        corpus = (text_called(options.text) if options.text else TangPoems()).build(options.vocabulary, LONGEST)
    except CorpusError as error:
        parser.error(str(error))
    losses, by_heart = ngram_losses(corpus), Tables(corpus.train, corpus.train, corpus.vocabulary.size, LONGEST)
    print(f"{corpus.name}, {corpus.vocabulary.size:,} symbols: loss in nats per character")
    print("tokens seen   Kneser-Ney   raw table   raw table on its own text")
    for order, (smoothed, raw) in enumerate(zip(losses.kneser_ney, losses.raw, strict=True), start=1):
        own = _loss(by_heart.raw(order)[1:])
        print(f"{order - 1:11}   {smoothed:10.3f}   {raw:9.3f}   {own:25.3f}")


if __name__ == "__main__":
    main()
