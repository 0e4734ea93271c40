"""From any text to token streams: documents, the held-out split, the vocabulary.

One character is one token. Everything here is a pure function of the text, so the same text gives the same corpus on
every machine, and ``Corpus.sha256`` names it.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # how id 0 is written; as a character of a text it is unknown like any other
HELD_OUT_PERCENT = 10
FEWEST_DOCUMENTS = 10  # with fewer, a tenth of them is less than one document


class CorpusError(ValueError):
    """A text that cannot be had or cannot serve as a corpus; the message says why and what to do."""


@dataclass(frozen=True)
class Vocabulary:
    """The known characters, most frequent first: ids 1, 2, ...; id 0 stands for every other character.

    ``encode(decode(ids)) == ids`` for every id, and ``decode(encode(text))`` is the text with its unknown characters
    written as UNKNOWN.
    """

    characters: tuple[str, ...]

    def __post_init__(self) -> None:
        assert all(len(character) == 1 for character in self.characters)
        assert len(set(self.characters)) == len(self.characters)
        assert UNKNOWN not in self.characters

    @classmethod
    def most_frequent(cls, text: str, size: int) -> "Vocabulary":
        """The ``size - 1`` most frequent characters of ``text``, equal counts by code point; fewer if it has fewer."""
        counts = Counter(text)
        counts.pop(UNKNOWN, None)
        ranked = sorted(counts, key=lambda character: (-counts[character], character))
        return cls(tuple(ranked[: size - 1]))

    @property
    def size(self) -> int:
        """V: the known characters and the unknown symbol."""
        return len(self.characters) + 1

    def encode(self, text: str) -> NDArray[np.int64]:
        """One id in [0, V) for each character, shape (len(text),)."""
        known = _code_points("".join(self.characters))
        beyond = int(known.max(initial=-1)) + 1
        ids = np.zeros(beyond + 1, dtype=np.int64)
        ids[known] = np.arange(1, self.size)
        return ids[np.minimum(_code_points(text), beyond)]

    def decode(self, ids: ArrayLike) -> str:
        """The characters of ``ids`` (1-D, each in [0, V))."""
        ids = np.asarray(ids, dtype=np.int64)
        assert ids.ndim == 1
        assert ids.size == 0 or (ids.min() >= 0 and ids.max() < self.size), f"ids outside [0, {self.size})"
        points = _code_points(UNKNOWN + "".join(self.characters))
        return points[ids].astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")

    def coverage(self, text: str) -> float:
        """The share of the characters of ``text`` that are known; 1 for the empty text, which has no unknown one."""
        return float(np.count_nonzero(self.encode(text)) / len(text)) if text else 1.0


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as two token streams that share no document; read-only, also after pickling.

    A synthetic task is a text of documents of `stride` tokens each, of which only the answers are to be predicted.
    """

    name: str
    sha256: str  # of the whole text in UTF-8
    vocabulary: Vocabulary
    train: NDArray[np.int64]  # (tokens,)
    held_out: NDArray[np.int64]  # (tokens,)
    characters: int  # of the whole text
    coverage: float  # share of the whole text's characters that the vocabulary knows
    stride: int = 1  # windows begin at its multiples
    train_asked: NDArray[np.bool_] | None = None  # (tokens,): which are to be predicted; None is all of them
    held_out_asked: NDArray[np.bool_] | None = None
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of the held-out stream: name -> start, end
    answers: Mapping[str, int] = field(default_factory=dict)  # of a task: part, or "" without parts -> possible ones

    def __post_init__(self) -> None:
        assert set(self.answers) <= (set(self.parts) or {""})
        for stream, asked in ((self.train, self.train_asked), (self.held_out, self.held_out_asked)):
            assert stream.ndim == 1
            assert stream.dtype == np.int64
            stream.flags.writeable = False
            if asked is not None:
                assert asked.shape == stream.shape
                asked.flags.writeable = False

    @property
    def unit(self) -> str:
        """Of a loss on this text."""
        return "nats per character" if self.held_out_asked is None else "nats per answer"

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays are writeable; going through the constructor makes them read-only again.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


def build_corpus(
    name: str, documents: Sequence[str], vocabulary_size: int, context_length: int, sha256: str | None = None
) -> Corpus:
    """The corpus of ``documents``, each stream being its documents in their order, joined by a newline.

    The vocabulary comes from the training part alone, so the held-out loss also pays for characters never seen.
    ``sha256`` names the text; by default it is that of the documents joined by newlines, which does not tell where one
    ends. A file gives its own, since the same lines parted otherwise are split otherwise.

    Raises CorpusError for an empty text, for a part shorter than one window (``context_length`` tokens and the one to
    predict after the last of them), and for fewer distinct training characters than ``vocabulary_size - 1``.
    """
    if vocabulary_size < 2 or context_length < 1:
        raise CorpusError(
            f"A corpus needs a vocabulary of at least 2 and a context of at least 1 character; "
            f"{vocabulary_size} and {context_length} were given."
        )
    text = "\n".join(documents)
    if not text.strip():
        raise CorpusError(f"The corpus {name} is empty; give a text with characters in it.")
    train, held_out = ("\n".join(part) for part in split_documents(documents))
    for part, stream in (("training", train), ("held-out", held_out)):
        if len(stream) <= context_length:
            raise CorpusError(
                f"The {part} part of the corpus {name} has {len(stream):,} characters, but one window needs "
                f"{context_length + 1:,} (the text has {len(text):,} characters in {len(documents):,} documents, "
                f"{len(set(documents)):,} of them distinct). Give a longer text or a shorter context."
            )
    vocabulary = Vocabulary.most_frequent(train, vocabulary_size)
    if vocabulary.size < vocabulary_size:
        raise CorpusError(
            f"The training part of the corpus {name} has {vocabulary.size - 1:,} distinct characters, but a vocabulary "
            f"of {vocabulary_size:,} needs {vocabulary_size - 1:,} besides the unknown symbol. "
            f"Give a longer text, or a vocabulary of at most {vocabulary.size:,} (--vocabulary {vocabulary.size})."
        )
    return Corpus(
        name=name,
        sha256=sha256 or text_sha256(text),
        vocabulary=vocabulary,
        train=vocabulary.encode(train),
        held_out=vocabulary.encode(held_out),
        characters=len(text),
        coverage=vocabulary.coverage(text),
    )


def split_documents(documents: Sequence[str]) -> tuple[list[str], list[str]]:
    """(training, held-out) documents, each in the given order; about a tenth of the documents is held out.

    A document's own SHA-256 decides, against the threshold that the lowest tenth of the digests (rounded up) reaches.
    So the split does not depend on the order of the documents, and identical documents fall on the same side: none is
    trained on and scored as well. Many copies of one document can therefore make the held-out part larger.
    """
    digests = [text_sha256(document) for document in documents]
    if not digests:
        return [], []
    threshold = sorted(digests)[math.ceil(len(digests) * HELD_OUT_PERCENT / 100) - 1]
    sides: tuple[list[str], list[str]] = ([], [])
    for document, digest in zip(documents, digests, strict=True):
        sides[digest <= threshold].append(document)
    return sides


def read_documents(path: Path) -> list[str]:
    """The documents of a UTF-8 text file in any language, without byte order mark and with newlines as ``\\n``.

    Documents are what blank lines separate. A text with fewer than ten of those is taken line by line, and one with
    fewer than ten lines is cut into ten pieces of equal length, because a split by whole documents needs some to
    choose from: a novel on one line would otherwise be all training or all held-out text.

    Joining with newlines gives back the text up to blank lines, except for cut pieces: there each of the nine cuts
    becomes a newline, up to nine characters that the file does not have. That is meant: a newline is the mark of a
    boundary, and without it two pieces that the split brings together would pass for running text.

    Raises CorpusError, naming the file, when it is missing, not a file, unreadable, empty or not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path} is not UTF-8: byte {error.start:,} (0x{error.object[error.start]:02x}) cannot be read. "
            f"Save the file as UTF-8."
        ) from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({error.strerror}); a corpus is one text file in UTF-8.") from None
    text = text.removeprefix("\N{BYTE ORDER MARK}").replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise CorpusError(f"{path} is empty; a corpus needs a text with characters in it.")
    for separator in (r"\n\s*\n", r"\n"):
        documents = [part.strip("\n") for part in re.split(separator, text) if part.strip()]
        if len(documents) >= FEWEST_DOCUMENTS:
            return documents
    text = text.strip("\n")
    cuts = [len(text) * piece // FEWEST_DOCUMENTS for piece in range(FEWEST_DOCUMENTS + 1)]
    return [text[start:end] for start, end in pairwise(cuts)]


def text_sha256(text: str) -> str:
    """The SHA-256 of ``text`` in UTF-8, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _code_points(text: str) -> NDArray[np.int64]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
