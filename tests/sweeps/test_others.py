"""Runs that another study has recorded: taken over, and told as what they are wherever a study says what it fixed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from analysis.design import known_before
from analysis.material import Material
from analysis.methods import methods
from analysis.records import RUNS, Records
from model.corpus.text import Corpus
from sweeps.engine.others import after_others, take_over, taken_over
from sweeps.engine.plan import make_plan
from sweeps.engine.snapshot import make_snapshot
from sweeps.engine.study import Study

EARLY, LATE = "2025-01-01T00:00:00+00:00", "2025-01-02T00:00:00+00:00"
BEFORE = "margin, family and number of seeds were not fixed before these data."


@pytest.fixture
def study(tiny: ModuleType) -> Study:
    """Two arms, narrow and wide, with three seeds."""
    two: Study = tiny.study().with_arms(("wide",))
    return two


Record = Callable[..., Records]


@pytest.fixture
def record(tmp_path: Path, study: Study, corpus: Corpus) -> Record:
    """Record the first `runs` of the study in the folder `name`, as of the study `called`, ended when `finished`."""

    def write(name: str, runs: int, called: str = "", finished: str = EARLY) -> Records:
        records = Records(tmp_path / name)
        plan = make_plan(study, corpus, [])
        records.write_snapshot(make_snapshot(plan, corpus) | {"study": called or name})
        for run in plan.runs[:runs]:
            told: dict[str, Any] = {"run_id": run.run_id, "study": called or name, "arm": run.arm, "seed": run.seed}
            told |= {"status": "completed", "val_loss": 2.0 + run.seed / 10, "recipe_version": 2, "tokens": 9}
            told |= {"corpus_sha256": corpus.sha256, "finished": datetime.fromisoformat(finished), "seconds": 1.0}
            point = {"run_id": run.run_id, "arm": run.arm, "seed": run.seed, "step": 1, "name": "val_loss", "value": 2}
            records.append([{name: told.get(name) for name in RUNS.names}], [point])
        return records

    return write


def conducted(records: Records, study: Study, corpus: Corpus, since: str) -> dict[str, Any]:
    """The snapshot after a command that takes over what it can, as that writes it."""
    plan = make_plan(study, corpus, records.recorded())
    snapshot = make_snapshot(plan, corpus) | {"asked": since}
    snapshot["taken_over"] = taken_over(records, snapshot)
    records.write_snapshot(snapshot)
    take_over(records, plan, snapshot)
    snapshot["taken_over"] = taken_over(records, snapshot)
    records.write_snapshot(snapshot)
    return snapshot


@pytest.mark.parametrize("called", ["first", "tiny-wide"], ids=["another name", "the same name"])
def test_runs_keep_their_origin(tmp_path: Path, study: Study, corpus: Corpus, record: Record, called: str) -> None:
    """After a second command too, and of a folder that another one of the same study was renamed to."""
    record("first", 4, called)
    records = Records(tmp_path / "second")
    plan = make_plan(study, corpus, [])
    assert len(after_others(records, plan).missing) == 2
    for _ in range(2):
        snapshot = conducted(records, study, corpus, LATE)
        assert {one["run_id"] for one in snapshot["taken_over"]} == {run.run_id for run in plan.runs[:4]}
        assert {(one["study"], one["finished"]) for one in snapshot["taken_over"]} == {(called, EARLY)}
    assert set(records.runs()["study"]) == {called}
    curves = records.curves(sorted(run.run_id for run in plan.runs[:4]))
    assert {(point.run_id, point.arm, point.name, point.value) for point in curves.itertuples()} == {
        (run.run_id, run.arm, "val_loss", 2.0) for run in plan.runs[:4]
    }
    assert known_before(snapshot, records.runs()) == (
        f"4 of the runs were recorded by the study {called} before this question was asked: {BEFORE}"
    )


def test_rows_tell_their_origin_when_the_study_file_is_lost(
    tmp_path: Path, study: Study, corpus: Corpus, record: Record
) -> None:
    record("first", 4)
    records = Records(tmp_path / "second")
    told = conducted(records, study, corpus, LATE)["taken_over"]
    (records.folder / "study.json").unlink()
    assert sorted(conducted(records, study, corpus, LATE)["taken_over"], key=str) == sorted(told, key=str)


def test_rows_that_are_put_into_the_folder_tell_their_origin(study: Study, corpus: Corpus, record: Record) -> None:
    records, other = record("tiny-wide", 2), record("first", 6)
    for kind in ("runs", "curves"):
        for part in (other.folder / kind).iterdir():
            if not (own := records.folder / kind / part.name).exists():
                own.write_bytes(part.read_bytes())
    snapshot = records.snapshot() | {"asked": LATE}
    assert known_before(snapshot, records.runs()).startswith("4 of the runs were recorded by the study first before")


def test_what_came_after_the_question_was_fixed_for_it(
    tmp_path: Path, study: Study, corpus: Corpus, record: Record
) -> None:
    record("first", 1)
    record("then", 3, finished=LATE)
    records = Records(tmp_path / "second")
    snapshot = conducted(records, study, corpus, "2025-01-01T12:00:00+00:00")
    assert len(snapshot["taken_over"]) == 3
    assert known_before(snapshot, records.runs()).startswith("1 of the runs was recorded by the study first before")
    assert known_before(snapshot | {"asked": EARLY}, records.runs()) == ""
    both = known_before(snapshot | {"asked": datetime.now(UTC).isoformat()}, records.runs())
    assert both.startswith("1 of the runs was recorded by the study first and 2 of the runs were recorded by the study")
    assert known_before({k: v for k, v in snapshot.items() if k != "asked"}, records.runs()) == ""  # an older folder


def test_a_report_does_not_call_that_fixed_beforehand(
    tmp_path: Path, study: Study, corpus: Corpus, record: Record
) -> None:
    """The question was asked of two seeds more after the runs of the first were there."""
    record("first", 6)
    records = Records(tmp_path / "second")
    conducted(records, study.replace(name="second"), corpus, LATE)
    material = Material.read(records.folder)
    for text in (methods(material), material.checklist[0].why):
        assert f"6 of the runs were recorded by the study first before this question was asked: {BEFORE}" in text
        assert "before any run" not in text
        assert "a margin of" in text
    late = replace(material, snapshot={**material.snapshot, "asked": EARLY})
    assert all("before any run" in text for text in (methods(late), late.checklist[0].why))
    looks = {"design": {"kind": "until_decided", "looks": [3, 5]}}
    assert "declared, after" in methods(replace(material, snapshot={**material.snapshot, **looks}))
    assert "declared beforehand, after" in methods(replace(late, snapshot={**late.snapshot, **looks}))
