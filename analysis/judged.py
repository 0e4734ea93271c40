"""Anyone's table as what a study's folder holds, in memory: a snapshot and a frame of runs.

Comparison, report and JSON are then those of every study.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.cells import TableError
from analysis.compare import analyse
from analysis.design import FIXED
from analysis.material import FORMAT, Material
from analysis.reading import MISSING, Reading
from analysis.records import CURVES, RUNS
from analysis.table import JUDGE
from analysis.tables import unknown_name
from analysis.verdict import FEWEST_SEEDS
from analysis.wording import listed


@dataclass(frozen=True)
class Asked:
    """What a table is judged by: a `baseline` among its arms and a `margin`, or a `target` for the means at `alpha`."""

    metric_name: str
    unit: str
    baseline: str | None
    margin: float | None
    margin_reason: str
    unpaired: bool
    target: float | None
    alpha: float
    floors: dict[str, float]


def judge(reading: Reading, asked: Asked, command: str, noise: bool) -> tuple[Material, tuple[str, ...]]:
    """The table as a study's material, and all that is to be said of how it was read and compared.

    Raises TableError for a baseline that is no arm, and for arms of which only some can be paired.
    """
    arms = list(dict.fromkeys(reading.runs["arm"]))
    paired, how = False, f"One-sided t tests of the arms' means against {asked.target} at {asked.alpha:g}."
    if asked.baseline is not None:
        if asked.baseline not in arms:
            raise TableError(unknown_name("arm", asked.baseline, arms))
        if len(arms) == 1:
            raise TableError(f"{asked.baseline} is the only arm, so there is nothing to compare it with.")
        arms = [asked.baseline, *(arm for arm in arms if arm != asked.baseline)]
        paired, how = _pairing(reading.runs, arms, asked.unpaired)
    notes = (*reading.notes, how)
    snapshot = _snapshot(reading, asked, arms, paired, notes) | {"command": command}
    runs = _recorded(reading.runs, reading.source)
    curves = CURVES.empty_table().to_pandas().assign(stage=JUDGE, point=math.nan)
    return Material(snapshot, runs, curves, analyse(runs, snapshot, noise)), notes


def _pairing(runs: pd.DataFrame, arms: Sequence[str], unpaired: bool) -> tuple[bool, str]:
    """Whether seeds pair the arms with the first of them, and why: told by the names of the seeds, never by losses."""
    baseline, *others = arms
    if unpaired:
        return False, "Unpaired, as asked: Welch's t test of the arms' means."
    seeds = runs["seed"][runs["arm"] == baseline]
    shared = runs["arm"][runs["seed"].isin(seeds)].value_counts().reindex(others, fill_value=0)
    alone = [str(arm) for arm in shared.index[shared == 0]]
    if len(alone) == len(others):
        return False, f"Unpaired, since no arm shares a seed with {baseline}: Welch's t test of the arms' means."
    if alone:
        raise TableError(
            f"No seed of {listed(alone)} is one of {baseline}'s, while other arms share some: not all can be paired. "
            "Give --unpaired to compare all by Welch's test, or leave arms out."
        )
    how = f"Paired by seed, since the arms share seeds with {baseline}: t tests of the differences per seed."
    few = [str(arm) for arm in shared.index[shared < min(FEWEST_SEEDS, len(seeds))]]
    if few:
        how += f" {listed(few)} share fewer than {FEWEST_SEEDS}; if seeds mean nothing across arms, give --unpaired."
    return True, how


def _snapshot(reading: Reading, asked: Asked, arms: list[str], paired: bool, notes: Sequence[str]) -> dict[str, Any]:
    """What ``study.json`` holds of a study; what a table cannot tell is empty."""
    baseline = asked.baseline if asked.target is None else f"target {asked.target}"
    seeds = sorted(set(reading.runs["seed"].tolist()))
    columns = (reading.runs[column].tolist() for column in ("run_id", "arm", "seed"))
    return {
        "format": FORMAT,
        "study": reading.source,
        "question": f"How do the arms of {reading.source} compare with {baseline} in {asked.metric_name}?",
        "metric": "val_loss",
        "metric_name": asked.metric_name,
        "unit": asked.unit,
        "margin": asked.margin,
        "margin_reason": asked.margin_reason,
        "baseline": baseline,
        "target": asked.target,
        **({} if asked.target is None else {"alpha": asked.alpha}),
        "arms": [
            {"name": arm, "note": "", "parameters": None, "replicate": False, "differences": {}, "selected": None}
            for arm in arms
        ],
        "seeds": seeds,
        "design": {"kind": FIXED, "looks": [len(seeds)]},
        "paired": paired,
        "tuning": None,
        "runs": [
            {"run_id": run_id, "arm": arm, "seed": seed, "stage": JUDGE, "point": None}
            for run_id, arm, seed in zip(*columns, strict=True)
        ],
        "baselines": asked.floors,
        "judged": {"source": reading.source, "rows": len(reading.runs), "note": " ".join(notes)},
        "varies": [],
        "equal": {},
        "held_equal": {},
        "not_controlled": [],
        "corpus": None,
        "rehearsal": False,
        "commit": "",
        "uncommitted": False,
    }


def _recorded(runs: pd.DataFrame, study: str) -> pd.DataFrame:
    """The runs that there are, in the columns of a study's records; nothing in those that a table does not tell."""
    there = runs[runs["status"] != MISSING]
    unknown = {field.name: None if pa.types.is_string(field.type) else math.nan for field in RUNS}
    same = {"study": study, "corpus_sha256": "", "recipe_version": 0, "tokens": 0, "stage": JUDGE, "point": math.nan}
    told = {column: there[column] for column in ("run_id", "arm", "seed", "status")} | {"val_loss": there["loss"]}
    columns = unknown | {"finished": pd.NaT} | told | same
    return pd.DataFrame(columns, index=there.index)
