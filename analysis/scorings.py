"""Trained models scored under several conditions: each score over the seeds, and the contrasts that a study declares.

A cell is the loss of an arm's runs under one scoring, or how much more that is than another such loss of the same seed.
Cells are held against each other exactly as arms are, in pairs by seed, with the study's margin, rule and looks; the
contrasts are one family, beside that of the arms. Works from no runs at all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare import ArmSummary, Comparison, compare, summary
from analysis.design import JUDGE
from analysis.evidence import gather
from analysis.records import COMPLETED, DIVERGED
from analysis.table import Table

SCORE = "val_loss "  # begins the name of the curve that holds a score


@dataclass(frozen=True)
class Scored:
    """`scores` by arm and scoring, each named by its cell; `contrasts` by name, in the study's order."""

    scores: Mapping[tuple[str, str], ArmSummary]
    contrasts: Mapping[str, Comparison]


class _Cells(Table):
    """A table whose arms are cells."""

    absent = "has no recorded loss"
    neat = "the losses of the two do not differ as measurements do: the condition may not reach what is scored."


def scored(runs: pd.DataFrame, curves: pd.DataFrame, snapshot: Mapping[str, Any]) -> Scored:
    """What `runs` and their `curves` say of the scorings and contrasts of the study; empty where it has none.

    A score that is not finite counts as a divergence: it is told, and never left out of a mean in silence.
    """
    single = {
        (arm["name"], one["name"]): {"label": one["label"], "arm": arm["name"], "scoring": one["name"], "less": None}
        for arm in snapshot["arms"]
        for one in arm.get("scored") or ()
    }
    asked = snapshot.get("contrasts") or []
    if not single and not asked:
        return Scored({}, {})
    sides = [side for contrast in asked for side in (contrast["cell"], contrast["baseline"])]
    cells = {cell["label"]: cell for cell in (*single.values(), *sides)}
    table = _read(cells, runs, curves, snapshot)
    family = []
    for contrast in asked:
        own = replace(table, snapshot={**table.snapshot, "baseline": contrast["baseline"]["label"]})
        family.append((own, contrast["cell"]["label"], gather(own, contrast["cell"]["label"])))
    contrasts = zip((contrast["name"] for contrast in asked), compare(family), strict=True)
    return Scored({key: summary(cell["label"], table) for key, cell in single.items()}, dict(contrasts))


def _read(
    cells: Mapping[str, Mapping[str, Any]], runs: pd.DataFrame, curves: pd.DataFrame, snapshot: Mapping[str, Any]
) -> _Cells:
    """The table in which every cell is an arm."""
    arms = {arm["name"]: arm for arm in snapshot["arms"]}
    judged = runs[runs["stage"] == JUDGE]
    frames = [_losses(cell, judged, curves).assign(arm=label) for label, cell in cells.items()]
    planned: dict[str, set[int]] = {}
    for run in snapshot["runs"]:
        if run["stage"] == JUDGE:
            planned.setdefault(run["arm"], set()).add(run["seed"])
    changed = {
        "arms": [
            {
                **arms[cell["arm"]],
                "name": label,
                "points": {arm: arms[arm]["selected"] for arm in _arms(cell)},
            }
            for label, cell in cells.items()
        ],
        "pairs": [],
        "runs": [
            {"run_id": "", "arm": label, "seed": seed, "stage": JUDGE, "point": None}
            for label, cell in cells.items()
            for seed in sorted(set().union(*(planned.get(arm, set()) for arm in _arms(cell))))
        ],
    }
    return _Cells.read(pd.concat(frames, ignore_index=True), {**snapshot, **changed})


def _arms(cell: Mapping[str, Any]) -> Iterator[str]:
    yield str(cell["arm"])
    if cell["less"]:
        yield from _arms(cell["less"])


def _losses(cell: Mapping[str, Any], judged: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """The runs of a cell's arm with its loss for theirs; a completed run of which that is not known is left out."""
    own = judged[judged["arm"] == cell["arm"]].set_index("seed", drop=False)
    if cell["scoring"]:
        points = curves[curves["name"] == SCORE + cell["scoring"]].set_index("run_id")["value"]
        own = own[own["run_id"].isin(points.index) | (own["status"] == DIVERGED)]
        own = own.assign(val_loss=own["run_id"].map(points).astype(float))
    if cell["less"]:
        other = _losses(cell["less"], judged, curves)
        own = own.loc[own.index.intersection(other.index)]
        other = other.loc[own.index]
        lost = other["status"] == DIVERGED
        own = own.assign(
            val_loss=own["val_loss"] - other["val_loss"],
            status=own["status"].mask(lost, DIVERGED),
            diverged_at=own["diverged_at"].where(~lost, other["diverged_at"]),
        )
    infinite = (own["status"] == COMPLETED) & ~np.isfinite(own["val_loss"].astype(float))
    return own.assign(status=own["status"].mask(infinite, DIVERGED))
