from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.batches import IGNORED, evaluation_batches, training_batch, window_starts, windows
from model.corpus.text import Corpus, Vocabulary


def text(length: int, **fields: Any) -> Corpus:
    """The tokens 0, 1, ... as the training text and as the held-out text."""
    return Corpus("numbers", "", Vocabulary(()), np.arange(length), np.arange(length), length, 1.0, **fields)


TEXT = text(1000)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    first, again = (training_batch(TEXT, 8, 4, seed=3, step=7) for _ in range(2))
    assert torch.equal(first.inputs_BT, again.inputs_BT)
    for seed, step in ((4, 7), (3, 8), (7, 3)):
        assert not torch.equal(first.inputs_BT, training_batch(TEXT, 8, 4, seed, step).inputs_BT)


def test_targets_are_the_next_tokens() -> None:
    batch = training_batch(TEXT, 8, 4, seed=0, step=0)
    assert torch.equal(batch.targets_BT, batch.inputs_BT + 1)
    assert batch.inputs_BT.shape == (4, 8)


def test_windows_of_several_runs_are_each_run_s_own() -> None:
    starts_MB = np.stack([window_starts(TEXT.train, 8, 4, seed, step=7) for seed in (3, 4)])
    together = windows(torch.tensor(TEXT.train), torch.from_numpy(starts_MB), 8)
    for row, seed in enumerate((3, 4)):
        alone = training_batch(TEXT, 8, 4, seed, step=7)
        assert torch.equal(together.inputs_BT[row], alone.inputs_BT)
        assert torch.equal(together.targets_BT[row], alone.targets_BT)


def test_every_window_can_come_and_none_leaves_the_stream() -> None:
    """A stream of 12 tokens has 4 windows of 8 + 1; all of them turn up, equally often within 5 standard errors."""
    starts = np.concatenate(
        [training_batch(text(12), 8, 32, seed=0, step=step).inputs_BT[:, 0].numpy() for step in range(200)]
    )
    counts = np.bincount(starts, minlength=4)
    assert len(counts) == 4
    assert np.abs(counts - 1600).max() < 5 * np.sqrt(6400 * 0.25 * 0.75)


@given(length=st.integers(2, 200), context=st.integers(2, 20), batch=st.integers(1, 7))
def test_evaluation_scores_every_token_but_the_first_once(length: int, context: int, batch: int) -> None:
    batches = evaluation_batches(text(length), context, batch)
    targets = torch.cat([b.targets_BT.flatten() for b in batches])
    inputs = torch.cat([b.inputs_BT.flatten() for b in batches])
    scored = targets != IGNORED
    assert torch.equal(targets[scored], torch.arange(1, length))
    assert torch.equal(inputs[scored] + 1, targets[scored])
    assert {b.inputs_BT.shape for b in batches} == {(batch, context)}  # of one shape, so that one program serves all
    assert len(batches) == -(-(length - 1) // (batch * context))


def test_windows_begin_at_the_multiples_of_a_stride() -> None:
    """Documents of 9 tokens: windows of 8 + 1 are whole documents, and the last one, cut short, is never drawn."""
    documents = text(9 * 5 + 4, stride=9)
    starts = np.concatenate(
        [training_batch(documents, 8, 32, seed=0, step=step).inputs_BT[:, 0].numpy() for step in range(20)]
    )
    assert set(starts) == {0, 9, 18, 27, 36}
    inputs = torch.cat([b.inputs_BT for b in evaluation_batches(documents, 8, 2)])
    targets = torch.cat([b.targets_BT for b in evaluation_batches(documents, 8, 2)])
    assert inputs[:5, 0].tolist() == [0, 9, 18, 27, 36]
    assert torch.equal(targets[:5], inputs[:5] + 1)
    assert (targets[5:] == IGNORED).all()


def test_targets_that_are_not_asked_are_ignored_in_training_and_scoring() -> None:
    asked = np.arange(90) % 9 >= 5
    documents = text(90, stride=9, train_asked=asked, held_out_asked=asked.copy())
    batches = [training_batch(documents, 8, 4, seed=0, step=0), *evaluation_batches(documents, 8, 5)]
    for batch in batches:
        expected = torch.where((batch.inputs_BT + 1) % 9 >= 5, batch.inputs_BT + 1, IGNORED)
        assert torch.equal(batch.targets_BT, expected)


def test_a_part_of_the_held_out_text_is_scored_alone() -> None:
    parted = text(50, parts={"first": (0, 20), "second": (20, 50)})
    for part, expected in (("first", range(1, 20)), ("second", range(21, 50))):
        targets = torch.cat([b.targets_BT.flatten() for b in evaluation_batches(parted, 8, 2, part)])
        assert targets[targets != IGNORED].tolist() == list(expected)
