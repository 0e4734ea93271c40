"""One Ray Tune trial: a cohort trained on a worker, and the callback that brings its results to the driver.

Apart from ``launch.py`` because importing Ray takes seconds that ``--help`` and ``--plan`` need not wait for.
"""

import time
from typing import Any

import torch
from ray import tune

from model.corpus.text import Corpus
from model.train import Member, training
from sweeps.engine.watch import Watch

SLICE_SECONDS = 0.5  # how often a trial reports how far it is, and how soon it can be stopped


class CohortTrainable(tune.Trainable):  # type: ignore[misc]
    """Trains the members of cohort ``config["cohort"]`` in slices; the actor goes on to the next cohort by itself."""

    def setup(self, config: dict[str, Any], cohorts: list[list[Member]], corpus: Corpus, device: str) -> None:
        torch.set_num_threads(max(1, int(self.trial_resources.required_resources.get("CPU", 1))))
        self.cohorts, self.corpus, self.device = cohorts, corpus, device
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.slices = training(self.cohorts[new_config["cohort"]], self.corpus, self.device)
        return True

    def step(self) -> dict[str, Any]:
        deadline = time.monotonic() + SLICE_SECONDS
        while True:
            try:
                progress = next(self.slices)
            except StopIteration as end:
                return {"done": True, "results": end.value}
            if time.monotonic() > deadline:
                return {"done": False, "steps": progress.steps_done}


class Recorder(tune.Callback):  # type: ignore[misc]
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
        lines = str(trial.get_error()).strip().splitlines() or ["no reason was given"]
        self.watch.failed(trial.config["cohort"], lines[-1])
