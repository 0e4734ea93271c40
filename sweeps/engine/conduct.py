"""From a plan to a verdict: launch what is missing, record every result as it comes, report, and say what came out."""

import importlib.metadata
import json
import platform
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.compare import Analysis, analyse
from analysis.folder import locked
from analysis.records import COMPLETED, DIVERGED, RecordError, Records
from analysis.report import write_report
from analysis.terminal import terminal_table
from analysis.wording import duration
from model.corpus.text import Corpus
from model.train import RECIPE_VERSION, Result
from sweeps.engine.fingerprint import recipe_text
from sweeps.engine.launch import Watch, choose_device, cluster, launch
from sweeps.engine.lineage import Lineage
from sweeps.engine.plan import Plan, Run
from sweeps.engine.progress import Progress
from sweeps.engine.snapshot import make_snapshot
from sweeps.engine.source import commit_state
from sweeps.engine.study import StudyError
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
        self.failed: list[str] = []  # runs that crashed in every try, with the reason
        self.versions = {name: importlib.metadata.version(name) for name in PACKAGES}
        self.versions["python"] = platform.python_version()
        recipes = {run.run_id: recipe_text(run.recipe) for run in plan.runs}
        self.lineage = Lineage(tracking_uri, self.snapshot, recipes, records, source=self.source, warn=self._warn)

    def conduct(self, device: str, address: str | None) -> int:
        """Run what is missing and report. 0 when all is recorded, 1 when runs failed, STOPPED after Ctrl-C.

        Whatever cannot be is found before anything but the folder and its lock is written. Raises StudyError,
        RecordError, LaunchError.
        """
        started = time.monotonic()
        with locked(self.records.folder):
            refuse_another_question(self.records, self.snapshot)
            if self.plan.missing:
                self.console.print(
                    f"{self.plan.study.name}: {len(self.plan.missing)} of {len(self.plan.runs)} runs to train. "
                    "Ctrl-C stops, and the same command goes on.",
                    soft_wrap=True,
                )
                with cluster(address):
                    device = choose_device(device)
                    self.open()
                    self.train(device)
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

    def train(self, device: str) -> None:
        """Train every missing run on the connected cluster; returns early when stopped by Ctrl-C."""
        cohorts = self.plan.cohorts()
        sizes = [sum(run.recipe.budget.steps for run in cohort) for cohort in cohorts]
        with Progress(self.console, self.plan, sizes) as progress:

            def finished(cohort: int, results: list[Result]) -> None:
                runs = cohorts[cohort]
                self._record(runs, results, device)
                progress.recorded(cohort, len(runs), ", ".join(map(_ending, runs, results)), self._analysis())

            def failed(cohort: int, why: str) -> None:
                runs = cohorts[cohort]
                for run in runs:
                    self.lineage.failed(run.run_id, why)
                told = [f"{run.arm} seed {run.seed} failed: {why}" for run in runs]
                self.failed += told
                progress.lost(cohort, len(runs), ", ".join(told))

            try:
                launch(cohorts, self.corpus, device, Watch(progress.advanced, finished, failed))
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
            self.console.print(f"All {total} runs are recorded. From start to verdict: {took}.")
            return 0
        for line in self.failed:
            self.console.print(line, soft_wrap=True)
        stopped = missing > len(self.failed)
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
            "device": device,
            "corpus_sha256": self.corpus.sha256,
            "recipe_version": RECIPE_VERSION,
            "commit": self.source.commit,
            "versions": json.dumps(self.versions, sort_keys=True),
            "finished": datetime.now(UTC),
        }

    def _warn(self, sentence: str) -> None:
        self.console.print(f"Warning: {sentence}", soft_wrap=True)


def refuse_another_question(records: Records, snapshot: Mapping[str, Any]) -> None:
    """Raise StudyError when runs of this plan are recorded that were asked for with another margin or baseline: both
    are fixed before there are data, and a verdict by a margin that was chosen afterwards has no error rate.

    A baseline is its runs: it may be renamed.
    """
    planned = {run["run_id"] for run in snapshot["runs"]}
    if not planned & set(records.recorded()):
        return
    try:
        before = records.snapshot()
    except RecordError:
        return  # lost or damaged: nothing is known of what was asked, and it is written anew
    changed = []
    if before["margin"] != snapshot["margin"]:
        changed.append(f"a margin of {before['margin']:g}, and now it is {snapshot['margin']:g}")
    if not _baseline_runs(before) & _baseline_runs(snapshot) and _baseline_runs(before) & planned:
        changed.append(f"the baseline {before['baseline']}, and now it is {snapshot['baseline']}")
    if changed:
        raise StudyError(
            f"The runs in {records.folder} were asked for with {'; and with '.join(changed)}. That is fixed before "
            "there are data: ask the new question under another name, or in another folder with --results."
        )


def _baseline_runs(snapshot: Mapping[str, Any]) -> set[str]:
    return {run["run_id"] for run in snapshot["runs"] if run["arm"] == snapshot["baseline"]}


def _ending(run: Run, result: Result) -> str:
    how = f"{result.val_loss:.4f}" if result.diverged_at is None else f"diverged at step {result.diverged_at}"
    return f"{run.arm} seed {run.seed}: {how} ({result.seconds:.0f} s)"
