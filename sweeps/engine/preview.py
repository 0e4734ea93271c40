"""``--plan``: what a study would run and about what it costs, before anything is spent."""

import os

from rich import box
from rich.console import Console
from rich.table import Table

from analysis.wording import duration
from model import counting
from model.corpus.text import Corpus
from sweeps.engine.plan import Plan, seconds_per_run


def show_plan(plan: Plan, corpus: Corpus, console: Console) -> None:
    """Print each arm's size and budget, the runs recorded and missing, and an estimate from a few timed updates."""
    study = plan.study
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("arm")
    for name in ("parameters", "steps", "tokens", "recorded", "to run", "s per run"):
        table.add_column(name, justify="right")
    total = 0.0
    for arm in study.arms:
        runs = [run for run in plan.runs if run.arm == arm.name]
        missing = [run for run in plan.missing if run.arm == arm.name]
        seconds = seconds_per_run(arm.recipe, corpus) if missing else None
        total += (seconds or 0.0) * len(missing)
        table.add_row(
            arm.name + (" (baseline)" if arm.name == study.baseline else ""),
            f"{counting.parameters(arm.recipe.model).total:,}",
            f"{arm.recipe.budget.steps:,}",
            f"{arm.recipe.tokens:,}",
            str(len(runs) - len(missing)),
            str(len(missing)),
            "-" if seconds is None else f"{seconds:.0f}",
        )
    console.print(f"{study.name}: {study.question}", soft_wrap=True)
    console.print(
        f"Text: {corpus.name}, {len(corpus.train):,} characters to train on and {len(corpus.held_out):,} held out, "
        f"{corpus.vocabulary.size:,} symbols covering {corpus.coverage:.1%}.",
        soft_wrap=True,
    )
    console.print(
        f"Seeds: {', '.join(map(str, study.seeds))}. Margin: {study.margin:g} nats per character.", soft_wrap=True
    )
    console.print(table)
    workers = os.cpu_count() or 1
    if plan.missing:
        console.print(
            f"{len(plan.missing)} of {len(plan.runs)} runs to train: about {duration(total / workers)} on this "
            f"machine's {workers} cores, one run a core (from a few timed updates of each arm alone).",
            soft_wrap=True,
        )
    else:
        console.print(f"All {len(plan.runs)} runs are recorded; the same command only writes the report again.")
