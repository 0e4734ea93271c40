"""Anyone's tables, messy as they come: what is read is what was written, and what could be two things is refused."""

import csv
import io
import math
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.cells import TableError
from analysis.reading import Reading, read

Found = dict[tuple[str, int], float | str]
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(text: str | bytes, name: str = "results.csv") -> str:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return put


def long(source: str, metric: str | None = "val_loss", arm: str = "arm", seed: str = "seed") -> Found:
    return found(read(source, arm, seed, metric))


def found(reading: Reading) -> Found:
    """(arm, seed) -> the loss, or why there is none."""
    runs = reading.runs
    assert list(runs) == ["run_id", "arm", "seed", "loss", "status"]
    assert runs["run_id"].is_unique
    assert runs["loss"].notna().equals(runs["status"] == "completed")
    cells = zip(runs["arm"], runs["seed"], runs["status"], runs["loss"], strict=True)
    return {(arm, seed): loss if status == "completed" else status for arm, seed, status, loss in cells}


def refused(source: str, *words: str, metric: str | None = "val_loss", arm: str = "arm", seed: str = "seed") -> None:
    """A refusal in at most two sentences, with these words."""
    with pytest.raises(TableError) as error:
        read(source, arm, seed, metric)
    message = str(error.value)
    for word in words:
        assert word in message, message
    assert len(re.findall(r"[.?](?= [A-Z]|$)", message)) <= 2, message
    assert "\n" not in message


def notes(source: str, metric: str | None = "val_loss", arm: str = "arm", seed: str = "seed") -> str:
    return " ".join(read(source, arm, seed, metric).notes)


HEAD = "arm,seed,val_loss\n"


def test_a_long_table(write: Write) -> None:
    source = write(HEAD + "A,0,1.5\nA,1,1.25\nB,0,2\nB,1,.5\n")
    assert long(source) == {("A", 0): 1.5, ("A", 1): 1.25, ("B", 0): 2.0, ("B", 1): 0.5}
    assert read(source, "arm", "seed", "val_loss").notes == ("Read from results.csv: 4 runs of 2 arms.",)
    assert read(source, "arm", "seed", "val_loss").source == "results.csv"
    assert read(source, "arm", "seed", "val_loss").runs["run_id"].tolist() == ["row-2", "row-3", "row-4", "row-5"]


def test_a_wide_table(write: Write) -> None:
    source = write("seed,A,B\n0,1.5,2\n1,,nan\n")
    assert long(source, None) == {("A", 0): 1.5, ("B", 0): 2.0, ("A", 1): "missing", ("B", 1): "diverged"}


def test_wide_and_long_are_the_same_runs(write: Write) -> None:
    wide = long(write("seed,A,B\n0,1.5,2\n1,,inf\n", "wide.csv"), None)
    assert wide == long(write(HEAD + "A,0,1.5\nA,1,\nB,0,2\nB,1,inf\n", "long.csv"))


def test_a_wide_table_leaves_out_blank_rows_and_unnamed_columns(write: Write) -> None:
    """As pandas writes a frame with its index, and a spreadsheet its empty rows."""
    assert long(write(",seed,A\n0,7,1.5\n,,\n1,8,2\n"), None) == {("A", 7): 1.5, ("A", 8): 2.0}


def test_a_wide_table_without_an_arm_or_with_text(write: Write) -> None:
    refused(write("seed\n0\n"), "no arm", "--metric", metric=None)
    refused(write("seed,A,note\n0,1.5,fine\n"), '"fine" in note seed 0 (row 2)', "--metric", metric=None)
    refused(write("seed,A\n0,1.5\n,2\n"), "No seed", "row 3", metric=None)
    refused(write("seed,A\n0,1\n0,2\n"), "A seed 0 (row 2, row 3)", metric=None)


@pytest.mark.parametrize(
    ("cell", "loss"),
    [
        ("1.23 ", 1.23),
        (" 1.23", 1.23),
        ("\u00a01.23\u00a0", 1.23),
        ("+1.5", 1.5),
        ("-0.5", -0.5),
        ("−0.5", -0.5),
        ("1e-3", 1e-3),
        ("1.5E+2", 150.0),
        ("7", 7.0),
        ("7.", 7.0),
        ('"1,234.5"', 1234.5),
        ('"1,234,567"', 1234567.0),
        ('"1,23"', 1.23),
        ('"0,123"', 0.123),
        ('"-1,5e-3"', -0.0015),
        ('"1.234,5"', 1234.5),
        ("", "missing"),
        ("  ", "missing"),
        ("-", "missing"),
        ("—", "missing"),
        (".", "missing"),  # how SAS writes it
        ("n/a", "missing"),
        ("N/A", "missing"),
        ("NA", "missing"),
        ("#N/A", "missing"),
        ("null", "missing"),
        ("None", "missing"),
        ("nan", "diverged"),
        ("NaN", "diverged"),
        ("-nan", "diverged"),
        ("inf", "diverged"),
        ("-inf", "diverged"),
        ("+Infinity", "diverged"),
        ("1e999", "diverged"),
        ("diverged", "diverged"),
    ],
)
def test_what_a_cell_means(write: Write, cell: str, loss: float | str) -> None:
    assert long(write(HEAD + f"A,0,{cell}\n")) == {("A", 0): loss}


@pytest.mark.parametrize("cell", ["3.2x", "1.2.3", "1 2", "3.2 nats", "0x1f", "1_000", "True", "1e", '"1,23,4"', "e5"])
def test_what_is_no_number_is_refused_by_row(write: Write, cell: str) -> None:
    source = write(HEAD + f"A,0,1.5\nA,1,{cell}\n")
    refused(source, cell.strip('"'), "A seed 1 (row 3)", "nan")


def test_many_bad_cells_are_counted(write: Write) -> None:
    refused(write(HEAD + "".join(f"A,{i},bad\n" for i in range(12))), "(row 2)", "(row 6)", "and 7 more")


def test_no_digit_of_a_loss_is_lost(write: Write) -> None:
    values = [*np.random.default_rng(5).normal(3, 1, 500).tolist(), 0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308]
    source = write(HEAD + "".join(f"A,{i},{value!r}\n" for i, value in enumerate(values)))
    assert list(long(source).values()) == values


def test_decimal_commas_between_semicolons(write: Write) -> None:
    source = write("arm;seed;val_loss\nA;0;1,5\nA;1;1,234\nA;2;2\n")
    assert long(source) == {("A", 0): 1.5, ("A", 1): 1.234, ("A", 2): 2.0}
    assert "decimal commas" in notes(source)
    assert long(write("seed;A;B\n0;1,234;1,3\n"), None) == {("A", 0): 1.234, ("B", 0): 1.3}


def test_a_comma_that_could_be_two_things_is_refused(write: Write) -> None:
    refused(write(HEAD + 'A,0,"1,234"\nA,1,"2,345"\n'), '"1,234" in A seed 0 (row 2)', "decimal point")
    # The rest of the table decides, in one way for all of it.
    assert list(long(write(HEAD + 'A,0,"1,234"\nA,1,"2,3456"\n')).values()) == [1.234, 2.3456]
    assert list(long(write(HEAD + 'A,0,"1,234"\nA,1,987.5\n')).values()) == [1234.0, 987.5]
    assert list(long(write(HEAD + 'A,0,"1,234"\nA,1,"1,234.5"\n')).values()) == [1234.0, 1234.5]
    refused(write(HEAD + 'A,0,"1,23"\nA,1,1.25\n'), '"1,23" in A seed 0 (row 2)', "one way")
    refused(write("arm;seed;val_loss\nA;0;1,23\nA;1;1.234\n"), "one way")


def test_a_decimal_comma_that_splits_a_cell_is_refused(write: Write) -> None:
    """Read carelessly, 1,23 between commas is a loss of 1."""
    for rows, row in {
        "A,0,1,23\nA,1,1,25\n": "row 2",
        "A,0,1\nA,1,1,25\n": "row 3",
        "A,0,1,2,3\n": "first row",
        "A,0,1,,5\n": "first row",
        "A,0,1\nA,1,1,2,3\n": "row 3",
        "A,0,1\n\nA,1,1,2,3\n": "row 4",
    }.items():
        refused(write(HEAD + rows), f"more cells in {'its ' if row == 'first row' else ''}{row} than", "semicolons")


def test_cells_that_a_row_lacks_are_empty(write: Write) -> None:
    assert long(write(HEAD + "A,0,1.5\nA,1\n\n,,\nA,2,2,\n")) == {("A", 0): 1.5, ("A", 1): "missing", ("A", 2): 2.0}


def test_rows_are_counted_as_a_spreadsheet_does(write: Write) -> None:
    source = write('\n\narm,note,seed,val_loss\n"A","two\nlines",0,1.5\n\nA,,1,bad\n')
    refused(source, "A seed 1 (row 6)")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_every_dialect_of_csv(write: Write, encoding: str, ending: str, separator: str) -> None:
    text = "arm,seed,val_loss\nGröße,0,1.5\n" + '"B",1, 2.5 \n'
    source = write(text.replace(",", separator).replace("\n", ending).encode(encoding), "results.tsv")
    assert long(source) == {("Größe", 0): 1.5, ("B", 1): 2.5}
    assert ("Latin-1" in notes(source)) == (encoding == "latin-1")


def test_arms_keep_their_text(write: Write) -> None:
    source = write("lr,seed,val_loss\n0.1,0,1\n0.10,0,2\n1e-3,0,3\n 007 ,0,4\nNA,0,5\nTrue,0,6\n")
    assert [arm for arm, _ in long(source, arm="lr")] == ["0.1", "0.10", "1e-3", "007", "NA", "True"]


def test_whole_seeds_are_themselves(write: Write) -> None:
    """Whatever a tool made of them: pandas writes 1.0 for 1 as soon as one seed is missing."""
    assert [seed for _, seed in long(write(HEAD + "A,3.0,1\nA,-1,2\nA,1e3,3\nA,42,4\n"))] == [3, -1, 1000, 42]
    refused(write(HEAD + "A,1,1\nA,1.0,2\n"), "(row 2, row 3)")


def test_other_seeds_are_numbered_in_order_of_appearance(write: Write) -> None:
    source = write(HEAD + "A,run-b,1\nA,run-a,2\nB,run-a,3\nB,run-c,4\n")
    assert list(long(source)) == [("A", 0), ("A", 1), ("B", 1), ("B", 2)]
    assert "run-b is 0, run-a is 1, run-c is 2." in notes(source)
    assert list(long(write(HEAD + "A,0.5,1\nA,2,2\n"))) == [("A", 0), ("A", 1)]
    big = 2**63
    assert list(long(write(HEAD + f"A,{big},1\nA,{big + 1},2\n"))) == [("A", 0), ("A", 1)], "these are one float"


def test_repeated_rows_are_refused_by_row(write: Write) -> None:
    refused(write(HEAD + "A,0,1\nB,0,1\nA,0,2\n"), "A seed 0 (row 2, row 4)", "one row per run")
    refused(write(HEAD + "A,0,1\nA,0,\n"), "A seed 0 (row 2, row 3)")
    steps = "".join(f"A,{seed},{step}\n" for seed in range(5) for step in range(8))
    refused(write(HEAD + steps), "(row 2, row 3, row 4, row 5, row 6 and 3 more)", "and 2 more", "the last one")


def test_a_row_that_names_half_a_run_is_refused(write: Write) -> None:
    refused(write(HEAD + "A,0,1\n,1,1\n"), "No arm", "row 3")
    refused(write(HEAD + "A,0,1\nA,,1\n"), "No seed", "row 3")
    source = write(HEAD + "A,0,1\n,,2\n,,\n")
    assert long(source) == {("A", 0): 1.0}
    assert "neither arm nor seed: row 3." in notes(source)


def test_missing_and_diverged_runs_are_named(write: Write) -> None:
    said = notes(write(HEAD + "A,0,\nA,1,nan\nA,2,1.5\n"))
    assert "Missing: A seed 0 (row 2)." in said
    assert 'na_rep="nan"' in said, "pandas writes a NaN as an empty cell, and the reader of the note must know"
    assert "Diverged: A seed 1 (row 3)." in said


def test_an_unknown_column_gets_the_nearest_and_all(write: Write) -> None:
    source = write(HEAD + "A,0,1\n")
    refused(source, "no column val_los;", "did you mean val_loss?", "arm, seed, val_loss", metric="val_los")
    refused(source, "no column zzz. There are: arm, seed, val_loss.", arm="zzz")
    refused(source, "three different columns", arm="seed")
    refused(write("arm,seed,val_loss,val_loss\nA,0,1,2\n"), "more than one column val_loss")
    assert long(write("arm,seed,val_loss,x,x\nA,0,1,2,3\n")) == {("A", 0): 1.0}, "of no interest here"
    refused(write(" arm , seed\nA,0\n"), "There are: arm, seed.")


def test_files_that_are_no_table(write: Write, tmp_path: Path) -> None:
    refused(write(""), "empty")
    refused(write(" \n\n"), "empty")
    refused(write(HEAD), "no run")
    refused(write(b"PK\x03\x04\0\0\0\0", "book.xlsx"), "neither text nor Parquet", "CSV")
    refused(write(b"PAR1 and then nothing", "cut.parquet"), "not a whole Parquet file")
    refused(write(HEAD + 'A,0,"1.5\n'), "no regular table")
    refused(str(tmp_path), "cannot be read")
    refused(str(tmp_path / "absent.csv"), "absent.csv", "No such file")


def parquet(path: Path, columns: dict[str, Any]) -> str:
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_parquet_keeps_null_and_nan_apart(tmp_path: Path) -> None:
    columns = {"arm": ["A", "A", "A", "B"], "seed": [0, 1, 2, 0], "val_loss": [0.1 + 0.2, None, math.nan, math.inf]}
    source = parquet(tmp_path / "results", columns)
    expected = {("A", 0): 0.1 + 0.2, ("A", 1): "missing", ("A", 2): "diverged", ("B", 0): "diverged"}
    assert long(source) == expected
    assert read(source, "arm", "seed", "val_loss").runs["run_id"].tolist()[0] == "row-1"


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.int64(), pa.string(), pa.large_string()])
def test_parquet_of_any_type(tmp_path: Path, kind: pa.DataType) -> None:
    arms = pa.array([0.1, 0.01, 1e-5]).dictionary_encode()
    columns = {"arm": arms, "seed": pa.array([0.0, 1.0, 2e6]), "val_loss": pa.array([1, 2, 3]).cast(kind)}
    read_as = long(parquet(tmp_path / "results.parquet", columns))
    assert [seed for _, seed in read_as] == [0, 1, 2_000_000]
    assert [float(arm) for arm, _ in read_as] == [0.1, 0.01, 1e-5]
    assert list(read_as.values()) == [1.0, 2.0, 3.0]


def test_parquet_of_pandas(tmp_path: Path) -> None:
    """Wide, with an index that has no name, and an odd column beside a long table."""
    frame = pd.DataFrame({"seed": [4, 5], "A": [1.5, 2.5], "B": [1.0, 2.0]}, index=["x", "y"])
    frame.to_parquet(tmp_path / "wide.parquet")
    wide = long(str(tmp_path / "wide.parquet"), None)
    assert wide == {("A", 4): 1.5, ("A", 5): 2.5, ("B", 4): 1.0, ("B", 5): 2.0}
    columns = {"arm": ["A"], "seed": [0], "val_loss": [1.0], "curve": [[1.0, 2.0]]}
    source = parquet(tmp_path / "curve.parquet", columns)
    assert long(source) == {("A", 0): 1.0}
    refused(source, "column curve", "neither numbers nor text", metric="curve")


WANDB = '"Name","State","Notes","User","Tags","Created","Runtime","Sweep","optimizer","seed","epoch","val_loss"\n'


def wandb(*rows: tuple[str, str, str, object, object]) -> str:
    """The table of runs as W&B exports it: name, state, optimizer, seed, val_loss."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    for name, state, optimizer, seed, loss in rows:
        writer.writerow([name, state, "-", "me", "", "2025-01-01T00:00:00.000Z", 61, "", optimizer, seed, 9, loss])
    return WANDB + out.getvalue()


def test_a_wandb_export(write: Write) -> None:
    source = write(
        wandb(
            ("sunny-1", "finished", "adam", 0, 3.1),
            ("sunny-2", "finished", "adam", 1, "NaN"),
            ("sunny-3", "crashed", "adam", 2, 3.4),
            ("sunny-4", "finished", "sgd", 0, 3.2),
            ("sunny-5", "failed", "sgd", 1, ""),
            ("sunny-6", "running", "sgd", 2, "Infinity"),
        )
    )
    missing, diverged = "missing", "diverged"
    expected = {("adam", 0): 3.1, ("adam", 1): diverged, ("adam", 2): missing}
    expected |= {("sgd", 0): 3.2, ("sgd", 1): missing, ("sgd", 2): diverged}
    assert long(source, arm="optimizer") == expected
    said = notes(source, arm="optimizer")
    assert "Not finished by their State, and so without a final loss: adam seed 2 (row 4), sgd seed 1 (row 6)." in said
    assert "Missing" not in said


def test_an_attempt_that_stopped_gives_way_to_the_next(write: Write) -> None:
    attempts = [("a", "finished", "adam", 0, 3.1), ("b", "crashed", "adam", 0, 5.0), ("c", "killed", "adam", 0, "")]
    assert long(write(wandb(*attempts)), arm="optimizer") == {("adam", 0): 3.1}
    assert long(write(wandb(*attempts[1:])), arm="optimizer") == {("adam", 0): "missing"}
    refused(write(wandb(attempts[0], attempts[0])), "(row 2, row 3)", arm="optimizer")
    twice = [("a", "finished", "adam", 0, 3.1), ("b", "crashed", "adam", 0, "NaN")]
    refused(write(wandb(*twice)), "(row 2, row 3)", arm="optimizer")


def test_a_state_of_something_else_is_no_state_of_a_run(write: Write) -> None:
    assert long(write("Name,State,arm,seed,val_loss\nx,Ohio,A,0,1.5\n")) == {("A", 0): 1.5}


def test_the_export_of_a_wandb_chart_is_refused(write: Write) -> None:
    chart = '"Step","a - val_loss","a - val_loss__MIN","a - val_loss__MAX"\n"0","3.1","3.1","3.1"\n'
    refused(write(chart), "chart", "table of runs")
    refused(write(chart), "chart", "table of runs", metric=None, seed="Step")


def client(uri: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's use of SQLAlchemy is not ours to judge
        from mlflow.tracking import MlflowClient

        return MlflowClient(tracking_uri=uri)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An MLflow database with an experiment: arm as parameter, seed as tag, and attempts that failed."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("MLFLOW_LOGGING_LEVEL", "CRITICAL")
        ours = client(uri)
        experiment = ours.create_experiment("widths")
        ours.create_experiment("depths")
        ours.create_run(experiment, tags={"parent": "yes"}, run_name="the sweep")
        for arm, seed, curve, status in (
            ("0.10", 0, (9.0, 3.1), "FINISHED"),
            ("0.10", 1, (9.0, math.nan), "FINISHED"),
            ("0.10", 2, (9.0, 3.3), "FAILED"),
            ("0.10", 2, (9.0, 3.2), "FINISHED"),
            ("0.01", 0, (9.0, math.inf), "FINISHED"),
            ("0.01", 1, (), "FINISHED"),
            ("0.01", 2, (9.0, 0.1 + 0.2), "FINISHED"),
        ):
            run = ours.create_run(experiment, tags={"seed": str(seed)}).info.run_id
            ours.log_param(run, "lr", arm)
            ours.log_metric(run, "lr", 1e-9, step=1)  # as a schedule would: not the setting
            for step, value in enumerate(curve):
                ours.log_metric(run, "val_loss", value, step=step)
            ours.set_terminated(run, status)
    return uri


def test_an_mlflow_experiment(store: str) -> None:
    """The last value counts; MLflow's database keeps an infinity as the largest float, which is no loss."""
    reading = read(f"mlflow:widths@{store}", "lr", "seed", "val_loss")
    assert found(reading) == {
        ("0.10", 0): 3.1,
        ("0.10", 1): "diverged",
        ("0.10", 2): 3.2,
        ("0.01", 0): "diverged",
        ("0.01", 1): "missing",
        ("0.01", 2): 0.1 + 0.2,
    }
    said = " ".join(reading.notes)
    assert "Read from the MLflow experiment widths: 6 runs of 2 arms." in said
    assert re.search(r"Not finished .*: 0\.10 seed 2 \(run [0-9a-f]{32}\)\.", said)
    assert re.search(r"Missing: 0\.01 seed 1 \(run [0-9a-f]{32}\)\.", said)


def test_mlflow_by_its_own_setting_and_page_by_page(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    search, sizes = MlflowClient.search_runs, []

    def by_two(self: Any, *given: Any, **options: Any) -> Any:
        page = search(self, *given, **options | {"max_results": 2})
        sizes.append(len(page))
        return page

    monkeypatch.setattr(MlflowClient, "search_runs", by_two)
    assert len(long("mlflow:widths", arm="lr")) == 6
    assert sum(sizes) == 8
    assert len(sizes) >= 4


def test_what_mlflow_does_not_have(store: str, tmp_path: Path) -> None:
    refused(f"mlflow:width@{store}", "no MLflow experiment width", "did you mean widths?", "depths")
    refused(f"mlflow:widths@{store}", "no column rate", "lr", arm="rate")
    refused(f"mlflow:widths@{store}", "no column loss", "did you mean val_loss?", arm="lr", metric="loss")
    refused(f"mlflow:depths@{store}", "no run")
    refused(f"mlflow:widths@{store}", "--metric", metric=None)
    refused(f"mlflow:widths@sqlite:///{tmp_path}/absent.db", "no MLflow database", "absent.db")
    assert not list(tmp_path.iterdir()), "reading makes no database"
    (tmp_path / "notes.db").write_text("minutes of a meeting\n" * 100)
    refused(f"mlflow:widths@sqlite:///{tmp_path}/notes.db", "MLflow cannot be read")


def test_mlflow_is_imported_for_mlflow_alone(write: Write) -> None:
    code = (
        "import sys; from analysis.reading import read; read(sys.argv[1], 'arm', 'seed', 'val_loss'); "
        "sys.exit(len({'mlflow', 'torch', 'matplotlib', 'seaborn'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, write(HEAD + "A,0,1\n")]
    assert subprocess.run(command, check=False, capture_output=True, text=True).returncode == 0


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=6)
VALUES = st.one_of(st.floats(), st.none())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.dictionaries(st.tuples(NAMES, st.integers(-(2**40), 2**40)), VALUES, min_size=1, max_size=12),
    separator=st.sampled_from([",", ";", "\t"]),
    header=st.permutations(["arm", "seed", "val_loss"]),
)
def test_what_is_written_is_read(
    write: Write, runs: dict[tuple[str, int], float | None], separator: str, header: list[str]
) -> None:
    """Through Python's own writer of CSV, whatever the names of the arms, and through Parquet."""
    out = io.StringIO()
    writer = csv.DictWriter(out, header, delimiter=separator)
    writer.writeheader()
    rows = [{"arm": arm, "seed": seed, "val_loss": value} for (arm, seed), value in runs.items()]
    writer.writerows(row | {"val_loss": "" if row["val_loss"] is None else repr(row["val_loss"])} for row in rows)
    expected: Found = {
        key: "missing" if value is None else value if math.isfinite(value) else "diverged"
        for key, value in runs.items()
    }
    assert long(write(out.getvalue())) == expected
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    assert long(write(sink.getvalue().to_pybytes(), "results.parquet")) == expected
