"""What a person types wrongly: one or two plain sentences, exit code 2, nothing written."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

MISTAKES = {
    "no seeds": (["--seeds", "0"], "has no seeds"),
    "repeated seeds": (["--seeds", "1,2,1"], "seeds 1 are given more than once"),
    "seeds that are none": (["--seeds", "many"], "--seeds takes a number of seeds"),
    "unknown arm": (["--arms", "wid"], "no arm 'wid'; did you mean 'wide'"),
    "no steps": (["--steps", "0"], "steps must be at least 1"),
    "steps within the warmup": (["--steps", "3"], "A warmup of 3 updates leaves nothing of 3 steps"),
    "tracking of an unknown kind": (["--tracking-uri", "foo://bar"], "unknown scheme 'foo'"),
}


def sentences(done: subprocess.CompletedProcess[str]) -> str:
    """The refusal, after the checks that it is one: short, plain, code 2, and nothing on the other stream."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("seedbed: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(("options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_options(run: Run, tmp_path: Path, options: list[str], message: str) -> None:
    assert message in sentences(run(*options))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [["--sead", "3"], ["--device", "tpu"], ["--preset", "fast"], ["--steps", "x"]])
def test_options_that_are_none(run: Run, tmp_path: Path, options: list[str]) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert options[0] in done.stderr or options[1] in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        ("poésie".encode("latin-1") * 100, "not UTF-8"),
        (b"abcdefghijk", "shorter|characters"),
        (b"abc abd\n\n" * 50, "characters"),
        (None, "no such|does not exist|not found"),
    ],
    ids=["empty", "not UTF-8", "shorter than a window", "fewer characters than the vocabulary", "missing"],
)
def test_texts_that_cannot_be_trained_on(run: Run, tmp_path: Path, content: bytes | None, message: str) -> None:
    import re

    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    refusal = sentences(run("--corpus", str(path)))
    assert re.search(message, refusal, re.IGNORECASE), refusal
    assert not (tmp_path / "results").exists()


def test_a_foreign_results_folder(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "tiny"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("mine")
    assert "is not empty and holds no study.json" in sentences(run())
    assert [p.name for p in folder.iterdir()] == ["thesis.tex"]


def test_a_results_folder_that_is_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    assert "is a file, not a folder" in sentences(run("--results", "notes"))


def test_a_results_folder_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    """/proc refuses everybody, even root, who may write anywhere else."""
    if not Path("/proc").is_dir():
        pytest.skip("needs a folder that no user can write to; this system has no /proc")
    assert "cannot be written" in sentences(run("--results", "/proc/seedbed"))
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("d_model=15", "d_model 15 is not divisible by 4 heads"),
        ("margin=-0.05", "needs a margin above zero"),
        ("margin=None", "needs a margin above zero"),
        ('varies=("optimizer",)', "which the study does not list under varies"),
    ],
)
def test_mistakes_in_a_study_file(run: Run, tmp_path: Path, change: str, message: str) -> None:
    key = change.partition("=")[0]
    old = {"d_model": "d_model=16", "margin": "margin=0.05"}.get(key)
    source = (Path(__file__).parent / "tiny.py").read_text()
    if old is None:
        old = next(line.strip().rstrip(",") for line in source.splitlines() if line.strip().startswith(f"{key}="))
    assert old in source
    study = tmp_path / "changed.py"
    study.write_text(source.replace(old, change))
    assert message in sentences(run(study=study))
    assert [p.name for p in tmp_path.iterdir()] == ["changed.py"]


def test_no_cluster_at_the_address(run: Run, tmp_path: Path) -> None:
    assert "No Ray cluster answers" in sentences_after_start(run("--address", "127.0.0.1:1", "--arms", "wide"))


def test_cuda_without_a_gpu(run: Run) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, so --device cuda is no mistake here")
    assert "--device cuda needs a GPU" in sentences_after_start(run("--device", "cuda"))


def sentences_after_start(done: subprocess.CompletedProcess[str]) -> str:
    """A mistake that only the cluster can show: the study has announced itself, and no run is lost."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_help_is_for_people(run: Run) -> None:
    done = run("--help")
    assert done.returncode == 0
    for option in (
        "--seeds",
        "--preset",
        "--plan",
        "--arms",
        "--steps",
        "--corpus",
        "--device",
        "--results",
        "--address",
    ):
        assert option in done.stdout
    assert "Does a wider feed-forward help a very small model?" in done.stdout


def test_plan_trains_nothing(run: Run, tmp_path: Path) -> None:
    done = run("--plan", "--seeds", "4")
    assert done.returncode == 0, done.stderr
    assert "12 of 12 runs to train" in done.stdout
    assert "narrow (baseline)" in done.stdout
    assert not list(tmp_path.iterdir())


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
    assert "Traceback" not in done.stderr
