"""How fast this project trains beside the plain loop that a user would write, measured in one run on an idle machine.

``python benchmarks/throughput.py`` prints the machine's matrix-product rates, then for the 4-layer model of ffn_ratio
and the chapter's 12-layer one: model-steps per second of the sweep (one process a core, one thread each, through
``model.train``), of a plain eager fp32 loop of the same model (one process, PyTorch's own threads), their ratio, and
the share of the fp32 rate that the sweep reaches. The sides take turns; every number is a median over the rounds.
"""

import multiprocessing as mp
import os
import statistics
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Annotated

import numpy as np
import torch
import tyro
from torch import nn

from model import counting
from model.batches import training_batch
from model.corpus.text import Corpus, Vocabulary
from model.recipe import Member, Recipe
from model.train import training
from sweeps.baseline import BASELINE

REST = 0.5  # seconds between turns, until the last side's threads have stopped spinning
SHAPES = ((2048, 128, 384), (2048, 2048, 2048))  # a batch through one layer's first product; a large square
SLICE = 6  # updates between two yields of `training` in a run of 1,200


@dataclass(frozen=True)
class Options:
    """Training throughput against a plain loop, and the machine's matrix-product rate."""

    rounds: int = 7
    """Turns of each side; the medians are over these."""
    steps: Annotated[int, tyro.conf.arg(metavar="N")] = 18
    """Updates per turn and process; rounded to a multiple of 6."""
    layers: tuple[int, ...] = (4, 12)
    """Depths of the models measured."""


def random_corpus(recipe: Recipe) -> Corpus:
    """Random tokens: speed does not depend on what they say."""
    tokens = np.random.default_rng(0).integers(0, recipe.model.vocabulary, 20_000)
    characters = tuple(chr(0x4E00 + i) for i in range(recipe.model.vocabulary - 1))
    return Corpus("random", "0" * 64, Vocabulary(characters), tokens, tokens[:1000], 21_000, 1.0)


def serve_sweep(pipe: Connection, recipe: Recipe, seed: int) -> None:
    """One worker of a sweep: one thread, members trained through the project's own interface."""
    torch.set_num_threads(1)
    corpus = random_corpus(recipe)
    slices = training([Member(recipe, seed)], corpus, "cpu")
    next(slices)
    while (steps := pipe.recv()) is not None:
        started = time.perf_counter()
        for _ in range(steps // SLICE):
            next(slices)
        pipe.send(time.perf_counter() - started)


def serve_plain(pipe: Connection, recipe: Recipe) -> None:
    """The loop that a user would write: the same model, eager, fp32, PyTorch's default threads."""
    corpus, budget, config = random_corpus(recipe), recipe.budget, recipe.model
    model = config.build(seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.optimizer.learning_rate)
    step = 0

    def update() -> None:
        batch = training_batch(corpus.train, config.context, budget.batch, 0, step)
        loss = nn.functional.cross_entropy(model(batch.inputs_BT).flatten(0, 1), batch.targets_BT.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    update()
    while (steps := pipe.recv()) is not None:
        started = time.perf_counter()
        for _ in range(steps):
            update()
            step += 1
        pipe.send(time.perf_counter() - started)


def rate_of(pipes: list[Connection], steps: int) -> float:
    """Model-steps per second of all processes behind `pipes`, working at once; the slowest ends the turn."""
    time.sleep(REST)
    for pipe in pipes:
        pipe.send(steps)
    return len(pipes) * steps / max(pipe.recv() for pipe in pipes)


def compare(recipe: Recipe, workers: int, rounds: int, steps: int) -> tuple[float, float, float]:
    """Medians over `rounds`: the sweep's and the plain loop's model-steps per second, and the ratio turn by turn."""
    context = mp.get_context("spawn")
    ends = [context.Pipe() for _ in range(workers + 1)]
    processes = [
        context.Process(target=serve_sweep, args=(theirs, recipe, seed), daemon=True)
        for seed, (_, theirs) in enumerate(ends[:-1])
    ]
    processes.append(context.Process(target=serve_plain, args=(ends[-1][1], recipe), daemon=True))
    for process, (_, theirs) in zip(processes, ends, strict=True):
        process.start()
        theirs.close()  # so that a child that dies is an EOFError here, not a wait without end
    sweep, plain = [ours for ours, _ in ends[:-1]], [ends[-1][0]]
    rate_of(sweep, SLICE), rate_of(plain, SLICE)  # warm
    turns = [(rate_of(sweep, steps), rate_of(plain, steps)) for _ in range(rounds)]
    for pipe in (*sweep, *plain):
        pipe.send(None)
    for process in processes:
        process.join()
    medians = (statistics.median(column) for column in zip(*turns, strict=True))
    return (*medians, statistics.median(ours / theirs for ours, theirs in turns))


def matmul_rate(dtype: torch.dtype, shape: tuple[int, int, int], rounds: int) -> float:
    """GFLOP/s of an (m, k) x (k, n) product with PyTorch's default threads, the median of `rounds` timings of 50."""
    m, k, n = shape
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    rates = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        for _ in range(50):
            a @ b
        rates.append(50 * 2 * m * k * n / (time.perf_counter() - started) / 1e9)
    return statistics.median(rates[1:])


def main() -> None:
    options = tyro.cli(Options)
    workers, steps = os.cpu_count() or 1, max(SLICE, options.steps // SLICE * SLICE)
    print(f"torch {torch.__version__}, {workers} cores, medians of {options.rounds} turns of {steps} updates")
    rates = {}
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        rates[name] = {shape: matmul_rate(dtype, shape, options.rounds) for shape in SHAPES}
        shown = ", ".join(f"{'x'.join(map(str, shape))} {rate:,.0f}" for shape, rate in rates[name].items())
        print(f"matmul {name}: {shown} GFLOP/s")
    for layers in options.layers:
        recipe = replace(BASELINE, model=replace(BASELINE.model, layers=layers))
        sweep, plain, ratio = compare(recipe, workers, options.rounds, steps)
        tokens = recipe.budget.batch * recipe.model.context
        reached = sweep * tokens * counting.training_flops_per_token(recipe.model) / 1e9  # GFLOP/s
        share = reached / rates["float32"][SHAPES[0]]
        print(
            f"{layers} layers: sweep {sweep:.2f} model-steps/s ({1e3 / sweep:.0f} ms each), plain loop {plain:.2f} "
            f"({1e3 / plain:.0f} ms), ratio {ratio:.2f}; {share:.0%} of the fp32 matmul rate"
        )


if __name__ == "__main__":
    main()
