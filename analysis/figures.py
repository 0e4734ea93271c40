"""Figures with a row per arm: differences to the baseline, every seed, and the noise of one batch."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis.compare import ArmSummary, Comparison
from analysis.drawing import BAND, FAINT, INK, MUTED, appearances, canvas, few_ticks, name_rows, wrap
from analysis.records import COMPLETED, DIVERGED
from analysis.sequential import Look

MOST_DOTS = 200  # of an arm, evenly through its losses: more cannot be told apart


def forest(comparisons: Sequence[Comparison], margin: float | None, label: str) -> Figure:
    """Difference of every arm to the baseline: 95 % interval thin, 90 % thick, the margin as a band about zero.

    Where arms are compared with different ones, each row names both.
    """
    several = len({c.baseline for c in comparisons}) > 1
    arms = [wrap(c.arm) + (f"\nagainst {wrap(c.baseline)}" if several else "") for c in comparisons]
    names = [f"{arm}\n({c.verdict})" for arm, c in zip(arms, comparisons, strict=True)]
    return _forest(comparisons, names, margin, label, (end for c in comparisons for end in _ends(c)))


def forest_of_contrasts(contrasts: Mapping[str, Comparison], margin: float | None, label: str) -> Figure:
    """The same of contrasts, which are called by their names."""
    names = [f"{wrap(name)}\n({c.verdict})" for name, c in contrasts.items()]
    rows = [*contrasts.values()]
    return _forest(rows, names, margin, label, (end for c in rows for end in _ends(c)))


def forest_of_looks(comparison: Comparison, margin: float | None, label: str) -> Figure:
    """One arm's difference at every look, with the repeated intervals; those of early looks may run out of view."""
    *before, last = comparison.looks
    names = [*(f"{look.seeds} seeds" for look in before), f"{last.seeds} seeds\n({comparison.verdict})"]
    return _forest(comparison.looks, names, margin, label, (1.7 * end for end in _ends(last)))


def _forest(
    rows: Sequence[Comparison | Look], names: list[str], margin: float | None, label: str, in_view: Iterable[float]
) -> Figure:
    band = margin or 0.0
    reach = max(
        abs(value) for value in (1.25 * band, *in_view, *(row.difference for row in rows)) if math.isfinite(value)
    )
    reach = 1.1 * reach or 1.0
    with canvas(0.95 + 0.62 * max(1, len(rows))) as (figure, axes):
        axes.axvspan(-band, band, color=BAND, zorder=0, lw=0)
        axes.axvline(0, color=FAINT, lw=1, zorder=1)
        for place, row in enumerate(rows):
            for interval, width in ((row.interval95, 1.4), (row.interval90, 4.2)):
                ends = np.nan_to_num([interval.low, interval.high], nan=math.nan, posinf=2 * reach, neginf=-2 * reach)
                axes.plot(ends, [place, place], color=INK, lw=width, solid_capstyle="butt")
            for end, marker in zip(_ends(row), "<>", strict=True):
                if abs(end) > reach:
                    axes.plot(math.copysign(reach, end), place, marker=marker, ms=6, color=INK, clip_on=False)
            axes.plot(row.difference, place, marker="o", ms=8, mfc="white", mec=INK, mew=1.6)
        name_rows(axes, names)
        axes.set_xlim(-reach, reach)
        axes.set_xlabel(label)
        few_ticks(axes)
        axes.set_title("← better", loc="left")
        if margin is not None:
            axes.set_title(f"margin ±{margin:g}", color=MUTED)
        axes.set_title("worse →", loc="right")
    return figure


def _ends(row: Comparison | Look) -> tuple[float, float]:
    return row.interval95.low, row.interval95.high


def seed_dots(
    runs: pd.DataFrame, arms: Sequence[ArmSummary], label: str, joined: bool = True, target: float | None = None
) -> Figure:
    """Every completed run's held-out loss as a mark, under its arm's mean and 95 % interval; a target as a line.

    With `joined` a faint line joins the runs of one seed; without, for a study whose arms have seeds of their own.
    """
    place = {arm.arm: row for row, arm in enumerate(arms)}
    done = runs[(runs["status"] == COMPLETED) & runs["arm"].isin(place)]
    with canvas(0.8 + 0.62 * max(1, len(arms))) as (figure, axes):
        for _, same_seed in done.groupby("seed") if joined else ():
            points = sorted(
                (place[arm], loss) for arm, loss in zip(same_seed["arm"], same_seed["val_loss"], strict=True)
            )
            for (row, loss), (other_row, other_loss) in pairwise(points):
                axes.plot([loss, other_loss], [row, other_row], color="#d4d4d4", lw=0.8, zorder=1)
        if target is not None:
            axes.axvline(target, color=FAINT, lw=1, ls="--", zorder=1)
            axes.set_title(f"dashed: target {target:g}", color=MUTED)
        for row, (arm, look) in enumerate(zip(arms, appearances(len(arms)), strict=True)):
            losses = _spread_out(done.loc[done["arm"] == arm.arm, "val_loss"])
            style = {"marker": look["marker"], "ms": 5.5, "color": look["color"], "alpha": 0.75}
            axes.plot(losses, np.full(len(losses), row), ls="", **style)
            axes.plot([arm.interval95.low, arm.interval95.high], [row - 0.22] * 2, color=INK, lw=2)
            axes.plot(arm.mean, row - 0.22, marker="|", ms=9, mew=2, color=INK)
        name_rows(axes, [wrap(arm.arm) + _lost(arm) for arm in arms])
        axes.set_xlabel(label)
        few_ticks(axes)
    return figure


def _spread_out(losses: pd.Series) -> np.ndarray:
    """All `losses` in order, or MOST_DOTS of them with the lowest and the highest."""
    ordered = np.sort(losses.to_numpy())
    if len(ordered) <= MOST_DOTS:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, MOST_DOTS).round().astype(int)]


def measurement_noise(runs: pd.DataFrame, arms: Sequence[str], label: str) -> Figure:
    """Each run's distance from its arm's mean, by held-out loss and by the loss of the last training batch."""
    done = runs[runs["status"] == COMPLETED]
    held_out, batch = sns.color_palette("colorblind")[0], sns.color_palette("colorblind")[3]
    with canvas(1.15 + 0.62 * max(1, len(arms))) as (figure, axes):
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
        name_rows(axes, [wrap(arm) for arm in arms])
        axes.set_xlabel(label)
        few_ticks(axes)
    return figure


def _lost(arm: ArmSummary) -> str:
    """What the dots of an arm leave out."""
    lost = [f"{n} {word}" for n, word in ((arm.diverged, DIVERGED), (len(arm.missing), "missing")) if n]
    return "\n(" + ", ".join(lost) + ")" if lost else ""
