"""What the last few tokens alone can predict: k-gram tables as they are, and smoothed by Kneser and Ney's method.

A loss here is on the very targets that a model is scored on, in nats per token: every held-out token but the first, or
those of them that are asked. A k-gram always sees the k - 1 tokens before its target, also where a model's window has
only just begun, so the comparison favours the baseline a little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.corpus.text import Corpus

LONGEST = 6  # tokens, the predicted one included; on poems and tasks longer ones gain nothing
DISCOUNTS = (0.5, 1.0, 1.5)  # where the counts are too few to estimate them (Heafield et al. 2013)

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Losses:
    """Mean losses by order: entry k - 1 is that of k-grams, which see k - 1 tokens."""

    raw: tuple[float, ...]
    kneser_ney: tuple[float, ...]

    @property
    def best(self) -> tuple[float, int]:
        """The lowest Kneser-Ney loss and its order. Chosen on what is scored, so it is a little too good: a baseline
        may be."""
        return min((loss, order) for order, loss in enumerate(self.kneser_ney, start=1))


def ngram_losses(corpus: Corpus, longest: int = LONGEST) -> Losses:
    """The losses of orders 1 to `longest` on the held-out targets of `corpus`, counted on its training targets."""
    tables = Tables(corpus.train, corpus.held_out, corpus.vocabulary.size, longest)
    asked = np.ones(corpus.held_out.size, bool)
    asked[0] = False
    orders = range(1, longest + 1)
    return Losses(
        raw=tuple(float(-np.log(tables.raw(k)[asked]).mean()) for k in orders),
        kneser_ney=tuple(float(-np.log(tables.kneser_ney(k)[asked]).mean()) for k in orders),
    )


class Tables:
    """The k-grams of two streams of ids in [0, `vocabulary`), for every k up to `longest`.

    Counted are the k-grams that end at the tokens of `train` that are in `counted` (all of them by default);
    probabilities are those of every token of `scored`. Each stream is preceded by symbols that stand for its beginning
    and are never predicted.
    """

    def __init__(
        self, train: Ids, scored: Ids, vocabulary: int, longest: int, counted: Mask | None = None
    ) -> None:
        assert longest >= 1
        self.vocabulary = vocabulary
        beginning = np.full(longest, vocabulary)
        tokens = np.concatenate([beginning, train, beginning, scored])
        places = np.arange(tokens.size)
        self.counted = places[longest : longest + train.size][slice(None) if counted is None else counted]
        self.scored = places[tokens.size - scored.size :]
        self.names = [np.zeros(tokens.size, np.int64)]  # names[k][i]: one number for the k tokens that end at i
        for _ in range(longest):
            before = np.roll(self.names[-1], 1)
            _, names = np.unique(before * (vocabulary + 1) + tokens, return_inverse=True)
            self.names.append(names.astype(np.int64))

    def raw(self, order: int) -> NDArray[np.float64]:
        """p = count / count of its context for each scored token, and 1 / V where the k-gram was never seen.

        As a plain table is used: it is no distribution, for what it gives to the unseen it has not taken from the seen.
        """
        of_gram, of_context = self._grams(order)
        seen = np.bincount(of_gram[self.counted], minlength=of_gram.size)[of_gram[self.scored]]
        context = np.bincount(of_context[self.counted], minlength=of_gram.size)[of_context[self.scored]]
        return np.where(seen > 0, seen / np.maximum(context, 1), 1 / self.vocabulary)

    def kneser_ney(self, order: int) -> NDArray[np.float64]:
        """Interpolated modified Kneser-Ney (Chen & Goodman 1998, section 4.1.6) for each scored token.

        The longest k-grams have their counts, shorter ones the number of different tokens that precede them; three
        discounts a level, estimated from how many k-grams have a count of 1 to 4; below the single tokens lies 1 / V.
        """
        probability = np.full(self.scored.size, 1 / self.vocabulary)
        for k in range(1, order + 1):
            of_gram, of_context = self._grams(k)
            ends = self.counted if k == order else _first_of_each(self.names[k + 1], self.counted)
            count_of = np.bincount(of_gram[ends], minlength=of_gram.size)
            types = _first_of_each(of_gram, ends)
            counts, contexts = count_of[of_gram[types]], of_context[types]
            discount = np.array((0.0, *_discounts(counts)))
            total = np.bincount(contexts, counts, minlength=of_gram.size)
            taken = np.bincount(contexts, discount[np.minimum(counts, 3)], minlength=of_gram.size)
            count, context = count_of[of_gram[self.scored]], of_context[self.scored]
            own = count - discount[np.minimum(count, 3)]
            known = total[context] > 0
            probability[known] = ((own + taken[context] * probability) / np.maximum(total[context], 1))[known]
        return probability

    def _grams(self, k: int) -> tuple[Ids, Ids]:
        """By the place of its last token: the number of each k-gram, and of its first k - 1 tokens."""
        return self.names[k], np.roll(self.names[k - 1], 1)


def _first_of_each(names: Ids, places: Ids) -> Ids:
    """One of `places` for each different name there."""
    return places[np.unique(names[places], return_index=True)[1]]


def _discounts(counts: Ids) -> Sequence[float]:
    """What is taken from a count of 1, 2 and 3 or more: Chen & Goodman's estimate, eq. 26."""
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == c)) for c in (1, 2, 3, 4))
    if not n1 or not n2 or not n3:
        return DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if min(found) >= 0 else DISCOUNTS
