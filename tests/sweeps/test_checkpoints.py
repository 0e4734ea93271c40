"""Which cohorts go on, and where their states lie; that training goes on is tested in test_interruptions.py."""

from pathlib import Path
from types import ModuleType

import pytest

from model.corpus.text import Corpus
from sweeps.engine import checkpoints
from sweeps.engine.checkpoints import Checkpoints
from sweeps.engine.plan import Cohort, make_plan


@pytest.fixture
def cohorts(tiny: ModuleType, corpus: Corpus) -> list[Cohort]:
    return make_plan(tiny.study(), corpus, []).cohorts(2, 2**30)


def ids(cohorts: list[Cohort]) -> list[tuple[str, ...]]:
    return [tuple(run.run_id for run in cohort) for cohort in cohorts]


def test_before_the_first_launch_there_is_nothing(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "study").earlier(2) == []
    Checkpoints(tmp_path / "study").end()
    assert list(tmp_path.iterdir()) == []


def test_the_cohorts_of_the_last_launch_are_made_again(tmp_path: Path, cohorts: list[Cohort]) -> None:
    kept = Checkpoints(tmp_path)
    made = kept.begin(cohorts, 2)
    assert len({checkpoint.path for checkpoint in made}) == len(cohorts)
    assert all(c.path.is_absolute() and c.path.parent.is_dir() for c in made)
    assert Checkpoints(tmp_path).earlier(2) == ids(cohorts)


def test_other_places_keep_only_what_has_a_state(tmp_path: Path, cohorts: list[Cohort]) -> None:
    made = Checkpoints(tmp_path).begin(cohorts, 2)
    made[1].path.write_bytes(b"state")
    assert Checkpoints(tmp_path).earlier(16) == [ids(cohorts)[1]]


def test_a_launch_keeps_the_states_of_its_cohorts_and_no_others(tmp_path: Path, cohorts: list[Cohort]) -> None:
    made = Checkpoints(tmp_path).begin(cohorts, 2)
    for checkpoint in made:
        checkpoint.path.write_bytes(b"state")
    (tmp_path / "checkpoints" / "0123.77.part").write_bytes(b"half a state of a worker that was killed")
    again = Checkpoints(tmp_path).begin(cohorts[1:], 2)
    assert [checkpoint.path.name for checkpoint in again] == [checkpoint.path.name for checkpoint in made[1:]]
    left = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert left == {"cohorts.json", *(checkpoint.path.name for checkpoint in again)}


def test_the_next_round_takes_the_place_of_the_one_before(tmp_path: Path, cohorts: list[Cohort]) -> None:
    """Its cohorts are those that a launch after a crash makes again; what was left of the round before goes."""
    kept = Checkpoints(tmp_path)
    kept.begin(cohorts[:1], 2)[0].path.write_bytes(b"state of a cohort that has ended")
    kept.begin(cohorts[1:], 2)[0].path.write_bytes(b"state")
    assert Checkpoints(tmp_path).earlier(2) == ids(cohorts[1:])
    assert Checkpoints(tmp_path).earlier(16) == ids(cohorts[1:2])
    assert len(list((tmp_path / "checkpoints").glob("*.pt"))) == 1


def test_a_lost_list_costs_time_alone(tmp_path: Path, cohorts: list[Cohort]) -> None:
    Checkpoints(tmp_path).begin(cohorts, 2)
    (tmp_path / "checkpoints" / "cohorts.json").write_text('{"places": 2, "coho')
    assert Checkpoints(tmp_path).earlier(2) == []


def test_the_interval_is_read_when_a_launch_begins(
    tmp_path: Path, cohorts: list[Cohort], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_SECONDS", 0.25)
    assert {checkpoint.seconds for checkpoint in Checkpoints(tmp_path).begin(cohorts, 2)} == {0.25}


def test_nothing_is_left_in_the_end(tmp_path: Path, cohorts: list[Cohort]) -> None:
    kept = Checkpoints(tmp_path)
    kept.begin(cohorts, 2)[0].path.write_bytes(b"state")
    kept.end()
    assert list(tmp_path.iterdir()) == []
