import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.batches import IGNORED, evaluation_batches, training_batch
from model.corpus.baselines import GUESS, UNIGRAM, guess_losses, scored, trivial_losses, unigram_loss
from model.corpus.ngrams import ngram_losses
from model.corpus.tasks import PADDING, SEPARATOR, Brackets, CopyTask, Facts, FactsAndBrackets
from model.corpus.text import Corpus, CorpusError

TASKS = [
    (CopyTask(4, 6, 300, 40), 40, 12),
    (Facts(4, 300, 40), 21, 9),
    (Brackets(3, 3, 300, 40), 7, 20),
    (FactsAndBrackets(Facts(4, 300, 40), Brackets(3, 3, 200, 60)), 27, 12),
]
Task = CopyTask | Facts | Brackets | FactsAndBrackets


def documents(corpus: Corpus, held_out: bool = True) -> list[tuple[str, np.ndarray]]:
    """The text of each document and which of its characters are asked."""
    stream, asked = (corpus.held_out, corpus.held_out_asked) if held_out else (corpus.train, corpus.train_asked)
    assert asked is not None
    text = corpus.vocabulary.decode(stream)
    places = range(0, len(text), corpus.stride)
    return [(text[i : i + corpus.stride], asked[i : i + corpus.stride]) for i in places]


def answers_loss(corpus: Corpus) -> float:
    """Of guessing by the frequencies of the answers."""
    return unigram_loss(corpus.held_out[scored(corpus)])


class TestEveryTask:
    @pytest.mark.parametrize(("task", "vocabulary", "context"), TASKS)
    def test_documents_are_windows_and_answers_are_targets(self, task: Task, vocabulary: int, context: int) -> None:
        corpus = task.build(vocabulary, context)
        assert corpus.vocabulary.size == vocabulary
        assert corpus.stride == context + 1
        assert corpus.train.size % corpus.stride == corpus.held_out.size % corpus.stride == 0
        assert corpus.train.min() >= 1
        assert set(corpus.held_out) <= set(corpus.train)
        assert corpus.train_asked is not None
        assert corpus.held_out_asked is not None
        assert not corpus.held_out_asked[:: corpus.stride].any()  # the first token of a window is no target
        batches = evaluation_batches(corpus, context, 16)
        targets = np.concatenate([batch.targets_BT[batch.targets_BT != IGNORED].numpy() for batch in batches])
        assert targets.tolist() == corpus.held_out[corpus.held_out_asked].tolist()
        batch = training_batch(corpus, context, 8, seed=0, step=3)
        whole = np.concatenate([batch.inputs_BT[:, :1].numpy(), batch.inputs_BT[:, 1:].numpy()], axis=1)
        assert {tuple(row) for row in whole} <= {tuple(d[:-1]) for d in corpus.train.reshape(-1, corpus.stride)}
        assert (batch.targets_BT != IGNORED).any(dim=1).float().mean() > 0.7

    @pytest.mark.parametrize(("task", "vocabulary", "context"), TASKS)
    def test_a_guess_is_among_the_answers_that_are_ever_asked(self, task: Task, vocabulary: int, context: int) -> None:
        """Of all that is scored the mean over the targets, each guessed among the answers of its own part."""
        corpus = task.build(vocabulary, context)
        targets, costs = scored(corpus), np.full(corpus.held_out.size, np.nan)
        for start, end in corpus.parts.values() or [(0, corpus.held_out.size)]:
            own = set(corpus.held_out[start:end][targets[start:end]].tolist())
            if not corpus.parts:  # some of many symbols are asked in the training text alone
                own |= set(corpus.train[corpus.train_asked].tolist())
            costs[start:end] = math.log(len(own))
        losses = trivial_losses(corpus)
        assert losses == {GUESS: pytest.approx(costs[targets].mean()), UNIGRAM: answers_loss(corpus)}
        assert losses[GUESS] < math.log(vocabulary) - 0.05
        assert set(guess_losses(corpus)) == (set(corpus.parts) or {""})

    @pytest.mark.parametrize(("task", "vocabulary", "context"), TASKS)
    def test_is_a_function_of_its_fields(self, task: Task, vocabulary: int, context: int) -> None:
        corpus, again = task.build(vocabulary, context), task.build(vocabulary, context)
        assert corpus.sha256 == again.sha256
        assert corpus.train.tolist() == again.train.tolist()
        assert task.build(vocabulary, context + 2).sha256 != corpus.sha256
        if isinstance(task, FactsAndBrackets):
            other: Task = FactsAndBrackets(task.facts, dataclasses.replace(task.brackets, seed=1))
        else:
            other = dataclasses.replace(task, seed=1)
        assert other.build(vocabulary, context).sha256 != corpus.sha256

    @pytest.mark.parametrize(("task", "vocabulary", "context"), TASKS)
    def test_nothing_held_out_was_trained_on(self, task: Task, vocabulary: int, context: int) -> None:
        larger = task.build(vocabulary, context + 6)
        train = {text for text, _ in documents(larger, held_out=False)}
        assert not train & {text for text, _ in documents(larger)}


class TestCopy:
    @settings(max_examples=30)
    @given(st.integers(1, 5), st.integers(0, 4), st.integers(5, 12), st.integers(0, 7), st.integers(0, 9))
    def test_the_copy_is_a_copy_and_is_what_is_asked(
        self, shortest: int, more: int, vocabulary: int, room: int, seed: int
    ) -> None:
        longest = shortest + more
        corpus = CopyTask(shortest, longest, 20, 20, seed).build(vocabulary, 2 * longest + room)
        for text, asked in documents(corpus):
            first, second = text.strip(PADDING).split(SEPARATOR)
            assert first == second
            assert shortest <= len(first) <= longest
            assert not set(first) & {PADDING, SEPARATOR}
            start = text.index(SEPARATOR) + 1
            assert np.flatnonzero(asked).tolist() == [*range(start, start + len(first))]

    def test_length_and_place_are_drawn_evenly(self) -> None:
        texts = [text for text, _ in documents(CopyTask(3, 6, 12_000, 10).build(10, 14), held_out=False)]
        lengths = Counter(text.index(SEPARATOR) - len(text) + len(text.lstrip(PADDING)) for text in texts)
        assert sorted(lengths) == [3, 4, 5, 6]
        assert max(abs(n - 3000) for n in lengths.values()) < 5 * math.sqrt(12_000 * 3 / 16)
        of_three = Counter(text.index(SEPARATOR) for text in texts if len(text.strip(PADDING)) == 7)
        assert sorted(of_three) == [*range(3, 12)]
        assert max(abs(n - lengths[3] / 9) for n in of_three.values()) < 5 * math.sqrt(lengths[3] / 9)

    def test_a_guess_costs_the_logarithm_of_the_symbols_and_local_context_tells_nothing(self) -> None:
        corpus = CopyTask(8, 16, 3000, 600).build(11, 32)
        assert answers_loss(corpus) == pytest.approx(math.log(8), abs=0.005)
        assert answers_loss(corpus) <= math.log(8)
        losses = ngram_losses(corpus)
        assert losses.best[1] > math.log(8) - 0.005
        assert losses.best[0] == 1

    def test_says_what_does_not_fit(self) -> None:
        CopyTask(2, 6).build(5, 12)
        with pytest.raises(CorpusError, match=r"up to 6 symbols needs windows of 12 tokens .* but these are 11 and 5"):
            CopyTask(2, 6).build(5, 11)
        with pytest.raises(CorpusError, match="vocabulary of 5 at least, but these are 12 and 4"):
            CopyTask(2, 6).build(4, 12)
        for shortest, longest in ((0, 3), (4, 3)):
            with pytest.raises(ValueError, match=f"{shortest} to {longest} were given"):
                CopyTask(shortest, longest)


class TestFacts:
    def test_the_training_text_tells_every_answer(self) -> None:
        corpus = Facts(5, 200, 50).build(46, 16)
        names = corpus.vocabulary.characters[:40]
        known: dict[str, set[str]] = {name: set() for name in names}
        for text, _ in documents(corpus, held_out=False):
            for name, attribute in zip(text[:-1:2], text[1::2], strict=True):
                known[name].add(attribute)
        assert all(len(attributes) == 1 for attributes in known.values())
        assert Counter(attribute for (attribute,) in known.values()) == dict.fromkeys(
            corpus.vocabulary.characters[40:], 8
        )
        for text, asked in documents(corpus):
            assert len(set(text[::2])) == 9, "a name twice would let its context tell the attribute"
            assert asked.tolist() == [place % 2 == 1 for place in range(17)]
            assert all({attribute} == known[name] for name, attribute in zip(text[:-1:2], text[1::2], strict=True))

    def test_a_guess_costs_the_logarithm_of_the_attributes_and_the_name_tells_all(self) -> None:
        corpus = Facts(8, 2000, 400).build(1 + 8 + 64, 20)
        assert answers_loss(corpus) == pytest.approx(math.log(8), abs=0.01)
        losses = ngram_losses(corpus)
        assert losses.best[0] == 2
        assert losses.best[1] < 0.01

    def test_needs_names_enough(self) -> None:
        Facts(4).build(1 + 4 + 11, 20)
        with pytest.raises(CorpusError, match=r"windows of 20 tokens need at least 11 names, but .* room for 10"):
            Facts(4).build(1 + 4 + 10, 20)
        with pytest.raises(CorpusError, match=r"need at least 30 names, but .* room for 0"):
            Facts(30).build(20, 20)
        with pytest.raises(ValueError, match="fewer than two attributes"):
            Facts(1)


class TestBrackets:
    @settings(max_examples=30)
    @given(st.integers(2, 16), st.integers(2, 6), st.integers(4, 40), st.integers(0, 9))
    def test_every_bracket_closes_the_last_open_one(self, kinds: int, deepest: int, context: int, seed: int) -> None:
        corpus = Brackets(kinds, deepest, 20, 20, seed).build(2 * kinds + 1, context)
        opening, closing = corpus.vocabulary.characters[:kinds], corpus.vocabulary.characters[kinds:]
        for text, asked in documents(corpus, held_out=False):
            stack: list[str] = []
            for place, bracket in enumerate(text):
                if bracket in opening:
                    stack.append(closing[opening.index(bracket)])
                    assert not asked[place]
                else:
                    assert bracket == stack.pop()
                    assert asked[place] == (text[place - 1] in closing)
                assert len(stack) <= deepest

    def test_local_context_tells_by_its_length(self) -> None:
        """Two deep, an asked bracket closes one that holds k >= 1 pairs with chance 2^-k: two tokens tell nothing,
        three tell it for k = 1, five for k = 1 and 2."""
        corpus = Brackets(4, 2, 800, 150).build(9, 400)
        assert answers_loss(corpus) == pytest.approx(math.log(4), abs=0.003)
        loss = ngram_losses(corpus).kneser_ney
        for order, share in ((2, 1), (3, 1), (4, 1 / 2), (5, 1 / 2), (6, 1 / 4)):
            assert loss[order - 1] == pytest.approx(share * math.log(4), abs=0.025)

    def test_refuses_what_cannot_be(self) -> None:
        with pytest.raises(CorpusError, match=r"8 kinds of brackets are a vocabulary of 17, .* but it is 20"):
            Brackets().build(20, 64)
        for kinds, deepest in ((1, 4), (17, 4), (4, 1)):
            with pytest.raises(ValueError, match=f"but {kinds} kinds and a depth of {deepest} were given"):
                Brackets(kinds, deepest)


class TestFactsAndBrackets:
    def test_the_parts_are_the_two_tasks(self) -> None:
        facts, brackets = Facts(4, 30, 10), Brackets(3, 3, 20, 15)
        both = FactsAndBrackets(facts, brackets).build(27, 12)
        alone, nested = facts.build(21, 12), brackets.build(7, 12)
        assert dict(both.parts) == {"facts": (0, 130), "brackets": (130, 325)}
        assert both.held_out_asked is not None
        assert nested.held_out_asked is not None
        text = both.vocabulary.decode(both.held_out)
        assert text[:130] == alone.vocabulary.decode(alone.held_out)
        assert text[130:] == nested.vocabulary.decode(nested.held_out)
        assert both.held_out_asked[130:].tolist() == nested.held_out_asked.tolist()
        assert not set(text[:130]) & set(text[130:])
        for name, task in (("facts", alone), ("brackets", nested)):
            parts = evaluation_batches(both, 12, 5, name)
            asked = sum(int((batch.targets_BT != IGNORED).sum()) for batch in parts)
            assert asked == scored(task).sum()

    def test_too_few_names_are_too_few_here_too(self) -> None:
        with pytest.raises(CorpusError, match="need at least 64 names, but the vocabulary leaves room for 0"):
            FactsAndBrackets().build(60, 64)
