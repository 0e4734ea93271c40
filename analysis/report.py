"""A study's folder in, ``report.html``, ``verdict.json`` and ``finding.md`` out.

``python -m analysis.report results/ffn_ratio`` needs nothing but the folder. The same folder gives the same bytes:
nothing in the files depends on when they are made.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from analysis import figures, wording
from analysis.compare import verdict_json
from analysis.finding import markdown
from analysis.material import REHEARSAL, Material, loss_or_status
from analysis.records import DIVERGED, FINDING, REPORT, VERDICT, replace_file
from analysis.verdict import Verdict

SIGNS = {
    Verdict.BETTER: ("better", "▼"),
    Verdict.BETTER_WITHIN_MARGIN: ("better", "▽"),
    Verdict.WORSE: ("worse", "▲"),
    Verdict.WORSE_WITHIN_MARGIN: ("worse", "△"),
    Verdict.EQUIVALENT: ("equivalent", "="),
    Verdict.UNDECIDED: ("undecided", "?"),
}


class Lineage(NamedTuple):
    """The MLflow run of a run; `link` only where a tracking server can be reached with a browser."""

    id: str
    link: str


def write_report(folder: Path) -> Path:
    """Write the three files of the study in `folder`, each whole or not at all; returns the page's path.

    A study that is not finished gets a report of what there is. Raises RecordError for a folder that is no study's.
    """
    material = Material.read(folder)
    s = material.snapshot
    verdict = {name: s[name] for name in ("study", "margin", "unit", "rehearsal")} | verdict_json(material.analysis)
    replace_file(folder / VERDICT, (json.dumps(verdict, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
    replace_file(folder / FINDING, markdown(material).encode())
    replace_file(folder / REPORT, page(material).encode())
    return folder / REPORT


def page(material: Material) -> str:
    """The whole report as one HTML document that loads nothing."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "span", "roots", "p_value", "share", "duration", "ended", "known", "seeds_needed"):
        environment.filters[name] = getattr(wording, name)
    text = environment.get_template("report.html.j2").render(_names(material)) + "\n"
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _names(material: Material) -> dict[str, Any]:
    """Everything that the template may say by name."""
    s = material.snapshot
    return {
        "material": material,
        "figures": _figures(material),
        "rehearsal": REHEARSAL,
        "planned": {arm["name"]: arm for arm in s["arms"]},
        "seconds": material.runs.groupby("arm")["seconds"].median().to_dict(),
        "nothing": math.nan,
        **{name: getattr(wording, name) for name in ("mean_and_half", "error_of_mean", "error_of_sd")},
        "tone": lambda verdict: SIGNS[verdict][0],
        "sign": lambda verdict: SIGNS[verdict][1],
        "loss": loss_or_status,
        "status": _status,
        "tracked": lambda run_id: _lineage(s, run_id),
    }


def _figures(material: Material) -> dict[str, Markup]:
    s, analysis = material.snapshot, material.analysis
    loss = f"{s['metric_name']} ({s['unit']})"
    curves = material.curves_of_completed
    drawn = {
        "forest": figures.forest(analysis.comparisons, s["margin"], f"difference in {s['metric_name']}\n({s['unit']})"),
        "seeds": figures.seed_dots(material.runs, analysis.arms, loss, material.joined),
        "curves": figures.learning_curves(curves, material.arms, s["baselines"], s["unit"]),
        "noise": figures.measurement_noise(material.runs, material.arms, f"distance from the arm's mean ({s['unit']})"),
    }
    said = {
        "forest": "Difference of each arm to the baseline with intervals and margin; numbers in the table below.",
        "seeds": "Held-out loss of every run by arm; the numbers are in the table of losses by arm and seed.",
        "curves": "Loss against training step, one line per arm.",
        "noise": "Spread over seeds of the held-out loss and of the last training batch's loss, by arm.",
    }
    return {name: Markup(figures.svg(figure, name, said[name])) for name, figure in drawn.items()}


def _status(run: dict[str, Any]) -> str:
    return f"diverged at step {run['diverged_at']:.0f}" if run["status"] == DIVERGED else run["status"]


def _lineage(snapshot: Mapping[str, Any], run_id: str) -> Lineage:
    tracking = snapshot.get("tracking") or {}
    found = tracking.get("runs", {}).get(run_id, "")
    uri = str(tracking.get("uri", ""))
    if not found or not uri.startswith(("http://", "https://")):
        return Lineage(found, "")
    return Lineage(found, f"{uri.rstrip('/')}/#/experiments/{tracking['experiment_id']}/runs/{found}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code, 2 for a folder that cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.report", description="Write a study's report from its folder alone."
    )
    parser.add_argument("folder", type=Path, help="the study's folder, such as results/ffn_ratio")
    folder = parser.parse_args(arguments).folder
    try:
        print(write_report(folder.resolve()))
    except ValueError as error:  # RecordError, or runs that must not be compared
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
