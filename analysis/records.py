"""The record of a study: one final row per run and its curves, in Parquet parts that appear whole or not at all.

A study's folder holds ``study.json`` (the study as it was asked and planned), ``runs/*.parquet`` (one row per run)
and ``curves/*.parquet`` (long form). A part belongs to one cohort of runs and is named after them, so writing it twice
leaves one part. Its curves are written before its rows: a run counts as recorded only when its row is there.
``checkpoints/`` belongs to a sweep that is under way, and ``models/`` holds the trained models where they were asked
for; neither is part of the record.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.folder import RecordError, read_json, replace_file

COMPLETED, DIVERGED = "completed", "diverged"

RUNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("study", pa.string()),  # that trained it, which another one may have taken over
        ("arm", pa.string()),
        ("seed", pa.int64()),
        ("status", pa.string()),  # COMPLETED or DIVERGED
        ("val_loss", pa.float64()),  # nats per token over all held-out text; NaN when diverged
        ("val_window_sd", pa.float64()),  # SD over held-out windows of a window's mean loss
        ("last_batch_loss", pa.float64()),  # loss of the last training batch, before its update
        ("initial_loss", pa.float64()),  # loss of the first training batch, before any update
        ("diverged_at", pa.int64()),  # update before or after which a loss was non-finite; null when completed
        ("parameters", pa.int64()),
        ("steps", pa.int64()),  # updates made
        ("tokens", pa.int64()),  # training tokens seen
        ("seconds", pa.float64()),  # wall time of training and evaluation: the cohort's, divided by its members
        ("cohort", pa.int32()),  # members trained in lockstep, this one included; null in the parts of version 1
        ("precision", pa.string()),  # of the matrix products; null in the parts of version 1
        ("device", pa.string()),
        ("corpus_sha256", pa.string()),
        ("recipe_version", pa.int64()),
        ("commit", pa.string()),
        ("versions", pa.string()),  # JSON: package -> version
        ("finished", pa.timestamp("us", tz="UTC")),
    ]
)
CURVES = pa.schema(
    [
        ("run_id", pa.string()),
        ("arm", pa.string()),
        ("seed", pa.int64()),
        ("step", pa.int64()),
        ("name", pa.string()),  # train_loss, val_loss, grad_norm, learning_rate, inside/...
        ("value", pa.float64()),
    ]
)
ADDED = {"cohort", "precision"}  # columns of RUNS that version 1 did not write
SNAPSHOT, LOCK, CHECKPOINTS, MODELS = "study.json", ".lock", "checkpoints", "models"
REPORT, VERDICT, FINDING, TABLE = "report.html", "verdict.json", "finding.md", "runs.csv"
OURS = {SNAPSHOT, REPORT, VERDICT, FINDING, TABLE, CHECKPOINTS, MODELS, "runs", "curves"}


class Records:
    """The folder ``<results>/<study>``; opening it checks that it is a study's and writable.

    Raises RecordError when the folder belongs to something else, or to another study than `study`, or cannot be
    written.
    """

    def __init__(self, folder: Path, study: str | None = None) -> None:
        self.folder = folder
        try:
            there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
            if not there.is_dir():
                raise RecordError(f"{there} is a file, not a folder; choose another folder with --results.")
            if not os.access(there, os.W_OK | os.X_OK):
                raise RecordError(f"The folder {there} is not writable; choose another one with --results.")
            if folder.is_dir():
                _check_ours(folder, study)
        except OSError as error:
            raise RecordError(
                f"{folder} cannot be used ({error.strerror}); choose another folder with --results."
            ) from None

    def write_snapshot(self, snapshot: dict[str, Any]) -> None:
        """Put ``study.json`` in place whole; the first act of a study in its folder."""
        text = json.dumps(snapshot, indent=1, ensure_ascii=False) + "\n"
        replace_file(self.folder / SNAPSHOT, text.encode())

    def snapshot(self) -> dict[str, Any]:
        """``study.json`` as written by the last start of this study. Raises RecordError when there is none."""
        path = self.folder / SNAPSHOT
        if not path.is_file():
            raise RecordError(
                f"{self.folder} holds no {SNAPSHOT}; give the folder of a study, such as results/ffn_ratio."
            )
        snapshot = read_json(path)
        if snapshot is None:
            raise RecordError(f"{path} is damaged. Give the study's command again: it writes the file anew.")
        return snapshot

    def append(self, runs: Sequence[dict[str, Any]], curves: Sequence[dict[str, Any]]) -> None:
        """Record one cohort: its curves, then its rows. Missing columns are errors, unknown ones too."""
        for row in (*runs, *curves):
            expected = RUNS if "status" in row else CURVES
            assert row.keys() == set(expected.names), f"columns differ: {set(row) ^ set(expected.names)}"
        name = cohort_name(row["run_id"] for row in runs)
        for kind, rows, schema in (("curves", curves, CURVES), ("runs", runs, RUNS)):
            sink = pa.BufferOutputStream()
            pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), sink, compression="zstd")
            replace_file(self.folder / kind / f"{name}.parquet", sink.getvalue().to_pybytes())

    def runs(self, run_ids: Sequence[str] | None = None) -> pd.DataFrame:
        """Every recorded run, or those of `run_ids`, ordered by arm and seed.

        Raises RecordError for a part that cannot be read and for a run recorded more than once.
        """
        frame = self._read("runs", RUNS).to_pandas()
        if run_ids is not None:
            frame = frame[frame["run_id"].isin(list(run_ids))]
        repeated = frame[frame["run_id"].duplicated(keep=False)]
        if len(repeated):
            named = ", ".join(sorted(set(repeated["run_id"])))
            raise RecordError(
                f"{self.folder / 'runs'} records these runs more than once: {named}. Delete all but one part."
            )
        return frame.sort_values(["arm", "seed"], ignore_index=True)

    def recorded(self) -> list[str]:
        """The identity of every run recorded in this folder, whatever plan asked for it.

        Raises RecordError for a part that cannot be read, of the rows or of the curves.
        """
        self._read("curves", CURVES)
        return list(self.runs()["run_id"])

    def planned(self, snapshot: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rows and curves of the runs that `snapshot` plans, under the arm, seed, stage and point of the plan.

        A run is known by its identity: whatever its arm was called when it was recorded, it is called as now.
        """
        return self.planned_runs(snapshot), _as_planned(
            self.curves([run["run_id"] for run in snapshot["runs"]]), snapshot
        )

    def planned_runs(self, snapshot: Mapping[str, Any]) -> pd.DataFrame:
        """The rows alone, ordered by arm and seed."""
        frame = _as_planned(self.runs([run["run_id"] for run in snapshot["runs"]]), snapshot)
        return frame.sort_values(["arm", "seed"], ignore_index=True)

    def neighbours(self, run_ids: Sequence[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows and curves of those of `run_ids` that other studies beside this folder have recorded.

        The same recipe, text and seed is the same run whichever study asked first. A neighbour that cannot be read has
        nothing to give: its own study says so when it is next run.
        """
        runs: dict[str, dict[str, Any]] = {}
        curves: list[dict[str, Any]] = []
        for path in sorted(self.folder.parent.glob(f"*/{SNAPSHOT}")):
            wanted = set(run_ids) - set(runs)
            if path.parent == self.folder or not wanted:
                continue
            try:
                other = Records(path.parent)
                found = _rows(other._read("runs", RUNS), wanted)
                points = _rows(other._read("curves", CURVES), wanted)
            except RecordError:
                continue
            runs |= {row["run_id"]: row for row in found}
            curves += points
        return list(runs.values()), curves

    def curves(self, run_ids: Sequence[str]) -> pd.DataFrame:
        """The curves of `run_ids` in long form: run_id, arm, seed, step, name, value."""
        frame = self._read("curves", CURVES).to_pandas()
        return frame[frame["run_id"].isin(list(run_ids))].sort_values(
            ["arm", "seed", "name", "step"], ignore_index=True
        )

    def _read(self, kind: str, schema: pa.Schema) -> pa.Table:
        tables = [schema.empty_table()]
        for path in sorted((self.folder / kind).glob("*.parquet")):
            if not all((self.folder / one / path.name).is_file() for one in ("runs", "curves")):
                continue  # half a part: its writer was stopped between the two, or one of them was deleted
            try:
                table = pq.read_table(path)
            except (pa.ArrowInvalid, OSError) as error:
                raise RecordError(
                    f"{path} is not a whole Parquet file ({str(error).splitlines()[0]}). "
                    "Delete it and give the same command again: its runs are trained again, the others stay."
                ) from None
            for field in schema:
                if field.name in ADDED and field.name not in table.schema.names:
                    table = table.append_column(field, pa.nulls(len(table), field.type))
            if set(table.schema.names) != set(schema.names):
                raise RecordError(
                    f"{path} has other columns than this version writes; choose another folder with --results."
                )
            tables.append(table.select(schema.names).cast(schema))
        return pa.concat_tables(tables)


def cohort_name(run_ids: Iterable[str]) -> str:
    """16 hexadecimal digits that name a cohort by its runs, in whatever order; its files are called so."""
    return hashlib.sha256(" ".join(sorted(run_ids)).encode()).hexdigest()[:16]


def _as_planned(frame: pd.DataFrame, snapshot: Mapping[str, Any]) -> pd.DataFrame:
    for column in ("arm", "seed", "stage", "point"):
        frame[column] = frame["run_id"].map({run["run_id"]: run[column] for run in snapshot["runs"]})
    return frame.astype({"point": float})


def _rows(table: pa.Table, run_ids: set[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(pc.is_in(table["run_id"], pa.array(sorted(run_ids)))).to_pylist()
    return rows


def _check_ours(folder: Path, study: str | None) -> None:
    foreign = [
        path.name for path in sorted(folder.iterdir()) if path.name not in OURS and not path.name.startswith(".")
    ]
    if foreign:
        raise RecordError(
            f"{folder} holds {foreign[0]}, which no study writes, so nothing was written there; "
            "choose another folder with --results."
        )
    snapshot = read_json(folder / SNAPSHOT)
    if study is not None and snapshot is not None and snapshot.get("study") != study:
        raise RecordError(
            f"{folder} belongs to the study {snapshot.get('study')!r}, not to {study!r}; "
            "choose another folder with --results."
        )
