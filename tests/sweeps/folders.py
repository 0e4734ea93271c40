"""What a study left in the folder where its command was given."""

import warnings
from pathlib import Path

import pandas as pd

from analysis.records import Records


def study_in(folder: Path) -> Path:
    """The folder of the only study under ``results``, whose name tells the text, and the arms when not all."""
    (found,) = (folder / "results").iterdir()
    return found


def rows(folder: Path) -> pd.DataFrame:
    return Records(study_in(folder)).runs()


def results_of(frame: pd.DataFrame) -> dict[tuple[str, int], float]:
    return {(arm, seed): loss for arm, seed, loss in zip(frame["arm"], frame["seed"], frame["val_loss"], strict=True)}


def children(folder: Path) -> dict[str, object]:
    """MLflow's children by run id; a run id twice is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's use of SQLAlchemy is not ours to judge
        from mlflow.tracking import MlflowClient

        client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(study_in(folder).name)
    assert experiment is not None
    found = [r for r in client.search_runs([experiment.experiment_id]) if "seedbed.run_id" in r.data.tags]
    by_id = {r.data.tags["seedbed.run_id"]: r for r in found}
    assert len(by_id) == len(found)
    return by_id
