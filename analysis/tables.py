"""Where anyone's results may lie: CSV in any dialect, Parquet, a W&B table of runs, an MLflow experiment; read as text.

As text an empty cell (a run that is missing) and a written NaN (a run that diverged) stay apart, no loss is rounded,
and an arm called 0.10 keeps its name.
"""

import csv
import io
import re
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.cells import TableError

MLFLOW = "mlflow:"
SOURCES = "seedbed.sources"  # entry points by scheme: (experiment, address or None, metric) -> runs as text by name
NAME, STATE = "Name", "State"  # of a run, as W&B's table of runs calls them
_DELIMITERS = "\t;,"
_INDEX = re.compile(r"(__index_level_\d+__)?")  # columns that pandas adds where an index has no name
_LISTED = 20  # names that an error lists


class Sheet(NamedTuple):
    """Cells as text under their column names, "" where nothing is written; `rows` says where each row stands."""

    source: str
    cells: pd.DataFrame
    rows: pd.Series  # such as "row 7", as a spreadsheet counts
    semicolons: bool = False  # these separate the cells, as they do where the comma is the decimal sign
    notes: tuple[str, ...] = ()


def sheet(source: str, wanted: Sequence[str], wide: bool) -> Sheet:
    """The columns `wanted` of `source`, and a run's name and state where they are told; of a `wide` table all columns.

    `source` is a path, ``mlflow:EXPERIMENT`` or ``mlflow:EXPERIMENT@TRACKING_URI``. Raises TableError for a source that
    cannot be read and for a column that is not there once.
    """
    if source.startswith(MLFLOW):
        return _experiment("mlflow", source.removeprefix(MLFLOW), wanted, wide)
    path = Path(source)
    try:
        with open(path, "rb") as file:
            parquet = file.read(4) == b"PAR1"
        return _parquet(path, wanted, wide) if parquet else _text(path, path.read_bytes(), wanted, wide)
    except OSError as error:
        raise TableError(f"{source} cannot be read ({error.strerror or error}).") from None


def is_index(name: str) -> bool:
    """Whether a column of this name is no data: it has none, or the one that pandas gives to an index."""
    return bool(_INDEX.fullmatch(name))


def unknown_name(what: str, name: str, there: Sequence[str]) -> str:
    """That there is no `what` of this `name`: which one may be meant, and which there are."""
    near = get_close_matches(name, there, 1, 0.5)
    meant = f"; did you mean {near[0]}?" if near else "."
    listed = ", ".join(there[:_LISTED]) + (", ..." if len(there) > _LISTED else "")
    return f"There is no {what} {name}{meant} There {'is' if len(there) == 1 else 'are'}: {listed or 'none'}."


def _chosen(header: Sequence[str], wanted: Sequence[str], wide: bool) -> list[str]:
    """The columns to read. Raises TableError for one that is not there or there twice, and for the table of a chart."""
    if charts := [name for name in header if name.endswith(("__MIN", "__MAX"))]:
        raise TableError(
            f"This is a chart exported from W&B ({charts[0]}), with a row per step. Export the table of runs instead: "
            "it has a row per run, with a column for each setting and for the last value of each metric."
        )
    for name in wanted:
        if name not in header:
            raise TableError(unknown_name("column", name, header))
    more = header if wide else [name for name in (NAME, STATE) if name in header]
    names = list(dict.fromkeys((*wanted, *more)))
    if repeated := [name for name in names if header.count(name) > 1 and not is_index(name)]:
        raise TableError(f"There is more than one column {repeated[0]}. Give each its own name.")
    return [name for name in names if header.count(name) == 1]


def _text(path: Path, content: bytes, wanted: Sequence[str], wide: bool) -> Sheet:
    text, notes = _decoded(path, content)
    before = re.match(r"(?:[ \t;,]*\n)*", text)
    assert before is not None
    line = text[before.end() :].partition("\n")[0]
    cells = {mark: next(csv.reader([line], delimiter=mark, skipinitialspace=True), []) for mark in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda mark: len(cells[mark]))
    header = [name.strip() for name in cells[delimiter]]
    names = _chosen(header, wanted, wide)
    above = before.group().count("\n") + 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # that cells were dropped
            frame = pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                header=None,
                names=range(len(header) + 1),  # one more, which is empty unless a row is too long
                index_col=False,
                skiprows=above,
                skip_blank_lines=False,
                skipinitialspace=True,
                dtype=str,
                keep_default_na=False,
            )
    except pd.errors.ParserWarning:
        raise _too_long(path, "its first row") from None
    except pd.errors.ParserError as error:
        if place := re.search(r"Expected \d+ fields in line (\d+)", str(error)):
            raise _too_long(path, f"row {place[1]}") from None
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise TableError(f"{path} is no regular table: {reason}.") from None
    rows = "row " + pd.Series(range(above + 1, above + 1 + len(frame)), index=frame.index).astype("str")
    if (long := frame[len(header)] != "").any():
        raise _too_long(path, rows[long].iloc[0])
    frame = frame[[header.index(name) for name in names]].set_axis(names, axis=1)
    return Sheet(path.name, frame, rows, delimiter == ";", notes)


def _too_long(path: Path, row: str) -> TableError:
    return TableError(
        f"{path} has more cells in {row} than names in its header. Numbers with decimal commas need quotes, or "
        "semicolons between the cells."
    )


def _decoded(path: Path, content: bytes) -> tuple[str, tuple[str, ...]]:
    """The text with line feeds alone, and what is worth saying of its encoding."""
    notes: tuple[str, ...] = ()
    try:
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        text, notes = content.decode("latin-1"), ("The file is not UTF-8 and was read as Latin-1.",)
    if "\0" in text:
        raise TableError(f"{path} is neither text nor Parquet. Save the table as CSV.")
    if not text.strip():
        raise TableError(f"{path} is empty.")
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def _parquet(path: Path, wanted: Sequence[str], wide: bool) -> Sheet:
    try:
        file = pq.ParquetFile(path)
        names = _chosen(file.schema_arrow.names, wanted, wide)
        table = file.read(columns=names)
    except pa.ArrowInvalid as error:
        raise TableError(f"{path} is not a whole Parquet file ({str(error).splitlines()[0]}).") from None
    cells = {name: _as_text(name, table[name]) for name in names}
    rows = "row " + pd.Series(range(1, len(table) + 1)).astype("str")
    return Sheet(path.name, pd.DataFrame(cells), rows)


def _as_text(name: str, column: pa.ChunkedArray) -> pd.Series:
    """Numbers in the fewest digits that give them back, a NaN as "nan" and a null as ""."""
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.cast(pa.string()).to_pandas().astype("str").fillna("")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TableError(f"The column {name} holds {column.type}, neither numbers nor text.") from None


def _experiment(scheme: str, name: str, wanted: Sequence[str], wide: bool) -> Sheet:
    """The runs of an experiment, from whatever is installed to read a source of this `scheme`."""
    if wide:
        raise TableError(
            "An MLflow experiment is a long table: give --metric, and --arm if no parameter or tag is called arm."
        )
    readers = entry_points(group=SOURCES, name=scheme)
    if not readers:
        raise TableError(f"Nothing is installed that reads {scheme}: sources; install this package with pip -e.")
    found = re.fullmatch(r"(.*?)(?:@([a-z][a-z0-9+.-]*:.*))?", name, re.DOTALL)
    assert found is not None
    runs = next(iter(readers)).load()(found[1], found[2], wanted[-1])
    if not runs:
        raise TableError(f"There is no run in the MLflow experiment {found[1]}.")
    header = sorted({key for run in runs for key in run}, key=lambda key: (key.startswith("mlflow."), key))
    names = _chosen(header, wanted, wide)
    cells = pd.DataFrame([[run.get(key, "") for key in names] for run in runs], columns=names, dtype="str")
    rows = pd.Series([f"run {run['run_id']}" for run in runs], dtype="str")
    return Sheet(f"the MLflow experiment {found[1]}", cells, rows)
