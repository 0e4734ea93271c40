"""What a GPU must do: the same numbers as the CPU up to rounding. Skipped where there is none."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from model.cohort import Cohort
from model.corpus.text import Corpus, build_corpus
from model.parts.attention import FUSED_FROM
from model.recipe import Budget, Member, Recipe
from model.recorded import Recorded, called
from model.train import Result, train, training

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")


def losses(result: Result) -> list[float]:
    return [point.value for point in result.curve if point.name == "train_loss"]


@pytest.mark.parametrize(("precision", "tolerance"), [("fp64", 1e-6), ("fp32", 1e-4), ("bf16", 5e-2)])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_gpu_trains_as_the_cpu_does(
    corpus: Corpus, recipe: Recipe, precision: str, tolerance: float, compiled: bool
) -> None:
    """Twenty updates, most of them played back. A GPU's optimizer reads learning rates in float32, hence 1e-6."""
    short = replace(recipe, precision=precision, budget=Budget(20, 8))
    members = [Member(short, 0), Member(short, 1)]
    slices = training(members, corpus, "cuda", compiled=compiled)
    try:
        while True:
            next(slices)
    except StopIteration as end:
        on_gpu = end.value
    for ours, theirs in zip(on_gpu, train(members, corpus), strict=True):
        np.testing.assert_allclose(losses(ours), losses(theirs), rtol=0, atol=tolerance)


def test_long_windows_are_attended_to_by_the_fused_kernel_as_by_the_plain_one(
    letters: list[str], recipe: Recipe
) -> None:
    long = replace(recipe, model=replace(recipe.model, context=FUSED_FROM), budget=Budget(8, 2))
    text = build_corpus("letters", letters * 4, vocabulary_size=12, context_length=FUSED_FROM)
    (on_gpu,), (on_cpu,) = (train([Member(long, 0)], text, device) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(losses(on_gpu), losses(on_cpu), rtol=0, atol=1e-4)


@pytest.mark.parametrize("batch", [8, 512])
@pytest.mark.parametrize("asked", [False, True])
def test_what_is_played_back_is_what_would_be_called(corpus: Corpus, recipe: Recipe, asked: bool, batch: int) -> None:
    """Also where some of the members are dropped on the way, and where only some tokens are to be predicted; with few
    tokens and with thousands, whose embeddings' gradients another kernel adds."""
    recipe = replace(recipe, budget=Budget(60, batch))
    if asked:
        every_other = np.arange(len(corpus.train)) % 2 == 0
        corpus = replace(corpus, train_asked=every_other)
    cohorts = [Cohort([Member(recipe, seed) for seed in range(3)], corpus, "cuda", compiled=False) for _ in range(2)]
    played, plain = cohorts
    for step in range(16):
        if step == 8:
            for cohort in cohorts:
                cohort.keep([0, 2])
        plain.make = called
        np.testing.assert_allclose(played.update(step), plain.update(step), rtol=1e-4)
    assert isinstance(played.make, Recorded)
    torch.testing.assert_close(played.weights_MP, plain.weights_MP, rtol=0, atol=1e-5)


def test_a_state_taken_up_goes_on_as_before(corpus: Corpus, recipe: Recipe) -> None:
    members = [Member(recipe, seed) for seed in range(2)]
    whole, resumed = (Cohort(members, corpus, "cuda", compiled=False) for _ in range(2))
    for step in range(8):
        whole.update(step)
        resumed.update(step)
    resumed.restore(copy.deepcopy(whole.state()))
    for step in range(8, 16):
        np.testing.assert_allclose(resumed.update(step), whole.update(step), rtol=1e-5)


def test_a_cohort_too_large_for_the_gpu_is_halved(corpus: Corpus, recipe: Recipe) -> None:
    """With about a quarter of the memory that the cohort would take, all members still come to their end."""
    wide = replace(recipe, budget=Budget(6, batch=2048), optimizer=replace(recipe.optimizer, warmup=0))
    torch.cuda.empty_cache()
    train([Member(wide, 0)], corpus, "cuda")
    one = torch.cuda.max_memory_allocated()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, 4 * one / total))
    try:
        results = train([Member(wide, seed) for seed in range(16)], corpus, "cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert [result.seed for result in results] == list(range(16))
    assert max(result.cohort for result in results) < 16
