"""What a person types wrongly: one or two plain sentences, exit code 2, nothing written.

Most commands are given inside this process, which spares each the import of PyTorch.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from model.corpus.tasks import CopyTask
from sweeps.engine.study import Study

Run = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., tuple[int, str, str]]

MISTAKES = {
    "no seeds": (["--seeds", "0"], "has no seeds"),
    "repeated seeds": (["--seeds", "1,2,1"], "seeds 1 are given more than once"),
    "seeds that are none": (["--seeds", "many"], "--seeds takes a number of seeds"),
    "unknown arm": (["--arms", "wid_e"], "no arm 'wid_e'; did you mean 'wide'"),
    "no steps": (["--steps", "0"], "steps must be at least 1"),
    "steps within the warmup": (["--steps", "3"], "A warmup of 3 updates leaves nothing of 3 steps"),
    "cohorts that share a GPU on the CPU": (
        ["--cohorts-per-gpu", "2", "--device", "cpu"],
        "--cohorts-per-gpu is for training on a GPU",
    ),
    "no cohort on a GPU": (["--cohorts-per-gpu", "0"], "--cohorts-per-gpu must be at least 1"),
    "a most without looks": (["--max-seeds", "8"], "--max-seeds is the most that --until-decided may come to"),
    "seeds and looks": (["--until-decided", "--seeds", "8"], "--seeds is a number fixed beforehand"),
    "too few seeds to decide": (["--until-decided", "--max-seeds", "2"], "--max-seeds is 3 at least"),
    "tracking of an unknown kind": (
        ["--tracking-uri", "foo://bar"],
        "starts with foo:, which no MLflow store has",
    ),
}


def refusal(given: tuple[int, str, str]) -> str:
    """The complaint, after the checks that it is one: plain, a line, code 2, and nothing on the other stream."""
    code, out, err = given
    assert code == 2, err
    assert err.startswith("seedbed: ")
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    return err


@pytest.mark.parametrize(("options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_options(give: Give, tmp_path: Path, options: list[str], message: str) -> None:
    assert message in refusal(give(*options))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [["--sead", "3"], ["--device", "tpu"], ["--preset", "fast"], ["--steps", "x"]])
def test_options_that_are_none(give: Give, tmp_path: Path, options: list[str]) -> None:
    code, _, err = give(*options)
    assert code == 2
    assert options[0] in err or options[1] in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        ("poésie".encode("latin-1") * 100, "not UTF-8"),
        (b"abcdefghijk", "one window needs 9"),
        (b"\n\n".join(b"abc" * n for n in range(9, 59)), "a vocabulary of at most 5"),
        (None, "no such file"),
    ],
    ids=["empty", "not UTF-8", "shorter than a window", "fewer characters than the vocabulary", "missing"],
)
def test_texts_that_cannot_be_trained_on(give: Give, tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    complaint = refusal(give("--corpus", str(path)))
    assert re.search(message, complaint, re.IGNORECASE), complaint
    assert not (tmp_path / "results").exists()


def test_a_task_takes_no_other_text(give: Give, tmp_path: Path, tiny: ModuleType) -> None:
    err = refusal(give(study=lambda: tiny.study().replace(text=CopyTask(2, 4))))
    assert "The text of tiny is a task made for its question, so it takes no --corpus." in err
    assert not list(tmp_path.iterdir())


def test_a_foreign_results_folder(give: Give, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "tiny-letters-txt"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("mine")
    assert "holds thesis.tex, which no study writes" in refusal(give())
    assert [p.name for p in folder.iterdir()] == ["thesis.tex"]


def test_a_results_folder_that_is_a_file(give: Give, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    assert "is a file, not a folder" in refusal(give("--results", "notes"))


def test_a_results_folder_that_cannot_be_written(give: Give, tmp_path: Path) -> None:
    """/proc refuses everybody, even root, who may write anywhere else."""
    if not Path("/proc").is_dir():
        pytest.skip("needs a folder that no user can write to; this system has no /proc")
    assert "cannot be written" in refusal(give("--results", "/proc/seedbed"))
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.replace(margin=-0.05), "needs a margin above zero"),
        (lambda s: s.replace(margin=None), "needs a margin above zero"),
        (lambda s: s.replace(varies=("optimizer",)), "which the study does not list under varies"),
        (
            lambda s: replace(s.arms[0].recipe.model, d_model=15),
            "d_model 15 is not divisible by 4 heads",
        ),
    ],
    ids=["negative margin", "no margin", "undeclared difference", "width and heads"],
)
def test_mistakes_in_a_study(
    give: Give, tiny: ModuleType, tmp_path: Path, change: Callable[[Study], Study], message: str
) -> None:
    assert message in refusal(give(study=lambda: change(tiny.study())))
    assert not list(tmp_path.iterdir())


def test_a_mistake_in_a_study_file_ends_as_plainly(run: Run, tmp_path: Path) -> None:
    """The same through the door that people use: a process, its exit code and its two streams."""
    source = (Path(__file__).parent / "tiny.py").read_text()
    assert "d_model=16" in source
    (tmp_path / "changed.py").write_text(source.replace("d_model=16", "d_model=15"))
    done = run(study=tmp_path / "changed.py")
    assert "d_model 15 is not divisible by 4 heads" in refusal((done.returncode, done.stdout, done.stderr))
    assert [p.name for p in tmp_path.iterdir()] == ["changed.py"]


def after_the_start(given: tuple[int, str, str], folder: Path) -> str:
    """A mistake that only the cluster can show: the study has announced itself, and the complaint is still a line."""
    code, _, err = given
    assert code == 2, err
    assert len(err.strip().splitlines()) == 1, err
    written = [path.name for path in folder.rglob("*") if path.is_file()]
    assert written == [".lock"]  # neither half a study nor a run that MLflow would show as running
    return err


def test_no_cluster_at_the_address(give: Give, tmp_path: Path) -> None:
    assert "No Ray cluster answers at '127.0.0.1:1'" in after_the_start(give("--address", "127.0.0.1:1"), tmp_path)


def test_cuda_without_a_gpu(give: Give, cluster: str, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, so --device cuda is no mistake here")
    assert "--device cuda needs a GPU" in after_the_start(give("--device", "cuda", "--address", cluster), tmp_path)


def test_sharing_a_gpu_that_no_machine_has(give: Give, cluster: str, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, so --cohorts-per-gpu is no mistake here")
    complaint = after_the_start(give("--cohorts-per-gpu", "2", "--address", cluster), tmp_path)
    assert "--cohorts-per-gpu is for training on a GPU" in complaint


def test_help_is_for_people(give: Give) -> None:
    code, out, _ = give("--help")
    assert code == 0
    for option in (
        "--seeds",
        "--until-decided",
        "--max-seeds",
        "--preset",
        "--plan",
        "--arms",
        "--steps",
        "--corpus",
        "--device",
        "--precision",
        "--cohorts-per-gpu",
        "--results",
        "--address",
    ):
        assert option in out
    assert "Does a wider feed-forward help a very small model?" in out


def test_help_shows_no_password(give: Give, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@tracking.example")
    assert "secret" not in "".join(map(str, give("--help")))


def test_plan_trains_nothing(give: Give, tmp_path: Path) -> None:
    code, out, err = give("--plan", "--seeds", "4")
    assert code == 0, err
    assert "12 of 12 runs to train" in out
    assert "narrow (baseline)" in out
    assert not list(tmp_path.iterdir())


def test_a_plan_for_a_text_with_few_symbols(give: Give) -> None:
    """Ten letters and the newline that parts documents: a vocabulary of 8 leaves some of them unknown."""
    code, out, err = give("--plan", "--vocabulary", "8")
    assert code == 0, err
    assert "8 symbols covering" in out
    assert "a vocabulary of at most 12" in refusal(give("--vocabulary", "100"))


def test_a_plan_piped_into_head_does_not_complain(tmp_path: Path, text: Path) -> None:
    study = Path(__file__).parent / "tiny.py"
    done = subprocess.run(
        f"{sys.executable} {study} --corpus {text} --plan | head -n 1",
        shell=True,
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
