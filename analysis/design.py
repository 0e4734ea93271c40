"""The words with which a snapshot says how a study came to its runs, and what its arms are compared with."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pandas as pd

JUDGE, TUNE = "judge", "tune"  # stages of a run: it counts for a verdict, or it served to select a point of a grid
FIXED = "fixed"  # a number of seeds that was chosen before any run
UNTIL_DECIDED = "until_decided"  # looks declared beforehand, with a most number of seeds
OPEN = "open"  # seeds were added after a verdict had been seen


def reference(snapshot: Mapping[str, Any], arm: str) -> str:
    """The arm that `arm` is compared with: the one that its pair names, in a study without pairs the baseline."""
    return str(dict(snapshot.get("pairs") or ()).get(arm, snapshot["baseline"]))


def origins(runs: pd.DataFrame) -> list[dict[str, str]]:
    """Of each of `runs` (RUNS) its run_id, the study that trained it, and finished, when that ended (ISO 8601)."""
    columns = runs["run_id"], runs["study"], runs["finished"]
    return [
        {"run_id": run_id, "study": study, "finished": finished.isoformat()}
        for run_id, study, finished in zip(*columns, strict=True)
    ]


def taken_over(snapshot: Mapping[str, Any], runs: pd.DataFrame) -> list[dict[str, str]]:
    """The `origins` of those runs that another study trained: as `snapshot` tells them, and the rows in `runs`."""
    told = [*origins(runs[runs["study"] != snapshot["study"]]), *(snapshot.get("taken_over") or ())]
    return [*{one["run_id"]: one for one in told}.values()]


def known_before(snapshot: Mapping[str, Any], runs: pd.DataFrame) -> str:
    """How many of `runs` (RUNS) other studies had recorded before the question was asked, as a sentence; empty where
    none, and where the snapshot does not tell when it was asked.

    What is declared of such runs was not declared beforehand.
    """
    if "asked" not in snapshot:
        return ""
    asked, own = datetime.fromisoformat(snapshot["asked"]), set(runs["run_id"])
    taken = [one for one in taken_over(snapshot, runs) if one["run_id"] in own]
    counts = Counter(one["study"] for one in taken if datetime.fromisoformat(one["finished"]) < asked)
    if not counts:
        return ""
    studies = sorted(counts.items())
    told = [f"{n} of the runs {'was' if n == 1 else 'were'} recorded by the study {study}" for study, n in studies]
    return (
        f"{' and '.join(told)} before this question was asked: margin, family and number of seeds were not fixed "
        "before these data."
    )
