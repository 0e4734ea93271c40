"""The one style of a report's figures, and the way from a figure to SVG.

All are narrow (4.3 inches at 9.5 points), so that they stay legible at the width of a phone. An arm keeps its colour,
marker and line style in every figure, so that no figure needs colour to be read. Nothing here touches pyplot's global
state: a Figure is an object like any other and is freed like one.
"""

import io
import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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


def appearances(n: int) -> list[dict[str, Any]]:
    """Colour, marker and line style of `n` arms in the order of the plan; all three differ between neighbours."""
    colors = sns.color_palette("colorblind", max(n, 1))
    return [{"color": colors[i], "marker": MARKERS[i % len(MARKERS)], "line": LINES[i % len(LINES)]} for i in range(n)]


@contextmanager
def canvas(height: float, rows: int = 1, columns: int = 1) -> Iterator[tuple[Figure, Any]]:
    """A figure and its axes in the one style; the style holds while the figure is drawn into and is undone after it."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure, figure.subplots(rows, columns)
        for axes in figure.axes:
            sns.despine(ax=axes, left=True)


def name_rows(axes: Axes, labels: list[str]) -> None:
    """One row per label, the first at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.tick_params(length=0)
    axes.tick_params(axis="y", pad=8)  # room for an arrow at the edge


def few_ticks(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(5))


def wrap(name: str) -> str:
    return "\n".join(textwrap.wrap(name, 16)) or name
