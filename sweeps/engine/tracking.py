"""One connected study in an MLflow store: its experiment, its parent run, its children by run id.

Everything here raises whatever MLflow raises; ``lineage.py`` is the fence that keeps a failure away from a run.
"""

import math
import os
import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

DEFAULT_STORE = "sqlite:///mlflow.db"  # of MLflow too: in the folder where the command is given
SECONDS = 5  # a store that does not answer for so long counts as down

# MLflow's own defaults retry an unreachable server for minutes, narrate on stderr and report usage to its makers.
# A value that the user has set stays. No retries: a request that creates a run, sent twice, can make two.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(SECONDS),
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "PGCONNECT_TIMEOUT": str(SECONDS),
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
}
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
SCHEMES = frozenset({"", "file", "http", "https", "databricks", "databricks-uc", "uc", *_DATABASES})
_RUN_ID = "seedbed.run_id"
_TEXT_LIMIT = {"tag": 8000, "param": 6000}  # characters, mlflow/utils/validation.py
FINAL_METRICS = ("val_loss", "val_window_sd", "last_batch_loss", "initial_loss")
_SIZES = ("parameters", "steps", "tokens", "seconds")


class TrackingError(ValueError):
    """A tracking URI that no store can have; the message says what to write."""


def public_uri(uri: str) -> str:
    """`uri` without user, password and query: the form that may be printed and stored."""
    if _scheme(uri) in ("sqlite", "file", ""):
        return uri
    scheme, slashes, rest = uri.partition("://") if "://" in uri else ("", "", uri)
    return scheme + slashes + rest.rpartition("@")[2].partition("?")[0]


def check_tracking_uri(uri: str) -> None:
    """Raise TrackingError for a tracking URI that no store can have, without importing MLflow or asking the network."""
    shown, scheme = public_uri(uri), _scheme(uri)
    if not uri.strip():
        raise TrackingError("--tracking-uri is empty; leave the option out to get the default sqlite:///mlflow.db.")
    if re.match(r"[\w.-]+:\d+(/|$)", uri):
        raise TrackingError(f"--tracking-uri {shown} has no scheme; write http://{shown} for a server.")
    if scheme == "sqlite" and not re.match(r"sqlite(\+\w+)?:///.", uri):
        raise TrackingError(f"--tracking-uri {shown} names no file; write sqlite:///mlflow.db, with three slashes.")
    if scheme in ("http", "https") and not _has_host(uri):
        raise TrackingError(f"--tracking-uri {shown} is not the address of a server; write {scheme}://HOST:PORT.")
    if len(scheme) > 1 and scheme not in SCHEMES:  # one letter is a Windows drive
        if scheme in (plugin.name for plugin in entry_points(group="mlflow.tracking_store")):
            return
        raise TrackingError(
            f"--tracking-uri {shown} starts with {scheme}:, which no MLflow store has; "
            "write sqlite:///mlflow.db for a file or http://HOST:PORT for a server."
        )


def _scheme(uri: str) -> str:
    """Such as ``postgresql`` of ``postgresql+psycopg2://...``; empty for a path."""
    return uri.partition(":")[0].partition("+")[0].lower() if ":" in uri else ""


def _has_host(uri: str) -> bool:
    try:
        return bool(urlsplit(uri).hostname) and urlsplit(uri).port != 0
    except ValueError:
        return False


@dataclass
class _Child:
    mlflow_id: str
    finished: bool = False
    explained: bool = False  # carries the reason of a crash
    parameters: frozenset[str] = frozenset()

    @classmethod
    def of(cls, run: Any) -> Self:
        finished, explained = run.info.status == "FINISHED", "seedbed.reason" in run.data.tags
        return cls(run.info.run_id, finished, explained, frozenset(run.data.params))


@dataclass
class Connection:
    """An open study: made by ``Connection.open``, forgotten on the first failure and opened again later.

    Opening again reads the children anew, so that a request whose answer was lost never makes a second child.
    """

    client: Any
    database: Path | None  # the SQLite file
    experiment_id: str
    parent: str
    study: str
    children: dict[str, _Child] = field(default_factory=dict)

    @classmethod
    def open(cls, uri: str, snapshot: Mapping[str, Any]) -> Self:
        """Find or make the experiment and the parent run, and read the index of children."""
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow.tracking import MlflowClient  # here: the import takes a second, and telemetry starts with it

        address, database = _resolve(uri)
        client = MlflowClient(tracking_uri=address)
        study = snapshot["study"]
        experiment_id = _experiment(client, address, database, study)
        runs, page = [], None
        while page != "":
            found = client.search_runs([experiment_id], page_token=page)  # newest first
            runs += found
            page = found.token or ""
        children = {run.data.tags[_RUN_ID]: _Child.of(run) for run in runs if _RUN_ID in run.data.tags}
        parents = [run for run in runs if run.data.tags.get("seedbed.study") == study and _RUN_ID not in run.data.tags]
        if parents:
            parent = parents[-1].info.run_id
            client.update_run(parent, status="RUNNING")
        else:
            tags = {"seedbed.study": study, "mlflow.note.content": _text(snapshot["question"], "tag")}
            parent = client.create_run(experiment_id, tags=tags, run_name=study).info.run_id
        return cls(client, database, experiment_id, parent, study, children)

    def ready(self) -> None:
        """Raise at once, or after 5 s, where MLflow would wait 20 s for a locked SQLite file and print a traceback."""
        if self.database is not None:
            _check_database(self.database)

    def tag(self, mlflow_id: str, tags: Mapping[str, object]) -> None:
        from mlflow.entities import RunTag

        self.client.log_batch(mlflow_id, tags=[RunTag(k, _text(v, "tag")) for k, v in tags.items()], synchronous=True)

    def child(self, planned: Mapping[str, Any], start_ms: int | None) -> _Child:
        """The child of a planned run (run_id, arm, seed, stage, point), made when there is none."""
        run_id, arm, seed, point = planned["run_id"], planned["arm"], planned["seed"], planned["point"]
        if run_id not in self.children:
            tags = {
                "mlflow.parentRunId": self.parent,
                _RUN_ID: run_id,
                "seedbed.study": self.study,
                "seedbed.arm": _text(arm, "tag"),
                "seedbed.seed": str(seed),
                "seedbed.stage": planned["stage"],
            }
            tags |= {} if point is None else {"seedbed.point": f"{point:g}"}
            name = f"{arm} seed {seed}" if point is None else f"{arm} at {point:g} seed {seed}"
            made = self.client.create_run(self.experiment_id, start_time=start_ms, tags=tags, run_name=name)
            self.children[run_id] = _Child(made.info.run_id)
        return self.children[run_id]

    def log(
        self,
        planned: Mapping[str, Any],
        row: Mapping[str, Any],
        curves: Iterable[Mapping[str, Any]],
        recipe: Mapping[str, object],
        tags: Mapping[str, object],
    ) -> None:
        """Write one final row and its curves into its child and finish it; writing the same again changes nothing."""
        from mlflow.entities import Metric, Param, RunTag

        # One time for all points, from the record: MLflow drops a point that it has only when its time is equal too.
        end = int(row["finished"].timestamp() * 1000)
        together = row["cohort"] if row["cohort"] == row["cohort"] and row["cohort"] else 1  # null in old records
        child = self.child(planned, end - int(row["seconds"] * together * 1000))
        values = {f"final_{name}": row[name] for name in FINAL_METRICS} | {name: row[name] for name in _SIZES}
        metrics = [Metric(k, float(v), end, int(row["steps"])) for k, v in values.items() if math.isfinite(v)]
        metrics += [Metric(p["name"], _finite_or_nan(p["value"]), end, int(p["step"])) for p in curves]
        parameters = [Param(k, _text(v, "param")) for k, v in recipe.items() if k not in child.parameters]
        about = [RunTag(k, _text(v, "tag")) for k, v in tags.items()]
        self.client.log_batch(child.mlflow_id, metrics, parameters, about, synchronous=True)
        if child.explained:
            self.client.delete_tag(child.mlflow_id, "seedbed.reason")
        self.client.set_terminated(child.mlflow_id, "FINISHED", end)
        child.finished, child.explained = True, False

    def fail(self, planned: Mapping[str, Any], reason: str) -> None:
        child = self.child(planned, None)
        self.tag(child.mlflow_id, {"seedbed.status": "crashed", "seedbed.reason": reason})
        self.client.set_terminated(child.mlflow_id, "FAILED")
        child.finished, child.explained = False, True


def _resolve(uri: str) -> tuple[str, Path | None]:
    """The URI for MLflow, with the absolute path of an SQLite file, and that file once it is known to be writable."""
    match = re.fullmatch(r"(sqlite(?:\+\w+)?:///)([^?]+)(.*)", uri)
    if match is None or match[2].startswith((":memory:", "file:")):
        return uri, None
    database = Path(match[2]).absolute()
    database.parent.mkdir(parents=True, exist_ok=True)
    _check_database(database)
    return f"{match[1]}{database}{match[3]}", database


def _check_database(database: Path) -> None:
    with closing(sqlite3.connect(database, timeout=SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE seedbed_probe (x)")  # a read-only file lets a transaction begin
        connection.execute("ROLLBACK")


def _experiment(client: Any, address: str, database: Path | None, study: str) -> str:
    found = client.get_experiment_by_name(study)
    if found is None:
        # A server decides where artifacts lie; a bare database does not, and MLflow's default would be ./mlruns.
        bare = _scheme(address) in _DATABASES
        root = (database.parent if database else Path.cwd()) / "mlartifacts" / study
        tags = {"mlflow.experimentKind": "custom_model_development"}  # else its pages open on language-model traces
        return str(client.create_experiment(study, root.as_uri() if bare else None, tags))
    if found.lifecycle_stage == "deleted":
        restore = f"mlflow experiments restore --experiment-id {found.experiment_id}"
        raise ValueError(f"its experiment {study!r} was deleted there; bring it back with `{restore}`")
    return str(found.experiment_id)


def _text(value: object, kind: str) -> str:
    text, limit = str(value), _TEXT_LIMIT[kind]
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _finite_or_nan(value: float) -> float:
    """Infinity as NaN: SQL stores write it as 1.8e308, which ruins every chart's axis."""
    return float(value) if math.isfinite(value) else math.nan
