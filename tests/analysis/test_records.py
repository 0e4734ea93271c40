import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from analysis.folder import locked
from analysis.records import COMPLETED, DIVERGED, RecordError, Records, cohort_name


def row(run_id: str, arm: str = "a", seed: int = 0, **changes: Any) -> dict[str, Any]:
    values = {
        "run_id": run_id, "study": "s", "arm": arm, "seed": seed, "status": COMPLETED, "val_loss": 4.25,
        "val_window_sd": 0.4, "last_batch_loss": 4.1, "initial_loss": 7.1, "diverged_at": None, "parameters": 10,
        "steps": 5, "tokens": 100, "seconds": 1.5, "cohort": 5, "precision": "bf16", "device": "cpu",
        "corpus_sha256": "ab", "recipe_version": 1, "commit": None, "versions": "{}",
        "finished": datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    }  # fmt: skip
    return values | changes


def point(run_id: str, step: int, value: float = 1.0) -> dict[str, Any]:
    return {"run_id": run_id, "arm": "a", "seed": 0, "step": step, "name": "train_loss", "value": value}


@pytest.fixture
def records(tmp_path: Path) -> Records:
    made = Records(tmp_path / "s")
    made.write_snapshot({"study": "s"})
    return made


def test_what_is_appended_is_read_back(records: Records) -> None:
    first, second = row("1", seed=1), row("2", seed=0, status=DIVERGED, val_loss=float("nan"), diverged_at=3)
    records.append([first], [point("1", 0, 2.5), point("1", 1, 2.0)])
    records.append([second], [point("2", 0)])
    frame = records.runs()
    assert list(frame["run_id"]) == ["2", "1"]  # by arm, then seed
    assert frame["diverged_at"][0] == 3
    assert frame["finished"][1].to_pydatetime() == first["finished"]
    assert frame["val_loss"].isna().tolist() == [True, False]
    curves = records.curves(["1"])
    assert curves[["step", "value"]].to_numpy().tolist() == [[0, 2.5], [1, 2.0]]
    assert sorted(records.recorded()) == ["1", "2"]
    assert list(records.runs(["1"])["run_id"]) == ["1"]


def test_an_empty_study_reads_as_nothing(records: Records) -> None:
    assert len(records.runs()) == 0
    assert len(records.curves([])) == 0


def test_the_same_cohort_twice_is_one_part(records: Records) -> None:
    for loss in (4.0, 5.0):
        records.append([row("1", val_loss=loss), row("2", seed=1)], [point("1", 0)])
    assert list(records.runs()["val_loss"]) == [5.0, 4.25]
    assert len(list((records.folder / "runs").iterdir())) == 1


def test_a_run_in_two_parts_is_refused_and_named(records: Records) -> None:
    records.append([row("1")], [])
    records.append([row("1"), row("2", seed=1)], [])
    with pytest.raises(RecordError, match="records these runs more than once: 1"):
        records.runs()


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
@pytest.mark.parametrize("kind", ["runs", "curves"])
def test_a_part_cut_short_is_named(records: Records, kept: int, kind: str) -> None:
    records.append([row("1")], [point("1", 0)])
    (part,) = (records.folder / kind).iterdir()
    part.write_bytes(part.read_bytes()[:kept])
    with pytest.raises(RecordError, match=f"{part.name} is not a whole Parquet file"):
        records.recorded()


def test_a_part_with_other_columns_is_named(records: Records) -> None:
    records.append([row("1")], [point("1", 0)])
    (part,) = (records.folder / "curves").iterdir()
    (records.folder / "runs" / part.name).write_bytes(part.read_bytes())
    with pytest.raises(RecordError, match="has other columns"):
        records.runs()


def test_rows_of_the_wrong_form_are_our_mistake(records: Records) -> None:
    with pytest.raises(AssertionError, match="val_loss"):
        records.append([{k: v for k, v in row("1").items() if k != "val_loss"}], [])
    with pytest.raises(AssertionError, match="extra"):
        records.append([row("1"), row("2", extra=1)], [])
    assert records.recorded() == []


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RecordError, match=r"holds mine\.txt, which no study writes"):
        Records(tmp_path)


def test_the_folder_of_another_study_is_left_alone(records: Records) -> None:
    Records(records.folder, "s")
    with pytest.raises(RecordError, match="belongs to the study 's', not to 't'"):
        Records(records.folder, "t")


def test_a_damaged_study_file_leaves_the_records_usable(records: Records) -> None:
    records.append([row("1")], [point("1", 0)])
    (records.folder / "study.json").write_text("{")
    again = Records(records.folder, "s")
    assert again.recorded() == ["1"]
    with pytest.raises(RecordError, match=r"study\.json is damaged"):
        again.snapshot()


def test_half_a_part_does_not_count(records: Records) -> None:
    """A row whose curves are gone is trained again; curves whose row never came are not read."""
    records.append([row("1")], [point("1", 0)])
    records.append([row("2", seed=1)], [point("2", 0)])
    curves, rows = (sorted((records.folder / kind).iterdir()) for kind in ("curves", "runs"))
    curves[0].unlink()
    rows[1].unlink()
    assert records.recorded() == []
    assert len(records.curves(["1", "2"])) == 0


def test_a_run_is_called_as_the_plan_calls_it(records: Records) -> None:
    records.append([row("1", arm="old"), row("2", arm="older", seed=1)], [point("1", 0), point("2", 0)])
    plan = {"runs": [{"run_id": "1", "arm": "new", "seed": 0, "stage": "tune", "point": 0.003}]}
    runs, curves = records.planned(plan)
    assert runs[["run_id", "arm", "stage", "point"]].to_numpy().tolist() == [["1", "new", "tune", 0.003]]
    assert curves["arm"].tolist() == ["new"]
    nothing = records.planned_runs({"runs": []})
    assert (len(nothing), nothing["point"].dtype) == (0, float)


def test_one_process_at_a_time(records: Records) -> None:
    again = locked(records.folder)
    with locked(records.folder), pytest.raises(RecordError, match="Another process runs a study"):
        again.__enter__()
    with locked(records.folder):
        assert records.recorded() == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RecordError, match="is a file, not a folder"):
        Records(tmp_path / "file" / "s")


def test_a_folder_without_a_study_has_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"holds no study\.json"):
        Records(tmp_path / "nothing").snapshot()


def test_a_full_disk_loses_nothing(records: Records) -> None:
    """/dev/full answers every write with 'no space left'."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full to stand in for a full disk")
    records.append([row("1")], [])
    (records.folder / "curves").mkdir(exist_ok=True)
    code = (
        "import builtins, pathlib, sys; from analysis import folder as r; real = builtins.open\n"
        "builtins.open = lambda path, mode: real('/dev/full', mode)\n"
        f"r.replace_file(pathlib.Path({str(records.folder / 'runs' / 'x.parquet')!r}), b'x' * 10)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "No space left on device" in done.stderr
    assert "RecordError" in done.stderr
    assert records.recorded() == ["1"]


def test_a_killed_writer_leaves_whole_parts(records: Records, tmp_path: Path) -> None:
    """Killed at any moment, what is in the folder can be read, and every row has its curves."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; from test_records import *\n"
        "records = Records(Path(sys.argv[2]))\n"
        "print('ready', flush=True)\n"
        "for i in range(100_000): records.append([row(str(i), seed=i)], [point(str(i), 0)])"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(Path(__file__).parent), str(records.folder)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    while len(list((records.folder / "runs").glob("*.parquet"))) < 20:
        assert writer.poll() is None
        time.sleep(0.01)
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    ids = records.recorded()
    assert len(ids) >= 20
    assert set(records.curves(ids)["run_id"]) == set(ids)


def test_neighbours_give_what_they_have(records: Records, tmp_path: Path) -> None:
    other = Records(tmp_path / "other")
    other.write_snapshot({"study": "other"})
    other.append([row("1"), row("2", seed=1)], [point("1", 0), point("2", 0)])
    rows, curves = records.neighbours(["1", "3"])
    assert [r["run_id"] for r in rows] == ["1"]
    assert [p["run_id"] for p in curves] == ["1"]
    assert records.neighbours([]) == ([], [])


def test_a_damaged_neighbour_gives_nothing(records: Records, tmp_path: Path) -> None:
    other = Records(tmp_path / "other")
    other.write_snapshot({"study": "other"})
    other.append([row("1")], [])
    (part,) = (other.folder / "runs").iterdir()
    part.write_bytes(b"PAR1")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "study.json").write_text(json.dumps({"hello": 1}))
    (tmp_path / "foreign" / "thesis.tex").write_text("mine")
    assert records.neighbours(["1"]) == ([], [])


def test_a_part_of_version_1_is_read_and_may_lie_beside_new_ones(records: Records) -> None:
    records.append([row("1")], [point("1", 0)])
    (part,) = (records.folder / "runs").iterdir()
    old = pq.read_table(part).drop_columns(["precision", "cohort"])
    pq.write_table(old, part)
    assert records.runs()["precision"].isna().all()
    records.append([row("2", seed=1, cohort=3, precision="fp32")], [point("2", 0)])
    frame = records.runs().set_index("run_id")
    assert frame["precision"].dropna().to_dict() == {"2": "fp32"}
    assert frame["cohort"].dropna().to_dict() == {"2": 3}
    assert frame["seconds"].to_dict() == {"1": 1.5, "2": 1.5}
    other = Records(records.folder.parent / "t")
    given, curves = other.neighbours(["1"])  # and may be taken over
    other.append(given, curves)
    assert other.recorded() == ["1"]
    assert other.runs()["cohort"].isna().all()


def test_only_the_columns_that_version_1_lacked_may_be_missing(records: Records) -> None:
    records.append([row("1")], [point("1", 0)])
    (part,) = (records.folder / "runs").iterdir()
    pq.write_table(pq.read_table(part).drop_columns(["device"]), part)
    with pytest.raises(RecordError, match="has other columns"):
        records.runs()


def test_a_cohort_is_called_by_its_runs_in_whatever_order() -> None:
    assert cohort_name(["1", "2"]) == cohort_name(["2", "1"])
    assert len({cohort_name(ids) for ids in ([], ["1"], ["2"], ["1", "2"], ["12"])}) == 5


def test_a_folder_of_checkpoints_is_no_stranger(records: Records) -> None:
    (records.folder / "checkpoints").mkdir()
    assert Records(records.folder, "s").recorded() == []
