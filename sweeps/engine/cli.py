"""The command line of every study file."""

import logging
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import torch
import tyro
from rich.console import Console

from analysis.guards import UnfairError
from analysis.records import RecordError, Records
from model.corpus.text import CorpusError
from model.corpus.texts import text_called
from sweeps.engine.conduct import STOPPED, Conductor
from sweeps.engine.launch import LaunchError
from sweeps.engine.models import Models
from sweeps.engine.places import make_places, refuse_without_gpu, this_machine
from sweeps.engine.plan import whole
from sweeps.engine.precision import Asked, in_precision
from sweeps.engine.preview import show_plan
from sweeps.engine.rounds import asked
from sweeps.engine.study import MOST_SEEDS, REHEARSAL_SEEDS, Study, StudyError
from sweeps.engine.tracking import DEFAULT_STORE, check_tracking_uri, public_uri

MISTAKES = (StudyError, CorpusError, RecordError, LaunchError, UnfairError)  # each says what a person can do about it
MOST_LOOKED_AT = 20  # seeds, without --max-seeds


def _option(metavar: str, default: str = "") -> object:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})" if default else "")


@dataclass(frozen=True)
class Options:
    """What the command line asks of a study."""

    seeds: Annotated[str | None, _option("N|LIST", "the study's")] = None
    """How many seeds (10 means 0 to 9), or a list such as 3,5,8. What is recorded already is not run again."""
    until_decided: Annotated[bool, _option("")] = False
    """Add seeds at looks declared beforehand, only to arms of comparisons and contrasts that are still undecided."""
    max_seeds: Annotated[int | None, _option("N", "20")] = None
    """The most seeds that --until-decided may come to."""
    preset: Annotated[Literal["full", "quick"], _option("full|quick", "full")] = "full"
    """quick is a rehearsal in a folder of its own: a tenth of the steps, at most 5 seeds, nothing found out."""
    plan: Annotated[bool, _option("")] = False
    """Show what would run, what is recorded already and about how long it takes; train nothing."""
    arms: Annotated[tuple[str, ...], _option("ARM [ARM ...]", "all of them")] = ()
    """Only these arms, those that they are compared with, and the baseline."""
    steps: Annotated[int | None, _option("N", "the study's")] = None
    """Updates per run."""
    vocabulary: Annotated[int | None, _option("V", "the study's")] = None
    """Symbols, the unknown one included; the rest are the text's most frequent characters."""
    corpus: Annotated[Path | None, _option("FILE|tang-all", "the 4,003 Tang poems")] = None
    """Train on this UTF-8 text, in any language; tang-all is the whole collection of 57,607 poems."""
    device: Annotated[Literal["auto", "cpu", "cuda"], _option("auto|cpu|cuda", "auto")] = "auto"
    """Where runs train; auto takes a GPU when the cluster has one."""
    precision: Annotated[Asked, _option("fp32|bf16|auto", "auto")] = "auto"
    """Of the matrix products. auto goes on in what is recorded; else bf16 where the machine has it, or fp32."""
    cohorts_per_gpu: Annotated[int | None, _option("N", "1")] = None
    """How many cohorts share a GPU; a cohort is runs that train in lockstep."""
    keep_models: Annotated[bool, _option("")] = False
    """Keep the trained models beside the records, for python -m model.inspect RUN_ID."""
    results: Annotated[Path, _option("DIR", "results")] = Path("results")
    """Where records and reports are kept, one folder per study."""
    tracking_uri: Annotated[str | None, _option("URI", f"$MLFLOW_TRACKING_URI, else {DEFAULT_STORE}")] = None
    """The MLflow store or server that keeps the lineage."""
    address: Annotated[str | None, _option("ADDRESS", "start Ray on this machine")] = None
    """Join the Ray cluster at this address; auto finds one that is running."""

    @property
    def store(self) -> str:
        """The tracking URI in force."""
        return self.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE

    @property
    def device_here(self) -> str:
        """'cuda' when the device asked for may be this machine's GPU, else 'cpu'."""
        return "cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu"


def main(make_study: Callable[[], Study]) -> NoReturn:
    """Run the study as the command line asks. Exit code 0 when every run is recorded, 1 when runs failed, 2 for a
    mistake of the user's, 130 when stopped."""
    try:
        raise SystemExit(_main(make_study))
    except MISTAKES as error:
        print(f"seedbed: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("Stopped. What is recorded stays, and the same command goes on.", file=sys.stderr)
        raise SystemExit(STOPPED) from None


def _main(make_study: Callable[[], Study]) -> int:
    try:
        study = make_study()
        options = tyro.cli(
            Options,
            prog=f"python sweeps/{study.name}.py",
            description=f"{study.question} Arms: {', '.join(a.name for a in study.arms)}; baseline: {study.baseline}.",
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        study = _asked(study, options)
    except ValueError as error:  # of a part, a recipe or a study: whatever cannot be is a mistake in what was asked
        raise StudyError(str(error)) from None
    console = Console(highlight=False)
    _let_the_text_speak()

    records = Records(options.results / study.name, study.name)
    corpus = study.corpus()
    study = in_precision(study, options.precision, records, corpus, options.device_here)
    plan = asked(study, corpus, records)
    if options.plan:
        taken, _ = records.neighbours([run.run_id for run in plan.missing])
        plan = plan.after(row["run_id"] for row in taken)
        places = make_places(whole(plan, corpus), [this_machine()], options.device_here, options.cohorts_per_gpu)
        show_plan(plan, places, corpus, console)
        if options.keep_models:
            lines = Models(records.folder).announcement(plan, records.runs([run.run_id for run in plan.runs]))
            console.print(*lines, sep="\n", end="\n" * bool(lines), soft_wrap=True)
        return 0
    conductor = Conductor(plan, corpus, records, console, command(), options.store, options.keep_models)
    return conductor.conduct(options.device, options.address, options.cohorts_per_gpu)


def _let_the_text_speak() -> None:
    """Show what fetching a text says of itself: it can take minutes."""
    logger = logging.getLogger("model.corpus")
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler(sys.stdout))
        logger.setLevel(logging.INFO)


def _asked(study: Study, options: Options) -> Study:
    check_tracking_uri(options.store)
    if options.device == "cpu":
        refuse_without_gpu(options.cohorts_per_gpu)
    if options.cohorts_per_gpu is not None and options.cohorts_per_gpu < 1:
        raise StudyError(f"--cohorts-per-gpu must be at least 1, but it is {options.cohorts_per_gpu}.")
    if options.max_seeds is not None and not options.until_decided:
        raise StudyError("--max-seeds is the most that --until-decided may come to; give both, or --seeds.")
    if options.until_decided and options.seeds is not None:
        raise StudyError("--seeds is a number fixed beforehand and --until-decided is not; give one of them.")
    if options.preset == "quick":
        study = study.as_rehearsal()
    if options.until_decided:
        usual = REHEARSAL_SEEDS if study.rehearsal else MOST_LOOKED_AT
        study = study.until_decided(usual if options.max_seeds is None else options.max_seeds)
    if options.seeds is not None:
        study = study.replace(seeds=parse_seeds(options.seeds))
    if options.arms:
        study = study.with_arms(options.arms)
    if options.steps is not None:
        study = study.with_steps(options.steps)
    return study.with_text(text_called(options.corpus) if options.corpus else None, options.vocabulary)


def parse_seeds(text: str) -> tuple[int, ...]:
    """'10' is the seeds 0 to 9; '3,5,8' is those three. Raises StudyError."""
    if re.fullmatch(r"\d+", text):
        if int(text) > MOST_SEEDS:
            raise StudyError(f"--seeds {text} is more than the {MOST_SEEDS:,} seeds that a study may have.")
        return tuple(range(int(text)))
    if re.fullmatch(r"\d+(,\d+)+,?", text.replace(" ", "")):
        return tuple(int(seed) for seed in text.replace(" ", "").rstrip(",").split(","))
    raise StudyError(f"--seeds takes a number of seeds such as 10, or a list such as 3,5,8, but was given {text!r}.")


def command() -> str:
    """The command that was given, as one would type it again, without the password of a tracking server."""
    return shlex.join(["python", *(public_uri(word) if "://" in word else word for word in sys.argv)])
