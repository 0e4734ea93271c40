import importlib.util
import io
import os
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from model.corpus.text import Corpus
from model.corpus.texts import TextFile
from sweeps.engine.cli import main
from sweeps.engine.study import Study

HERE = Path(__file__).parent
# Ray's token authentication is off: a cluster of the tests listens on this machine alone and must work without a token.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "RAY_AUTH_MODE": "disabled"}
Run = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory, letters: list[str]) -> Path:
    """A text file of the documents `letters`."""
    path = tmp_path_factory.mktemp("text") / "letters.txt"
    path.write_text("\n\n".join(letters))
    return path


@pytest.fixture(scope="session")
def corpus(text: Path, tiny: ModuleType) -> Corpus:
    """The text as a command for the tiny study reads it."""
    return tiny.study().replace(text=TextFile(text)).corpus()


@pytest.fixture(scope="session")
def load() -> Callable[[Path], ModuleType]:
    """Import a study's file from wherever it lies."""

    def load_file(path: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load_file


@pytest.fixture(scope="session")
def tiny(load: Callable[[Path], ModuleType]) -> ModuleType:
    """The module tests/sweeps/tiny.py."""
    return load(HERE / "tiny.py")


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The variables of every command that the tests give in a process of its own."""
    return ENVIRONMENT


@pytest.fixture(scope="session")
def cluster(ray: tuple[str, int]) -> str:
    """The address of a running Ray of two CPUs."""
    return ray[0]


@pytest.fixture(scope="session")
def ray() -> Iterator[tuple[str, int]]:
    """The address of a Ray and the process that started it, by which alone it is ended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = Path(sys.executable).with_name("ray")
    options = ["--head", "--block", f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=2"]
    process = subprocess.Popen(
        [str(command), "start", *options, "--include-dashboard=false", "--disable-usage-stats"],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "Ray runtime started" in line:
            break
    yield f"127.0.0.1:{port}", process.pid
    process.terminate()
    process.wait(timeout=30)
    process.stdout.close()


@pytest.fixture
def run(tmp_path: Path, text: Path) -> Run:
    """Run the tiny study in `tmp_path` as a person would: ``run("--seeds", "3")``."""

    def run_study(*options: str, study: Path = HERE / "tiny.py") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(study), "--corpus", str(text), *options],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run_study


@pytest.fixture(scope="session")
def give_in(text: Path, tiny: ModuleType) -> Give:
    """Give a command in a folder: exit code, what was printed, what was complained of.

    In this process, which spares each command the imports; with ``--address`` it trains on that Ray.
    """

    def give_command(folder: Path, *options: str, study: Callable[[], Study] = tiny.study) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(folder)
            patch.setattr(sys, "argv", ["sweeps/tiny.py", "--corpus", str(text), *options])
            for name in ("COLUMNS", "RAY_AUTH_MODE"):
                patch.setenv(name, ENVIRONMENT[name])
            with pytest.raises(SystemExit) as ended:
                main(study)
        assert isinstance(ended.value.code, int)
        return ended.value.code, out.getvalue(), err.getvalue()

    return give_command


@pytest.fixture
def give(tmp_path: Path, give_in: Give) -> Give:
    """Give a command in `tmp_path`."""
    return partial(give_in, tmp_path)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite store of MLflow with its tables, which take seconds to make."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's use of SQLAlchemy is not ours to judge
        from mlflow.tracking import MlflowClient

        MlflowClient(tracking_uri=f"sqlite:///{path}")
    return path


@pytest.fixture
def store(empty_store: Path, tmp_path: Path) -> str:
    """The URI of the store that a command given in `tmp_path` finds."""
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path}/mlflow.db"
