"""The trial by itself, driven as Tune drives it: a step at a time, and another cohort after the first."""

import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from model.checkpoint import Checkpoint
from model.corpus.text import Corpus
from model.recipe import Member
from model.train import train
from sweeps.engine import trial
from sweeps.engine.plan import make_plan
from sweeps.engine.trial import CohortTrainable, within_reach


@pytest.fixture
def trainable(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The trial as Tune makes it, except that the text is at hand."""
    monkeypatch.setattr(trial, "REPORT_SECONDS", 0.05)
    (tmp_path / "session").mkdir()
    monkeypatch.chdir(tmp_path / "session")

    class Given(CohortTrainable):
        def setup(self, config: dict[str, Any]) -> None:  # type: ignore[override]
            super().setup(config, corpus, "cpu")

    return Given


@pytest.fixture
def configurations(tiny: ModuleType, corpus: Corpus, tmp_path: Path) -> list[dict[str, Any]]:
    """Two cohorts of two seeds an arm, with 100 updates; their states are kept all the time."""
    plan = make_plan(tiny.study().replace(seeds=(0, 1)).with_steps(100), corpus, [])
    cohorts = [tuple(Member(run.recipe, run.seed) for run in cohort) for cohort in plan.cohorts(1, 2**30)]
    return [
        {"cohort": i, "members": members, "checkpoint": Checkpoint(tmp_path / f"{i}.pt", 0.0)}
        for i, members in enumerate(cohorts)
    ]


def steps(trainable: Any) -> list[dict[str, Any]]:
    told = [trainable.step()]
    end = time.monotonic() + 60
    while not told[-1]["done"]:
        assert time.monotonic() < end
        told.append(trainable.step())
    return told


def test_one_cohort_after_the_other(
    trainable: Any, configurations: list[dict[str, Any]], corpus: Corpus, tmp_path: Path
) -> None:
    actor = trainable(configurations[0])
    *going, last = steps(actor)
    made = [one["steps"] for one in going]
    assert made == sorted(made)
    assert 0 < made[-1] <= 400
    alone = train(configurations[0]["members"], corpus)
    assert [str(result.val_loss) for result in last["results"]] == [str(result.val_loss) for result in alone]
    assert actor.reset_config(configurations[1])
    assert [result.cohort for result in steps(actor)[-1]["results"]] == [2, 2]
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["0.pt", "1.pt"]
    actor.stop()


def test_what_training_raises_is_raised_by_the_step(
    trainable: Any, configurations: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trial, "train", full)
    with pytest.raises(OSError, match="No space left"):
        steps(trainable(configurations[0]))


def test_a_worker_keeps_states_only_where_the_driver_finds_them(tmp_path: Path) -> None:
    """Not on a machine that does not see the driver's disk, where they would lie for ever."""
    seen, unseen = Checkpoint(tmp_path / "a.pt", 60.0), Checkpoint(tmp_path / "elsewhere" / "a.pt", 60.0)
    assert within_reach(seen) is seen
    assert within_reach(unseen) is None
