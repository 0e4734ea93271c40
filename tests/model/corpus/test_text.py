import hashlib
import pickle
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.corpus.text import (
    UNKNOWN,
    CorpusError,
    Vocabulary,
    build_corpus,
    read_documents,
    split_documents,
)

# Few letters, so that documents repeat and characters tie; with characters of one, two, three and four bytes in UTF-8.
texts = st.text(alphabet="ab é春\U00020000" + UNKNOWN, max_size=20)
document_lists = st.lists(texts, max_size=60)
sizes = st.integers(min_value=1, max_value=12)

POEMS = [f"第{i}首\n春眠不覺曉，處處聞啼鳥。{chr(0x4E00 + i)}" for i in range(100)]


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "text.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


class TestVocabulary:
    def test_orders_by_frequency_then_code_point(self) -> None:
        vocabulary = Vocabulary.most_frequent("cccbbaad\U0001f600", size=5)
        assert vocabulary.characters == ("c", "a", "b", "d")
        assert vocabulary.size == 5
        assert vocabulary.encode("cabd\U0001f600é").tolist() == [1, 2, 3, 4, 0, 0]
        assert vocabulary.encode("").tolist() == []

    def test_without_characters_knows_nothing(self) -> None:
        assert Vocabulary(()).encode("ab").tolist() == [0, 0]
        assert Vocabulary(()).decode([0, 0]) == UNKNOWN * 2

    @given(st.text(), sizes, st.text())
    def test_encoding_equals_the_dictionary(self, source: str, size: int, text: str) -> None:
        vocabulary = Vocabulary.most_frequent(source, size)
        oracle = {character: i for i, character in enumerate(vocabulary.characters, start=1)}
        for sample in (source, text):
            ids = vocabulary.encode(sample)
            assert ids.dtype == np.int64
            assert ids.tolist() == [oracle.get(character, 0) for character in sample]

    @given(texts, sizes)
    def test_decoding_restores_all_but_the_unknown(self, text: str, size: int) -> None:
        vocabulary = Vocabulary.most_frequent(text, size)
        shown = "".join(c if c in vocabulary.characters else UNKNOWN for c in text)
        assert vocabulary.decode(vocabulary.encode(text)) == shown
        known = sum(shown.count(character) for character in vocabulary.characters)
        assert vocabulary.coverage(text) == (known / len(text) if text else 1)

    @given(texts, sizes, st.data())
    def test_every_id_survives_the_round_trip(self, text: str, size: int, data: st.DataObject) -> None:
        vocabulary = Vocabulary.most_frequent(text, size)
        ids = data.draw(st.lists(st.integers(min_value=0, max_value=vocabulary.size - 1)))
        assert vocabulary.encode(vocabulary.decode(ids)).tolist() == ids

    @given(texts, sizes)
    def test_no_other_choice_covers_more(self, text: str, size: int) -> None:
        vocabulary = Vocabulary.most_frequent(text, size)
        counts = Counter(text)
        left_out = [counts[c] for c in counts if c not in vocabulary.characters and c != UNKNOWN]
        assert all(counts[c] >= max(left_out, default=0) for c in vocabulary.characters)

    @pytest.mark.parametrize("ids", [[3], [-1]])
    def test_refuses_ids_outside(self, ids: list[int]) -> None:
        with pytest.raises(AssertionError, match="outside"):
            Vocabulary(("a", "b")).decode(ids)


class TestSplit:
    @given(document_lists)
    def test_is_a_partition_of_whole_documents_in_order(self, documents: list[str]) -> None:
        train, held_out = split_documents(documents)
        assert not set(train) & set(held_out)
        assert Counter(train) + Counter(held_out) == Counter(documents)
        assert train == [document for document in documents if document in set(train)]
        assert held_out == [document for document in documents if document in set(held_out)]

    @given(document_lists, st.randoms(use_true_random=False))
    def test_does_not_depend_on_the_order(self, documents: list[str], generator: random.Random) -> None:
        shuffled = generator.sample(documents, len(documents))
        assert Counter(split_documents(shuffled)[1]) == Counter(split_documents(documents)[1])

    @given(st.lists(texts, unique=True, max_size=60))
    def test_holds_out_a_tenth_rounded_up(self, documents: list[str]) -> None:
        assert len(split_documents(documents)[1]) == -(-len(documents) // 10)

    def test_is_fixed_by_content(self) -> None:
        lowest = sorted(POEMS, key=lambda poem: hashlib.sha256(poem.encode()).digest())[:10]
        assert set(split_documents(POEMS)[1]) == set(lowest)

    @given(document_lists, document_lists)
    def test_more_documents_move_the_threshold_only(self, documents: list[str], more: list[str]) -> None:
        before = set(split_documents(documents)[1])
        after = set(split_documents(documents + more)[1]) & set(documents)
        assert before <= after or after <= before


class TestCorpus:
    def test_streams_are_the_parts_joined_by_newlines(self) -> None:
        corpus = build_corpus("poems", POEMS, vocabulary_size=20, context_length=8)
        text = "\n".join(POEMS)
        train, held_out = ("\n".join(part) for part in split_documents(POEMS))
        assert corpus.vocabulary == Vocabulary.most_frequent(train, 20)
        assert corpus.train.tolist() == corpus.vocabulary.encode(train).tolist()
        assert corpus.held_out.tolist() == corpus.vocabulary.encode(held_out).tolist()
        assert corpus.train.size + corpus.held_out.size == corpus.characters - 1
        assert corpus.characters == len(text)
        assert corpus.coverage == corpus.vocabulary.coverage(text) < 1
        assert corpus.sha256 == hashlib.sha256(text.encode()).hexdigest()

    def test_is_read_only_also_after_pickling(self) -> None:
        corpus = build_corpus("poems", POEMS, vocabulary_size=20, context_length=8)
        copy = pickle.loads(pickle.dumps(corpus))
        assert copy.vocabulary == corpus.vocabulary
        assert (copy.name, copy.sha256, copy.coverage) == (corpus.name, corpus.sha256, corpus.coverage)
        for one in (corpus, copy):
            np.testing.assert_array_equal(one.train, corpus.train)
            for stream in (one.train, one.held_out):
                with pytest.raises(ValueError, match="read-only"):
                    stream[0] = 1

    def test_vocabulary_comes_from_the_training_part_alone(self) -> None:
        marked = [f"{poem}{UNKNOWN}" for poem in POEMS]
        train, held_out = split_documents(marked)
        only_held_out = set("".join(held_out)) - set("".join(train))
        largest = len(set("\n".join(train)) - {UNKNOWN}) + 1
        corpus = build_corpus("poems", marked, vocabulary_size=largest, context_length=8)
        assert only_held_out
        assert not only_held_out & set(corpus.vocabulary.characters)
        assert corpus.vocabulary.size == largest

    @pytest.mark.parametrize("documents", [[], [""], ["", " \n", "\t"]])
    def test_refuses_an_empty_text(self, documents: list[str]) -> None:
        with pytest.raises(CorpusError, match="poems is empty"):
            build_corpus("poems", documents, vocabulary_size=2, context_length=1)

    def test_refuses_too_few_characters_with_the_largest_possible_vocabulary(self) -> None:
        train, _ = split_documents(POEMS)
        possible = len(set("\n".join(train))) + 1
        build_corpus("poems", POEMS, vocabulary_size=possible, context_length=8)
        with pytest.raises(CorpusError, match=rf"{possible - 1} distinct .* at most {possible} \(--vocabulary"):
            build_corpus("poems", POEMS, vocabulary_size=possible + 1, context_length=8)

    def test_a_window_needs_the_token_after_the_context(self) -> None:
        shortest = len("\n".join(split_documents(POEMS)[1]))
        build_corpus("poems", POEMS, vocabulary_size=20, context_length=shortest - 1)
        with pytest.raises(CorpusError, match=f"held-out part .* {shortest} characters, .* needs {shortest + 1} "):
            build_corpus("poems", POEMS, vocabulary_size=20, context_length=shortest)

    def test_refuses_a_text_that_is_all_held_out(self) -> None:
        with pytest.raises(CorpusError, match=r"training part .* has 0 characters.* 12 documents, 1 of them distinct"):
            build_corpus("copies", ["the same text"] * 12, vocabulary_size=5, context_length=4)

    @pytest.mark.parametrize(("vocabulary_size", "context_length"), [(1, 8), (0, 8), (20, 0)])
    def test_refuses_sizes_without_meaning(self, vocabulary_size: int, context_length: int) -> None:
        with pytest.raises(CorpusError, match="at least"):
            build_corpus("poems", POEMS, vocabulary_size, context_length)


class TestReadDocuments:
    def test_blank_lines_separate(self, tmp_path: Path) -> None:
        text = "\n \n\n".join(f"  Strophe {i}\nzweite Zeile" for i in range(10))
        expected = [f"  Strophe {i}\nzweite Zeile" for i in range(10)]
        assert read_documents(write(tmp_path, f"\n{text}\n\n")) == expected
        windows = text.replace("\n", "\r\n").encode("utf-8-sig")
        assert read_documents(write(tmp_path, windows)) == expected

    def test_then_lines(self, tmp_path: Path) -> None:
        lines = [f"строка {i}" for i in range(12)]
        assert read_documents(write(tmp_path, "\n\n".join(["\n".join(lines[:9]), "\n".join(lines[9:])]))) == lines

    @given(st.text(alphabet="aé春\n", max_size=50).filter(str.strip))
    def test_then_ten_pieces_that_add_up(self, tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
        pieces = read_documents(write(tmp_path_factory.getbasetemp(), text))
        assert len(pieces) >= 10
        if len(text.split()) < 10:
            assert "".join(pieces) == text.strip("\n")
            assert max(map(len, pieces)) - min(map(len, pieces)) <= 1

    @given(st.lists(st.text(alphabet="aé春", min_size=1, max_size=5), min_size=10, max_size=20))
    def test_blocks_survive_the_file(self, tmp_path_factory: pytest.TempPathFactory, documents: list[str]) -> None:
        assert read_documents(write(tmp_path_factory.getbasetemp(), "\n\n".join(documents))) == documents

    def test_says_where_it_is_not_utf_8(self, tmp_path: Path) -> None:
        with pytest.raises(CorpusError, match=r"text\.txt is not UTF-8: byte 6 \(0xe9\)"):
            read_documents(write(tmp_path, b"\xef\xbb\xbfcaf\xe9 au lait"))
        with pytest.raises(CorpusError, match="not UTF-8: byte 0 "):
            read_documents(write(tmp_path, "春眠".encode("utf-16")))

    @pytest.mark.parametrize("content", ["", "\n\n", " \r\n\t", "\N{BYTE ORDER MARK}"])
    def test_refuses_an_empty_file(self, tmp_path: Path, content: str) -> None:
        with pytest.raises(CorpusError, match=r"text\.txt is empty"):
            read_documents(write(tmp_path, content))

    def test_refuses_what_is_not_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(CorpusError, match=r"missing\.txt cannot be read \(No such file"):
            read_documents(tmp_path / "missing.txt")
        with pytest.raises(CorpusError, match=r"cannot be read \(Is a directory\)"):
            read_documents(tmp_path)
