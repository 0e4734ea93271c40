"""Figures of what goes on inside a model, from measurements as plain numbers, and of how they change in training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from analysis.drawing import BAND, FAINT, INK, STYLE, WIDTH, appearances, canvas, few_ticks, name_rows, svg
from analysis.folder import replace_file

INSIDE = "inside/"  # what the names of the curves begin with that were measured inside a model
PANELS: dict[str, tuple[str, float | None, float | None]] = {  # curve: title, and the range that the checks let pass
    "activation_ratio": ("stream, last / first", None, 4.0),
    "gradient_ratio": ("gradient, first / last", 1 / 5.0, 5.0),
    "adjacent_kl": ("adjacent KL (nats)", 0.05, None),
    "attention_entropy": ("attention entropy", 0.5, 0.95),
    "dead_slots": ("dead slots (share)", None, None),
    "logit_std": ("scale of the logits", None, None),
}
_FIRST, _NOW = "before training", "now"


def measured(curves: pd.DataFrame) -> bool:
    """Whether there is anything for `inside_models`: runs that were recorded before it was measured have none."""
    return bool(curves["name"].str.startswith(INSIDE).any())


def inside_models(curves: pd.DataFrame, arms: Sequence[str]) -> Figure:
    """Six measurements by training step, each arm's median over its seeds; shaded is what the checks let pass, and a
    model outside need not be at fault.

    `curves` are those of completed runs, and some of them are named INSIDE.
    """
    with canvas(6.2, rows=3, columns=2) as (figure, grid):
        for axes, (name, (title, low, high)) in zip(grid.flat, PANELS.items(), strict=True):
            named = curves[curves["name"] == INSIDE + name]
            medians = named.groupby(["arm", "step"])["value"].median()
            for arm, look in zip(arms, appearances(len(arms)), strict=True):
                if arm in medians.index:
                    line = medians[arm]
                    axes.plot(line.index, line, color=look["color"], ls=look["line"], lw=1.5, label=arm)
            view = axes.get_ylim()
            if low is not None or high is not None:
                axes.axhspan(
                    view[0] if low is None else low, view[1] if high is None else high, color=BAND, lw=0, zorder=0
                )
                axes.set_ylim(view)
            axes.set_title(title, loc="left")
            few_ticks(axes)
        for axes in grid[-1]:
            axes.set_xlabel("training step")
        figure.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    return figure


def residual_profile(activation: Mapping[str, Sequence[float]], gradient: Mapping[str, Sequence[float]]) -> Figure:
    """Scale of the residual stream and of its gradient after the embedding (0) and every block, a line per name."""
    with canvas(4.6, rows=2) as (figure, (above, below)):
        for axes, profiles, label in (
            (above, activation, "scale of the stream"),
            (below, gradient, "scale of its gradient"),
        ):
            for (name, values), look in zip(profiles.items(), appearances(len(profiles)), strict=True):
                style = {"color": look["color"], "ls": look["line"], "marker": look["marker"], "ms": 4}
                axes.plot(range(len(values)), values, **style, label=name)
            _wide(axes.yaxis, *profiles.values())
            axes.set_ylabel(label)
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        below.set_xlabel("blocks passed")
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    return figure


def attention_entropy(entropy_LH: Sequence[Sequence[float]]) -> Figure:
    """A square per layer and head: 1, light, is a plain average of what is visible, 0, dark, a single position."""
    layers, heads = np.shape(entropy_LH)
    with canvas(0.9 + 0.32 * layers) as (figure, axes):
        written = heads <= 8 and layers <= 24
        sns.heatmap(
            np.array(entropy_LH, dtype=float),
            vmin=0,
            vmax=1,
            cmap="cividis",
            annot=written,
            fmt=".2f",
            annot_kws={"size": 8},
            linewidths=0.5,
            ax=axes,
            cbar=False,
        )
        axes.set_xlabel("head")
        axes.set_title("entropy of attention / ln(visible positions)", loc="left")
        axes.set_ylabel("block")
    return figure


def adjacent_kl(kl: Mapping[str, Sequence[float]]) -> Figure:
    """How much the output changes from one position to the next, by position, a line per name, beside the limit."""
    with canvas(2.7) as (figure, axes):
        for (name, values), look in zip(kl.items(), appearances(len(kl)), strict=True):
            axes.plot(range(1, len(values) + 1), values, color=look["color"], ls=look["line"], label=name)
        limit = PANELS["adjacent_kl"][1] or 0.0
        axes.axhline(limit, color=INK, lw=0.9, ls=":")
        _wide(axes.yaxis, *kl.values(), [limit])
        axes.set_xlabel("position")
        axes.set_ylabel("KL to the one before (nats)")
        axes.set_title(f"dotted: {limit:g}, the least that the check lets pass", loc="left")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    return figure


def norm_inputs(names: Sequence[str], std: Sequence[float], mean: Sequence[float], eps: Sequence[float]) -> Figure:
    """What every norm reads: standard deviation (filled), distance from mean zero (open), and sqrt(eps) (a bar)."""
    with canvas(1.0 + 0.26 * len(names)) as (figure, axes):
        rows = range(len(names))
        axes.plot(std, rows, ls="", marker="o", color=INK, label="std")
        axes.plot(mean, rows, ls="", marker="o", mfc="white", mec=INK, label="|mean|")
        axes.plot(np.sqrt(eps), rows, ls="", marker="|", ms=10, mew=2, color=FAINT, label="sqrt(eps)")
        name_rows(axes, [name.removeprefix("blocks.") for name in names])
        _wide(axes.xaxis, std, mean, list(np.sqrt(eps)))
        axes.set_xlabel("over the features, mean over positions")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, frameon=False)
    return figure


def memory(rate_LF: Sequence[Sequence[float]], cosine_LF: Sequence[Sequence[float]], twin: float) -> Figure:
    """A layer a row: how often its slots are active, in falling order, and how like another's their keys are."""
    layers = len(rate_LF)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 1.2 + 1.1 * layers), layout="constrained")
        grid = figure.subplots(layers, 2, squeeze=False, sharex="col", sharey="col")
        for layer, (left, right) in enumerate(grid):
            rates = np.sort(np.array(rate_LF[layer], dtype=float))[::-1]
            left.fill_between(range(len(rates)), rates, step="mid", color=FAINT, lw=0)
            left.set_title(f"block {layer}: {np.mean(rates == 0):.1%} dead", loc="left")
            cosines = np.array(cosine_LF[layer], dtype=float)
            right.hist(cosines, bins=np.linspace(-0.2, 1, 25), color=FAINT)
            right.axvline(twin, color=INK, lw=0.9, ls=":")
            right.set_title(f"{np.mean(cosines > twin):.1%} twins", loc="left")
        grid[-1][0].set_xlabel("slots by share active")
        grid[-1][1].set_xlabel("cosine to nearest key")
        for axes in figure.axes:
            sns.despine(ax=axes, left=True)
    return figure


def _wide(axis: Any, *values: Sequence[float]) -> None:
    """A log scale where the positive `values` span much, else a plain one from zero; ticks in plain numbers."""
    known = np.array([value for row in values for value in row if value is not None and value > 0], dtype=float)
    if known.size and known.max() > 10 * known.min():
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    elif known.size:
        axis.axes.set(**{f"{axis.axis_name}lim": (0, 1.1 * known.max())})
        axis.set_major_locator(MaxNLocator(5))


def draw_inspection(found: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw an inspection of ``python -m model.inspect``, given as in its JSON, into `folder`; returns the files."""
    first, now = found["initial"], found["trained"]
    both: Callable[[str], dict[str, Any]] = lambda field: {_FIRST: first[field], _NOW: now[field]}  # noqa: E731

    def figures() -> Iterator[tuple[str, Figure, str]]:
        yield "residual", residual_profile(both("activation_R"), both("gradient_R")), "Scale of the stream by block."
        if now["entropy_LH"] and now["entropy_LH"][0]:
            yield "entropy", attention_entropy(now["entropy_LH"]), "Entropy of attention by block and head."
        yield "kl", adjacent_kl(both("adjacent_kl_T")), "KL of the output between adjacent positions."
        inputs = (now[name] for name in ("norm_names", "norm_input_std_N", "norm_input_mean_N", "norm_eps_N"))
        yield "norms", norm_inputs(*inputs), "What every norm reads."
        if now["rate_LF"] and now["rate_LF"][0]:
            yield (
                "memory",
                memory(now["rate_LF"], now["key_cosine_LF"], found["twin"]),
                "Slots of the feed-forward layers.",
            )

    return [_saved(folder / f"{found['run_id']}-{name}.svg", figure, said) for name, figure, said in figures()]


def draw_depths(found: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw the profiles of ``python -m model.diagnostics``, given as in its JSON: a figure per kind of model."""
    paths = []
    for kind, depths in found.items():
        activation = {f"{layers} layers": profile["activation_R"] for layers, profile in depths.items()}
        gradient = {f"{layers} layers": profile["gradient_R"] for layers, profile in depths.items()}
        path = folder / f"initial-{kind.replace(' ', '-')}.svg"
        paths.append(
            _saved(path, residual_profile(activation, gradient), f"Scale of the stream before training, {kind}.")
        )
    return paths


def _saved(path: Path, figure: Figure, description: str) -> Path:
    replace_file(path, svg(figure, path.stem, description).encode())
    return path
