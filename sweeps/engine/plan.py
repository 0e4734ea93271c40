"""What a study would run: every run with its identity, less those that are recorded already."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from model.batches import evaluation_batches
from model.corpus.text import Corpus
from model.train import EVALUATIONS, Member, Recipe, evaluate, training
from sweeps.engine.fingerprint import run_id
from sweeps.engine.study import Study, StudyError

MEMBERS_PER_COHORT = 1  # members still train one after another, so a larger cohort would only delay its first record


@dataclass(frozen=True)
class Run:
    """One run of one arm."""

    run_id: str
    arm: str
    recipe: Recipe
    seed: int


@dataclass(frozen=True)
class Plan:
    """Every run of `study` on `corpus`, seed by seed so that all arms advance together, and which are recorded."""

    study: Study
    runs: tuple[Run, ...]
    recorded: frozenset[str]

    @property
    def missing(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.run_id not in self.recorded)

    def after(self, recorded: Iterable[str]) -> "Plan":
        """The plan once the runs `recorded` are there too."""
        return replace(self, recorded=self.recorded | set(recorded))

    def cohorts(self, size: int = MEMBERS_PER_COHORT) -> list[tuple[Run, ...]]:
        """The missing runs in groups of `size` that one trial trains."""
        missing = self.missing
        return [missing[i : i + size] for i in range(0, len(missing), size)]


def make_plan(study: Study, corpus: Corpus, recorded: Sequence[str]) -> Plan:
    """Raises StudyError when the arms do not share the vocabulary that the corpus was built with."""
    for arm in study.arms:
        if arm.recipe.model.vocabulary != corpus.vocabulary.size:
            raise StudyError(
                f"The arm {arm.name!r} has a vocabulary of {arm.recipe.model.vocabulary}, but the text was read with "
                f"{corpus.vocabulary.size}; losses over different vocabularies cannot be compared."
            )
    runs = tuple(
        Run(run_id(arm.recipe, corpus.sha256, seed), arm.name, arm.recipe, seed)
        for seed in study.seeds
        for arm in study.arms
    )
    return Plan(study, runs, frozenset(recorded) & {run.run_id for run in runs})


def seconds_per_run(recipe: Recipe, corpus: Corpus) -> float:
    """Wall time of one run on one thread of this machine, from its first few updates and one evaluation."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    slices = training([Member(recipe, seed=0)], corpus, "cpu")
    try:
        before, started = next(slices).steps_done, time.perf_counter()
        after = next(slices, None)
        per_step = (time.perf_counter() - started) / max(1, after.steps_done - before if after else 1)
        started = time.perf_counter()
        batches = evaluation_batches(corpus.held_out, recipe.model.context, recipe.budget.batch)
        evaluate(recipe.model.build(seed=0), batches)
        return recipe.budget.steps * per_step + EVALUATIONS * (time.perf_counter() - started)
    finally:
        slices.close()
        torch.set_num_threads(threads)
