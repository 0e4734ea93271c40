"""Runs that other studies beside have recorded: taken over instead of trained again, and told with their origin."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import design
from analysis.records import RecordError, Records
from sweeps.engine.plan import Plan


def after_others(records: Records, plan: Plan) -> Plan:
    """`plan` once the runs are taken over that other studies have recorded."""
    rows, _ = records.neighbours([run.run_id for run in plan.missing])
    return plan.after(row["run_id"] for row in rows)


def take_over(records: Records, plan: Plan, snapshot: dict[str, Any]) -> int:
    """Record here the missing runs of `plan` that other studies have recorded, and say how many they are.

    Each keeps the name of the study that trained it and the time when it ended. `snapshot` tells both, and is written
    first: a study of the same name in another folder leaves no other trace.
    """
    rows, curves = records.neighbours([run.run_id for run in plan.missing])
    if not rows:
        return 0
    snapshot["taken_over"] = [*snapshot["taken_over"], *design.origins(pd.DataFrame(rows))]
    records.write_snapshot(snapshot)
    arms = {run.run_id: run.arm for run in plan.runs}
    for row in rows:
        arm = arms[row["run_id"]]
        own = [{**point, "arm": arm} for point in curves if point["run_id"] == row["run_id"]]
        records.append([{**row, "arm": arm}], own)
    return len(rows)


def taken_over(records: Records, snapshot: Mapping[str, Any]) -> list[dict[str, str]]:
    """The `design.origins` of every run here that another study trained, so far as the folder tells."""
    try:
        known = records.snapshot().get("taken_over")
    except RecordError:
        known = None  # lost or damaged, and written anew
    return design.taken_over({**snapshot, "taken_over": known}, records.runs())
