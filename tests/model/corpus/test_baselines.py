import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model.corpus.baselines import guess_losses, trivial_losses, uniform_loss, unigram_loss
from model.corpus.text import build_corpus

streams = hnp.arrays(np.int64, st.integers(min_value=1, max_value=200), elements=st.integers(min_value=0, max_value=9))


def test_uniform_is_ln_v() -> None:
    assert uniform_loss(1200) == pytest.approx(7.0901, abs=5e-5)
    assert uniform_loss(1) == 0


@pytest.mark.parametrize(
    ("tokens", "entropy"),
    [
        ([7] * 5, 0.0),
        ([0, 1], math.log(2)),
        (list(range(1200)), math.log(1200)),
        ([0, 0, 1, 2], 1.5 * math.log(2)),
        ([0, 0, 0, 1], 2 * math.log(2) - 0.75 * math.log(3)),
    ],
)
def test_unigram_closed_forms(tokens: list[int], entropy: float) -> None:
    loss = unigram_loss(np.array(tokens))
    assert loss == pytest.approx(entropy, abs=1e-12)
    assert math.copysign(1, loss) == 1


@given(streams, hnp.arrays(np.float64, 10, elements=st.floats(min_value=1e-6, max_value=1)))
def test_no_fixed_distribution_beats_the_unigram(targets: np.ndarray, weights: np.ndarray) -> None:
    q = weights / weights.sum()
    assert -np.log(q)[targets].mean() >= unigram_loss(targets) - 1e-9


@given(streams)
def test_the_streams_own_frequencies_reach_it(targets: np.ndarray) -> None:
    q = np.bincount(targets, minlength=10) / targets.size
    assert -np.log(q[targets]).mean() == pytest.approx(unigram_loss(targets), abs=1e-9)


@given(streams, st.permutations(range(10)))
def test_neither_order_nor_names_nor_shape_matter(targets: np.ndarray, names: list[int]) -> None:
    renamed = np.array(names)[targets][::-1].reshape(1, -1)
    assert unigram_loss(renamed) == pytest.approx(unigram_loss(targets), abs=1e-12)


@given(streams)
def test_uniform_over_the_symbols_bounds_it(targets: np.ndarray) -> None:
    assert 0 <= unigram_loss(targets) <= uniform_loss(10) + 1e-12


def test_the_entropy_of_another_stream_can_be_beaten_without_using_the_input() -> None:
    scored = np.array([0] * 90 + [1] * 5 + [2] * 5)
    frequencies_alone = -np.log(np.array([0.9, 0.05, 0.05]))[scored].mean()
    assert frequencies_alone == pytest.approx(unigram_loss(scored))
    assert frequencies_alone < unigram_loss(scored[scored > 0]) - 0.25


def test_of_an_ordinary_text_any_symbol_is_guessed() -> None:
    corpus = build_corpus("letters", ["abcabd", "dcba", "aabbccdd"] * 8, 5, 4)
    assert trivial_losses(corpus) == {"uniform": math.log(5), "unigram": unigram_loss(corpus.held_out[1:])}
    assert guess_losses(corpus) == {}


def test_refuses_an_empty_stream() -> None:
    with pytest.raises(AssertionError, match="no targets"):
        unigram_loss(np.array([], dtype=np.int64))
