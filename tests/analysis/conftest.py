"""A synthetic study: a snapshot as a study writes it, and a table of runs with chosen means."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from analysis.records import COMPLETED, DIVERGED, RUNS

_SNAPSHOT: dict[str, Any] = {
    "format": 2,
    "study": "ffn_ratio",
    "question": "Does the split of a fixed parameter budget between width and feed-forward matter?",
    "metric": "val_loss",
    "metric_name": "held-out loss",
    "unit": "nats per character",
    "margin": 0.02,
    "margin_reason": "Half of what doubling the training time gains.",
    "baseline": "128x256",
    "arms": [
        {
            "name": "128x256",
            "note": "the default",
            "parameters": 689_920,
            "replicate": False,
            "differences": {},
            "selected": None,
        },
        {
            "name": "96x552",
            "note": "narrow, wide feed-forward",
            "parameters": 697_056,
            "replicate": False,
            "differences": {"model.d_model": "96", "model.d_ff": "552"},
            "selected": None,
        },
        {
            "name": "112x392",
            "note": "between",
            "parameters": 697_536,
            "replicate": False,
            "differences": {"model.d_model": "112", "model.d_ff": "392"},
            "selected": None,
        },
    ],
    "seeds": list(range(10)),
    "design": {"kind": "fixed", "looks": [10]},
    "tuning": None,
    "paired": True,
    "target": None,
    "judged": None,
    "varies": ["model.d_model", "model.d_ff"],
    "equal": {"parameters": 0.02},
    "held_equal": {"budget.steps": "1200", "budget.batch": "32", "optimizer.lr": "0.003"},
    "not_controlled": ["Initial weights cannot be matched across shapes."],
    "corpus": {
        "name": "tang",
        "sha256": "ab" * 32,
        "characters": 256_616,
        "vocabulary": 1200,
        "coverage": 0.884,
        "train_tokens": 231_000,
        "held_out_tokens": 25_600,
    },
    "baselines": {"uniform": 7.09, "unigram": 5.51},
    "rehearsal": False,
    "command": "python sweeps/ffn_ratio.py --seeds 10",
    "commit": "abc123",
    "uncommitted": False,
    "tracking": {"uri": "sqlite:///mlflow.db", "experiment_id": "1", "runs": {}},
}


def run_id(arm: str, seed: int) -> str:
    """A stand-in for an identity: 16 hex digits, one per (arm, seed)."""
    return f"{arm.encode().hex()[-10:]:0>10}{seed:06x}"


@pytest.fixture
def snapshot() -> dict[str, Any]:
    """A fresh snapshot of three arms and ten seeds; a test may change it."""
    made = copy.deepcopy(_SNAPSHOT)
    made["runs"] = [
        {"run_id": run_id(arm["name"], seed), "arm": arm["name"], "seed": seed, "stage": "judge", "point": None}
        for seed in made["seeds"]
        for arm in made["arms"]
    ]
    return made


@pytest.fixture
def make_runs() -> Callable[..., pd.DataFrame]:
    return _make_runs


def _make_runs(
    snapshot: Mapping[str, Any],
    means: Mapping[str, float],
    sd: float,
    rng: np.random.Generator,
    *,
    rho: float = 0.5,
    seeds: Sequence[int] | None = None,
    diverged: Sequence[tuple[str, int]] = (),
) -> pd.DataFrame:
    """Runs of the arms in `means` with normal losses of `sd`, correlation `rho` between arms of a seed.

    Runs in `diverged` (arm, seed) get no loss. In the RUNS schema with stage and point, as of `Records.planned`.
    """
    seeds = snapshot["seeds"] if seeds is None else seeds
    parameters = {arm["name"]: arm["parameters"] for arm in snapshot["arms"]}
    rows = []
    for seed in seeds:
        shared = rng.normal()
        for arm, mean in means.items():
            noise = rho**0.5 * shared + (1 - rho) ** 0.5 * rng.normal()
            rows.append(_row(snapshot, arm, seed, mean + sd * noise, rng, parameters[arm], (arm, seed) in diverged))
    frame = pa.Table.from_pylist(rows, schema=RUNS).to_pandas().assign(stage="judge", point=float("nan"))
    return frame.sort_values(["arm", "seed"], ignore_index=True)


def _row(
    snapshot: Mapping[str, Any],
    arm: str,
    seed: int,
    loss: float,
    rng: np.random.Generator,
    parameters: int,
    diverged: bool,
) -> dict[str, Any]:
    return {
        "run_id": run_id(arm, seed),
        "study": snapshot["study"],
        "arm": arm,
        "seed": seed,
        "status": DIVERGED if diverged else COMPLETED,
        "val_loss": None if diverged else loss,
        "val_window_sd": None if diverged else 0.3 + 0.01 * rng.random(),
        "last_batch_loss": float("nan") if diverged else loss - 0.2 + 0.05 * rng.normal(),
        "initial_loss": 7.1,
        "diverged_at": 312 if diverged else None,
        "parameters": parameters,
        "steps": 312 if diverged else 1200,
        "tokens": 312 * 2048 if diverged else 1200 * 2048,
        "seconds": 30.0 + rng.random(),
        "cohort": 5,
        "precision": "bf16",
        "device": "cpu",
        "corpus_sha256": snapshot["corpus"]["sha256"],
        "recipe_version": 1,
        "commit": "abc123",
        "versions": '{"torch": "2.13.0"}',
        "finished": pd.Timestamp("2025-01-01", tz="UTC"),
    }
