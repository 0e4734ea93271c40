"""The command line of every study file."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import tyro
from rich.console import Console

from analysis.guards import UnfairError
from analysis.records import RecordError, Records
from model.corpus import tang
from model.corpus.text import Corpus, CorpusError, build_corpus, read_documents
from sweeps.engine.conduct import STOPPED, conduct
from sweeps.engine.launch import LaunchError
from sweeps.engine.plan import make_plan
from sweeps.engine.preview import show_plan
from sweeps.engine.tracking import check_tracking_uri
from sweeps.engine.study import Study, StudyError

MISTAKES = (StudyError, CorpusError, RecordError, LaunchError, UnfairError)  # each says what a person can do about it
DEFAULT_STORE = "sqlite:///mlflow.db"


@dataclass(frozen=True)
class Options:
    """What the command line asks of a study."""

    seeds: str | None = None
    """How many seeds (10 means 0 to 9), or a list such as 3,5,8. More seeds than last time run only the new ones."""
    preset: Literal["full", "quick"] = "full"
    """quick is a rehearsal: a tenth of the steps and at most 5 seeds, in a folder of its own. It shows every part at work
    and finds nothing out."""
    plan: bool = False
    """Show what would run, what is recorded already and about how long it takes; train nothing."""
    arms: tuple[str, ...] = ()
    """Only these arms, and the baseline."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Updates per run, instead of the study's."""
    corpus: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Train on this UTF-8 text instead of the Tang poems."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where members train; auto takes a GPU when the cluster has one."""
    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """Where records and reports are kept, one folder per study."""
    tracking_uri: Annotated[str, tyro.conf.arg(metavar="URI")] = os.environ.get("MLFLOW_TRACKING_URI", DEFAULT_STORE)
    """The MLflow store or server; $MLFLOW_TRACKING_URI when that is set."""
    address: str | None = None
    """Join the Ray cluster at this address (auto finds a running one) instead of starting Ray here."""


def main(make_study: Callable[[], Study]) -> NoReturn:
    """Run the study as the command line asks. Exit code 0 when every run is recorded, 1 when runs failed, 2 for a mistake
    of the user's, 130 when stopped."""
    try:
        study = make_study()
        options = tyro.cli(
            Options,
            prog=f"python sweeps/{study.name}.py",
            description=f"{study.question} Arms: {', '.join(arm.name for arm in study.arms)}; baseline: {study.baseline}.",
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        asked = _asked(study, options)
    except ValueError as error:  # a part, a recipe or a study that cannot be
        _refuse(error)
    try:
        code = _run(asked, options, Console(highlight=False))
    except MISTAKES as error:
        _refuse(error)
    except KeyboardInterrupt:
        print("Stopped before any run was trained.", file=sys.stderr)
        code = STOPPED
    raise SystemExit(code)


def _refuse(error: Exception) -> NoReturn:
    print(f"seedbed: {error}", file=sys.stderr)
    raise SystemExit(2)


def _asked(study: Study, options: Options) -> Study:
    check_tracking_uri(options.tracking_uri)
    if options.seeds is not None:
        study = study.replace(seeds=parse_seeds(options.seeds))
    if options.arms:
        study = study.with_arms(options.arms)
    if options.steps is not None:
        study = study.with_steps(options.steps)
    return study.as_rehearsal() if options.preset == "quick" else study


def parse_seeds(text: str) -> tuple[int, ...]:
    """'10' is the seeds 0 to 9; '3,5,8' is those three. Raises StudyError."""
    if re.fullmatch(r"\d+", text):
        return tuple(range(int(text)))
    if re.fullmatch(r"\d+(,\d+)+,?", text.replace(" ", "")):
        return tuple(int(seed) for seed in text.replace(" ", "").rstrip(",").split(","))
    raise StudyError(f"--seeds takes a number of seeds such as 10, or a list such as 3,5,8, but was given {text!r}.")


def _run(study: Study, options: Options, console: Console) -> int:
    records = Records(options.results / study.name)
    corpus = load_corpus(options.corpus, study)
    plan = make_plan(study, corpus, records.recorded())
    if options.plan:
        show_plan(plan, corpus, console)
        return 0
    return conduct(plan, corpus, records, console, command(), options.device, options.tracking_uri, options.address)


def load_corpus(path: Path | None, study: Study) -> Corpus:
    """The text of a study, read with the vocabulary and context of its baseline. Raises CorpusError."""
    config = study.arm(study.baseline).recipe.model
    name, documents = ("tang", tang.documents()) if path is None else (path.name, read_documents(path))
    return build_corpus(name, documents, config.vocabulary, config.context)


def command() -> str:
    """The command that was given, as one would type it again."""
    return shlex.join(["python", *sys.argv])
