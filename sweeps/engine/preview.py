"""``--plan``: what a study would run and about what it costs, before anything is spent."""

import heapq
import time
from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from analysis.wording import count, duration
from model import counting
from model.corpus.text import Corpus
from model.hardware import keep_freed_memory
from model.recipe import Member, Recipe
from model.recorded import BEFORE
from model.train import EVALUATIONS, training
from sweeps.engine.places import Places, cohort_memory
from sweeps.engine.plan import GIB, Cohort, Plan
from sweeps.engine.precision import said
from sweeps.engine.study import Study


def show_plan(plan: Plan, places: Places, corpus: Corpus, console: Console) -> None:
    """Print each arm's size and budget, the runs recorded and missing, their cohorts, and what a few timed updates of
    those cohorts let expect. Raises StudyError when a run does not fit in the memory of `places`."""
    study, cohorts = plan.study, places.cohorts(plan)
    console.print(f"{study.name}: {study.question}", soft_wrap=True)
    console.print(
        f"Text: {corpus.name}, {len(corpus.train):,} characters to train on and {len(corpus.held_out):,} held out, "
        f"{corpus.vocabulary.size:,} symbols covering {corpus.coverage:.1%}.",
        soft_wrap=True,
    )
    console.print(
        f"Seeds: {', '.join(map(str, study.seeds))}. Margin: {study.margin:g} {corpus.unit}. Precision: {said(study)}.",
        soft_wrap=True,
    )
    for line in _further(study):
        console.print(line, soft_wrap=True)
    console.print(_arms(plan))
    if not cohorts:
        console.print(f"All {len(plan.runs)} runs are recorded; the same command only writes the report again.")
        return
    keep_freed_memory()  # as workers do
    seconds = _timed(cohorts, corpus, places.device)
    console.print(_lockstep(plan, cohorts, seconds))
    total = busy([len(cohort) * one for cohort, one in zip(cohorts, seconds, strict=True)], places.count)
    console.print(
        f"{len(plan.missing)} of {len(plan.runs)} runs to train in {count(len(cohorts), 'cohort')}, {places.count} at "
        f"a time on this machine: about {duration(total)} (from a few updates of each kind of cohort, alone and not "
        "compiled).",
        soft_wrap=True,
    )


def _further(study: Study) -> Iterator[str]:
    """What is asked for after the first round, as far as that is known."""
    tried = 0
    if grid := study.tune:
        tried = grid.seeds * len(grid.points)
        points = ", ".join(f"{point:g}" for point in grid.points)
        yield (
            f"Grid: {grid.key} at {points}, {grid.seeds} tuning seeds a point for every arm; then each arm is judged "
            "at the point selected for it."
        )
    if looks := study.looks:
        yield f"Until decided: looks at {', '.join(map(str, looks))} seeds; an arm that is decided gets no more."
    if grid or looks:
        fewest, most = (len(study.arms) * (tried + n) for n in (looks[:1] or (len(study.seeds),)) + (len(study.seeds),))
        yield f"In all {fewest:,} runs." if fewest == most else f"In all {fewest:,} to {most:,} runs."


def _timed(cohorts: Sequence[Cohort], corpus: Corpus, device: str) -> list[float]:
    """Seconds per run of each of `cohorts`; those of one program and size are timed once."""
    known: dict[tuple[Recipe, int], float] = {}
    kinds = [(cohort[0].recipe.program, len(cohort)) for cohort in cohorts]
    for kind, cohort in zip(kinds, cohorts, strict=True):
        if kind not in known:
            known[kind] = seconds_per_run(cohort, corpus, device)
    return [known[kind] for kind in kinds]


def _arms(plan: Plan) -> Table:
    table = _table("arm", "parameters", "steps", "tokens", "recorded", "to run")
    for arm in plan.study.arms:
        recorded = [run.run_id in plan.recorded for run in plan.runs if run.arm == arm.name]
        table.add_row(
            arm.name + (" (baseline)" if arm.name == plan.study.baseline else ""),
            f"{counting.parameters(arm.recipe.model).total:,}",
            f"{arm.recipe.budget.steps:,}",
            f"{arm.recipe.tokens:,}",
            str(sum(recorded)),
            str(len(recorded) - sum(recorded)),
        )
    return table


def _lockstep(plan: Plan, cohorts: Sequence[Cohort], seconds: Sequence[float]) -> Table:
    """What the cohorts of each arm cost; one that holds runs of several arms is told of in each."""
    table = _table("arm", "runs in lockstep", "memory of a cohort", "s per run")
    for arm in plan.study.arms:
        own = [(cohort, s) for cohort, s in zip(cohorts, seconds, strict=True) if arm.name in {r.arm for r in cohort}]
        if own:
            most = max(cohort_memory(cohort) for cohort, _ in own) / GIB
            slowest = max(s for _, s in own)
            table.add_row(arm.name, _sizes([len(cohort) for cohort, _ in own]), f"{most:.2f} GiB", f"{slowest:.0f}")
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _sizes(sizes: Sequence[int]) -> str:
    """Such as ``2 x 5``, or ``1 x 4, 2 x 3``."""
    counted = [(size, len(list(same))) for size, same in groupby(sorted(sizes, reverse=True))]
    return ", ".join(f"{n} x {size}" for size, n in counted)


def busy(seconds: Sequence[float], places: int) -> float:
    """When the last of tasks that take `seconds` ends, if each in turn starts on the first of `places` to be free."""
    free = [0.0] * places
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def seconds_per_run(cohort: Cohort, corpus: Corpus, device: str) -> float:
    """Wall time of a run of `cohort` when all train in lockstep on one thread of this machine, from a few updates after
    those in which a device makes itself ready.

    An evaluation is counted as a forward pass over the held-out text, and that as a third of an update's; a scoring
    under other conditions as an evaluation.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    slices = training([Member(run.recipe, run.seed) for run in cohort], corpus, device, compiled=False)
    try:
        warm = len(cohort) * (BEFORE + 1 if device == "cuda" else 1)
        before = next((progress.steps_done for progress in slices if progress.steps_done >= warm), warm)
        started = time.perf_counter()
        after = next(slices, None)
        per_step = (time.perf_counter() - started) / max(1, after.steps_done - before if after else 1)
    finally:
        slices.close()
        torch.set_num_threads(threads)
    recipe = cohort[0].recipe
    forward = len(corpus.held_out) / (recipe.budget.batch * recipe.model.context) / 3
    return per_step * (recipe.budget.steps + (EVALUATIONS + len(recipe.scored)) * forward)
