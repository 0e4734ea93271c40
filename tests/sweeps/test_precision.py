"""Which precision a study trains in: what is asked, else what is recorded, else what the machine is fast at.

What this machine is fast at is set by the tests, which must hold on any.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from analysis.records import Records
from model.corpus.text import Corpus
from model.corpus.texts import TextFile
from model.hardware import native_bf16
from model.recipe import RECIPE_VERSION, Precision
from sweeps.engine import precision
from sweeps.engine.plan import Run, make_plan
from sweeps.engine.precision import in_precision
from sweeps.engine.study import Arm, Study

Give = Callable[..., tuple[int, str, str]]
Record = Callable[..., list[str]]
BOTH: tuple[Precision, ...] = ("fp32", "bf16")


@pytest.fixture
def study(tiny: ModuleType) -> Study:
    """The tiny study as the command line makes it of a text file."""
    made: Study = tiny.study().with_text(TextFile(Path("letters.txt")), None)
    return made


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "results" / "tiny-letters-txt", "tiny-letters-txt")


@pytest.fixture
def record(study: Study, corpus: Corpus, records: Records) -> Record:
    """Record the first runs of the study in a precision; the parts of version 1 tell none."""

    def record_runs(of: Precision, runs: int = 1, told: bool = True) -> list[str]:
        planned = make_plan(study.with_precision(of), corpus, []).runs[:runs]
        for run in planned:
            records.append([row(run, of if told else None, corpus)], [])
        return [run.run_id for run in planned]

    return record_runs


def row(run: Run, told: str | None, corpus: Corpus) -> dict[str, Any]:
    names = {"run_id": run.run_id, "study": "tiny-letters-txt", "arm": run.arm, "seed": run.seed, "precision": told}
    losses = {"val_loss": 1.5, "val_window_sd": 0.1, "last_batch_loss": 1.5, "initial_loss": 2.5}
    sizes = {"parameters": 1720, "steps": 30, "tokens": 1920, "seconds": 1.0, "cohort": 1, "diverged_at": None}
    origin = {"corpus_sha256": corpus.sha256, "recipe_version": RECIPE_VERSION, "commit": None, "versions": "{}"}
    ended = {"status": "completed", "device": "cpu", "finished": datetime(2026, 1, 2, tzinfo=UTC)}
    return names | losses | sizes | origin | ended


def fast_in_bf16(monkeypatch: pytest.MonkeyPatch, *devices: str) -> None:
    monkeypatch.setattr(precision, "native_bf16", lambda device: device in devices)


def test_this_machine_decides_in_an_empty_folder(study: Study, corpus: Corpus, records: Records) -> None:
    chosen = in_precision(study, "auto", records, corpus, "cpu")
    assert chosen.precision == ("bf16" if native_bf16("cpu") else "fp32")
    assert chosen.name == study.name


def test_the_device_that_would_train_is_asked(
    study: Study, corpus: Corpus, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast_in_bf16(monkeypatch, "cuda")
    assert in_precision(study, "auto", records, corpus, "cuda").precision == "bf16"
    assert in_precision(study, "auto", records, corpus, "cpu").precision == "fp32"


@pytest.mark.parametrize("recorded", BOTH)
@pytest.mark.parametrize("devices", [(), ("cpu", "cuda")], ids=["slow", "fast"])
def test_auto_goes_on_in_what_is_recorded(
    study: Study, corpus: Corpus, records: Records, record: Record,
    monkeypatch: pytest.MonkeyPatch, recorded: Precision, devices: tuple[str, ...],
) -> None:  # fmt: skip
    """On another machine, and for other seeds, too."""
    fast_in_bf16(monkeypatch, *devices)
    ids = record(recorded, runs=2)
    chosen = in_precision(study, "auto", records, corpus, "cpu")
    assert chosen.precision == recorded
    assert make_plan(chosen, corpus, records.recorded()).recorded == set(ids)
    assert in_precision(study.replace(seeds=(8, 9)), "auto", records, corpus, "cpu").precision == recorded


def test_runs_of_version_1_decide_nothing(
    study: Study, corpus: Corpus, records: Records, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast_in_bf16(monkeypatch, "cpu")
    record("fp32", told=False)
    assert in_precision(study, "auto", records, corpus, "cpu").precision == "bf16"


@pytest.mark.parametrize(("recorded", "asked"), [BOTH, BOTH[::-1]])
def test_another_precision_than_the_recorded_one_is_refused(
    give: Give, record: Record, records: Records, recorded: Precision, asked: Precision
) -> None:
    record(recorded)
    before = sorted(records.folder.rglob("*"))
    code, out, err = give("--precision", asked)
    assert (code, out) == (2, "")
    assert f"were trained in {recorded}, and one comparison holds one precision" in err
    assert f"or train in {asked} in another folder with --results" in err
    assert len(err.strip().splitlines()) == 1
    assert sorted(records.folder.rglob("*")) == before
    code, out, err = give("--precision", recorded, "--plan")
    assert (code, err) == (0, "")
    assert "8 of 9 runs to train" in out
    code, out, err = give("--precision", asked, "--plan", "--results", "elsewhere")
    assert (code, err) == (0, "")
    assert "9 of 9 runs to train" in out


def test_a_folder_of_both_serves_either(study: Study, corpus: Corpus, records: Records, record: Record) -> None:
    record("fp32", runs=3)
    record("bf16", runs=1)
    assert in_precision(study, "fp32", records, corpus, "cpu").precision == "fp32"
    assert in_precision(study, "bf16", records, corpus, "cpu").precision == "bf16"
    assert in_precision(study, "auto", records, corpus, "cpu").precision == "fp32"  # there is more of it


def test_arms_that_differ_keep_their_own(give: Give, tiny: ModuleType, tmp_path: Path) -> None:
    def mixed() -> Study:
        base: Study = tiny.study()
        arms = tuple(Arm(p, replace(base.arms[0].recipe, precision=p), "") for p in BOTH)
        return base.replace(arms=arms, baseline="fp32", varies=("precision",))

    code, out, err = give("--plan", study=mixed)
    assert (code, err) == (0, "")
    assert "Precision: as each arm says" in out
    for asked in BOTH:
        code, out, err = give("--plan", "--precision", asked, study=mixed)
        assert (code, out) == (2, "")
        assert "differ in precision; leave --precision out" in err
    assert not list(tmp_path.iterdir())


def test_the_plan_tells_the_precision(give: Give) -> None:
    shown = {asked: give("--plan", "--precision", asked)[1] for asked in BOTH}
    assert "Precision: fp32." in shown["fp32"]
    assert "Precision: bf16 (docs/findings/precision.md compares it with fp32)." in shown["bf16"]


def test_no_other_precision_is_offered(give: Give) -> None:
    code, _, err = give("--precision", "fp64")
    assert code == 2
    assert "fp64" in err
