"""The family of texts: where a study's text comes from, poems, a file, or a task that is made up.

Each builds the corpus for a vocabulary (symbols, the unknown one included) and a context (tokens of a window).
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from model.corpus import tang
from model.corpus.tasks import Brackets, CopyTask, Facts, FactsAndBrackets
from model.corpus.text import Corpus, build_corpus, read_documents


@dataclass(frozen=True)
class TangPoems:
    """The 4,003 Tang poems, or the `whole` collection of 57,607, fifteen times as long."""

    whole: bool = False

    @property
    def edition(self) -> tang.Edition:
        """Which poems these are."""
        return tang.TANG_ALL if self.whole else tang.TANG

    @property
    def name(self) -> str:
        return self.edition.name

    def build(self, vocabulary: int, context: int) -> Corpus:
        """Fetches the poems where they are not cached. Raises CorpusError when nobody has them."""
        return build_corpus(self.name, tang.documents(self.edition), vocabulary, context)


@dataclass(frozen=True)
class TextFile:
    """A UTF-8 text in any language."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def build(self, vocabulary: int, context: int) -> Corpus:
        """Raises CorpusError for a file that cannot be read or is too short."""
        documents = read_documents(self.path)
        sha256 = hashlib.sha256(self.path.read_bytes()).hexdigest()
        return build_corpus(self.name, documents, vocabulary, context, sha256)


WrittenText = TangPoems | TextFile
Task = CopyTask | Facts | Brackets | FactsAndBrackets
Text = WrittenText | Task


def text_called(path: Path) -> WrittenText:
    """The file at `path`; the whole collection for its name, ``tang-all``, where there is no such file."""
    whole = TangPoems(whole=True)
    return whole if str(path) == whole.name and not path.exists() else TextFile(path)
