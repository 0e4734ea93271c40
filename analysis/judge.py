"""``python -m analysis.judge results.csv --metric loss --baseline A --margin 0.01``: verdicts for anyone's losses."""

import argparse
import gc
import json
import math
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from analysis.cells import TableError
from analysis.compare import verdict_json
from analysis.judged import Asked, judge
from analysis.reading import read
from analysis.records import SNAPSHOT
from analysis.terminal import terminal_table
from analysis.verdict import ALPHA
from analysis.wording import listed

_NO_REASON = "given on the command line without a reason"
_FORMATS = """\
A long table has one row per run, with a column each for arm, seed and loss (--arm, --seed, --metric). Without
--metric the table is wide: one row per seed, and every column but the seed's is an arm. Lower is better.

An empty cell is a run that is missing; nan or inf is a run that diverged, which counts. pandas writes a NaN as
an empty cell unless told na_rep="nan".

Arms that share seeds with the baseline are compared in pairs; where no arm does, by Welch's test.

A table of runs exported from W&B and an MLflow experiment are long tables: --arm and --seed name a setting, a
parameter or a tag. Runs that did not finish have no final loss.
"""
_TOLD = ("unit", "baseline", "margin", "target", "alpha", "paired")  # of the snapshot, in the JSON


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0 whatever the verdict, 2 for a mistake, said on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = re.sub(r"//[^/@\s]*@", "//", shlex.join(["python", "-m", "analysis.judge", *given]))  # no passwords
    try:
        options = _parser().parse_args(given)
        asked = _asked(options)
        if options.report and (options.report / SNAPSHOT).exists():
            raise TableError(f"{options.report} is the folder of a study; choose another one with --report.")
        reading = read(options.source, options.arm or "arm", options.seed, options.metric)
        material, notes = judge(reading, asked, command, noise=bool(options.report))
        if options.report:
            from analysis import report  # here: drawing takes seconds to import, which a verdict need not wait for

            report.write(material, options.report)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        found = {"source": reading.source, "metric": asked.metric_name} | {
            key: material.snapshot.get(key) for key in _TOLD
        }
        found |= verdict_json(material.analysis) | {"notes": notes}
        print(json.dumps(found, indent=1, allow_nan=False))
        return 0
    Console(highlight=False).print(terminal_table(material.analysis, material.snapshot))
    print(*notes, *([options.report / "report.html"] if options.report else []), sep="\n")
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise TableError(f"{message[0].upper()}{message[1:]}. See --help.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m analysis.judge",
        description="Verdicts for anyone's losses: each arm against a baseline, or its mean against a fixed number.",
        epilog=_FORMATS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("source", help="a CSV or Parquet file, or mlflow:EXPERIMENT[@TRACKING_URI]")
    parser.add_argument("--metric", help="column of the loss; without it the table is wide")
    parser.add_argument("--arm", help="column of the arm's name (default: arm)")
    parser.add_argument("--seed", default="seed", help="column of the seed (default: seed)")
    parser.add_argument("--baseline", metavar="ARM", help="the arm that the others are compared with")
    parser.add_argument("--margin", type=_positive, help="smallest difference that matters, chosen before the data")
    parser.add_argument("--margin-reason", metavar="TEXT", help="why; the report quotes it")
    parser.add_argument("--unpaired", action="store_true", help="Welch's test, though arms share seeds")
    parser.add_argument("--target", type=_number, help="a fixed number to compare each arm's mean with, one-sided")
    parser.add_argument("--alpha", type=_error_rate, help=f"error rate of the test against --target (default: {ALPHA})")
    parser.add_argument("--unit", default="", help='unit of the loss, such as "nats per token"')
    parser.add_argument(
        "--floor",
        type=_floor,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="loss of a trivial predictor, which an arm must beat; may be given again",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write report.html and its companions there")
    return parser


def _asked(options: argparse.Namespace) -> Asked:
    """Raises TableError for options that contradict each other or would have no effect."""
    against = {"--margin": options.margin, "--margin-reason": options.margin_reason, "--unpaired": options.unpaired}
    if (options.baseline is None) == (options.target is None):
        raise TableError("Give one of --baseline ARM and --target NUMBER.")
    if options.baseline is not None and options.margin is None:
        raise TableError("Give --margin: the smallest difference from the baseline that would matter to you.")
    if options.baseline is not None and options.alpha is not None:
        raise TableError(f"--alpha belongs to --target; against a baseline the error rate is {ALPHA:g}.")
    if options.target is not None and (idle := [name for name, value in against.items() if value]):
        raise TableError(f"{listed(idle)} would have no effect with --target; leave it out.")
    if options.metric is None and options.arm is not None:
        raise TableError("--arm belongs to a long table, which needs --metric; a wide table has a column per arm.")
    return Asked(
        metric_name=options.metric or "loss",
        unit=options.unit,
        baseline=options.baseline,
        margin=options.margin,
        margin_reason=options.margin_reason or _NO_REASON,
        unpaired=options.unpaired,
        target=options.target,
        alpha=ALPHA if options.alpha is None else options.alpha,
        floors=dict(options.floor),
    )


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text} is no number")
    return value


def _positive(text: str) -> float:
    if (value := _number(text)) <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _error_rate(text: str) -> float:
    if not 0 < (value := _number(text)) <= 0.5:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 0.5")
    return value


def _floor(text: str) -> tuple[str, float]:
    name, mark, value = text.rpartition("=")
    if not (mark and name.strip()):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name.strip(), _number(value)


if __name__ == "__main__":
    gc.disable()  # a million runs are millions of tuples; looking for cycles among them takes as long as all the rest
    sys.exit(main())
