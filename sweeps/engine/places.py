"""Where cohorts train: on which device, how many at a time, and how much memory each may fill."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from model.hardware import available_memory
from model.memory import memory
from sweeps.engine.plan import MOST_MEMBERS, Cohort, Plan
from sweeps.engine.study import StudyError

WORKER = 2**29  # bytes that a worker takes beside its cohort: Python, PyTorch and Ray (measured 495 MB)
RAY_SHARE = 0.7  # of a machine's memory that Ray gives to workers; the rest is for its object store
GPU_SHARE = 0.45  # of a GPU's memory that updates may fill: what one is recorded with stays while scoring takes as much


@dataclass(frozen=True)
class Node:
    """One machine, as far as it can train; memory in bytes."""

    cpus: int
    gpus: int
    memory: int


@dataclass(frozen=True)
class Places:
    """`count` cohorts train at a time on `device`, each in at most `memory` bytes."""

    device: str
    count: int
    memory: int
    cohorts_per_gpu: int = 1

    def cohorts(self, plan: Plan, earlier: Iterable[Sequence[str]] = ()) -> list[Cohort]:
        """The cohorts of `plan` for these places; see `Plan.cohorts`."""
        return plan.cohorts(self.count, self.memory, MOST_MEMBERS[self.device], earlier)

    def resources(self, plan: Plan, earlier: Iterable[Sequence[str]] = ()) -> dict[str, float]:
        """What Ray is to reserve for each cohort of some or all of the missing runs of `plan`, `earlier` ones included:
        the same for all, so that a worker can go on with another one.

        On a CPU the memory too, else Ray would start workers that a machine shared with other programs cannot hold.
        Raises StudyError when a run does not fit.
        """
        largest = plan.largest(self.count, self.memory, MOST_MEMBERS[self.device]) + self.cohorts(plan, earlier)
        if self.device == "cuda":
            return {"cpu": 1, "gpu": 1 / self.cohorts_per_gpu}
        return {"cpu": 1, "memory": WORKER + max(map(cohort_memory, largest))}


def cohort_memory(cohort: Cohort) -> int:
    """Bytes that the members of `cohort` take on their device while they train together."""
    return memory(cohort[0].recipe, len(cohort)).total


def make_places(plan: Plan, nodes: Sequence[Node], device: str, cohorts_per_gpu: int | None) -> Places:
    """The places that `nodes` have for the missing runs of `plan`.

    On a CPU one a core, or fewer where a machine has not the memory for a single member on each of its cores; on a GPU
    `cohorts_per_gpu` (None is 1). Raises StudyError when that is asked for without a GPU.
    """
    if device == "cuda":
        each = cohorts_per_gpu or 1
        count = sum(min(node.gpus * each, node.cpus) for node in nodes)
        return Places(device, max(1, count), int(_gpu_memory() * GPU_SHARE / each), each)
    refuse_without_gpu(cohorts_per_gpu)
    least = WORKER + max((memory(run.recipe, 1).total for run in plan.missing), default=0)
    counts = [(min(node.cpus, node.memory // least), node.memory) for node in nodes]
    shares = [room // count for count, room in counts if count]
    # Where no machine can hold a single member, cutting the plan into cohorts refuses that, with both numbers.
    share = min(shares, default=max(node.memory for node in nodes))
    return Places(device, max(1, sum(count for count, _ in counts)), max(0, share - WORKER))


def refuse_without_gpu(cohorts_per_gpu: int | None) -> None:
    if cohorts_per_gpu is not None:
        raise StudyError(
            "--cohorts-per-gpu is for training on a GPU, and this would train on the CPU; leave the option out."
        )


def this_machine() -> Node:
    """The machine that this runs on, as Ray started here would see it."""
    return Node(os.cpu_count() or 1, torch.cuda.device_count(), int(available_memory() * RAY_SHARE))


def _gpu_memory() -> int:
    """Bytes of the first GPU here. Where there is none (the GPUs are other machines'), a terabyte: cohorts are then as
    large as they may be, and training halves one that does not fit."""
    return torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else 2**40
