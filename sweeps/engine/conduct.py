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

from analysis.compare import analyse
from analysis.records import COMPLETED, DIVERGED, Records
from analysis.report import write_report
from analysis.terminal import terminal_table
from model.corpus.text import Corpus
from model.train import RECIPE_VERSION, Result
from sweeps.engine.fingerprint import recipe_text
from sweeps.engine.launch import Watch, choose_device, connect, disconnect, launch
from sweeps.engine.lineage import Lineage
from sweeps.engine.plan import Plan, Run
from sweeps.engine.progress import Progress, duration
from sweeps.engine.snapshot import make_snapshot
from sweeps.engine.source import commit_state
from sweeps.engine.tracking import DEFAULT_STORE

PACKAGES = ("torch", "numpy", "ray", "mlflow", "pyarrow", "scipy", "statsmodels")
STOPPED = 130  # exit code after Ctrl-C, as shells have it


class Conductor:
    """Holds one study together while it runs: its plan, its records and its lineage."""

    def __init__(
        self, plan: Plan, corpus: Corpus, records: Records, console: Console, command: str, tracking_uri: str
    ) -> None:
        self.plan, self.corpus, self.records, self.console = plan, corpus, records, console
        self.source = commit_state(Path(__file__).parent)
        self.snapshot = make_snapshot(plan, corpus, command, self.source)
        self.run_ids = [run.run_id for run in plan.runs]
        self.failed: list[str] = []  # runs that crashed in every try, with the reason
        self.versions = {name: importlib.metadata.version(name) for name in PACKAGES}
        self.versions["python"] = platform.python_version()
        recipes = {run.run_id: recipe_text(run.recipe) for run in plan.runs}
        self.lineage = Lineage(tracking_uri, self.snapshot, recipes, records, source=self.source, warn=self._warn)

    def open(self) -> None:
        """Write ``study.json``, take over runs that another study has recorded, and send MLflow what it lacks."""
        self.records.write_snapshot(self.snapshot)
        arms = {run.run_id: run.arm for run in self.plan.missing}
        runs, curves = self.records.neighbours(list(arms))
        for row in runs:
            run_id = row["run_id"]
            own = [{**point, "arm": arms[run_id]} for point in curves if point["run_id"] == run_id]
            self.records.append([{**row, "study": self.plan.study.name, "arm": arms[run_id]}], own)
        if runs:
            self.console.print(f"{len(runs)} runs were recorded by another study and are taken over.")
        self.plan = self.plan.after(row["run_id"] for row in runs)
        self.lineage.send_missing()

    def train(self, device: str, address: str | None) -> None:
        """Train every missing run; returns early when stopped by Ctrl-C. Raises LaunchError."""
        cohorts = self.plan.cohorts()
        connect(address)
        try:
            device = choose_device(device)
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

                launch(cohorts, self.corpus, device, Watch(progress.advanced, finished, failed))
        finally:
            disconnect()

    def report(self) -> Path:
        """Write the report from the records, send it to MLflow, and print the verdict."""
        self.lineage.send_missing()
        self.records.write_snapshot({**self.snapshot, "tracking": self.lineage.reference})
        path = write_report(self.records.folder)
        self.lineage.finish()
        self.console.print(terminal_table(self._analysis(), self.snapshot))
        return path

    def missing(self) -> int:
        """How many runs of the plan are not recorded."""
        return len(set(self.run_ids) - set(self.records.recorded()))

    def _analysis(self) -> Any:
        return analyse(self.records.runs(self.run_ids), self.snapshot, noise=False)

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


def conduct(
    plan: Plan,
    corpus: Corpus,
    records: Records,
    console: Console,
    command: str,
    device: str,
    tracking_uri: str,
    address: str | None,
) -> int:
    """Run what is missing of `plan` and report. 0 when all is recorded, 1 when runs failed, STOPPED after Ctrl-C."""
    started = time.monotonic()
    study = Conductor(plan, corpus, records, console, command, tracking_uri)
    study.open()
    if study.plan.missing:
        console.print(
            f"{plan.study.name}: {len(study.plan.missing)} of {len(plan.runs)} runs to train. "
            "Ctrl-C stops, and the same command goes on.",
            soft_wrap=True,
        )
        study.train(device, address)
    path = study.report()
    console.print(f"Report: {path}", soft_wrap=True)
    uri = study.lineage.reference["uri"]
    console.print(f"Lineage: {uri}{' (make ui opens it)' if uri == DEFAULT_STORE else ''}", soft_wrap=True)
    return _close(study, duration(time.monotonic() - started))


def _close(study: Conductor, took: str) -> int:
    """Say how the study stands, and give the exit code for it."""
    total, missing = len(study.plan.runs), study.missing()
    if not missing:
        study.console.print(f"All {total} runs are recorded. From start to verdict: {took}.")
        return 0
    for line in study.failed:
        study.console.print(line, soft_wrap=True)
    how = "Stopped" if missing > len(study.failed) else "Finished with failures"
    study.console.print(
        f"{how} after {took}: {total - missing} of {total} runs are recorded, and the same command trains the other "
        f"{missing}.",
        soft_wrap=True,
    )
    return STOPPED if missing > len(study.failed) else 1


def _ending(run: Run, result: Result) -> str:
    how = f"{result.val_loss:.4f}" if result.diverged_at is None else f"diverged at step {result.diverged_at}"
    return f"{run.arm} seed {run.seed}: {how} ({result.seconds:.0f} s)"
