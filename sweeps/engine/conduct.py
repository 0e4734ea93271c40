"""From a plan to a verdict: launch what is missing, record every result as it comes, report, and say what came out."""

import importlib.metadata
import json
import platform
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.compare import Analysis, analyse
from analysis.folder import locked
from analysis.records import COMPLETED, DIVERGED, Records
from analysis.report import write_report
from analysis.terminal import terminal_table
from analysis.wording import count, duration
from model.corpus.text import Corpus
from model.recipe import RECIPE_VERSION
from model.train import Result
from sweeps.engine.checkpoints import Checkpoints
from sweeps.engine.fingerprint import recipe_text
from sweeps.engine.launch import Watch, choose_device, cluster, launch, machines
from sweeps.engine.lineage import Lineage
from sweeps.engine.places import Places, make_places
from sweeps.engine.plan import Cohort, Plan, Run
from sweeps.engine.progress import Progress, endings, seeds_of
from sweeps.engine.snapshot import make_snapshot, refuse_another_question
from sweeps.engine.source import commit_state
from sweeps.engine.tracking import DEFAULT_STORE

PACKAGES = ("torch", "numpy", "ray", "mlflow", "pyarrow", "scipy")
Taken = tuple[list[dict[str, Any]], list[dict[str, Any]]]
STOPPED = 130  # exit code after Ctrl-C, as shells have it


class Conductor:
    """Holds one study together while it runs: its plan, its records and its lineage.

    `taken` are rows and curves that other studies have recorded for runs of this plan.
    """

    def __init__(
        self,
        plan: Plan,
        corpus: Corpus,
        records: Records,
        taken: Taken,
        console: Console,
        command: str,
        tracking_uri: str,
    ) -> None:
        self.plan, self.corpus, self.records, self.taken, self.console = plan, corpus, records, taken, console
        self.source = commit_state(Path(__file__).parent)
        self.snapshot = make_snapshot(plan, corpus, command, self.source)
        self.checkpoints = Checkpoints(records.folder)
        self.failed: list[str] = []  # cohorts that crashed in every try, with the reason
        self.lost = 0  # their runs
        self.versions = {name: importlib.metadata.version(name) for name in PACKAGES}
        self.versions["python"] = platform.python_version()
        recipes = {run.run_id: recipe_text(run.recipe) for run in plan.runs}
        self.lineage = Lineage(tracking_uri, self.snapshot, recipes, records, source=self.source, warn=self._warn)

    def conduct(self, device: str, address: str | None, cohorts_per_gpu: int | None = None) -> int:
        """Run what is missing and report. 0 when all is recorded, 1 when runs failed, STOPPED after Ctrl-C.

        Whatever cannot be is found before anything but the folder and its lock is written. Raises StudyError,
        RecordError, LaunchError.
        """
        started = time.monotonic()
        with locked(self.records.folder):
            refuse_another_question(self.records, self.snapshot)
            if self.plan.missing:
                self.console.print(
                    f"{self.plan.study.name}: {len(self.plan.missing)} of {len(self.plan.runs)} runs to train in "
                    f"{self.plan.study.precision or 'the precision of each arm'}. "
                    "Ctrl-C stops, and the same command goes on.",
                    soft_wrap=True,
                )
                with cluster(address):
                    places = make_places(self.plan, machines(), choose_device(device), cohorts_per_gpu)
                    cohorts = places.cohorts(self.plan, self.checkpoints.earlier(places.count))
                    self.open()
                    self.train(places, cohorts)
            else:
                self.open()
            path = self.report()
        self.console.print(f"Report: {path}", soft_wrap=True)
        uri = self.lineage.reference["uri"]
        self.console.print(f"Lineage: {uri}{' (make ui opens it)' if uri == DEFAULT_STORE else ''}", soft_wrap=True)
        return self.close(duration(time.monotonic() - started))

    def open(self) -> None:
        """Write ``study.json``, record the runs that are taken over, and send MLflow what it lacks."""
        self._write_snapshot()
        arms = {run.run_id: run.arm for run in self.plan.runs}
        runs, curves = self.taken
        for row in runs:
            arm = arms[row["run_id"]]
            own = [{**point, "arm": arm} for point in curves if point["run_id"] == row["run_id"]]
            self.records.append([{**row, "study": self.plan.study.name, "arm": arm}], own)
        if runs:
            self.console.print(f"{len(runs)} runs were recorded by another study and are taken over.")
        self.lineage.send_missing()

    def train(self, places: Places, cohorts: list[Cohort]) -> None:
        """Train every cohort on the connected cluster; returns early when stopped by Ctrl-C."""
        checkpoints = self.checkpoints.begin(cohorts, places.count)
        resumed = [i for i, checkpoint in enumerate(checkpoints) if checkpoint.path.is_file()]
        if resumed:
            going_on = count(sum(len(cohorts[i]) for i in resumed), "run")
            self.console.print(f"Going on from a state that was kept: {going_on}.")
        with Progress(self.console, self.plan, cohorts, resumed) as progress:

            def finished(cohort: int, results: list[Result]) -> None:
                self._record(cohorts[cohort], results, places.device)
                checkpoints[cohort].path.unlink(missing_ok=True)
                progress.recorded(cohort, endings(cohorts[cohort], results), self._analysis())

            def failed(cohort: int, why: str) -> None:
                runs = cohorts[cohort]
                for run in runs:
                    self.lineage.failed(run.run_id, why)
                arms = dict.fromkeys(run.arm for run in runs)
                named = [seeds_of(arm, [run.seed for run in runs if run.arm == arm]) for arm in arms]
                self.failed.append(f"{'; '.join(named)} failed: {why}")
                self.lost += len(runs)
                progress.lost(cohort, self.failed[-1])

            try:
                launch(cohorts, self.corpus, places, checkpoints, Watch(progress.advanced, finished, failed))
            except BaseException:
                self.lineage.finish()  # else MLflow shows for ever that the study runs
                raise

    def report(self) -> Path:
        """Write the report from the records, send it to MLflow, and print the verdict."""
        self.lineage.send_missing()
        self._write_snapshot()
        path = write_report(self.records.folder)
        self.lineage.finish()
        self.console.print(terminal_table(self._analysis(), self.snapshot))
        return path

    def close(self, took: str) -> int:
        """Say how the study stands after `took`, and give the exit code for it."""
        total = len(self.plan.runs)
        missing = len({run.run_id for run in self.plan.runs} - set(self.records.recorded()))
        if not missing:
            self.checkpoints.end()
            self.console.print(f"All {total} runs are recorded. From start to verdict: {took}.")
            return 0
        for line in self.failed:
            self.console.print(line, soft_wrap=True)
        stopped = missing > self.lost
        self.console.print(
            f"{'Stopped' if stopped else 'Finished with failures'} after {took}: {total - missing} of {total} runs are "
            f"recorded, and the same command trains the other {missing}.",
            soft_wrap=True,
        )
        return STOPPED if stopped else 1

    def _write_snapshot(self) -> None:
        self.records.write_snapshot({**self.snapshot, "tracking": self.lineage.reference})

    def _analysis(self) -> Analysis:
        return analyse(self.records.planned(self.snapshot)[0], self.snapshot, noise=False)

    def _record(self, runs: Sequence[Run], results: Sequence[Result], device: str) -> None:
        rows = [self._row(run, result, device) for run, result in zip(runs, results, strict=True)]
        curves = [
            {"run_id": run.run_id, "arm": run.arm, "seed": run.seed, "step": p.step, "name": p.name, "value": p.value}
            for run, result in zip(runs, results, strict=True)
            for p in result.curve
        ]
        self.records.append(rows, curves)
        for row in rows:
            self.lineage.record(row, [point for point in curves if point["run_id"] == row["run_id"]])

    def _row(self, run: Run, result: Result, device: str) -> dict[str, Any]:
        return {
            "run_id": run.run_id,
            "study": self.plan.study.name,
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
            "device": device,
            "corpus_sha256": self.corpus.sha256,
            "recipe_version": RECIPE_VERSION,
            "commit": self.source.commit,
            "versions": json.dumps(self.versions, sort_keys=True),
            "finished": datetime.now(UTC),
        }

    def _warn(self, sentence: str) -> None:
        self.console.print(f"Warning: {sentence}", soft_wrap=True)
