"""One Ray Tune trial: a cohort trained on a worker, and the callback that brings its results to the driver.

Apart from ``launch.py`` because importing Ray takes seconds that ``--help`` and ``--plan`` need not wait for.
"""

from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from ray import tune

from model.checkpoint import Checkpoint
from model.corpus.text import Corpus
from model.train import Progress, Result, train
from sweeps.engine.watch import Watch

THREADS = 1  # of a cohort: one a core
REPORT_SECONDS = 1.0  # between two reports of how far a cohort is


class CohortTrainable(tune.Trainable):
    """Trains ``config["members"]`` in lockstep, their state kept at ``config["checkpoint"]``, and then the next ones.

    A thread trains while ``step`` only looks how far it is: Tune takes about 0.4 s from one step to the next, and
    training inside the steps, half a second each, left the worker idle for 44 % of the time.
    """

    def setup(self, config: dict[str, Any], corpus: Corpus, device: str, keep_models: bool = False) -> None:
        self.corpus, self.device, self.keep_models = corpus, device, keep_models
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.steps_done = 0
        self.outcome: Future[list[Result]] = Future()
        # A daemon: a worker whose driver was killed ends at once, and does not train on for nobody.
        Thread(target=self._train, args=(new_config, self.outcome), daemon=True).start()
        return True

    def step(self) -> dict[str, Any]:
        try:
            return {"done": True, "results": self.outcome.result(timeout=REPORT_SECONDS)}
        except TimeoutError:
            return {"done": False, "steps": self.steps_done}

    def _train(self, config: dict[str, Any], outcome: Future[list[Result]]) -> None:
        torch.set_num_threads(THREADS)  # here, for OpenMP counts threads by the thread that asks
        checkpoint = within_reach(config["checkpoint"])
        try:
            outcome.set_result(
                train(config["members"], self.corpus, self.device, self._note, checkpoint, self.keep_models)
            )
        except BaseException as error:  # whatever it is, it is the trial's to raise
            outcome.set_exception(error)

    def _note(self, progress: Progress) -> None:
        self.steps_done = progress.steps_done


def within_reach(checkpoint: Checkpoint) -> Checkpoint | None:
    """`checkpoint` where its folder, which the driver has made, is on a disk of this machine's too; else None."""
    return checkpoint if checkpoint.path.parent.is_dir() else None


class Recorder(tune.Callback):
    """Hands what trials report to the driver's `watch`."""

    def __init__(self, watch: Watch | None) -> None:
        self.watch = watch

    def __getstate__(self) -> dict[str, Any]:
        # Tune pickles its callbacks for a restore that is never made here, and a live terminal has no pickle.
        return {"watch": None}

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        assert self.watch is not None
        if "results" in result:
            self.watch.finished(trial.config["cohort"], result["results"])
        else:
            self.watch.advanced(trial.config["cohort"], result["steps"])

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        assert self.watch is not None
        # The local file: what trial.get_error() reads is a copy of it that may come later.
        text = Path(trial.error_file).read_text(errors="replace") if trial.error_file else ""
        self.watch.failed(trial.config["cohort"], text.strip().rpartition("\n")[2] or "Ray gave no reason")
