"""Synthetic tasks: documents as long as one window, of which only the answers are asked and scored.

Every answer follows from what stands before it (or, for facts, from the whole training text), so that the lowest
possible loss is 0; an answer that is guessed among n equally likely ones costs ln n. A task is a pure function of its
fields, the vocabulary and the context.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from model.corpus.text import Corpus, CorpusError, Vocabulary

PADDING, SEPARATOR = "·", "|"
PAIRS = "()[]{}<>«»‹›「」『』【】〈〉《》〔〕〖〗⟦⟧⟨⟩⟪⟫"
NAMES, ATTRIBUTES = ord("一"), ord("가")  # where the characters that are written for them begin

Documents = tuple[NDArray[np.int64], NDArray[np.bool_]]  # ids and which are asked, both (documents, context + 1)


@dataclass(frozen=True)
class CopyTask:
    """Random symbols, a separator, and the same symbols again, which are asked; the rest is padding.

    How many symbols there are, from `shortest` to `longest`, and where in the document they begin are drawn anew for
    each, so that neither the place of a symbol nor a fixed distance tells where its original stands. With `shortest`
    equal to `longest` and no room for padding both do. The symbols are independent and uniform, so that one that is
    guessed costs the logarithm of their number.

    Raises ValueError for lengths that cannot be.
    """

    shortest: int = 16
    longest: int = 32
    train_documents: int = 20_000
    held_out_documents: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(f"A copy has from 1 symbol up, but {self.shortest} to {self.longest} were given.")

    def build(self, vocabulary: int, context: int) -> Corpus:
        """The corpus of all symbols that `vocabulary` has room for beside padding, separator and the unknown one.

        Raises CorpusError for fewer than two symbols, and where the longest copy does not fit into a window.
        """
        symbols = vocabulary - 3
        if self.longest > context // 2 or symbols < 2:
            raise CorpusError(
                f"A copy of up to {self.longest} symbols needs windows of {2 * self.longest} tokens and a vocabulary "
                f"of 5 at least, but these are {context} and {vocabulary}."
            )
        characters = PADDING + SEPARATOR + _run_of(NAMES, symbols)
        rng = np.random.default_rng(self.seed)
        train, held_out = (
            self._documents(n, symbols, context + 1, rng) for n in (self.train_documents, self.held_out_documents)
        )
        return _corpus("copy", characters, train, held_out, {"": symbols})

    def _documents(self, n: int, symbols: int, length: int, rng: np.random.Generator) -> Documents:
        size_N1 = rng.integers(self.shortest, self.longest + 1, size=(n, 1))
        start_N1 = rng.integers(0, length - 2 * size_N1)  # the last place leaves room for both and the separator
        symbols_NL = rng.integers(3, 3 + symbols, size=(n, length))
        place_NL = np.arange(length) - start_N1
        copied_NL = (place_NL > size_N1) & (place_NL <= 2 * size_N1)
        source_NL = np.where(copied_NL, np.arange(length) - size_N1 - 1, np.arange(length))
        ids_NL = np.take_along_axis(symbols_NL, source_NL, axis=1)
        ids_NL[(place_NL < 0) | (place_NL > 2 * size_N1)] = 1
        ids_NL[place_NL == size_N1] = 2
        return ids_NL, copied_NL


@dataclass(frozen=True)
class Facts:
    """Names, each followed by its attribute, which is asked: what must be remembered from the training text.

    The attributes are given to the names once, at random and as evenly as can be, so that one that is guessed costs
    ln(`attributes`), exactly where they divide the names. A document has no name twice, so nothing in it tells an
    attribute. Held-out documents have the same facts in other orders.

    Raises ValueError for fewer than two attributes.
    """

    attributes: int = 64
    train_documents: int = 10_000
    held_out_documents: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.attributes < 2:
            raise ValueError(f"With fewer than two attributes nothing has to be recalled; {self.attributes} was given.")

    def build(self, vocabulary: int, context: int) -> Corpus:
        """The corpus of all names that `vocabulary` has room for beside the attributes and the unknown symbol.

        Raises CorpusError unless there are more names than a document has, and as many as attributes.
        """
        characters = self.characters(vocabulary)
        return _corpus("facts", characters, *self.documents(vocabulary, context), {"": self.attributes})

    def characters(self, vocabulary: int) -> str:
        """All names, then all attributes."""
        names = vocabulary - 1 - self.attributes
        return _run_of(NAMES, names) + _run_of(ATTRIBUTES, self.attributes)

    def documents(self, vocabulary: int, context: int) -> tuple[Documents, Documents]:
        """Training and held-out documents."""
        names, length = vocabulary - 1 - self.attributes, context + 1
        facts = length // 2  # of a document; where its length is odd, one more name ends it
        if names < max(self.attributes, facts + 1):
            raise CorpusError(
                f"Facts with {self.attributes} attributes in windows of {context} tokens need at least "
                f"{max(self.attributes, facts + 1)} names, but the vocabulary leaves room for {max(names, 0)}; take a "
                "larger one, or fewer attributes."
            )
        rng = np.random.default_rng(self.seed)
        attribute_of = 1 + names + rng.permutation(np.arange(names) % self.attributes)

        def documents(n: int) -> Documents:
            names_NF = np.stack([rng.permutation(names)[: facts + 1] for _ in range(n)])
            ids_NL = np.empty((n, length), np.int64)
            ids_NL[:, ::2] = 1 + names_NF[:, : length - facts]
            ids_NL[:, 1::2] = attribute_of[names_NF[:, :facts]]
            return ids_NL, np.broadcast_to(np.arange(length) % 2 == 1, (n, length))

        return documents(self.train_documents), documents(self.held_out_documents)


@dataclass(frozen=True)
class Brackets:
    """Nested brackets of several kinds; which one closes is asked wherever the token before does not tell.

    A document is a random walk of its depth, between 0 and `deepest`: it opens or closes with equal chance where both
    are possible, and opens each of `kinds` with equal chance. Asked are closing brackets after a closing one, whose
    partner lies further back; one that is guessed costs ln(`kinds`).

    Raises ValueError for kinds or depths that cannot be.
    """

    kinds: int = 8
    deepest: int = 4
    train_documents: int = 10_000
    held_out_documents: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.kinds <= len(PAIRS) // 2 or self.deepest < 2:
            raise ValueError(
                f"Brackets are of 2 to {len(PAIRS) // 2} kinds and nest 2 deep at least, but {self.kinds} kinds and a "
                f"depth of {self.deepest} were given."
            )

    def build(self, vocabulary: int, context: int) -> Corpus:
        """The corpus for a `vocabulary` of twice the kinds and the unknown symbol; raises CorpusError for another."""
        if vocabulary != 1 + 2 * self.kinds:
            raise CorpusError(
                f"{self.kinds} kinds of brackets are a vocabulary of {1 + 2 * self.kinds}, the unknown symbol "
                f"included, but it is {vocabulary}."
            )
        return _corpus("brackets", self.characters, *self.documents(1, context), {"": self.kinds})

    @property
    def characters(self) -> str:
        """All that open, then all that close."""
        return PAIRS[: 2 * self.kinds : 2] + PAIRS[1 : 2 * self.kinds : 2]

    def documents(self, first: int, context: int) -> tuple[Documents, Documents]:
        """Training and held-out documents, in which the ids of brackets begin at `first`."""
        rng = np.random.default_rng(self.seed)
        train, held_out = (self._walks(n, context + 1, rng) for n in (self.train_documents, self.held_out_documents))
        return (first + train[0], train[1]), (first + held_out[0], held_out[1])

    def _walks(self, n: int, length: int, rng: np.random.Generator) -> Documents:
        ids_NL, asked_NL = np.empty((n, length), np.int64), np.empty((n, length), bool)
        open_ND, depth_N, rows = np.zeros((n, self.deepest), np.int64), np.zeros(n, np.int64), np.arange(n)
        closed_before_N = np.zeros(n, bool)
        for place in range(length):
            opens_N = (depth_N == 0) | ((depth_N < self.deepest) & (rng.random(n) < 0.5))
            kind_N = np.where(opens_N, rng.integers(self.kinds, size=n), open_ND[rows, depth_N - 1])
            open_ND[rows[opens_N], depth_N[opens_N]] = kind_N[opens_N]
            ids_NL[:, place] = kind_N + np.where(opens_N, 0, self.kinds)
            asked_NL[:, place] = ~opens_N & closed_before_N
            closed_before_N = ~opens_N
            depth_N += np.where(opens_N, 1, -1)
        return ids_NL, asked_NL


@dataclass(frozen=True)
class FactsAndBrackets:
    """One text of documents that recall facts and documents that nest brackets, with symbols of their own.

    The parts `facts` and `brackets` of the held-out text are the documents of each.
    """

    facts: Facts = field(default_factory=Facts)
    brackets: Brackets = field(default_factory=Brackets)

    def build(self, vocabulary: int, context: int) -> Corpus:
        """The corpus of all names that `vocabulary` has room for beside attributes, brackets and the unknown symbol.

        Raises CorpusError where they are too few for `facts`.
        """
        first = vocabulary - 2 * self.brackets.kinds
        recalled, nested = self.facts.documents(first, context), self.brackets.documents(first, context)
        train, held_out = ((np.concatenate(ids), np.concatenate(asked)) for ids, asked in map(zip, recalled, nested))
        edge = recalled[1][0].size
        parts = {"facts": (0, edge), "brackets": (edge, held_out[0].size)}
        characters = self.facts.characters(first) + self.brackets.characters
        answers = {"facts": self.facts.attributes, "brackets": self.brackets.kinds}
        return _corpus("facts and brackets", characters, train, held_out, answers, parts)


def _run_of(first: int, n: int) -> str:
    """`n` characters from code point `first` on."""
    return "".join(map(chr, range(first, first + n)))


def _corpus(
    name: str,
    characters: str,
    train: Documents,
    held_out: Documents,
    answers: Mapping[str, int],
    parts: Mapping[str, tuple[int, int]] | None = None,
) -> Corpus:
    """Ids and what is asked of them are the whole identity of a task, whatever it was made from."""
    arrays = [array for pair in (train, held_out) for array in pair]
    shapes = f"{[array.shape for array in arrays]} {characters}".encode()
    return Corpus(
        name=name,
        sha256=hashlib.sha256(shapes + b"".join(array.tobytes() for array in arrays)).hexdigest(),
        vocabulary=Vocabulary(tuple(characters)),
        train=train[0].reshape(-1),
        held_out=held_out[0].reshape(-1),
        characters=train[0].size + held_out[0].size,
        coverage=1.0,
        stride=train[0].shape[1],
        train_asked=train[1].reshape(-1),
        held_out_asked=held_out[1].reshape(-1),
        parts=parts or {},
        answers=answers,
    )
