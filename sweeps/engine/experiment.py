"""The runs of anyone's MLflow experiment, for ``python -m analysis.judge mlflow:EXPERIMENT``.

The package announces it as the source "mlflow" (entry point group ``seedbed.sources``), so that ``analysis`` reads
experiments where they can be read and knows nothing of MLflow.
"""

import os
import re
import warnings
from pathlib import Path

from analysis.tables import NAME, STATE, TableError, unknown_name

# MLflow would narrate on stderr, report usage to its makers and wait minutes for a server. What the user has set stays.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}
_INFINITY = 1e308  # MLflow's databases keep the largest float in place of an infinity


def runs(name: str, uri: str | None, metric: str) -> list[dict[str, str]]:
    """Each run of the experiment, oldest first, as text by name: its parameters, else its tags, else the last values of
    its metrics; `metric` is the metric of that name before anything else.

    Without a `uri` MLflow's own setting holds. Raises TableError for a store or an experiment that is not there, and
    for whatever the store raises.
    """
    for variable, value in _ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MLflow's and SQLAlchemy's deprecations are no business of the user
            return _runs(name, uri, metric)
    except TableError:
        raise
    except Exception as error:  # whatever a store, a database or a connection raises
        raise TableError(
            f"MLflow cannot be read ({type(error).__name__}: {(str(error).strip() or 'no reason').splitlines()[0]})."
        ) from None


def _runs(name: str, uri: str | None, metric: str) -> list[dict[str, str]]:
    import mlflow  # here: the import takes seconds, and telemetry starts with it
    from mlflow.tracking import MlflowClient

    uri = uri or mlflow.get_tracking_uri()
    if (file := re.fullmatch(r"sqlite(?:\+\w+)?:///(.+)", uri)) and not Path(file[1]).is_file():
        raise TableError(f"There is no MLflow database {file[1]}. Give its address: mlflow:{name}@sqlite:///PATH")
    client = MlflowClient(tracking_uri=uri)
    if (experiment := client.get_experiment_by_name(name)) is None:
        raise TableError(unknown_name("MLflow experiment", name, [one.name for one in client.search_experiments()]))
    found, token = [], None
    while token != "":
        page = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"], page_token=token)
        for run in page:
            metrics = {k: repr(v if abs(v) < _INFINITY else v * 10) for k, v in run.data.metrics.items()}
            about = {"run_id": run.info.run_id, NAME: run.info.run_name, STATE: run.info.status.lower()}
            first = {metric: metrics[metric]} if metric in metrics else {}
            found.append(metrics | run.data.tags | run.data.params | about | first)
        token = page.token or ""
    return found
