"""Figures: the data really are in them, the same data give the same bytes, and nothing touches pyplot's state."""

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis import figures
from analysis.compare import Analysis, analyse
from analysis.records import CURVES

MEANS = {"128x256": 4.15, "96x552": 4.10, "112x392": 4.155}


@pytest.fixture
def runs(snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> pd.DataFrame:
    return make_runs(snapshot, MEANS, 0.02, np.random.default_rng(7), diverged=[("96x552", 4)])


@pytest.fixture
def analysis(runs: pd.DataFrame, snapshot: dict[str, Any]) -> Analysis:
    return analyse(runs, snapshot)


def curves_of(runs: pd.DataFrame, steps: int = 1200) -> pd.DataFrame:
    """Held-out and training losses that fall in a straight line from 7 to the run's own loss."""
    at = np.arange(0, steps + 1, 10)
    parts = []
    for run in runs.dropna(subset="val_loss").itertuples():
        fall = 7 + (run.val_loss - 7) * at / steps
        for name, lift in (("val_loss", 0.0), ("train_loss", -0.3)):
            parts.append(
                pd.DataFrame({"run_id": run.run_id, "arm": run.arm, "step": at, "name": name, "value": fall + lift})
            )
    return pd.concat(parts, ignore_index=True)


def all_figures(runs: pd.DataFrame, analysis: Analysis, curves: pd.DataFrame) -> dict[str, Figure]:
    arms = [arm.arm for arm in analysis.arms]
    return {
        "forest": figures.forest(analysis.comparisons, 0.02, "difference"),
        "seeds": figures.seed_dots(runs, analysis.arms, "loss"),
        "curves": figures.learning_curves(curves, arms, {"uniform": 7.09, "unigram": 5.51}, "nats"),
        "noise": figures.measurement_noise(runs, arms, "distance"),
    }


def test_same_data_same_bytes_and_no_trace_of_the_day(runs: pd.DataFrame, analysis: Analysis) -> None:
    first, again = (
        {
            name: figures.svg(f, name, "what it shows")
            for name, f in all_figures(runs, analysis, curves_of(runs)).items()
        }
        for _ in range(2)
    )
    assert first == again
    for text in first.values():
        assert "<metadata" not in text
        assert "<image" not in text


def test_style_and_pyplot_are_left_alone(runs: pd.DataFrame, analysis: Analysis) -> None:
    before = dict(mpl.rcParams)
    for name, figure in all_figures(runs, analysis, curves_of(runs)).items():
        figures.svg(figure, name, "")
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def test_ids_of_two_figures_do_not_meet(runs: pd.DataFrame, analysis: Analysis) -> None:
    figure = figures.forest(analysis.comparisons, 0.02, "difference")
    one, other = figures.svg(figure, "one", ""), figures.svg(figure, "other", "")
    assert one.replace("one-", "other-") == other
    assert all(part.startswith("one-") for part in one.split(' id="')[1:])


def test_forest_draws_the_intervals_of_the_analysis(analysis: Analysis) -> None:
    axes = figures.forest(analysis.comparisons, 0.02, "difference").axes[0]
    ends = [tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2]
    for comparison in analysis.comparisons:
        for interval in (comparison.interval95, comparison.interval90):
            assert (interval.low, interval.high) in ends
    low, high = axes.get_xlim()
    assert low == -high
    assert max(abs(c.interval95.low) for c in analysis.comparisons) < high


def test_every_completed_run_is_a_mark_at_its_loss(runs: pd.DataFrame, analysis: Analysis) -> None:
    axes = figures.seed_dots(runs, analysis.arms, "loss").axes[0]
    marks = [line for line in axes.lines if line.get_marker() in set(figures.MARKERS)]
    drawn = sorted(loss for line in marks for loss in line.get_xdata())
    assert drawn == sorted(runs["val_loss"].dropna())
    assert "1 diverged" in axes.get_yticklabels()[1].get_text()


def test_lines_join_the_runs_of_one_seed(runs: pd.DataFrame, analysis: Analysis) -> None:
    def lines(joined: bool) -> int:
        return len(figures.seed_dots(runs, analysis.arms, "loss", joined).axes[0].lines)

    # ten seeds over three arms: two lines each, one fewer where a run diverged
    assert lines(True) - lines(False) == 2 * 10 - 1


def test_curve_is_the_mean_over_seeds_and_reaches_the_last_step(runs: pd.DataFrame, analysis: Analysis) -> None:
    figure = all_figures(runs, analysis, curves_of(runs))["curves"]
    for axes in figure.axes:
        line = next(line for line in axes.lines if line.get_label() == "128x256")
        assert line.get_xdata()[-1] == 1200
        assert line.get_ydata()[-1] == pytest.approx(runs.loc[runs["arm"] == "128x256", "val_loss"].mean())


def test_long_curves_are_thinned_and_keep_their_end(runs: pd.DataFrame) -> None:
    table = figures._over_seeds(curves_of(runs, steps=50_000), "128x256", "val_loss", 0)
    assert len(table) <= 200
    assert table.index[-1] == 50_000


def test_neighbouring_arms_differ_without_colour() -> None:
    looks = figures.looks(12)
    for one, other in pairwise(looks):
        assert one["marker"] != other["marker"]
        assert one["line"] != other["line"]


def test_nothing_recorded_still_draws(snapshot: dict[str, Any], runs: pd.DataFrame) -> None:
    none = runs.iloc[:0]
    drawn = all_figures(none, analyse(none, snapshot), CURVES.empty_table().to_pandas())
    for name, figure in drawn.items():
        assert figures.svg(figure, name, "").endswith("</svg>\n")


def test_names_are_text_whatever_is_in_them(analysis: Analysis) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = figures.svg(figures.forest(analysis.comparisons, 0.02, "唐诗 $x$ <b>"), "forest", 'a "b" <c>')
    assert "唐诗 $x$ &lt;b&gt;" in text
    assert 'aria-label="a &quot;b&quot; &lt;c>"' in text
