"""Where models of finished runs go, and what is said of them."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from analysis.folder import RecordError
from analysis.records import Records
from model.checkpoint import Checkpoint
from model.corpus.text import Corpus
from model.kept import read
from model.recipe import Member
from model.train import Result, train
from sweeps.engine.models import Models
from sweeps.engine.plan import Plan, make_plan
from sweeps.engine.trial import CohortTrainable


@pytest.fixture(scope="module")
def plan(tiny: ModuleType, corpus: Corpus) -> Plan:
    return make_plan(tiny.study().replace(seeds=(0,)), corpus, [])


def result(plan: Plan, corpus: Corpus, run: int = 0) -> Result:
    (found,) = train([Member(plan.runs[run].recipe, plan.runs[run].seed)], corpus, keep_models=True)
    return found


def test_a_model_is_written_and_let_go(plan: Plan, corpus: Corpus, tmp_path: Path) -> None:
    models, run = Models(tmp_path / "results" / "tiny"), plan.runs[0]
    found = result(plan, corpus)
    assert found.kept is not None
    weights = dict(found.kept.weights)
    models.keep(run, found, corpus.vocabulary)
    assert found.kept.weights == {}
    (path,) = (tmp_path / "results" / "tiny" / "models").iterdir()
    kept = read(path)
    assert (path.name, kept.run_id, kept.study, kept.arm) == (f"{run.run_id}.pt", run.run_id, "tiny", run.arm)
    assert kept.recipe == run.recipe
    assert kept.characters == "".join(corpus.vocabulary.characters)
    assert all((kept.kept.weights[name] == tensor).all() for name, tensor in weights.items())
    Records(tmp_path / "results" / "tiny", "tiny")  # the folder is still a study's


def test_a_run_that_diverged_leaves_none(plan: Plan, corpus: Corpus, tmp_path: Path) -> None:
    wild = next(i for i, run in enumerate(plan.runs) if run.arm == "wild")
    Models(tmp_path / "tiny").keep(plan.runs[wild], result(plan, corpus, wild), corpus.vocabulary)
    assert not (tmp_path / "tiny").exists()


def test_a_model_of_another_study_counts(plan: Plan, tmp_path: Path) -> None:
    recorded = pd.DataFrame({"run_id": ["a", "b", "c", "d"], "status": ["completed"] * 3 + ["diverged"]})
    (tmp_path / "other" / "models").mkdir(parents=True)
    (tmp_path / "other" / "models" / "b.pt").touch()
    said, lost = Models(tmp_path / "tiny").announcement(plan, recorded)
    assert said == "Models are kept: 3 runs, about 0 MB."
    assert lost.startswith("No model is kept of 2 runs recorded before")
    assert Models(tmp_path / "tiny").announcement(plan.after(run.run_id for run in plan.runs), recorded[1:2]) == []


def test_a_folder_that_cannot_be_written_is_a_record_error(plan: Plan, corpus: Corpus) -> None:
    with pytest.raises(RecordError, match="cannot be written"):
        Models(Path("/proc/nothing/tiny")).keep(plan.runs[0], result(plan, corpus), corpus.vocabulary)


def test_a_trial_brings_models_where_they_are_asked_for(
    plan: Plan, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    members = (Member(plan.runs[0].recipe, 0),)

    class Given(CohortTrainable):
        def setup(self, config: dict[str, Any]) -> None:  # type: ignore[override]
            super().setup(config, corpus, "cpu", keep_models=config["keep_models"])

    for keep_models in (True, False):
        config = {"members": members, "checkpoint": Checkpoint(tmp_path / "none" / "a.pt", 1e9)}
        (found,) = Given(config | {"keep_models": keep_models}).outcome.result(timeout=60)
        assert (found.kept is not None) == keep_models
