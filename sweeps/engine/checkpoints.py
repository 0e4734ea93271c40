"""The cohorts under way: where their states lie, and which cohorts the last launch made, so that the next one goes on.

``checkpoints/`` in a study's folder holds a state per cohort that has been training for a while, and a list of all
cohorts of the last launch. Everything in it may be deleted at any time: what is lost is time.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from analysis.folder import read_json, replace_file
from analysis.records import CHECKPOINTS, cohort_name
from model.checkpoint import Checkpoint
from sweeps.engine.plan import Cohort

CHECKPOINT_SECONDS = 60.0  # between two states of one cohort: what a crash can cost
_LIST = "cohorts.json"


class Checkpoints:
    """The folder of states in the study's folder `study`."""

    def __init__(self, study: Path) -> None:
        self.folder = study.absolute() / CHECKPOINTS  # workers run elsewhere

    def earlier(self, places: int) -> list[tuple[str, ...]]:
        """The cohorts of the last launch, by their run ids: all when it had as many places, else those with a state.

        The same members in a cohort mean the same numbers to the last bit, and a state is of use to its own cohort
        only; but cohorts made for fewer places would leave places idle.
        """
        launched = read_json(self.folder / _LIST) or {"places": 0, "cohorts": []}
        cohorts = [tuple(run_ids) for run_ids in launched["cohorts"]]
        return [c for c in cohorts if launched["places"] == places or self._path(c).is_file()]

    def begin(self, cohorts: Sequence[Cohort], places: int) -> list[Checkpoint]:
        """Where the state of each cohort is to lie, once nothing else lies there any more.

        Raises RecordError when the folder cannot be written.
        """
        paths = [self._path([run.run_id for run in cohort]) for cohort in cohorts]
        told = {"places": places, "cohorts": [[run.run_id for run in cohort] for cohort in cohorts]}
        replace_file(self.folder / _LIST, json.dumps(told).encode())
        for path in set(self.folder.iterdir()) - {*paths, self.folder / _LIST}:
            path.unlink(missing_ok=True)
        return [Checkpoint(path, CHECKPOINT_SECONDS) for path in paths]

    def end(self) -> None:
        """Remove the folder: nothing is under way any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, run_ids: Sequence[str]) -> Path:
        return self.folder / f"{cohort_name(run_ids)}.pt"
