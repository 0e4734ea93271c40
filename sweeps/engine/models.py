"""Trained models, kept on request: ``models/<run id>.pt`` in a study's folder, for ``python -m model.inspect``."""

from pathlib import Path

import pandas as pd

from analysis.folder import replace_file
from analysis.records import COMPLETED, MODELS
from analysis.wording import count
from model import counting
from model.corpus.text import Vocabulary
from model.kept import KeptModel, to_bytes
from model.recipe import Recipe
from model.train import Result
from sweeps.engine.plan import Plan, Run


class Models:
    """The kept models of the study in the folder `study`."""

    def __init__(self, study: Path) -> None:
        self.study, self.folder = study.name, study / MODELS

    def keep(self, run: Run, result: Result, vocabulary: Vocabulary) -> None:
        """Write the model that `result` brings, whole or not at all, and let go of its weights, for whoever else holds
        the result would hold them to the end. One that brings none, as of a diverged run, has no file.

        Raises RecordError when the folder cannot be written or the disk is full.
        """
        if result.kept is None:
            return
        characters = "".join(vocabulary.characters)
        kept = KeptModel(run.run_id, self.study, run.arm, run.seed, run.recipe, characters, result.kept)
        replace_file(self._path(run.run_id), to_bytes(kept))
        result.kept.weights.clear()

    def announcement(self, plan: Plan, recorded: pd.DataFrame) -> list[str]:
        """In words: what is kept of the missing runs of `plan`, and how many of those `recorded` (RUNS) have no model,
        here or beside; a diverged one never has."""
        lines, completed = [], recorded.loc[recorded["status"] == COMPLETED, "run_id"]
        if sizes := [_bytes(run.recipe) for run in plan.missing]:
            lines.append(f"Models are kept: {count(len(sizes), 'run')}, about {sum(sizes) / 1e6:,.0f} MB.")
        there = {path.stem for path in self.folder.parent.parent.glob(f"*/{MODELS}/*.pt")}
        if lost := [run_id for run_id in completed if run_id not in there]:
            lines.append(
                f"No model is kept of {count(len(lost), 'run')} recorded before: what is recorded is not trained "
                "again. With another folder (--results) they are trained anew, and their models kept."
            )
        return lines

    def _path(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.pt"


def _bytes(recipe: Recipe) -> int:
    return counting.parameters(recipe.model).total * (8 if recipe.precision == "fp64" else 4)
