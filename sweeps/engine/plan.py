"""What a study would run: every run with its identity, less those that are recorded already, and in which cohorts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest

from analysis.design import JUDGE, TUNE
from model.corpus.text import Corpus
from model.memory import memory
from model.recipe import Recipe
from sweeps.engine.contrasts import check_text
from sweeps.engine.fingerprint import run_id
from sweeps.engine.study import Study, StudyError

# Of a cohort, by device. On a CPU more are no faster per member (docs/benchmarks); on a GPU that is not yet measured.
MOST_MEMBERS = {"cpu": 8, "cuda": 64}
GIB = 2**30


@dataclass(frozen=True)
class Run:
    """One run of one arm: judged, or tried at a `point` of the study's grid. A judged run has the selected point."""

    run_id: str
    arm: str
    recipe: Recipe
    seed: int
    stage: str = JUDGE
    point: float | None = None


Cohort = tuple[Run, ...]


@dataclass(frozen=True)
class Plan:
    """The runs of `study` that are asked for, seed by seed so that all arms advance together, and which are recorded.

    `selected` are the points of the grid that arms are judged at, once they are known.
    """

    study: Study
    runs: tuple[Run, ...]
    recorded: frozenset[str]
    selected: Mapping[str, float] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.run_id not in self.recorded)

    def after(self, recorded: Iterable[str]) -> "Plan":
        """The plan once the runs `recorded` are there too."""
        return replace(self, recorded=self.recorded | set(recorded))

    def cohorts(
        self,
        places: int,
        memory_limit: int,
        most: int = MOST_MEMBERS["cpu"],
        earlier: Iterable[Sequence[str]] = (),
    ) -> list[Cohort]:
        """The missing runs in the cohorts that train in lockstep, for `places` of `memory_limit` bytes each.

        Runs of one program are cut into cohorts as even as possible: of at most `most` members, no more than the memory
        holds, and small enough to give every place one. The first cohort of each program comes first, then the
        second of each, so that arms advance together. Cohorts of an `earlier` launch, given by their run ids, come
        before all others and as they were when all their runs are missing and still fit.

        Raises StudyError when a single run needs more memory than a place has.
        """
        missing = {run.run_id: run for run in self.missing}
        kept = []
        for ids in earlier:
            if missing.keys() >= set(ids) and len(ids) <= _fitting(missing[ids[0]], memory_limit, most):
                kept.append(tuple(missing.pop(run_id) for run_id in ids))
        groups = _by_program(missing.values())
        queues = [_even(group, _most(group, places, memory_limit, most)) for group in groups]
        return kept + [cohort for turn in zip_longest(*queues) for cohort in turn if cohort is not None]

    def largest(self, places: int, memory_limit: int, most: int = MOST_MEMBERS["cpu"]) -> list[Cohort]:
        """For each program a cohort as large as any that `cohorts` makes of some or all of the missing runs."""
        groups = _by_program(self.missing)
        return [tuple(group[: _most(group, places, memory_limit, most)]) for group in groups]


def _by_program(runs: Iterable[Run]) -> list[list[Run]]:
    groups: dict[Recipe, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.recipe.program, []).append(run)
    return list(groups.values())


def _most(alike: Sequence[Run], places: int, memory_limit: int, most: int) -> int:
    """How many of `alike`, runs of one program, train in lockstep: few enough that every place gets some."""
    return min(_fitting(alike[0], memory_limit, most), -(-len(alike) // places))


def _fitting(run: Run, memory_limit: int, most: int) -> int:
    """How many members like `run`, at most `most`, a place of `memory_limit` bytes holds."""
    need = memory(run.recipe, 1).total
    if need > memory_limit:
        raise StudyError(
            f"A run of {run.arm} needs {need / GIB:.3g} GiB of memory, and a worker has {memory_limit / GIB:.3g} GiB "
            "for it; make the model or its batch smaller, or train it on a machine with more memory."
        )
    return max(size for size in range(1, most + 1) if size == 1 or memory(run.recipe, size).total <= memory_limit)


def _even(runs: Sequence[Run], most: int) -> list[Cohort]:
    """`runs` in order, cut into as few pieces of at most `most` as possible, whose sizes differ by one at most."""
    pieces = -(-len(runs) // most)
    size, larger = divmod(len(runs), pieces)
    ends = [i * size + min(i, larger) for i in range(pieces + 1)]
    return [tuple(runs[start:end]) for start, end in pairwise(ends)]


def make_plan(study: Study, corpus: Corpus, recorded: Iterable[str]) -> Plan:
    """What is asked for before anything is known: the runs of the grid, without one all seeds of all arms, up to the
    first look. Raises StudyError when the arms do not share the vocabulary that the corpus was built with, and when
    the corpus lacks what models are to be scored on."""
    first = study.looks[0] if study.looks else len(study.seeds)
    runs = tuning_runs(study, corpus) or judged_runs(study, corpus, {arm.name: first for arm in study.arms}, {})
    for run in runs:
        if run.recipe.model.vocabulary != corpus.vocabulary.size:
            raise StudyError(
                f"The arm {run.arm!r} has a vocabulary of {run.recipe.model.vocabulary}, but the text was read with "
                f"{corpus.vocabulary.size}; losses over different vocabularies cannot be compared."
            )
    check_text((arm.recipe for arm in study.arms), corpus)
    return Plan(study, runs, frozenset(recorded) & {run.run_id for run in runs})


def tuning_runs(study: Study, corpus: Corpus) -> tuple[Run, ...]:
    """Every arm at every point of the grid with every tuning seed; none without a grid."""
    grid = study.tune
    if grid is None:
        return ()
    return tuple(
        Run(run_id(recipe, corpus.sha256, seed), arm.name, recipe, seed, TUNE, point)
        for seed in grid.tuning_seeds
        for point in grid.points
        for arm in study.arms
        for recipe in (grid.at(arm.recipe, point),)
    )


def judged_runs(
    study: Study, corpus: Corpus, seeds: Mapping[str, int], selected: Mapping[str, float]
) -> tuple[Run, ...]:
    """The first `seeds` of the study's for each arm, at the points of the grid that were `selected`."""
    recipes = {
        arm.name: study.tune.at(arm.recipe, selected[arm.name]) if study.tune else arm.recipe for arm in study.arms
    }
    return tuple(
        Run(run_id(recipes[arm], corpus.sha256, seed), arm, recipes[arm], seed, JUDGE, selected.get(arm))
        for number, seed in enumerate(study.seeds)
        for arm in recipes
        if number < seeds[arm]
    )


def whole(plan: Plan, corpus: Corpus) -> Plan:
    """`plan` with all that can ever be asked for; which points of a grid will be judged is not known, so all are."""
    study, most = plan.study, {arm.name: len(plan.study.seeds) for arm in plan.study.arms}
    runs = tuning_runs(study, corpus)
    for point in study.tune.points if study.tune else (None,):
        at = {} if point is None else {arm.name: point for arm in study.arms}
        runs += judged_runs(study, corpus, most, at)
    return Plan(study, runs, plan.recorded, plan.selected)
