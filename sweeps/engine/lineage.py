"""MLflow lineage of a study, written by the driver only and never at the price of a run.

In an experiment named after the study: one parent run, and under it one child per run, found again by the tag
``seedbed.run_id``. The Parquet records are the truth and MLflow a copy: whatever fails there is told once, in one
sentence, and what is missing is sent from the records later.
"""

import functools
import hashlib
import json
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analysis.records import RecordError, Records
from sweeps.engine.source import CommitState
from sweeps.engine.tracking import Connection, check_tracking_uri, public_uri

PAUSE = 60.0  # seconds without a further attempt after a failure: a hanging server costs at most 5 s in 65
_ARTIFACTS = ("report.html", "verdict.json", "finding.md", "study.json")


class Lineage:
    """The lineage of the study that `snapshot` describes, in the MLflow store `tracking_uri`.

    `recipes` gives each planned run's flat recipe by run id. No method raises because of MLflow, and none waits longer
    than about 5 s for a store that does not answer. Raises TrackingError for a URI that no store can have.
    """

    def __init__(
        self,
        tracking_uri: str,
        snapshot: Mapping[str, Any],
        recipes: Mapping[str, Mapping[str, object]],
        records: Records,
        *,
        source: CommitState,
        warn: Callable[[str], None],
    ) -> None:
        check_tracking_uri(tracking_uri)
        self._uri, self._records, self._source, self._warn = tracking_uri, records, source, warn
        self.plan(snapshot, recipes)
        self._trained_here: set[str] = set()
        self._connection: Connection | None = None
        self._retry_at, self._warned = 0.0, False
        self._reference: dict[str, Any] = {"uri": public_uri(tracking_uri), "runs": {}} | self._earlier()

    def plan(self, snapshot: Mapping[str, Any], recipes: Mapping[str, Mapping[str, object]]) -> None:
        """The study as it is asked from now on."""
        self._snapshot, self._recipes = snapshot, recipes
        self._planned = {run["run_id"]: run for run in snapshot["runs"]}

    @property
    def reference(self) -> dict[str, Any]:
        """Where the runs are: uri (without credentials), experiment_id, parent, runs by run id; what is known of it."""
        return self._reference | {"runs": dict(self._reference["runs"])}

    def send_missing(self) -> None:
        """Connect, and send every recorded run of the plan that MLflow lacks. For the start, and before the report."""
        if not self._attempt(self._describe_parent, insist=True) or self._connection is None:
            return
        done = {run_id for run_id, child in self._connection.children.items() if child.finished}
        missing = [run_id for run_id in self._planned if run_id not in done]
        rows: Any = self._records.runs(missing)
        curves: Any = self._records.curves(list(rows["run_id"]))
        for row in rows.to_dict("records"):
            points = curves[curves["run_id"] == row["run_id"]].to_dict("records")
            if not self._attempt(functools.partial(self._log, row=row, curves=points)):
                return
        if self._source.diff:  # last: artifacts may need rights or packages that runs do not
            self._attempt(self._attach_diff)

    def record(self, row: Mapping[str, Any], curves: Sequence[Mapping[str, Any]]) -> None:
        """Send one run that has just been recorded: its row (RUNS) and its curves (CURVES)."""
        self._trained_here.add(row["run_id"])
        self._attempt(functools.partial(self._log, row=row, curves=curves))

    def failed(self, run_id: str, reason: str) -> None:
        """Mark a run that crashed; the mark goes when the run succeeds later."""
        self._attempt(lambda connection: connection.fail(self._planned[run_id], reason))

    def finish(self) -> None:
        """Put the report, verdict, finding and snapshot into the parent run, and end it."""
        self._attempt(self._finish_parent, insist=True)

    def _earlier(self) -> dict[str, Any]:
        """What the last start knew of this store: it holds even when the store is down today."""
        try:
            earlier: dict[str, Any] = self._records.snapshot().get("tracking") or {}
        except RecordError:
            return {}
        return earlier if earlier.get("uri") == public_uri(self._uri) else {}

    def _describe_parent(self, connection: Connection) -> None:
        snapshot = self._snapshot
        tags = {
            "seedbed.metric": snapshot["metric"],
            "seedbed.margin": snapshot["margin"],
            "seedbed.baseline": snapshot["baseline"],
            "seedbed.corpus_sha256": snapshot["corpus"]["sha256"],
        }
        connection.tag(connection.parent, tags | self._source_tags(self._source.commit))

    def _attach_diff(self, connection: Connection) -> None:
        connection.client.log_text(connection.parent, self._source.diff, f"uncommitted-{self._diff_hash[:12]}.diff")

    def _log(self, connection: Connection, row: Mapping[str, Any], curves: Sequence[Mapping[str, Any]]) -> None:
        names = ("study", "status", "device", "corpus_sha256", "recipe_version", "versions")
        tags = {f"seedbed.{name}": row[name] for name in names}
        if row["status"] == "diverged":
            tags["seedbed.diverged_at"] = int(row["diverged_at"])
        # What lay uncommitted when an earlier start trained a run is not known now.
        here = row["run_id"] in self._trained_here
        commit = row["commit"] if isinstance(row["commit"], str) else None  # pandas reads an absent one as NaN
        tags |= self._source_tags(commit) if here else _commit_tags(commit)
        connection.log(self._planned[row["run_id"]], row, curves, self._recipes.get(row["run_id"], {}), tags)

    def _finish_parent(self, connection: Connection) -> None:
        folder, known = self._records.folder, connection.children
        done = sum(run_id in known and known[run_id].finished for run_id in self._planned)
        tags: dict[str, object] = {"seedbed.runs": f"{done} of {len(self._planned)}"}
        if (folder / "finding.md").is_file():
            tags["mlflow.note.content"] = (folder / "finding.md").read_text()  # the page of the run shows it
        if (folder / "verdict.json").is_file():
            comparisons = json.loads((folder / "verdict.json").read_text())["comparisons"]
            tags["seedbed.verdict"] = "; ".join(f"{one['arm']}: {one['verdict']}" for one in comparisons)
        connection.tag(connection.parent, tags)
        connection.client.set_terminated(connection.parent, "FINISHED" if done == len(self._planned) else "KILLED")
        for path in (folder / name for name in _ARTIFACTS):
            if path.is_file():
                connection.client.log_artifact(connection.parent, str(path))

    @functools.cached_property
    def _diff_hash(self) -> str:
        return hashlib.sha256(self._source.diff.encode()).hexdigest()

    def _source_tags(self, commit: str | None) -> dict[str, object]:
        tags = _commit_tags(commit) | {"seedbed.uncommitted": str(self._source.uncommitted).lower()}
        tags |= {"mlflow.source.name": self._snapshot["command"], "mlflow.source.type": "LOCAL"}
        if self._source.diff:
            tags["seedbed.diff_sha256"] = self._diff_hash
        if self._source.untracked:
            tags["seedbed.untracked"] = "\n".join(self._source.untracked)
        return tags

    def _attempt(self, send: Callable[[Connection], None], *, insist: bool = False) -> bool:
        """Do `send` on an open connection; False when it failed, or was not tried because it failed just now."""
        if not insist and time.monotonic() < self._retry_at:
            return False
        handled = sys.exception()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # MLflow's and SQLAlchemy's deprecations are no business of the user
                if self._connection is None:
                    self._connection = Connection.open(self._uri, self._snapshot)
                else:
                    self._connection.ready()
                send(self._connection)
                self._remember(self._connection)
        except Exception as error:  # whatever it is, it must not reach the runs
            self._connection, self._retry_at = None, time.monotonic() + PAUSE
            if not self._warned:
                self._warned = True
                self._warn(
                    f"MLflow at {public_uri(self._uri)} cannot be used ({_reason(error, handled)}); results are still "
                    f"recorded in {self._records.folder}, and the next start sends what is missing."
                )
            return False
        self._retry_at = 0.0
        return True

    def _remember(self, connection: Connection) -> None:
        known = {run_id: child.mlflow_id for run_id, child in connection.children.items() if run_id in self._planned}
        self._reference |= {"experiment_id": connection.experiment_id, "parent": connection.parent, "runs": known}


def _commit_tags(commit: str | None) -> dict[str, object]:
    # The second name is MLflow's own, shown as the version of the source.
    return {"seedbed.commit": commit, "mlflow.source.git.commit": commit} if commit else {"seedbed.commit": "unknown"}


def _reason(error: BaseException, handled: BaseException | None) -> str:
    """The root of `error` in few words, without credentials.

    MLflow wraps "Connection refused" in four layers that repeat the URL. `handled` is what the caller was already
    handling: Python chains it below, but it is not the cause.
    """
    root = error
    while (below := root.__cause__ or root.__context__) is not None and below is not handled:
        root = below
    words = str(root).partition("\n")[0] or type(root).__name__
    if isinstance(root, OSError) and root.strerror:
        words = f"{root.strerror}: {root.filename}" if root.filename else root.strerror
    return re.sub(r"://\S*@", "://", textwrap.shorten(words, 200, placeholder=" …")).rstrip(".")
