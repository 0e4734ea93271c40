"""From a plan to a verdict: launch what is missing, record every result as it comes, report, and say what came out."""

import importlib.metadata
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.compare import Analysis, analyse
from analysis.design import OPEN
from analysis.folder import locked
from analysis.material import Material
from analysis.records import Records
from analysis.report import write
from analysis.terminal import contrasts_table, terminal_table
from analysis.wording import count, duration
from model.checkpoint import Checkpoint
from model.corpus.text import Corpus
from model.train import Result
from sweeps.engine.checkpoints import Checkpoints
from sweeps.engine.fingerprint import recipe_text
from sweeps.engine.launch import Watch, choose_device, cluster, launch, machines
from sweeps.engine.lineage import Lineage
from sweeps.engine.models import Models
from sweeps.engine.others import after_others, take_over, taken_over
from sweeps.engine.places import Places, make_places
from sweeps.engine.plan import Cohort, Plan, Run, whole
from sweeps.engine.progress import Progress, endings, names
from sweeps.engine.rounds import asked, judged_seeds, told
from sweeps.engine.rows import curve_rows, run_row
from sweeps.engine.snapshot import asked_since, make_snapshot, opened, refuse_another_question
from sweeps.engine.source import commit_state
from sweeps.engine.tracking import DEFAULT_STORE

PACKAGES = ("torch", "numpy", "ray", "mlflow", "pyarrow", "scipy")
STOPPED = 130  # exit code after Ctrl-C, as shells have it
GOES_ON = "Ctrl-C stops, and the same command goes on."
ADDED_LATER = (
    "Seeds were added after a verdict had been seen, so the verdict allows for looking at any time (an e-process), "
    "which takes more seeds; --until-decided declares the looks beforehand."
)


class Conductor:
    """Holds one study together while it runs: its plan, its records and its lineage.

    `plan` is what is asked for first; when all of it is recorded, the records say what is asked for next. With
    `keep_models` the trained models are kept too.
    """

    def __init__(
        self,
        plan: Plan,
        corpus: Corpus,
        records: Records,
        console: Console,
        command: str,
        tracking_uri: str,
        keep_models: bool = False,
    ) -> None:
        self.plan, self.corpus, self.records, self.console = plan, corpus, records, console
        self.command, self.source = command, commit_state(Path(__file__).parent)
        self.snapshot = make_snapshot(plan, corpus, command, self.source)
        self.design: dict[str, Any] = self.snapshot["design"]
        self.since = ""  # when this question was first asked
        self.checkpoints = Checkpoints(records.folder)
        self.models = Models(records.folder) if keep_models else None
        self.cohorts: list[Cohort] = []  # all that were launched, round by round
        self.failed: list[str] = []  # cohorts that crashed in every try, with the reason
        self.lost = 0  # their runs
        self.versions = {name: importlib.metadata.version(name) for name in PACKAGES}
        self.versions["python"] = platform.python_version()
        self.lineage = Lineage(
            tracking_uri, self.snapshot, self._recipes(), records, source=self.source, warn=self._warn
        )

    def conduct(self, device: str, address: str | None, cohorts_per_gpu: int | None = None) -> int:
        """Run what is missing and report. 0 when all is recorded, 1 when runs failed, STOPPED after Ctrl-C.

        Whatever cannot be is found before anything but the folder and its lock is written. Raises StudyError,
        RecordError, LaunchError.
        """
        started = time.monotonic()
        with locked(self.records.folder):
            refuse_another_question(self.records, self.snapshot)
            self.design = opened(self.records, self.snapshot)
            self.since = asked_since(self.records, self.snapshot | {"design": self.design})
            rest = after_others(self.records, self.plan)
            ready = not rest.missing
            if ready:
                self.open()
                rest = self.plan
            if rest.missing:
                self.console.print(self._announcement(rest), soft_wrap=True)
                with cluster(address):
                    all_of_it = whole(rest, self.corpus)
                    places = make_places(all_of_it, machines(), choose_device(device), cohorts_per_gpu)
                    resources = places.resources(all_of_it, self.checkpoints.earlier(places.count))
                    if not ready:
                        self.open()
                    self.train(places, resources)
            path = self.report()
        self.console.print(f"Report: {path}", soft_wrap=True)
        uri = self.lineage.reference["uri"]
        self.console.print(f"Lineage: {uri}{' (make ui opens it)' if uri == DEFAULT_STORE else ''}", soft_wrap=True)
        return self.close(duration(time.monotonic() - started))

    def open(self) -> None:
        """Write ``study.json``, take over what other studies have recorded, and send MLflow what it lacks."""
        self._write_snapshot()
        self._advance()
        if self.design["kind"] == OPEN:
            self.console.print(ADDED_LATER, soft_wrap=True)
        self.lineage.send_missing()
        if self.models:
            for line in self.models.announcement(self.plan, self.records.planned_runs(self.snapshot)):
                self.console.print(line, soft_wrap=True)

    def train(self, places: Places, resources: dict[str, float]) -> None:
        """Train round after round on the connected cluster; returns early when stopped by Ctrl-C."""
        with Progress(self.console, self.plan) as progress:
            kept: list[Checkpoint] = []

            def more() -> list[tuple[Cohort, Checkpoint]]:
                if self.failed or (self.cohorts and not self._advance()):
                    return []
                cohorts = places.cohorts(self.plan, self.checkpoints.earlier(places.count))
                checkpoints = self.checkpoints.begin(cohorts, places.count)
                resumed = [i for i, checkpoint in enumerate(checkpoints) if checkpoint.path.is_file()]
                if resumed:
                    going_on = count(sum(len(cohorts[i]) for i in resumed), "run")
                    self.console.print(f"Going on from a state that was kept: {going_on}.")
                progress.add(self.plan, cohorts, [len(self.cohorts) + i for i in resumed])
                self.cohorts += cohorts
                kept.extend(checkpoints)
                return list(zip(cohorts, checkpoints, strict=True))

            def finished(cohort: int, results: list[Result]) -> None:
                self._record(self.cohorts[cohort], results, places.device)
                kept[cohort].path.unlink(missing_ok=True)
                progress.recorded(cohort, endings(self.cohorts[cohort], results), self._analysis())

            def failed(cohort: int, why: str) -> None:
                runs = self.cohorts[cohort]
                for run in runs:
                    self.lineage.failed(run.run_id, why)
                self.failed.append(f"{names(runs)} failed: {why}")
                self.lost += len(runs)
                progress.lost(cohort, self.failed[-1])

            try:
                watch = Watch(progress.advanced, finished, failed)
                launch(more, self.corpus, places, resources, watch, keep_models=self.models is not None)
            except BaseException:
                self.lineage.finish()  # else MLflow shows for ever that the study runs
                raise

    def report(self) -> Path:
        """Write the report from the records, send it to MLflow, and print the verdict."""
        self._advance()  # Ctrl-C may have come between two rounds
        self.lineage.send_missing()
        self._write_snapshot()
        material = Material.read(self.records.folder)
        path = write(material, self.records.folder)
        self.lineage.finish()
        self.console.print(terminal_table(material.analysis, self.snapshot))
        if self.snapshot["contrasts"]:
            self.console.print(contrasts_table(material.scored, self.snapshot))
        if material.published:
            self.console.print("\n".join(material.published.sentences), soft_wrap=True)
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

    def _advance(self) -> bool:
        """Ask for what the records call for next and take over what other studies have; False when all is there."""
        while True:
            before, self.plan = self.plan, asked(self.plan.study, self.corpus, self.records)
            self.snapshot = make_snapshot(self.plan, self.corpus, self.command, self.source)
            self.lineage.plan(self.snapshot, self._recipes())
            self._write_snapshot()
            if len(self.plan.runs) > len(before.runs):
                for line in told(before, self.plan, self._analysis()):
                    self.console.print(line, soft_wrap=True)
            taken = take_over(self.records, self.plan, self.snapshot)
            if not taken:
                return bool(self.plan.missing)
            self.console.print(f"{taken} runs were recorded by another study and are taken over.")

    def _announcement(self, plan: Plan) -> str:
        study, first = plan.study, f"{len(plan.missing)} of {len(plan.runs)} runs to train"
        if study.tune and not plan.selected:
            first += " on the grid"
        elif study.looks:
            first += f", up to the look at {max(map(len, judged_seeds(plan).values()))} seeds,"
        return f"{study.name}: {first} in {study.precision or 'the precision of each arm'}. {GOES_ON}"

    def _recipes(self) -> dict[str, dict[str, str]]:
        return {run.run_id: recipe_text(run.recipe) for run in self.plan.runs}

    def _write_snapshot(self) -> None:
        self.snapshot |= {"design": self.design, "asked": self.since, "tracking": self.lineage.reference}
        self.snapshot["taken_over"] = taken_over(self.records, self.snapshot)
        self.records.write_snapshot(self.snapshot)

    def _analysis(self) -> Analysis:
        return analyse(self.records.planned_runs(self.snapshot), self.snapshot, noise=False)

    def _record(self, runs: Sequence[Run], results: Sequence[Result], device: str) -> None:
        if self.models:  # first: a run that is recorded is never trained again
            for run, result in zip(runs, results, strict=True):
                self.models.keep(run, result, self.corpus.vocabulary)
        known = {
            "study": self.plan.study.name,
            "device": device,
            "corpus_sha256": self.corpus.sha256,
            "commit": self.source.commit,
            "versions": json.dumps(self.versions, sort_keys=True),
        }
        rows = [run_row(run, result, known) for run, result in zip(runs, results, strict=True)]
        curves = [curve_rows(run, result) for run, result in zip(runs, results, strict=True)]
        self.records.append(rows, [point for points in curves for point in points])
        for row, points in zip(rows, curves, strict=True):
            self.lineage.record(row, points)

    def _warn(self, sentence: str) -> None:
        self.console.print(f"Warning: {sentence}", soft_wrap=True)
