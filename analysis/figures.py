"""The figures of a report: plain data in, a matplotlib Figure out, and one way to turn it into SVG.

All are narrow (4.3 inches at 9.5 points), so that they stay legible at the width of a phone. An arm keeps its colour,
marker and line style in every figure, so that no figure needs colour to be read. Nothing here touches pyplot's global
state: a Figure is an object like any other and is freed like one.
"""

import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.compare import ArmSummary, Comparison
from analysis.records import COMPLETED, DIVERGED

WIDTH = 4.3
INK, MUTED, FAINT, BAND = "#222222", "#555555", "#9a9a9a", "#e3ebdc"
MARKERS = "osD^vPX*"
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1, 1.5)))
PLAIN = {"Date": None, "Creator": None, "Format": None, "Type": None}  # nothing that changes from day to day
STYLE: dict[str, Any] = {
    **sns.axes_style("whitegrid"),
    "font.family": "DejaVu Sans",  # matplotlib brings it along, so the layout is the same on every machine
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "legend.fontsize": 8.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9.5,
    "axes.edgecolor": FAINT,
    "grid.color": "#ececec",
    "text.parse_math": False,  # a name is a name, with dollars too
    "svg.fonttype": "none",  # text stays text: it can be selected and read aloud
    "svg.hashsalt": "seedbed",
}


def svg(figure: Figure, name: str, description: str) -> str:
    """`figure` as an ``<svg>`` element to be put into a page; the same figure gives the same text.

    Every id is prefixed with `name`, so that several figures live in one page; a screen reader says `description`.
    """
    buffer = io.StringIO()
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Glyph .* missing"
        )  # only measured here; the browser draws it, with its own fonts
        FigureCanvasSVG(figure).print_svg(buffer, metadata=PLAIN)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    label = description.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def forest(comparisons: Sequence[Comparison], margin: float, label: str) -> Figure:
    """Difference of every arm to the baseline: 95 % interval thin, 90 % thick, the margin as a band about zero."""
    with _figure(0.95 + 0.62 * max(1, len(comparisons))) as (figure, axes):
        axes.axvspan(-margin, margin, color=BAND, zorder=0, lw=0)
        axes.axvline(0, color=FAINT, lw=1, zorder=1)
        for row, comparison in enumerate(comparisons):
            wide, narrow = comparison.interval95, comparison.interval90
            axes.plot([wide.low, wide.high], [row, row], color=INK, lw=1.4, solid_capstyle="butt")
            axes.plot([narrow.low, narrow.high], [row, row], color=INK, lw=4.2, solid_capstyle="butt")
            axes.plot(comparison.difference, row, marker="o", ms=8, mfc="white", mec=INK, mew=1.6)
        _rows(axes, [f"{_wrap(c.arm)}\n({c.verdict})" for c in comparisons])
        values = [
            v for c in comparisons for v in (c.interval95.low, c.interval95.high, c.difference) if math.isfinite(v)
        ]
        reach = 1.1 * max([1.25 * margin, *map(abs, values)])
        axes.set_xlim(-reach, reach)
        axes.set_xlabel(label)
        _few_ticks(axes)
        axes.set_title("← better", loc="left")
        axes.set_title(f"margin ±{margin:g}", color=MUTED)
        axes.set_title("worse →", loc="right")
    return figure


def seed_dots(runs: pd.DataFrame, arms: Sequence[ArmSummary], label: str, joined: bool = True) -> Figure:
    """Every completed run's held-out loss as a mark, under its arm's mean and 95 % interval.

    With `joined` a faint line joins the runs of one seed; without, for a study whose arms have seeds of their own.
    """
    done = runs[runs["status"] == COMPLETED]
    with _figure(0.8 + 0.62 * max(1, len(arms))) as (figure, axes):
        place = {arm.arm: row for row, arm in enumerate(arms)}
        for _, same_seed in done.groupby("seed") if joined else ():
            points = sorted(
                (place[arm], loss) for arm, loss in zip(same_seed["arm"], same_seed["val_loss"], strict=True)
            )
            for (row, loss), (other_row, other_loss) in pairwise(points):
                axes.plot([loss, other_loss], [row, other_row], color="#d4d4d4", lw=0.8, zorder=1)
        for row, (arm, look) in enumerate(zip(arms, looks(len(arms)), strict=True)):
            losses = done.loc[done["arm"] == arm.arm, "val_loss"]
            axes.plot(
                losses, np.full(len(losses), row), ls="", marker=look["marker"], ms=5.5, color=look["color"], alpha=0.75
            )
            axes.plot([arm.interval95.low, arm.interval95.high], [row - 0.22] * 2, color=INK, lw=2)
            axes.plot(arm.mean, row - 0.22, marker="|", ms=9, mew=2, color=INK)
        _rows(axes, [_wrap(arm.arm) + _lost(arm) for arm in arms])
        axes.set_xlabel(label)
        _few_ticks(axes)
    return figure


def learning_curves(curves: pd.DataFrame, arms: Sequence[str], baselines: Mapping[str, float], label: str) -> Figure:
    """Mean loss over seeds by step, with the range over seeds as a band: the whole training, then its last half.

    `curves` are those of completed runs. The trivial baselines are lines. The training loss (averaged over a twentieth
    of the run) is drawn fainter and without a band, in the whole alone.
    """
    with _figure(5.4, rows=2) as (figure, (whole, late)):
        end = max(1, int(curves["step"].max())) if len(curves) else 1
        for axes, first in ((whole, 0), (late, end // 2)):
            for arm, look in zip(arms, looks(len(arms)), strict=True):
                style = {"color": look["color"], "ls": look["line"]}
                loss = _over_seeds(curves, arm, "val_loss", first)
                axes.plot(loss.index, loss["mean"], **style, lw=1.7, label=arm)
                axes.fill_between(loss.index, loss["min"], loss["max"], color=look["color"], alpha=0.16, lw=0)
                if axes is whole:
                    loss = _over_seeds(curves, arm, "train_loss", first)
                    axes.plot(loss.index, loss["mean"], **style, lw=0.8, alpha=0.65)
            axes.set_xlim(first, end)
            axes.set_ylabel(label)
        for name, level in baselines.items():
            whole.axhline(level, color=INK, lw=0.9, ls=":")
            place = {"textcoords": "offset points", "ha": "right", "va": "bottom", "size": 8.5}
            whole.annotate(f"{name} {level:.2f}", (end, level), (-2, 2), **place)
        late.set_xlabel("training step")
        late.set_title("the last half, held-out loss only", loc="left")
        if arms:
            figure.legend(*whole.get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    return figure


def measurement_noise(runs: pd.DataFrame, arms: Sequence[str], label: str) -> Figure:
    """Each run's distance from its arm's mean, by held-out loss and by the loss of the last training batch."""
    done = runs[runs["status"] == COMPLETED]
    held_out, batch = sns.color_palette("colorblind")[0], sns.color_palette("colorblind")[3]
    with _figure(1.15 + 0.62 * max(1, len(arms))) as (figure, axes):
        for row, arm in enumerate(arms):
            of_arm = done[done["arm"] == arm]
            if len(of_arm) < 2:  # one run is its own mean, at a distance of nothing
                continue
            for column, lift, marker, color in (
                ("val_loss", -0.16, "o", held_out),
                ("last_batch_loss", 0.16, "D", batch),
            ):
                values = of_arm[column] - of_arm[column].mean()
                axes.axhline(row + lift, color="#efefef", lw=0.8, zorder=0)
                axes.plot(values, np.full(len(values), row + lift), ls="", marker=marker, ms=5, color=color, alpha=0.75)
        axes.axvline(0, color=FAINT, lw=1, zorder=1)
        for marker, color, name in (("o", held_out, "held-out loss"), ("D", batch, "loss of the last training batch")):
            axes.plot([], [], ls="", marker=marker, ms=5, color=color, label=name)
        axes.legend(
            frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2, handletextpad=0.1
        )
        _rows(axes, [_wrap(arm) for arm in arms])
        axes.set_xlabel(label)
        _few_ticks(axes)
    return figure


def looks(n: int) -> list[dict[str, Any]]:
    """Colour, marker and line style of `n` arms in the order of the plan; all three differ between neighbours."""
    colors = sns.color_palette("colorblind", max(n, 1))
    return [{"color": colors[i], "marker": MARKERS[i % len(MARKERS)], "line": LINES[i % len(LINES)]} for i in range(n)]


@contextmanager
def _figure(height: float, rows: int = 1) -> Iterator[tuple[Figure, Any]]:
    """A figure and its axes in the one style; the style holds while the figure is drawn into and is undone after it."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure, figure.subplots(rows)
        for axes in figure.axes:
            sns.despine(ax=axes, left=True)


def _rows(axes: Axes, labels: list[str]) -> None:
    """One row per label, the first at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.tick_params(length=0)


def _few_ticks(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _wrap(name: str) -> str:
    return "\n".join(textwrap.wrap(name, 16)) or name


def _lost(arm: ArmSummary) -> str:
    """What the dots of an arm leave out."""
    lost = [f"{n} {word}" for n, word in ((arm.diverged, DIVERGED), (len(arm.missing), "missing")) if n]
    return "\n(" + ", ".join(lost) + ")" if lost else ""


def _over_seeds(curves: pd.DataFrame, arm: str, name: str, first: int) -> pd.DataFrame:
    """Mean, min and max over seeds by step: about 200 steps from `first`, the last included; training loss smoothed."""
    table = curves[(curves["arm"] == arm) & (curves["name"] == name)].pivot(
        index="step", columns="run_id", values="value"
    )
    if name == "train_loss":
        table = table.rolling(max(1, len(table) // 20), center=True, min_periods=1).mean()
    table = table[table.index >= first]
    stride = max(1, math.ceil(len(table) / 200))
    return table.iloc[(len(table) - 1) % stride :: stride].agg(["mean", "min", "max"], axis=1)
