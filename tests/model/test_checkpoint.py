"""A cohort that was killed goes on to the very result."""

import random
import resource
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model.checkpoint import Checkpoint
from model.corpus.text import Corpus
from model.optimizer import AdamW
from model.recipe import Member, Recipe
from model.train import Progress, Result, train, training

ALWAYS = 0.0  # seconds between two checkpoints


def timeless(results: list[Result]) -> list[str]:
    """Every number of every run to its last bit, NaN included, as text."""
    return [repr(replace(result, seconds=0.0)) for result in results]


def members_of(recipe: Recipe) -> list[Member]:
    """Two healthy members and one that diverges, so that a checkpoint holds an ended one as well."""
    return [
        Member(recipe, 0),
        Member(replace(recipe, optimizer=AdamW(1e30, warmup=0)), 1),
        Member(recipe, 2),
    ]


def stop_after(slices: Generator[Progress, None, list[Result]], count: int) -> None:
    for _ in range(count):
        next(slices)
    slices.close()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_resumed_cohort_comes_to_the_same_bits(
    corpus: Corpus, recipe: Recipe, tmp_path: Path, precision: str
) -> None:
    """Stopped three times at random steps; every number of every result is that of the undisturbed cohort."""
    members = members_of(replace(recipe, precision=precision))
    undisturbed = train(members, corpus)
    checkpoint = Checkpoint(tmp_path / "cohort.pt", ALWAYS)
    draw = random.Random(precision)
    for _ in range(3):
        stop_after(training(members, corpus, "cpu", checkpoint), draw.randint(2, 18))
    seen: list[Progress] = []
    resumed = train(members, corpus, report=seen.append, checkpoint=checkpoint)
    assert timeless(resumed) == timeless(undisturbed)
    assert seen[0].steps_done > 3  # it did not begin anew
    assert sum(result.seconds for result in resumed) > 0


def test_one_left_of_three_resumes_too(corpus: Corpus, recipe: Recipe, tmp_path: Path) -> None:
    """The checkpoint is of a cohort that has already let its diverged members go."""
    wild = replace(recipe, optimizer=AdamW(1e30, warmup=0))
    members = [Member(wild, 0), Member(recipe, 1), Member(wild, 2)]
    checkpoint = Checkpoint(tmp_path / "cohort.pt", ALWAYS)
    stop_after(training(members, corpus, "cpu", checkpoint), 20)
    assert timeless(train(members, corpus, checkpoint=checkpoint)) == timeless(train(members, corpus))


def test_none_left_of_three_resumes_too(corpus: Corpus, recipe: Recipe, tmp_path: Path) -> None:
    """The last member diverges after the cohort was made smaller, and the state is written before results are."""
    wild = replace(recipe, optimizer=AdamW(1e30, warmup=0))
    late = replace(recipe, optimizer=AdamW(1e4, warmup=0, clip=1e30))
    members = [Member(wild, 0), Member(wild, 1), Member(late, 2)]
    checkpoint = Checkpoint(tmp_path / "cohort.pt", ALWAYS)
    once = train(members, corpus, checkpoint=checkpoint)
    state = checkpoint.read()
    assert state is not None
    assert state["rows"] == []
    assert len(state["cohort"]["weights"]) == 1
    assert timeless(train(members, corpus, checkpoint=checkpoint)) == timeless(once)


def test_the_state_of_others_is_left_alone(corpus: Corpus, recipe: Recipe, tmp_path: Path) -> None:
    """Other seeds, another recipe or order of members, another text: training begins anew."""
    checkpoint = Checkpoint(tmp_path / "cohort.pt", ALWAYS)
    members = [Member(recipe, 0), Member(recipe, 1)]
    stop_after(training(members, corpus, "cpu", checkpoint), 30)
    never = Checkpoint(checkpoint.path, 1e9)
    slower = replace(recipe, optimizer=AdamW(1e-3, warmup=5))
    for others in (members[::-1], members[:1], [Member(recipe, 0), Member(slower, 1)]):
        seen: list[Progress] = []
        assert timeless(train(others, corpus, report=seen.append, checkpoint=never)) == timeless(train(others, corpus))
        assert seen[0].steps_done == len(others)
    seen = []
    train(members, replace(corpus, sha256="0" * 64), report=seen.append, checkpoint=never)
    assert seen[0].steps_done == 2


@pytest.mark.parametrize("damage", [b"", b"not a checkpoint", None])
def test_a_damaged_state_is_as_none(corpus: Corpus, recipe: Recipe, tmp_path: Path, damage: bytes | None) -> None:
    checkpoint = Checkpoint(tmp_path / "cohort.pt", ALWAYS)
    members = [Member(recipe, 0)]
    stop_after(training(members, corpus, "cpu", checkpoint), 30)
    whole = checkpoint.path.read_bytes()
    checkpoint.path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert timeless(train(members, corpus, checkpoint=checkpoint)) == timeless(train(members, corpus))


def test_a_state_that_cannot_be_written_stops_no_run(corpus: Corpus, recipe: Recipe, tmp_path: Path) -> None:
    """The folder is gone, as when somebody tidied up."""
    members = [Member(recipe, 0)]
    nowhere = Checkpoint(tmp_path / "gone" / "cohort.pt", ALWAYS)
    assert timeless(train(members, corpus, checkpoint=nowhere)) == timeless(train(members, corpus))


@pytest.mark.parametrize("room", [0, 1_000, 20_000, 39_000])
def test_a_write_that_fails_leaves_the_last_state(tmp_path: Path, room: int) -> None:
    """The system refuses a file larger than `room` bytes, at whatever place of the format that is."""
    checkpoint = Checkpoint(tmp_path / "cohort.pt", ALWAYS)
    checkpoint.write({"step": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(OSError, match=r"The state was not written|too large"):
            checkpoint.write({"step": 2, "weights": torch.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert checkpoint.read() == {"step": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["cohort.pt"]
