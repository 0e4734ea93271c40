"""How many cohorts train at a time, and how much memory each may fill; GPUs are those that a cluster tells of."""

from dataclasses import replace
from types import ModuleType

import pytest

from model.corpus.text import Corpus
from model.memory import memory
from sweeps.engine.places import WORKER, Node, make_places
from sweeps.engine.plan import Plan, make_plan
from sweeps.engine.study import StudyError

GIB = 2**30


@pytest.fixture
def plan(tiny: ModuleType, corpus: Corpus) -> Plan:
    return make_plan(tiny.study(), corpus, [])


def test_a_core_is_a_place_and_memory_is_shared_evenly(plan: Plan) -> None:
    places = make_places(plan, [Node(2, 0, 8 * GIB), Node(4, 0, 12 * GIB), Node(0, 0, 50 * GIB)], "cpu", None)
    assert (places.device, places.count, places.memory) == ("cpu", 6, 3 * GIB - WORKER)


def test_no_machine_is_asked_for_more_memory_than_it_has(plan: Plan) -> None:
    """Whatever the cohorts, all places of a machine can be taken at once: Ray would wait for ever otherwise."""
    need = WORKER + max(memory(run.recipe, 1).total for run in plan.missing)
    for cpus, room in ((2, 8 * GIB), (64, 3 * need + 5), (3, need), (1, 100 * GIB)):
        places = make_places(plan, [Node(cpus, 0, room)], "cpu", None)
        cohorts = places.cohorts(plan)
        asked = places.resources(plan)
        assert asked["cpu"] == 1
        assert places.count * asked["memory"] <= room
        assert places.count == min(cpus, room // need)
        assert asked["memory"] >= WORKER + max(memory(c[0].recipe, len(c)).total for c in cohorts)


def test_what_is_reserved_is_enough_for_any_later_round(tiny: ModuleType, corpus: Corpus) -> None:
    """Nine runs of a program are cut into five and four, but eight of them would be one cohort."""
    nine = make_plan(tiny.study().with_arms(("wide",)).replace(seeds=tuple(range(9))), corpus, [])
    places = make_places(nine, [Node(1, 0, 8 * GIB)], "cpu", None)
    eight = nine.after(run.run_id for run in nine.runs if run.seed == 0)
    assert (max(map(len, places.cohorts(nine))), max(map(len, places.cohorts(eight)))) == (5, 8)
    assert places.resources(nine) == places.resources(eight)


def test_a_cohort_that_goes_on_from_fewer_places_is_reserved_for_whole(plan: Plan) -> None:
    """Its members were chosen when there was one place; of two places each would hold half of them."""
    one, two = (make_places(plan, [Node(cpus, 0, 8 * GIB)], "cpu", None) for cpus in (1, 2))
    earlier = [[run.run_id for run in one.cohorts(plan)[0]]]
    assert len(two.cohorts(plan, earlier)[0]) == 2 * len(two.cohorts(plan)[0])
    assert two.resources(plan, earlier)["memory"] == one.resources(plan)["memory"] > two.resources(plan)["memory"]


def test_a_machine_too_small_for_one_run_is_refused_with_both_numbers(plan: Plan) -> None:
    places = make_places(plan, [Node(2, 0, WORKER + 1000)], "cpu", None)
    for device in ("cpu", "cuda"):
        with pytest.raises(
            StudyError, match=r"A run of \w+ needs 0\.14\d* GiB of memory, and a worker has 9\.31e-07 GiB"
        ):
            replace(places, device=device).resources(plan)


def test_gpus_are_shared_as_asked(plan: Plan) -> None:
    nodes = [Node(16, 2, 8 * GIB), Node(4, 0, 8 * GIB)]
    alone, shared = make_places(plan, nodes, "cuda", None), make_places(plan, nodes, "cuda", 4)
    assert (alone.count, shared.count) == (2, 8)
    assert alone.resources(plan) == {"cpu": 1, "gpu": 1}
    assert shared.resources(plan) == {"cpu": 1, "gpu": 0.25}
    assert shared.memory == alone.memory // 4
    assert make_places(plan, [Node(3, 2, 8 * GIB)], "cuda", 4).count == 3  # each takes a core as well


def test_only_a_gpu_can_be_shared(plan: Plan) -> None:
    with pytest.raises(StudyError, match="--cohorts-per-gpu is for training on a GPU"):
        make_places(plan, [Node(2, 0, 8 * GIB)], "cpu", 2)


def test_a_gpu_takes_larger_cohorts(plan: Plan, tiny: ModuleType, corpus: Corpus) -> None:
    many = make_plan(tiny.study().replace(seeds=tuple(range(100))), corpus, [])
    sizes = {
        device: max(map(len, make_places(many, [Node(1, 1, 64 * GIB)], device, None).cohorts(many)))
        for device in ("cpu", "cuda")
    }
    assert sizes == {"cpu": 8, "cuda": 50}  # 200 runs of one program in four cohorts of at most 64
