"""What a model must beat to have learned anything: losses of predictors that ignore their input, in nats per target."""

import math

import numpy as np
from numpy.typing import NDArray

from model.corpus.text import Corpus

UNIFORM, UNIGRAM, GUESS = "uniform", "unigram", "guess among the possible answers"


def uniform_loss(vocabulary_size: int) -> float:
    """ln V: the loss, on any stream, of giving each of the V symbols the same probability; a fresh model is near it."""
    assert vocabulary_size >= 1
    return math.log(vocabulary_size)


def unigram_loss(targets: NDArray[np.integer]) -> float:
    """The entropy of ``targets`` (token ids, any shape): no fixed distribution has a lower mean loss on them.

    By Gibbs' inequality the mean of -ln q(token) is at least the entropy of the tokens' own frequencies, with equality
    for q equal to these. So a model whose loss on ``targets`` is not below this has not been shown to use its input.

    ``targets`` must be exactly the tokens that the loss is averaged over. The entropy belongs to one stream: for the
    same 4,003 poems and 1,200 symbols it is 5.515 with the newlines and 5.671 without, so runs that are stuck at 5.52
    on the first would seem to be 0.15 better than a unigram that was computed on the second, while they had learned
    nothing but frequencies. A model cannot know the held-out frequencies, so one stuck at frequencies learned from
    other text scores slightly above this bound, never below it.
    """
    assert targets.size > 0, "no targets: the mean loss over nothing is undefined"
    _, counts = np.unique(targets, return_counts=True)
    shares = counts / targets.size
    return float(-(shares @ np.log(shares))) + 0.0  # + 0.0: a single repeated token scores 0, not -0


def guess_losses(corpus: Corpus) -> dict[str, float]:
    """ln n by part of the held-out text ("" where it has none): what a guess among the n possible answers costs there.
    Of an ordinary text, which has no answers, nothing.

    A task asks for few of its symbols: where 32 of 35 can be the answer, a guess costs ln 32, not ln 35.
    """
    return {part: math.log(n) for part, n in corpus.answers.items()}


def trivial_losses(corpus: Corpus) -> dict[str, float]:
    """A guess and the unigram by name, exactly on the held-out tokens that a model's loss is averaged over. A guess is
    among all symbols; in a task among the possible answers, those of the part where it has parts."""
    targets, guesses = scored(corpus), guess_losses(corpus)
    losses = {UNIGRAM: unigram_loss(corpus.held_out[targets])}
    if not guesses:
        return {UNIFORM: uniform_loss(corpus.vocabulary.size)} | losses
    places = [slice(*corpus.parts[part]) if part else slice(None) for part in guesses]
    counts = [np.count_nonzero(targets[place]) for place in places]
    assert sum(counts) == np.count_nonzero(targets), "some answers are in no part"
    return {GUESS: float(np.average([*guesses.values()], weights=counts))} | losses


def scored(corpus: Corpus) -> NDArray[np.bool_]:
    """Which held-out tokens a model's loss is averaged over, shape (tokens,): those that are asked, and that do not
    begin a text or a document, for a window's first token is never a target."""
    targets = np.ones(corpus.held_out.size, bool) if corpus.held_out_asked is None else corpus.held_out_asked.copy()
    targets[:: corpus.stride if corpus.stride > 1 else targets.size] = False
    return targets
