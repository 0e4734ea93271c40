"""A study's folder in; ``report.html``, ``verdict.json``, ``finding.md`` and the raw table ``runs.csv`` out.

``python -m analysis.report results/ffn_ratio`` needs nothing but the folder. The same folder gives the same bytes:
nothing in the files depends on when they are made.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from analysis import anatomy, figures, lines, wording
from analysis.compare import plain, too_few, verdict_json
from analysis.diagnosis_text import CHECKS, NUMBERS, cells, diagnosed, numbers_of
from analysis.drawing import svg
from analysis.finding import looked_at, markdown, trained_in
from analysis.folder import replace_file
from analysis.material import MOST_SHOWN, REHEARSAL, Material, loss_or_status, sample_size
from analysis.methods import INFLATED, methods
from analysis.published_text import measured, own_words, printed, reasons, with_interval
from analysis.records import DIVERGED, FINDING, REPORT, TABLE, VERDICT
from analysis.scored_text import HELD_OUT, SAME_MODELS, guessed, scored_json
from analysis.verdict import Verdict

SIGNS = {
    Verdict.BETTER: ("better", "▼"),
    Verdict.BETTER_WITHIN_MARGIN: ("better", "▽"),
    Verdict.WORSE: ("worse", "▲"),
    Verdict.WORSE_WITHIN_MARGIN: ("worse", "△"),
    Verdict.EQUIVALENT: ("equivalent", "="),
    Verdict.UNDECIDED: ("undecided", "?"),
}
MARKS = {
    "verified": ("equivalent", "✓"),
    "declared": ("undecided", "○"),
    "not met": ("worse", "✗"),
    "not known": ("undecided", "?"),
}
ASKED = (
    "study",
    "baseline",
    "target",
    "margin",
    "unit",
    "paired",
    "design",
    "rehearsal",
)  # of the snapshot, in the JSON


class Lineage(NamedTuple):
    """The MLflow run of a run; `link` only where a tracking server can be reached with a browser."""

    id: str
    link: str


def write_report(folder: Path) -> Path:
    """Write the four files of the study in `folder`, each whole or not at all; returns the page's path.

    A study that is not finished gets a report of what there is. Raises RecordError for a folder that is no study's.
    """
    return write(Material.read(folder), folder)


def write(material: Material, folder: Path) -> Path:
    """Write the four files about `material` into `folder`, which is made if need be; returns the page's path."""
    verdict = {name: material.snapshot[name] for name in ASKED} | verdict_json(material.analysis)
    if material.scored.scores or material.scored.contrasts:
        verdict |= plain(scored_json(material.scored))
    if found := diagnosed(material):
        verdict["diagnosis"] = asdict(found)
    if material.published:
        verdict["published"] = plain(asdict(material.published))
    verdict["checklist"] = [asdict(point) for point in material.checklist]
    text = json.dumps(verdict, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    for name, content in (
        (VERDICT, text),
        (TABLE, material.csv),
        (FINDING, markdown(material)),
        (REPORT, page(material)),
    ):
        replace_file(folder / name, content.encode())
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
        "methods": methods(material),
        "figures": {name: Markup(svg(figure, name, said)) for name, figure, said in _figures(material)},
        "rehearsal": REHEARSAL,
        "inflated": INFLATED,
        "raw": TABLE,
        "compared": bool(material.analysis.comparisons) or not material.scored.contrasts,
        "looked": looked_at(material)[:MOST_SHOWN],
        "too_few": too_few,
        "listed_runs": material.small and not material.judged,
        "drawn": MOST_SHOWN,
        "planned": {arm["name"]: arm for arm in s["arms"]},
        "seconds": material.judging.groupby("arm")["seconds"].median().to_dict(),
        "nothing": math.nan,
        "held_out": HELD_OUT,
        "same_models": SAME_MODELS,
        "guessed": guessed(s),
        "precision": trained_in(material),
        **{name: getattr(wording, name) for name in ("mean_and_half", "error_of_mean", "error_of_sd", "listed")},
        "measured": measured,
        "with_interval": with_interval,
        "printed": printed,
        "own_words": own_words,
        "reasons": reasons,
        "diagnosis": diagnosed(material),
        "diagnosis_notes": (CHECKS, NUMBERS),
        "cells": cells,
        "numbers_of": numbers_of,
        "tone": lambda verdict: SIGNS[verdict][0],
        "sign": lambda verdict: SIGNS[verdict][1],
        "marks": MARKS,
        "size": sample_size,
        "loss": loss_or_status,
        "status": _status,
        "tracked": lambda run_id: _lineage(s, run_id),
    }


def _figures(material: Material) -> Iterator[tuple[str, Figure, str]]:
    """Name, figure and what it shows, of those that have something to show; of many arms the first."""
    s, analysis, runs, names = material.snapshot, material.analysis, material.judging, material.arms[:MOST_SHOWN]
    unit = f" ({s['unit']})" if s["unit"] else ""
    loss, difference = s["metric_name"] + unit, f"difference in {s['metric_name']}\n{unit.strip()}".strip()
    if s["target"] is not None:
        difference = f"{s['metric_name']} less {s['target']:g}"
    compared = analysis.comparisons[:MOST_SHOWN]
    yield (
        "forest",
        figures.forest(compared, s["margin"], difference),
        "Difference of each arm to the baseline with intervals and margin; numbers in the table below.",
    )
    for i, (name, comparison) in enumerate(looked_at(material)[:MOST_SHOWN]):
        yield (
            f"looks-{i}",
            figures.forest_of_looks(comparison, s["margin"], difference),
            f"Difference of {name} at each look with repeated intervals; numbers in the table below.",
        )
    if material.scored.contrasts:
        yield (
            "contrasts",
            figures.forest_of_contrasts(material.scored.contrasts, s["margin"], difference),
            "Difference of each contrast with intervals and margin; numbers in the table below.",
        )
    if material.scored.scores:
        yield (
            "scores",
            lines.scores(material.scored.scores, s["arms"][:MOST_SHOWN], loss),
            "Loss by the condition of scoring, one line per arm and kind; numbers in the table below.",
        )
    if analysis.tuning and len(material.tuning):
        yield (
            "response",
            lines.response(material.tuning, analysis.tuning, loss),
            f"Loss against {analysis.tuning.setting}, one line per arm; numbers in the table below.",
        )
    yield (
        "seeds",
        figures.seed_dots(runs, analysis.arms[:MOST_SHOWN], loss, material.joined, s["target"]),
        "Loss of every run by arm; the numbers are in the table of losses by arm and seed.",
    )
    if not material.judged:
        yield (
            "curves",
            lines.learning_curves(material.curves_of_completed, names, s["baselines"] | s.get("local", {}), s["unit"]),
            "Loss against training step, one line per arm.",
        )
        if anatomy.measured(curves := material.curves_of_completed):
            yield (
                "inside",
                anatomy.inside_models(curves, names),
                "Measurements inside the models against training step, one line per arm.",
            )
        yield (
            "noise",
            figures.measurement_noise(runs, names, f"distance from the arm's mean{unit}"),
            "Spread over seeds of the held-out loss and of the last training batch's loss, by arm.",
        )


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
