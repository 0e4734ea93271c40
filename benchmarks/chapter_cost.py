"""What the chapter's runs took beside a plain loop: ``python benchmarks/chapter_cost.py results/chapter``.

The plain loop is that of ``benchmarks/throughput.py``: eager, fp32, PyTorch's own threads, one run after the other. It
is timed for a few updates of each kind of model on this machine, which should be idle, and taken times the updates that
were recorded; scoring is left out of it and is in ours. Ours are the seconds that runs were recorded with, over the
cores that they shared: the wall time of an undisturbed sweep, also where it was made in pieces.
"""

import argparse
import json
import os
import statistics
from dataclasses import replace
from pathlib import Path

from throughput import SLICE, serve_plain, started, turn

from analysis.records import Records
from analysis.wording import duration
from model.recipe import Budget, Recipe
from sweeps.chapter import study

CHAPTER = 25 * 60.0  # seconds that the chapter gives for its 28 runs, on an RTX 3090


def kind(recipe: Recipe) -> Recipe:
    """All that decides how long an update takes."""
    return replace(recipe.program, budget=Budget(1, recipe.budget.batch), scored=())


def plain_update(recipe: Recipe, rounds: int) -> float:
    """Seconds of an update in the plain loop, the median of `rounds` turns of some."""
    with started(serve_plain, [(replace(recipe, precision="fp32"), "cpu")]) as pipes:
        return statistics.median(turn(pipes) for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description="The chapter's runs beside a plain loop.")
    parser.add_argument("folder", type=Path, help="the study's folder, such as results/chapter")
    parser.add_argument("--rounds", type=int, default=3, help=f"turns of {SLICE} updates of each kind of model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    options = parser.parse_args()
    runs, cores = Records(options.folder).runs(), os.cpu_count() or 1
    recipes = {arm.name: arm.recipe for arm in study().arms}
    updates = runs[runs["arm"].isin(recipes)].groupby("arm")["steps"].sum()
    kinds: dict[Recipe, float] = {}
    for arm in map(str, updates.index):
        if kind(recipes[arm]) not in kinds:
            kinds[kind(recipes[arm])] = plain_update(recipes[arm], options.rounds)
            print(f"{arm}: {1e3 * kinds[kind(recipes[arm])]:.0f} ms an update in the plain loop", flush=True)
    plain = sum(kinds[kind(recipes[str(arm)])] * float(made) for arm, made in updates.items())
    ours = float(runs["seconds"].sum()) / cores
    print(
        f"{len(runs)} runs: {duration(ours)} on {cores} cores, {duration(plain)} in the plain loop, a ratio of "
        f"{plain / ours:.2f}; the chapter gives {duration(CHAPTER)} on an RTX 3090 for 28."
    )
    if options.json:
        told = {"runs": len(runs), "cores": cores, "seconds": ours, "plain_seconds": plain, "ratio": plain / ours}
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
