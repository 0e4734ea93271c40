from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.corpus import tang
from model.corpus.baselines import scored, unigram_loss
from model.corpus.ngrams import Losses, Tables, main, ngram_losses
from model.corpus.text import Corpus, CorpusError, Vocabulary, build_corpus

V = 4
tokens = st.lists(st.integers(min_value=0, max_value=V - 1), min_size=1, max_size=60)
masks = st.lists(st.booleans(), min_size=60, max_size=60)


def array(values: Sequence[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def corpus_of(stream: np.ndarray, train: int = 1, **more: Any) -> Corpus:
    """Of ten letters; all but the first `train` tokens are held out."""
    stream = stream.astype(np.int64)
    return Corpus("test", "0", Vocabulary(tuple("abcdefghi")), stream[:train], stream[train:], 0, 1.0, **more)


class Naive:
    """Modified Kneser-Ney as Chen and Goodman write it, with dictionaries and one probability at a time."""

    def __init__(self, train: Sequence[int], asked: Sequence[bool], order: int) -> None:
        self.order = order
        text = [V] * order + list(train)
        ends = [order + i for i, wanted in enumerate(asked) if wanted]
        self.counts: dict[int, Counter[tuple[int, ...]]] = {
            order: Counter(tuple(text[end - order + 1 : end + 1]) for end in ends)
        }
        for k in range(order - 1, 0, -1):
            longer = {tuple(text[end - k : end + 1]) for end in ends}
            self.counts[k] = Counter(gram[1:] for gram in longer)
        self.discounts = {k: self._discounts(self.counts[k]) for k in self.counts}

    @staticmethod
    def _discounts(counts: Counter[tuple[int, ...]]) -> tuple[float, float, float]:
        n = Counter(counts.values())
        if 0 in (n[1], n[2], n[3]):
            return 0.5, 1.0, 1.5
        y = n[1] / (n[1] + 2 * n[2])
        d = tuple(c - (c + 1) * y * n[c + 1] / n[c] for c in (1, 2, 3))
        return (d[0], d[1], d[2]) if min(d) > 0 else (0.5, 1.0, 1.5)

    def probability(self, context: tuple[int, ...], token: int) -> float:
        """Of `token` after all of `context`."""
        k = len(context) + 1
        below = 1 / V if k == 1 else self.probability(context[1:], token)
        follow = {gram: count for gram, count in self.counts[k].items() if gram[:-1] == context}
        total = sum(follow.values())
        if not total:
            return below
        taken = {gram: self.discounts[k][min(count, 3) - 1] for gram, count in follow.items()}
        own = follow.get((*context, token), 0) - taken.get((*context, token), 0.0)
        return own / total + sum(taken.values()) / total * below


@settings(max_examples=60)
@given(tokens, tokens, masks)
def test_kneser_ney_is_the_formula_word_by_word(train: list[int], predicted: list[int], mask: list[bool]) -> None:
    asked = mask[: len(train)]
    tables = Tables(array(train), array(predicted), V, 4, np.array(asked))
    before = [V] * 4 + predicted
    for order, found in enumerate(tables.kneser_ney(), start=1):
        naive = Naive(train, asked, order)
        expected = [
            naive.probability(tuple(before[4 + i - order + 1 : 4 + i]), token) for i, token in enumerate(predicted)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(tokens, st.lists(st.integers(min_value=0, max_value=V - 1), min_size=5, max_size=5))
def test_probabilities_add_up_to_one(train: list[int], context: list[int]) -> None:
    last = [list(Tables(array(train), array([*context, token]), V, 6).kneser_ney()) for token in range(V)]
    for order in range(6):
        assert sum(of_token[order][-1] for of_token in last) == pytest.approx(1, abs=1e-12)
        assert min(of_token[order][-1] for of_token in last) > 0


def test_kneser_ney_by_hand() -> None:
    """Counts 2 and 1 of 3: the discounts 1 and 0.5 leave half of the mass to 1 / V."""
    (found,) = Tables(array([0, 0, 1]), array([0, 1, 2]), 3, 1).kneser_ney()
    np.testing.assert_allclose(found, [1 / 3 + 1 / 6, 0.5 / 3 + 1 / 6, 1 / 6])


def test_raw_tables_by_hand() -> None:
    """0 1 0 1 1: after 0 always 1; after 1 once 0 and once 1; the text begins with 0; 2 never occurs."""
    tables = Tables(array([0, 1, 0, 1, 1]), array([0, 1, 1, 0, 2, 1]), 3, 2)
    np.testing.assert_allclose(tables.raw(1), [2 / 5, 3 / 5, 3 / 5, 2 / 5, 1 / 3, 3 / 5])
    np.testing.assert_allclose(tables.raw(2), [1, 1, 1 / 2, 1 / 2, 1 / 3, 1 / 3])


def test_only_what_is_asked_is_counted() -> None:
    train = array([0, 1] * 50 + [0, 2] * 50)
    asked = np.arange(200) % 2 == 1
    asked[100:] = False
    assert Tables(train, array([0, 2]), 3, 2, asked).raw(2)[1] == 1 / 3
    assert Tables(train, array([0, 2]), 3, 2).raw(2)[1] == 1 / 2


def test_a_long_table_knows_its_own_text_by_heart() -> None:
    text = np.random.default_rng(0).integers(0, 20, 2000)
    losses = [-np.log(Tables(text, text, 20, 6).raw(order)).mean() for order in (1, 2, 4, 6)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.006


@given(tokens, tokens)
def test_single_tokens_cannot_beat_the_unigram(train: list[int], predicted: list[int]) -> None:
    (found,) = Tables(array(train), array(predicted), V, 1).kneser_ney()
    assert -np.log(found).mean() >= unigram_loss(array(predicted)) - 1e-12


def test_a_chain_is_learned_to_its_entropy() -> None:
    """Each token tells the next: to the entropy rate -0.91 ln 0.91 - 9 (0.01 ln 0.01) with two tokens, not with one."""
    rng = np.random.default_rng(0)
    steps = np.where(rng.random(40_000) < 0.9, 1, rng.integers(0, 10, 40_000))
    corpus = corpus_of(np.cumsum(steps) % 10, 30_000)
    losses = ngram_losses(corpus)
    rate = -0.91 * np.log(0.91) - 0.09 * np.log(0.01)
    assert losses.best == (2, losses.kneser_ney[1])
    assert losses.kneser_ney[0] == pytest.approx(np.log(10), abs=0.01)
    assert losses.kneser_ney[1] == pytest.approx(rate, abs=0.03)
    assert min(losses.kneser_ney) > rate - 0.01


def test_raw_tables_are_no_distribution() -> None:
    """Of tokens drawn evenly from ten no distribution can score below ln 10; a raw table of three tokens does, since
    what it gives to the unseen is taken from nobody, and with more tokens it tends to 1 / V instead."""
    losses = ngram_losses(corpus_of(np.random.default_rng(1).integers(0, 10, 4000), 400))
    assert losses.raw[2] < np.log(10) - 0.2
    assert losses.raw[2] < losses.raw[3] < losses.raw[4] < losses.raw[5] < np.log(10)
    assert min(losses.kneser_ney) > np.log(10) - 0.01


def test_the_best_is_the_shortest_of_equal_ones() -> None:
    assert Losses(raw=(), kneser_ney=(2.0, 1.0, 1.0)).best == (2, 1.0)


def test_scored_is_what_a_model_is_scored_on() -> None:
    stream = np.arange(7) % 3
    assert scored(corpus_of(stream)).tolist() == [False, True, True, True, True, True]
    asked = np.array([True, False, True, True, True, False])
    assert scored(corpus_of(stream, held_out_asked=asked)).tolist() == [False, False, True, True, True, False]
    assert scored(corpus_of(stream, stride=3, held_out_asked=asked)).tolist() == [
        False,
        False,
        True,
        False,
        True,
        False,
    ]
    assert asked.tolist() == [True, False, True, True, True, False]


@pytest.mark.corpus
def test_the_poems() -> None:
    """The chapter's table (4.818, 5.698, 6.401, 6.720, 6.817) under its names 1, 2, 3, 4 and 6: what is used of it is
    the number of tokens seen, one less than the order, and its shape. No distribution over the poems' characters that
    sees no context has 4.818: the unigram entropy is 5.5."""
    try:
        corpus = build_corpus("tang", tang.documents(), 1200, 64)
    except CorpusError as error:
        pytest.skip(str(error))
    losses = ngram_losses(corpus)
    assert [round(loss, 3) for loss in losses.raw] == [5.497, 4.384, 4.962, 5.779, 6.307, 6.462]
    assert [round(loss, 3) for loss in losses.kneser_ney] == [5.497, 4.664, 4.52, 4.456, 4.425, 4.414]
    assert losses.best[0] == 6
    assert losses.kneser_ney[0] > unigram_loss(corpus.held_out[scored(corpus)])
    on_training_text = Tables(corpus.train, corpus.train, 1200, 7).raw(7)
    assert -np.log(on_training_text).mean() == pytest.approx(0.008, abs=5e-4)


def test_the_table_of_a_text(tmp_path: Path, letters: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "letters.txt"
    path.write_text("\n\n".join(letters))
    main([str(path), "--vocabulary", "12"])
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head == "letters.txt, 12 symbols: loss in nats per character"
    losses = ngram_losses(build_corpus("letters", letters, 12, 6))
    assert [row.split()[:3] for row in rows] == [
        [str(seen), f"{smoothed:.3f}", f"{raw:.3f}"]
        for seen, (smoothed, raw) in enumerate(zip(losses.kneser_ney, losses.raw, strict=True))
    ]
    own = [float(row.split()[3]) for row in rows]
    assert own == sorted(own, reverse=True)
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "missing.txt")])
    assert ended.value.code == 2
    assert "missing.txt cannot be read" in capsys.readouterr().err
