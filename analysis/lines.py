"""Figures along an axis: loss against the training step, and against the points of a grid."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from analysis.compare import ArmSummary
from analysis.drawing import INK, appearances, canvas
from analysis.records import COMPLETED
from analysis.tuning import ArmTuning, Tuning


def learning_curves(curves: pd.DataFrame, arms: Sequence[str], baselines: Mapping[str, float], label: str) -> Figure:
    """Mean loss over seeds by step, with the range over seeds as a band: the whole training, then its last half.

    `curves` are those of completed runs. The trivial baselines are lines. The training loss (averaged over a twentieth
    of the run) is drawn fainter and without a band, in the whole alone.
    """
    with canvas(5.4, rows=2) as (figure, (whole, late)):
        end = max(1, int(curves["step"].max())) if len(curves) else 1
        for axes, first in ((whole, 0), (late, end // 2)):
            for arm, look in zip(arms, appearances(len(arms)), strict=True):
                style = {"color": look["color"], "ls": look["line"]}
                loss = _over_seeds(curves, arm, "val_loss", first)
                axes.plot(loss.index, loss["mean"], **style, lw=1.7, label=arm)
                axes.fill_between(loss.index, loss["min"], loss["max"], color=look["color"], alpha=0.16, lw=0)
                if axes is whole:
                    loss = _over_seeds(curves, arm, "train_loss", first)
                    axes.plot(loss.index, loss["mean"], **style, lw=0.8, alpha=0.65)
            axes.set_xlim(first, end)
            axes.set_ylabel(label)
        lowest = curves.loc[curves["name"] == "val_loss", "value"].min()
        _name_levels(whole, baselines, end, lowest)
        late.set_xlabel("training step")
        late.set_title("the last half, held-out loss only", loc="left")
        if arms:
            figure.legend(*whole.get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    return figure


def _name_levels(axes: Axes, levels: Mapping[str, float], end: int, lowest: float) -> None:
    """A line at each of `levels` with its name at the right `end`: under it below the `lowest` loss, where no curve
    comes, else above it. Names of lines that lie too close for a name between them stand above each other."""
    for level in levels.values():
        axes.axhline(level, color=INK, lw=0.9, ls=":")
    bottom, top = axes.get_ylim()
    groups: list[list[tuple[float, str]]] = []
    for level, name in sorted((level, name) for name, level in levels.items()):
        close = groups and level - groups[-1][-1][0] < 0.07 * (top - bottom)
        if close and (level < lowest) == (groups[-1][-1][0] < lowest):
            groups[-1].append((level, name))
        else:
            groups.append([(level, name)])
    for group in groups:
        under, text = group[0][0] < lowest, "\n".join(f"{name} {level:.2f}" for level, name in reversed(group))
        level, side = group[0 if under else -1][0], "top" if under else "bottom"
        place: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": side, "size": 8.5}
        axes.annotate(text, (end, level), (-2, -3 if under else 2), **place)
        if under:
            axes.set_ylim(bottom=min(axes.get_ylim()[0], level - 0.09 * len(group) * (top - level)))


def response(tuned: pd.DataFrame, tuning: Tuning, label: str) -> Figure:
    """Loss against the grid's points: a mark per run, a line through each arm's means, a ring where it was selected.

    `tuned` are the tuning runs. Diverged ones are a cross above their point, with how many of how many they are.
    """
    done = tuned[tuned["status"] == COMPLETED]
    with canvas(3.6) as (figure, axes):
        for arm, look in zip(tuning.arms, appearances(len(tuning.arms)), strict=True):
            own, style = done[done["arm"] == arm.arm], {"marker": look["marker"], "color": look["color"]}
            axes.plot(own["point"], own["val_loss"], ls="", ms=3.5, alpha=0.45, **style)
            means = {point.point: point.mean for point in arm.points}
            axes.plot(means.keys(), means.values(), ls=look["line"], lw=1.6, ms=6, label=arm.arm, **style)
            if arm.selected is not None:
                axes.plot(arm.selected, means[arm.selected], marker="o", ms=14, mfc="none", mec=look["color"], mew=1.5)
        _name_points(axes, tuning.points)
        _mark_diverged(axes, tuning)
        axes.set_xlabel(tuning.setting)
        axes.set_ylabel(label)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    return figure


def scores(scores: Mapping[tuple[str, str], ArmSummary], arms: Sequence[Mapping[str, Any]], label: str) -> Figure:
    """Loss under each scoring with its 95 % interval, along the scale that the scorings stand on: a panel per text, a
    line per arm and kind of scoring. `arms` are those of the snapshot.
    """
    panels: dict[tuple[str, str], dict[str, dict[float, ArmSummary]]] = {}
    several = sum(bool(arm.get("scored")) for arm in arms) > 1
    for arm in arms:
        for one in arm.get("scored") or ():
            for line in one["lines"]:
                name = ", ".join(filter(None, (arm["name"] if several or not line else "", line)))
                panel = panels.setdefault((one["axis"], one["panel"]), {})
                panel.setdefault(name, {})[one["at"]] = scores[arm["name"], one["name"]]
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    looks = dict(zip(names, appearances(len(names)), strict=True))
    with canvas(0.9 + 2.5 * len(panels), rows=len(panels)) as (figure, drawn):
        for axes, ((axis, text), panel) in zip(np.atleast_1d(drawn), panels.items(), strict=True):
            for name, points in panel.items():
                there = {at: points[at] for at in sorted(points) if points[at].n}
                means, look = [one.mean for one in there.values()], looks[name]
                halves = [(one.interval95.high - one.interval95.low) / 2 for one in there.values()]
                style: dict[str, Any] = {"color": look["color"], "ls": look["line"], "marker": look["marker"]}
                axes.errorbar([*there], means, halves, label=name, lw=1.4, ms=4.5, capsize=2.5, **style)
            places = sorted({at for points in panel.values() for at in points})
            _name_points(axes, places)
            axes.set_xlabel(axis)
            axes.set_ylabel(label)
            if text:
                axes.set_title(f"on {text}", loc="left")
        first = np.atleast_1d(drawn)[0]
        figure.legend(*first.get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    return figure


def _name_points(axes: Axes, points: Sequence[float]) -> None:
    """The points as ticks, on a log axis unless one is not above 0; every second is named where there are many."""
    if min(points) > 0:
        axes.set_xscale("log")
    stride = math.ceil(len(points) / 6)
    axes.set_xticks(points, [f"{point:g}" if i % stride == 0 else "" for i, point in enumerate(points)])
    axes.xaxis.set_minor_locator(NullLocator())


def _mark_diverged(axes: Axes, tuning: Tuning) -> None:
    """A row of crosses per arm with diverged runs, above all losses."""
    hit = [(arm, look) for arm, look in zip(tuning.arms, appearances(len(tuning.arms)), strict=True) if _lost(arm)]
    height = min(0.08, 0.5 / max(1, len(hit)))
    low, high = axes.get_ylim()
    axes.set_ylim(low, low + (high - low) / (1 - height * len(hit)))
    across = axes.get_xaxis_transform()
    for row, (arm, look) in enumerate(hit):
        for point in arm.points:
            if point.diverged:
                place = point.point, 0.97 - height * row
                axes.plot(*place, marker="x", ms=6, mew=1.8, color=look["color"], transform=across)
                x, side = (7, "left") if point.point == min(tuning.points) else (-7, "right")
                words = f"{point.diverged} of {point.diverged + point.n}"
                style: dict[str, Any] = {"textcoords": "offset points", "ha": side, "va": "center", "size": 8.5}
                axes.annotate(words, place, (x, 0), xycoords=across, **style)


def _lost(arm: ArmTuning) -> int:
    return sum(point.diverged for point in arm.points)


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
