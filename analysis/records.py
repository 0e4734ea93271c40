"""The record of a study: one final row per run and its curves, in Parquet parts that appear whole or not at all.

A study's folder holds ``study.json`` (the study as it was asked and planned), ``runs/*.parquet`` (one row per run)
and ``curves/*.parquet`` (long form). A part belongs to one cohort of runs and is named after them, so writing it twice
leaves one part. Its curves are written before its rows: a run counts as recorded only when its row is there.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

COMPLETED, DIVERGED = "completed", "diverged"

RUNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("study", pa.string()),
        ("arm", pa.string()),
        ("seed", pa.int64()),
        ("status", pa.string()),  # COMPLETED or DIVERGED
        ("val_loss", pa.float64()),  # nats per token over all held-out text; NaN when diverged
        ("val_window_sd", pa.float64()),  # SD over held-out windows of a window's mean loss
        ("last_batch_loss", pa.float64()),  # loss of the last training batch, before its update
        ("initial_loss", pa.float64()),  # loss of the first training batch, before any update
        ("diverged_at", pa.int64()),  # step whose loss was non-finite; null when completed
        ("parameters", pa.int64()),
        ("steps", pa.int64()),  # updates made
        ("tokens", pa.int64()),  # training tokens seen
        ("seconds", pa.float64()),  # wall time of training and evaluation
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
        ("name", pa.string()),  # train_loss, val_loss, grad_norm, learning_rate
        ("value", pa.float64()),
    ]
)
SNAPSHOT = "study.json"


class RecordError(ValueError):
    """A results folder that cannot be used as it is; the message says which file and what to do."""


class Records:
    """The folder ``<results>/<study>``; opening it checks that it is ours and writable.

    Raises RecordError when the folder belongs to something else or cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path in (folder, *folder.parents):
            if path.exists():
                if not path.is_dir():
                    raise RecordError(f"{path} is a file, not a folder; choose another folder with --results.")
                if not os.access(path, os.W_OK | os.X_OK):
                    raise RecordError(f"The folder {path} is not writable; choose another one with --results.")
                break
        if folder.is_dir() and any(folder.iterdir()):
            _check_ours(folder)

    def write_snapshot(self, snapshot: dict[str, Any]) -> None:
        """Put ``study.json`` in place whole; the first act of a study in its folder."""
        text = json.dumps(snapshot, indent=1, ensure_ascii=False) + "\n"
        replace_file(self.folder / SNAPSHOT, text.encode())

    def snapshot(self) -> dict[str, Any]:
        """``study.json`` as written by the last start of this study."""
        path = self.folder / SNAPSHOT
        if not path.is_file():
            raise RecordError(
                f"{self.folder} holds no {SNAPSHOT}; give the folder of a study, such as results/ffn_ratio."
            )
        snapshot: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return snapshot

    def append(self, runs: Sequence[dict[str, Any]], curves: Sequence[dict[str, Any]]) -> None:
        """Record one cohort: its curves, then its rows. Missing columns are errors, unknown ones too."""
        for row in (*runs[:1], *curves[:1]):
            expected = RUNS if "status" in row else CURVES
            assert set(row) == set(expected.names), f"columns differ: {set(row) ^ set(expected.names)}"
        name = hashlib.sha256(" ".join(sorted(row["run_id"] for row in runs)).encode()).hexdigest()[:16]
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
        """The identity of every run recorded in this folder, whatever plan asked for it."""
        return list(self.runs()["run_id"])

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
            try:
                table = pq.read_table(path)
            except (pa.ArrowInvalid, OSError) as error:
                raise RecordError(
                    f"{path} is not a whole Parquet file ({str(error).splitlines()[0]}). "
                    "Delete it and give the same command again: its runs are trained again, the others stay."
                ) from None
            if table.schema.names != schema.names:
                raise RecordError(
                    f"{path} has other columns than this version writes; choose another folder with --results."
                )
            tables.append(table.cast(schema))
        return pa.concat_tables(tables)


def _rows(table: pa.Table, run_ids: set[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.filter(pc.is_in(table["run_id"], pa.array(sorted(run_ids)))).to_pylist()
    return rows


def _check_ours(folder: Path) -> None:
    path = folder / SNAPSHOT
    try:
        ours = json.loads(path.read_text(encoding="utf-8"))["study"] == folder.name
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise RecordError(
            f"{folder} is not empty and holds no {SNAPSHOT} of this study, so nothing was written there; "
            "choose another folder with --results."
        )


def replace_file(path: Path, content: bytes) -> None:
    """Write `path` so that a reader, or a crash at any moment, sees the old file or the new one.

    Raises RecordError when the folder cannot be written or the disk is full; the old file stays.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(scratch, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        raise RecordError(
            f"{path} cannot be written ({error.strerror}). Make room or choose another folder with --results; "
            "what was recorded stays."
        ) from None
    finally:
        if scratch.parent.is_dir():
            scratch.unlink(missing_ok=True)
