"""Anyone's table as a frame of runs, one per arm and seed, with sentences about all that was not plain in it.

Long: one row per run, with a column each for arm, seed and loss. Wide: one row per seed, a column per arm.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd

from analysis.cells import NAMED, TableError, losses, named, whole_seeds
from analysis.records import COMPLETED, DIVERGED
from analysis.tables import NAME, STATE, Sheet, is_index, sheet
from analysis.wording import count

MISSING = "missing"  # the status of a run whose cell is empty, or that did not finish
_STATUSES = np.array([COMPLETED, DIVERGED, MISSING], dtype=object)
_FINISHED = "finished"
_STATES = {_FINISHED, "running", "crashed", "failed", "killed", "preempted", "preempting", "pending", "scheduled"}
_GROUPS = 3  # repeated runs that an error names
_NO_NUMBER = "Leave the cell of a missing run empty, and write nan where a run diverged."
_NO_NUMBER_WIDE = "Without --metric every column but the seed's is an arm; for a long table give --metric."


@dataclass(frozen=True)
class Reading:
    """`runs` has the columns run_id (text), arm (text), seed (int64), loss (float64; NaN unless completed) and status
    (COMPLETED, DIVERGED or MISSING), one row per arm and seed, in the order of the source; `notes` are sentences."""

    source: str
    runs: pd.DataFrame
    notes: tuple[str, ...]


def read(source: str, arm: str, seed: str, metric: str | None) -> Reading:
    """The runs of `source` (see `tables.sheet`); `arm`, `seed` and `metric` are columns.

    Without `metric` the table is wide, and `arm` is not looked at. Raises TableError, with the rows, for what cannot be
    read in one way only and for more than one row of an arm and seed.
    """
    wanted = (seed,) if metric is None else (arm, seed, metric)
    if len(set(wanted)) < len(wanted):
        raise TableError("Arm, seed and metric must be three different columns.")
    found = sheet(source, wanted, wide=metric is None)
    table = _stacked(found, seed) if metric is None else _long(found, arm, seed, metric)
    notes = [*found.notes]
    table, skipped = _placed(table)
    if table.empty:
        raise TableError(f"There is no run in {found.source}.")
    table["arm"] = table["arm"].astype("category")
    table["number"], numbered = whole_seeds(table["seed"])
    values, absent, commas = losses(table, found.semicolons, _NO_NUMBER if metric else _NO_NUMBER_WIDE)
    finite = np.isfinite(values)
    table["status"] = _STATUSES[np.where(absent, 2, np.where(finite, 0, 1))]
    table["loss"] = np.where(finite, values, np.nan)
    notes += skipped + numbered + commas + _outcomes(table)
    table = _without_stopped(table)
    _refuse_repeated(table)
    counted = f"{count(len(table), 'run')} of {count(table['arm'].nunique(), 'arm')}"
    runs = table[["run_id", "arm", "number", "loss", "status"]].rename(columns={"number": "seed"})
    runs = runs.astype({"run_id": object, "arm": object}).reset_index(drop=True)
    return Reading(found.source, runs, (f"Read from {found.source}: {counted}.", *notes))


def _long(found: Sheet, arm: str, seed: str, metric: str) -> pd.DataFrame:
    """Columns arm, seed, cell, row, run_id and stopped: whether a tracker's table says that the run did not finish."""
    cells, stopped = found.cells, pd.Series(data=False, index=found.cells.index)
    if {NAME, STATE} <= set(cells) and STATE not in (arm, seed, metric):
        states = cells[STATE].str.strip().str.lower()
        if states.isin(_STATES).all():
            stopped = states != _FINISHED
    ids = found.rows.str.replace(" ", "-", regex=False)
    columns = {"arm": cells[arm].str.strip(), "seed": cells[seed].str.strip(), "cell": cells[metric]}
    return pd.DataFrame(columns | {"row": found.rows, "run_id": ids, "stopped": stopped})


def _stacked(found: Sheet, seed: str) -> pd.DataFrame:
    """A wide table in the same columns, arm after arm; rows without any cell are left out."""
    arms = [name for name in map(str, found.cells) if name != seed and not is_index(name)]
    if not arms:
        raise TableError(f"Besides {seed} there is no column, so no arm. For a long table give --metric.")
    written = (found.cells[[seed, *arms]] != "").any(axis=1)
    cells, rows = found.cells[written], found.rows[written]
    seeds, ids = cells[seed].str.strip(), rows.str.replace(" ", "-", regex=False)
    shared = {"seed": seeds, "row": rows, "stopped": False}
    parts = [
        pd.DataFrame({"arm": arm, "cell": cells[arm], "run_id": ids + f"-{i}"} | shared) for i, arm in enumerate(arms)
    ]
    return pd.concat(parts, ignore_index=True)


def _placed(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows that tell arm and seed. Raises TableError for a row with one of them."""
    nowhere = (table["arm"] == "") & (table["seed"] == "")
    lost = table["row"][nowhere & (table["cell"].str.strip() != "")]
    notes = [f"Left out, since they name neither arm nor seed: {_rows(lost)}."] if len(lost) else []
    table = table[~nowhere].copy()
    for column in ("arm", "seed"):
        if (empty := table[column] == "").any():
            raise TableError(f"No {column} is given in {_rows(table['row'][empty])}. Fill it in or delete the rows.")
    return table, notes


def _outcomes(table: pd.DataFrame) -> list[str]:
    """Sentences that name the runs without a loss. The last loss of a run that did not finish is not its final one."""
    diverged = table["status"] == DIVERGED
    stopped = table["stopped"] & ~diverged
    missing = (table["status"] == MISSING) & ~stopped
    notes = []
    if missing.any():
        notes.append(
            f"Missing: {named(table[missing])}. Where a run diverged write nan: an empty cell says that there was no "
            'run (pandas: na_rep="nan").'
        )
    if stopped.any():
        notes.append(f"Not finished by their {STATE}, and so without a final loss: {named(table[stopped])}.")
    if diverged.any():
        notes.append(f"Diverged: {named(table[diverged])}.")
    return notes


def _without_stopped(table: pd.DataFrame) -> pd.DataFrame:
    """Runs that stopped are missing, or give way to another attempt at the same arm and seed."""
    stopped = table["stopped"] & (table["status"] != DIVERGED)
    if not stopped.any():
        return table
    table = table.assign(
        stopped=stopped, loss=table["loss"].mask(stopped), status=table["status"].mask(stopped, MISSING)
    )
    again = table.sort_values("stopped", kind="stable").duplicated(["arm", "number"])
    return table[~(stopped & again)]


def _refuse_repeated(table: pd.DataFrame) -> None:
    repeated = table[table.duplicated(["arm", "number"], keep=False)]
    if repeated.empty:
        return
    groups = repeated.groupby(["arm", "number"], sort=False, observed=True)
    shown = [f"{arm} seed {seed} ({_rows(group['row'])})" for (arm, seed), group in islice(groups, _GROUPS)]
    more = f" and {groups.ngroups - _GROUPS:,} more" if groups.ngroups > _GROUPS else ""
    raise TableError(
        f"More than one row of the same arm and seed: {', '.join(shown)}{more}. Keep one row per run; where the rows "
        "are steps of a run, the last one."
    )


def _rows(rows: pd.Series) -> str:
    return ", ".join(rows[:NAMED]) + (f" and {len(rows) - NAMED:,} more" if len(rows) > NAMED else "")
