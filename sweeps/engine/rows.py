"""A finished run as the record has it: one row, and a row for every point of its curves."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from analysis.records import COMPLETED, DIVERGED
from model.recipe import RECIPE_VERSION
from model.train import Result
from sweeps.engine.plan import Run


def run_row(run: Run, result: Result, known: Mapping[str, Any]) -> dict[str, Any]:
    """The row of `run`, which ended just now. `known` are the columns that the launch knows: study, device,
    corpus_sha256, commit and versions."""
    return {
        **known,
        "run_id": run.run_id,
        "arm": run.arm,
        "seed": run.seed,
        "status": COMPLETED if result.diverged_at is None else DIVERGED,
        "val_loss": result.val_loss,
        "val_window_sd": result.val_window_sd,
        "last_batch_loss": result.last_batch_loss,
        "initial_loss": result.initial_loss,
        "diverged_at": result.diverged_at,
        "parameters": result.parameters,
        "steps": result.steps,
        "tokens": result.tokens,
        "seconds": result.seconds,
        "cohort": result.cohort,
        "precision": run.recipe.precision,
        "recipe_version": RECIPE_VERSION,
        "finished": datetime.now(UTC),
    }


def curve_rows(run: Run, result: Result) -> list[dict[str, Any]]:
    """The points of all curves of `run`."""
    same = {"run_id": run.run_id, "arm": run.arm, "seed": run.seed}
    return [same | {"step": point.step, "name": point.name, "value": point.value} for point in result.curve]
