"""Figures: the data really are in them, the same data give the same bytes, and nothing touches pyplot's state."""

import dataclasses
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

from analysis import drawing, figures, lines
from analysis.compare import Analysis, analyse
from analysis.drawing import svg
from analysis.intervals import Interval
from analysis.records import CURVES
from analysis.sequential import Look
from analysis.tuning import ArmTuning, PointSummary, Tuning

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
        "curves": lines.learning_curves(curves, arms, {"uniform": 7.09, "unigram": 5.51}, "nats"),
        "noise": figures.measurement_noise(runs, arms, "distance"),
        "response": lines.response(*grid_of(runs), "loss"),
    }


def test_same_data_same_bytes_and_no_trace_of_the_day(runs: pd.DataFrame, analysis: Analysis) -> None:
    first, again = (
        {name: svg(f, name, "what it shows") for name, f in all_figures(runs, analysis, curves_of(runs)).items()}
        for _ in range(2)
    )
    assert first == again
    for text in first.values():
        assert "<metadata" not in text
        assert "<image" not in text


def test_style_and_pyplot_are_left_alone(runs: pd.DataFrame, analysis: Analysis) -> None:
    before = dict(mpl.rcParams)
    for name, figure in all_figures(runs, analysis, curves_of(runs)).items():
        svg(figure, name, "")
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def test_ids_of_two_figures_do_not_meet(runs: pd.DataFrame, analysis: Analysis) -> None:
    figure = figures.forest(analysis.comparisons, 0.02, "difference")
    one, other = svg(figure, "one", ""), svg(figure, "other", "")
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
    marks = [line for line in axes.lines if line.get_marker() in set(drawing.MARKERS)]
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


def test_names_of_levels_that_lie_close_stand_above_each_other(runs: pd.DataFrame, analysis: Analysis) -> None:
    arms, names = [arm.arm for arm in analysis.arms], {"guess": 5.52, "unigram": 5.51, "uniform": 7.09}
    named = lines.learning_curves(curves_of(runs), arms, names, "nats").axes[0].texts
    assert [text.get_text() for text in named] == ["guess 5.52\nunigram 5.51", "uniform 7.09"]
    far = lines.learning_curves(curves_of(runs), arms, {"guess": 6.0, "unigram": 5.51}, "nats").axes[0].texts
    assert [text.get_text() for text in far] == ["unigram 5.51", "guess 6.00"]
    apart = lines.learning_curves(curves_of(runs), arms, {"above": 4.13, "below": 4.0}, "nats").axes[0].texts
    assert [text.get_text() for text in apart] == ["below 4.00", "above 4.13"]


def test_long_curves_are_thinned_and_keep_their_end(runs: pd.DataFrame) -> None:
    table = lines._over_seeds(curves_of(runs, steps=50_000), "128x256", "val_loss", 0)
    assert len(table) <= 200
    assert table.index[-1] == 50_000


def test_neighbouring_arms_differ_without_colour() -> None:
    looks = drawing.appearances(12)
    for one, other in pairwise(looks):
        assert one["marker"] != other["marker"]
        assert one["line"] != other["line"]


def test_nothing_recorded_still_draws(snapshot: dict[str, Any], runs: pd.DataFrame) -> None:
    none = runs.iloc[:0]
    drawn = all_figures(none, analyse(none, snapshot), CURVES.empty_table().to_pandas())
    for name, figure in drawn.items():
        assert svg(figure, name, "").endswith("</svg>\n")


def test_names_are_text_whatever_is_in_them(analysis: Analysis) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = svg(figures.forest(analysis.comparisons, 0.02, "唐诗 $x$ <b>"), "forest", 'a "b" <c>')
    assert "唐诗 $x$ &lt;b&gt;" in text
    assert 'aria-label="a &quot;b&quot; &lt;c>"' in text


def looked_at(analysis: Analysis, ends: list[tuple[float, float]]) -> Any:
    """The first comparison with a look for each interval in `ends`, which is the 95 % one."""
    looks = tuple(
        Look(
            seeds,
            seeds,
            sum(e) / 2 if np.isfinite(e).all() else 0.0,
            Interval(*e, 0.95),
            Interval(*e, 0.9),
            0.5,
            0.5,
            0.01,
        )
        for seeds, e in zip((3, 5, 8), ends, strict=True)
    )
    return dataclasses.replace(analysis.comparisons[0], looks=looks)


def test_a_look_is_a_row_and_what_runs_out_of_view_an_arrow(analysis: Analysis) -> None:
    comparison = looked_at(analysis, [(-np.inf, np.inf), (-0.3, 0.02), (-0.05, -0.01)])
    axes = figures.forest_of_looks(comparison, 0.02, "difference").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "3 seeds",
        "5 seeds",
        f"8 seeds\n({comparison.verdict})",
    ]
    arrows = sorted((line.get_ydata()[0], line.get_marker()) for line in axes.lines if line.get_marker() in "<>")
    assert arrows == [(0, "<"), (0, ">"), (1, "<")]
    assert axes.get_xlim()[1] < 0.3
    assert (-0.05, -0.01) in [tuple(line.get_xdata()) for line in axes.lines]


def test_without_a_margin_there_is_no_band(analysis: Analysis) -> None:
    def titles(margin: float | None) -> str:
        return figures.forest(analysis.comparisons, margin, "difference").axes[0].get_title()

    assert (titles(None), titles(0.02)) == ("", "margin ±0.02")


def test_the_target_is_a_line(runs: pd.DataFrame, analysis: Analysis) -> None:
    axes = figures.seed_dots(runs, analysis.arms, "loss", joined=False, target=4.12).axes[0]
    assert [4.12, 4.12] in [list(line.get_xdata()) for line in axes.lines]


def test_of_very_many_seeds_the_extremes_are_drawn(runs: pd.DataFrame, analysis: Analysis) -> None:
    losses = pd.Series(np.random.default_rng(0).normal(size=10_000))
    drawn = figures._spread_out(losses)
    assert len(drawn) == figures.MOST_DOTS
    assert (drawn[0], drawn[-1]) == (losses.min(), losses.max())


POINTS = (3e-4, 1e-3, 3e-3)


def grid_of(runs: pd.DataFrame) -> tuple[pd.DataFrame, Tuning]:
    """The runs as tuning runs at each point, and a grid that says so; 96x552 diverged twice at the highest point."""
    tuned = pd.concat([runs.assign(stage="tune", point=point) for point in POINTS])
    arms = tuple(
        ArmTuning(
            arm,
            tuple(
                PointSummary(p, 9, m, 0.02, 2 * (p == 3e-3 and arm == "96x552"))
                for p, m in zip(POINTS, (4.3, mean, 4.5), strict=True)
            ),
            1e-3,
            False,
        )
        for arm, mean in MEANS.items()
    )
    return tuned, Tuning("optimizer.learning_rate", POINTS, 10, arms, ())


def test_the_response_shows_every_run_the_means_the_selected_and_the_diverged(runs: pd.DataFrame) -> None:
    tuned, tuning = grid_of(runs)
    axes = lines.response(tuned, tuning, "loss").axes[0]
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.0003", "0.001", "0.003"]
    marks = [
        line for line in axes.lines if line.get_linestyle() == "None" and line.get_marker() in set(drawing.MARKERS)
    ]
    drawn = sorted(loss for line in marks for loss in line.get_ydata() if len(line.get_xdata()) > 1)
    assert drawn == sorted(tuned["val_loss"].dropna())
    means = {line.get_label(): list(line.get_ydata()) for line in axes.lines if line.get_label() in MEANS}
    assert means == {arm: [4.3, mean, 4.5] for arm, mean in MEANS.items()}
    rings = [line for line in axes.lines if line.get_markersize() == 14]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in rings] == [(1e-3, mean) for mean in MEANS.values()]
    (cross,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [3e-3]
    assert "2 of 11" in [text.get_text() for text in axes.texts]


def test_a_grid_with_zero_has_a_plain_axis_and_many_points_few_names(runs: pd.DataFrame) -> None:
    points = tuple(0.1 * i for i in range(8))
    arm = ArmTuning("128x256", tuple(PointSummary(p, 0, np.nan, np.nan, 3) for p in points), None, True)
    figure = lines.response(runs.iloc[:0].assign(point=0.1), Tuning("dropout", points, 3, (arm,), ()), "loss")
    assert figure.axes[0].get_xscale() == "linear"
    named = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert named[:3] == ["0", "", "0.2"]
    assert svg(figure, "response", "").endswith("</svg>\n")
