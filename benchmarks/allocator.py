"""What a cohort gains in a process that keeps the memory which updates free, as workers do: time and peak memory.

``python benchmarks/allocator.py`` trains a cohort of 6 layers in a thread of each of two processes, with glibc's usual
ways and with ``model.hardware.ALLOCATOR``; the sides take turns, times are medians over them.
"""

import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from threading import Thread

import torch
from throughput import random_corpus, started, turn

from model.hardware import ALLOCATOR
from model.memory import memory
from model.recipe import Budget, Member, Recipe
from model.train import CURVE_POINTS, training
from sweeps.baseline import BASELINE
from sweeps.engine.places import WORKER

TURNS, PLACES = 5, 2
COHORTS = ((1, 32), (7, 32), (2, 256))  # members, and windows in a batch; four such processes must fit in memory
PEAK = "peak"


def serve(pipe: Connection, recipe: Recipe, members: int) -> None:
    """Train in a thread, as a worker does: an update at a time, and how long it took; or the most memory taken."""

    def updates() -> None:
        torch.set_num_threads(1)
        seeds = [Member(recipe, seed) for seed in range(members)]
        slices = training(seeds, random_corpus(recipe), "cpu", compiled=True)
        next(slices)
        pipe.send(0.0)
        while (wanted := pipe.recv()) is not None:
            if wanted == PEAK:
                pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 2**10)
            else:
                begun = time.perf_counter()
                next(slices)
                pipe.send(time.perf_counter() - begun)

    thread = Thread(target=updates)
    thread.start()
    thread.join()


def peak(pipes: Sequence[Connection]) -> float:
    """The most memory that one of the processes behind `pipes` has taken, in GiB."""
    for pipe in pipes:
        pipe.send(PEAK)
    return float(max(pipe.recv() for pipe in pipes)) / 2**30


def main() -> None:
    for members, batch in COHORTS:
        recipe = replace(
            BASELINE, model=replace(BASELINE.model, layers=6), precision="fp32", budget=Budget(CURVE_POINTS, batch)
        )
        cohorts = [(recipe, members)] * PLACES
        with started(serve, cohorts) as usual, started(serve, cohorts, ALLOCATOR) as keeping:
            turn(usual), turn(keeping)  # warm
            turns = [(turn(usual), turn(keeping)) for _ in range(TURNS)]
            peaks = peak(usual), peak(keeping)
        ratio = statistics.median(before / after for before, after in turns)
        times = [1e3 * statistics.median(side) / members for side in zip(*turns, strict=True)]
        planned = (WORKER + memory(recipe, members).total) / 2**30
        print(
            f"{members} of {batch} windows: {times[0]:.0f} ms per member and update, kept {times[1]:.0f}, "
            f"{ratio:.2f} times as fast; at most {peaks[0]:.2f} GiB, kept {peaks[1]:.2f}, planned {planned:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
