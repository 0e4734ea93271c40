import hashlib
from pathlib import Path

import pytest

from model.corpus import tang
from model.corpus.text import CorpusError, build_corpus
from model.corpus.texts import TangPoems, TextFile


def test_a_file_is_read_with_vocabulary_and_context(tmp_path: Path, letters: list[str]) -> None:
    path = tmp_path / "letters.txt"
    path.write_text("\n\n".join(letters))
    corpus = TextFile(path).build(12, 8)
    expected = build_corpus("letters.txt", letters, 12, 8)
    assert (corpus.name, corpus.vocabulary) == (expected.name, expected.vocabulary)
    assert corpus.train.tolist() == expected.train.tolist()
    assert corpus.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() != expected.sha256
    with pytest.raises(CorpusError, match="needs 10,001"):
        TextFile(path).build(12, 10_000)
    with pytest.raises(CorpusError, match=r"missing\.txt cannot be read"):
        TextFile(tmp_path / "missing.txt").build(12, 8)


@pytest.mark.parametrize(("whole", "edition"), [(False, tang.TANG), (True, tang.TANG_ALL)])
def test_the_poems_are_those_of_the_edition(
    whole: bool, edition: tang.Edition, monkeypatch: pytest.MonkeyPatch, letters: list[str]
) -> None:
    asked = []
    monkeypatch.setattr(tang, "documents", lambda edition: asked.append(edition) or letters)
    corpus = TangPoems(whole).build(12, 8)
    assert asked == [edition]
    assert corpus.name == TangPoems(whole).name == edition.name
    assert corpus.sha256 == build_corpus("", letters, 12, 8).sha256
