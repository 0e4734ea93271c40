"""A compiled cohort is the uncompiled one but for rounding, and goes on to the same bits.

All in one file, of one recipe's shapes and two members, so that one process compiles one program a precision.
"""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from model.checkpoint import Checkpoint
from model.corpus.text import Corpus
from model.hardware import has_compiler
from model.optimizer import AdamW
from model.recipe import Budget, Member, Precision, Recipe
from model.train import Progress, Result, training

pytestmark = [
    pytest.mark.skipif(not has_compiler("cpu"), reason="there is no C++ compiler"),
    # Warnings about PyTorch's own compiler.
    pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
]


def finish(slices: Generator[Progress, None, list[Result]]) -> list[Result]:
    while True:
        try:
            next(slices)
        except StopIteration as end:
            results: list[Result] = end.value
            return results


def losses(result: Result) -> list[float]:
    return [point.value for point in result.curve if point.name == "train_loss"]


def timeless(results: list[Result]) -> list[str]:
    """Every number of every run to its last bit, as text."""
    return [repr(replace(result, seconds=0.0)) for result in results]


@pytest.mark.parametrize(("precision", "tolerance"), [("fp64", 1e-9), ("bf16", 3e-3)])
def test_it_differs_by_rounding_only(corpus: Corpus, recipe: Recipe, precision: Precision, tolerance: float) -> None:
    """The training losses and the score, which is made by the same program. In bf16 the compiler leaves out roundings
    between steps that it fuses: 20 updates differ by 0.0003."""
    short = replace(recipe, budget=Budget(20, batch=8), precision=precision)
    members = [Member(short, 0), Member(replace(short, optimizer=AdamW(1e-3, warmup=0)), 1)]
    both = (finish(training(members, corpus, "cpu", compiled=compiled)) for compiled in (False, True))
    for eager, compiled in zip(*both, strict=True):
        np.testing.assert_allclose(losses(eager), losses(compiled), rtol=0, atol=tolerance)
        assert eager.val_loss == pytest.approx(compiled.val_loss, abs=tolerance)


def test_it_resumes_to_the_same_bits(corpus: Corpus, recipe: Recipe, tmp_path: Path) -> None:
    members = [Member(replace(recipe, precision="fp64"), seed) for seed in range(2)]
    checkpoint = Checkpoint(tmp_path / "cohort.pt", 0.0)
    undisturbed = finish(training(members, corpus, "cpu", compiled=True))
    slices = training(members, corpus, "cpu", checkpoint, compiled=True)
    for _ in range(20):
        next(slices)
    slices.close()
    resumed = finish(training(members, corpus, "cpu", Checkpoint(checkpoint.path, 1e9), compiled=True))
    assert timeless(resumed) == timeless(undisturbed)
