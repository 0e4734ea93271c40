"""How fast this project trains beside the plain loop that a user would write, measured in one run on an idle machine.

``python benchmarks/throughput.py`` prints the machine's matrix-product rates; then for the 4-layer model of ffn_ratio
and the chapter's 12-layer one the time of a member's update when 1 to 32 seeds train in lockstep (as a sweep has
them: a cohort a core, one thread each, through ``model.train``), their ratio to a plain eager fp32 loop (one process,
PyTorch's own threads), and the share of the product rate; and what a run costs besides its training. The sides take
turns; every number is a median over the rounds. Ours trains in bf16 where the machine has instructions for it, else in
fp32, and the share is of that precision's rate. ``--json FILE`` writes the numbers, those of the deepest model on top.
"""

import json
import multiprocessing as mp
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow.parquet as pq
import torch
import tyro
from torch import nn

from model import counting
from model.batches import training_batch
from model.corpus.text import Corpus, Vocabulary
from model.hardware import ALLOCATOR, native_bf16
from model.recipe import Member, Precision, Recipe
from model.train import training
from sweeps.baseline import BASELINE

REST = 0.5  # seconds between turns, until the last side's threads have stopped spinning
SHAPES = ((2048, 128, 384), (2048, 2048, 2048))  # a batch through one layer's first product; a large square
SLICE = 6  # updates between two yields of `training` in a run of 1,200
SEEDS = 8  # of the cohort whose ratio and share are given
SHORT_RUNS = Path(__file__).with_name("short_runs.py")


@dataclass(frozen=True)
class Options:
    """Training throughput against a plain loop, and the machine's matrix-product rate."""

    rounds: int = 5
    """Turns of each side; the medians are over these."""
    members: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    """Seeds that train in lockstep."""
    layers: tuple[int, ...] = (4, 12)
    """Depths of the models measured; none leaves only the cost of short runs."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where both train; on a GPU all seeds are one cohort."""
    short_runs: bool = True
    """Measure what 80 short runs cost besides their training."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the numbers there."""


def random_corpus(recipe: Recipe) -> Corpus:
    """Random tokens: speed does not depend on what they say."""
    tokens = np.random.default_rng(0).integers(0, recipe.model.vocabulary, 20_000)
    characters = tuple(chr(0x4E00 + i) for i in range(recipe.model.vocabulary - 1))
    return Corpus("random", "0" * 64, Vocabulary(characters), tokens, tokens[:1000], 21_000, 1.0)


def serve_cohort(pipe: Connection, recipe: Recipe, device: str, seeds: Sequence[int]) -> None:
    """One worker of a sweep: one thread, a cohort trained through the project's own interface."""
    torch.set_num_threads(1)
    slices = training([Member(recipe, seed) for seed in seeds], random_corpus(recipe), device)
    next(slices)
    pipe.send(0.0)
    while pipe.recv() is not None:
        started = time.perf_counter()
        next(slices)
        pipe.send((time.perf_counter() - started) / SLICE)


def serve_plain(pipe: Connection, recipe: Recipe, device: str) -> None:
    """The loop that a user would write: the same model, eager, fp32, PyTorch's default threads."""
    corpus, budget, config = random_corpus(recipe), recipe.budget, recipe.model
    model = config.build(seed=0).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.optimizer.learning_rate)
    step = 0

    def update() -> None:
        batch = training_batch(corpus, config.context, budget.batch, 0, step)
        inputs_BT, targets_BT = batch.inputs_BT.to(device), batch.targets_BT.to(device)
        loss = nn.functional.cross_entropy(model(inputs_BT).flatten(0, 1), targets_BT.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    update()
    pipe.send(0.0)
    while pipe.recv() is not None:
        started = time.perf_counter()
        for _ in range(SLICE):
            update()
            step += 1
        finish(device)
        pipe.send((time.perf_counter() - started) / SLICE)


def finish(device: str) -> None:
    """Wait until the device has done all that it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


@contextmanager
def started(
    target: Any, arguments: Sequence[tuple[Any, ...]], variables: Mapping[str, str] = {}
) -> Iterator[list[Connection]]:
    """A process of `target` for each of `arguments`, ready to be timed, and ended afterwards; `variables` are added to
    its environment."""
    context = mp.get_context("spawn")
    ends = [context.Pipe() for _ in arguments]
    processes = [
        context.Process(target=target, args=(theirs, *own), daemon=True)
        for own, (_, theirs) in zip(arguments, ends, strict=True)
    ]
    before = os.environ.copy()
    os.environ.update(variables)
    for process, (_, theirs) in zip(processes, ends, strict=True):
        process.start()
        theirs.close()  # so that a child that dies is an EOFError here, not a wait without end
    os.environ.clear()
    os.environ.update(before)
    pipes = [ours for ours, _ in ends]
    for pipe in pipes:
        pipe.recv()
    yield pipes
    for pipe in pipes:
        pipe.send(None)
    for process in processes:
        process.join()


def turn(pipes: Sequence[Connection]) -> float:
    """Seconds per update with all processes behind `pipes` at work; the slowest counts."""
    time.sleep(REST)
    for pipe in pipes:
        pipe.send(True)
    return max(pipe.recv() for pipe in pipes)


def compare(
    recipe: Recipe, precision: Precision, members: int, device: str, places: int, rounds: int
) -> tuple[float, float]:
    """Medians over `rounds`: milliseconds per member and update of `members` seeds in `places` cohorts on `device` in
    `precision`, and the ratio of the plain fp32 loop's time to it, turn by turn."""
    fast = replace(recipe, precision=precision)
    shares = [list(range(place, members, places)) for place in range(min(places, members))]
    with (
        started(serve_cohort, [(fast, device, share) for share in shares], ALLOCATOR) as sweep,
        started(serve_plain, [(recipe, device)]) as plain,
    ):
        turn(sweep), turn(plain)  # warm
        turns = [(turn(sweep) / members, turn(plain)) for _ in range(rounds)]
    ours = statistics.median(ours for ours, _ in turns)
    return 1e3 * ours, statistics.median(theirs / ours for ours, theirs in turns)


def matmul_rate(dtype: torch.dtype, shape: tuple[int, int, int], device: str, rounds: int) -> float:
    """GFLOP/s of an (m, k) x (k, n) product with PyTorch's default threads, the median of `rounds` timings."""
    m, k, n = shape
    a, b = torch.randn(m, k, device=device).to(dtype), torch.randn(k, n, device=device).to(dtype)
    times, rates = max(3, int(1e10 / (2 * m * k * n))), []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        for _ in range(times):
            a @ b
        finish(device)
        rates.append(times * 2 * m * k * n / (time.perf_counter() - started) / 1e9)
    return statistics.median(rates[1:])


def overhead(cores: int) -> float:
    """Seconds per run that ``short_runs.py`` takes from its command to its verdict, beyond its training."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "letters.txt"
        draw = random.Random(0)
        text.write_text("\n\n".join("".join(draw.choices("abcdefghijk", k=80)) for _ in range(60)))
        command = [sys.executable, str(SHORT_RUNS), "--corpus", text.name, "--precision", "fp32"]
        begun = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - begun
        (study,) = (Path(folder) / "results").iterdir()
        seconds = pq.read_table(study / "runs", columns=["seconds"])["seconds"].to_numpy()
    return float((wall - seconds.sum() / cores) / len(seconds))


def main() -> None:
    options, cores = tyro.cli(Options), os.cpu_count() or 1
    device, places = options.device, cores if options.device == "cpu" else 1
    card = f", {torch.cuda.get_device_name()}" if device == "cuda" else ""
    print(
        f"torch {torch.__version__}, {cores} cores{card}, medians of {options.rounds} turns of {SLICE} updates",
        flush=True,
    )
    precision: Precision = "bf16" if native_bf16(device) else "fp32"
    rates = {}
    for dtype in (torch.float32, torch.bfloat16) if precision == "bf16" else (torch.float32,):
        name = str(dtype).removeprefix("torch.")
        measured = {shape: matmul_rate(dtype, shape, device, options.rounds) for shape in SHAPES}
        shown = ", ".join(f"{'x'.join(map(str, shape))} {rate:,.0f}" for shape, rate in measured.items())
        print(f"matmul {name}: {shown} GFLOP/s", flush=True)
        rates[name] = peak = measured[SHAPES[0]]
    told: dict[str, Any] = {"torch": torch.__version__, "cores": cores, "device": device + card}
    told |= {"precision": precision, "matmul_gflops": rates, "layers": {}}
    for layers in options.layers:
        recipe = replace(BASELINE, model=replace(BASELINE.model, layers=layers))
        flops = recipe.budget.batch * recipe.model.context * counting.training_flops_per_token(recipe.model)
        times, ratios = {}, {}
        for members in options.members:
            times[members], ratios[members] = compare(recipe, precision, members, device, places, options.rounds)
            share = flops / times[members] / 1e6 / peak
            print(
                f"{layers} layers, {members} seeds: {times[members]:.1f} ms per member and update, "
                f"{ratios[members]:.2f} x the plain loop, {share:.0%} of the {precision} rate",
                flush=True,
            )
        at = SEEDS if SEEDS in times else options.members[-1]
        told["layers"][str(layers)] = {
            "members": at,
            "ratio_vs_eager": ratios[at],
            "roofline_share": flops / times[at] / 1e6 / peak,
            "ms_per_member_step": {str(members): ms for members, ms in times.items()},
            "ratio_by_members": {str(members): ratio for members, ratio in ratios.items()},
        }
    if options.layers:
        told |= told["layers"][str(max(options.layers))]  # what is asked for first, where it is found first
    if options.short_runs:
        told["overhead_s_per_run"] = overhead(cores)
        print(f"80 short runs: {told['overhead_s_per_run']:.3f} s each besides their training", flush=True)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
