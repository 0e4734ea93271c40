"""The estimate is held against what the process really took, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from model.memory import memory
from model.recipe import Budget, Recipe
from model.transformer import ModelConfig

ROOT = Path(__file__).parents[2]
MEASURE = """
import sys
from dataclasses import replace
import numpy as np
import torch
from model.cohort import Cohort
from model.corpus.text import Corpus, Vocabulary
from model.recipe import Budget, Member, Recipe
from model.transformer import ModelConfig

torch.set_num_threads(1)
precision, members, layers, context, vocabulary = sys.argv[1], *map(int, sys.argv[2:])

def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))

def run(recipe, members):
    V = recipe.model.vocabulary
    tokens = np.random.default_rng(0).integers(0, V, 8000)
    words = Vocabulary(tuple(chr(0x4E00 + i) for i in range(V - 1)))
    cohort = Cohort([Member(recipe, seed) for seed in range(members)],
                    Corpus("random", "0" * 64, words, tokens, tokens[:3000], 8000, 1.0), "cpu", compiled=False)
    cohort.update(0), cohort.update(1), cohort.score()

run(Recipe(ModelConfig(1, 8, 8, 20), budget=Budget(200, 1), precision=precision), 1)  # what every process needs
open("/proc/self/clear_refs", "w").write("5")  # the peak is counted from here
before = status("VmRSS")
run(Recipe(ModelConfig(layers, 128, context, vocabulary), precision=precision), members)
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a process's peak memory")
@pytest.mark.parametrize(
    ("precision", "members", "layers", "context", "vocabulary"),
    [("fp32", 4, 4, 64, 1200), ("bf16", 4, 4, 64, 1200), ("fp32", 2, 2, 256, 50), ("bf16", 2, 2, 64, 5000)],
)
def test_a_cohort_takes_what_was_estimated(
    precision: str, members: int, layers: int, context: int, vocabulary: int
) -> None:
    arguments = [precision, *map(str, (members, layers, context, vocabulary))]
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEASURE, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    recipe = Recipe(ModelConfig(layers, 128, context, vocabulary), precision=precision)
    assert 0.6 < int(told.stdout) / memory(recipe, members).total < 1.05


def test_memory_grows_with_the_members_and_the_batch() -> None:
    one, eight = memory(Recipe(), 1), memory(Recipe(), 8)
    assert (eight.state, eight.activations, eight.curves) == (8 * one.state, 8 * one.activations, 8 * one.curves)
    wider = memory(Recipe(budget=Budget(batch=64)), 1)
    assert (wider.state, wider.activations) == (one.state, 2 * one.activations)
    assert memory(Recipe(precision="bf16"), 1).activations < one.activations
