"""Figures of what goes on inside models: that they show the numbers, at limits that are those of the checks."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from analysis import anatomy
from analysis.compare import analyse
from analysis.material import Material
from analysis.report import page
from model.diagnostics import live
from model.diagnostics.anatomy import summary
from model.diagnostics.checks import ACTIVATION_RATIO, ADJACENT_KL, ENTROPY, GRADIENT_RATIO
from model.diagnostics.initial import at_initialisation
from model.transformer import ModelConfig

TINY = ModelConfig(layers=2, d_model=16, context=8, vocabulary=12)


def curves(arms: dict[str, list[float]]) -> pd.DataFrame:
    """Of each arm a run per value, at that value after 100 updates and at nothing before them."""
    return pd.DataFrame(
        [
            (f"{arm}{seed}", arm, seed, step, f"{anatomy.INSIDE}{name}", value if step else 0.0)
            for arm, values in arms.items()
            for seed, value in enumerate(values)
            for name in anatomy.PANELS
            for step in (0, 100)
        ],
        columns=["run_id", "arm", "seed", "step", "name", "value"],
    )


def lines(axes: Axes) -> list[list[float]]:
    return [np.asarray(line.get_ydata(), dtype=float).tolist() for line in axes.lines]


def test_names_and_limits_are_those_of_the_measurements() -> None:
    assert anatomy.INSIDE == live.INSIDE
    assert set(anatomy.PANELS) <= set(summary(at_initialisation(TINY, (2,))[2]))
    ranges = {name: (low, high) for name, (_, low, high) in anatomy.PANELS.items() if low or high}
    assert ranges == {
        "activation_ratio": (None, ACTIVATION_RATIO),
        "gradient_ratio": (1 / GRADIENT_RATIO, GRADIENT_RATIO),
        "adjacent_kl": (ADJACENT_KL, None),
        "attention_entropy": ENTROPY,
    }


def test_the_panel_shows_each_arms_median() -> None:
    figure = anatomy.inside_models(curves({"a": [1.0, 2.0, 30.0], "b": [5.0]}), ["b", "a", "not run"])
    assert len(figure.axes) == len(anatomy.PANELS)
    for axes in figure.axes:
        assert lines(axes) == [[0.0, 5.0], [0.0, 2.0]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["b", "a"]


def test_whether_there_is_anything_to_show() -> None:
    found = curves({"a": [1.0]})
    assert anatomy.measured(found)
    assert not anatomy.measured(found.assign(name="val_loss"))
    assert not anatomy.measured(found[:0])


def test_profiles_and_kl_are_drawn_as_given() -> None:
    figure = anatomy.residual_profile({"now": [1.0, 2.0, 3.0]}, {"now": [0.001, 0.1, 1.0]})
    assert [lines(axes) for axes in figure.axes] == [[[1.0, 2.0, 3.0]], [[0.001, 0.1, 1.0]]]
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]
    (axes,) = anatomy.adjacent_kl({"now": [0.2, 0.3]}).axes
    assert lines(axes)[0] == [0.2, 0.3]
    assert set(lines(axes)[1]) == {ADJACENT_KL}


def test_the_heat_map_has_a_square_per_layer_and_head() -> None:
    (axes,) = anatomy.attention_entropy([[0.1, 0.9, 0.5], [1.0, 0.0, math.nan]]).axes
    assert [text.get_text() for text in axes.texts] == ["0.10", "0.90", "0.50", "1.00", "0.00"]
    assert not anatomy.attention_entropy([[0.5] * 12]).axes[0].texts


def test_norms_and_memory_say_what_is_wrong() -> None:
    (axes,) = anatomy.norm_inputs(["blocks.0.attention_norm", "head.norm"], [0.1, 0.2], [0.01, 0.02], [1e-4, 1e-4]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0.attention_norm", "head.norm"]
    assert axes.lines[2].get_xdata() == pytest.approx([0.01, 0.01])
    figure = anatomy.memory([[0.0, 0.5, 0.0, 1.0]], [[0.95, 0.1, 0.2, 0.95]], 0.9)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["block 0: 50.0% dead", "50.0% twins"]


def test_a_report_has_the_panel_where_there_is_something_to_show(
    snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    """Runs of today beside those of a version that did not look inside, which the panel leaves out."""
    runs = make_runs(snapshot, {"128x256": 4.15, "96x552": 4.10}, 0.02, np.random.default_rng(0))
    loss = curves({"128x256": [4.0]}).assign(name="val_loss", run_id=runs["run_id"][0]).drop_duplicates("step")
    inside = curves({"128x256": [1.0]}).assign(run_id=runs["run_id"][0])
    for measured, ids in ((loss, False), (pd.concat([loss, inside]), True)):
        text = page(Material(snapshot, runs, measured, analyse(runs, snapshot)))
        assert ('id="inside"' in text) == ids
        assert ("stream, last / first" in text) == ids


def test_depths_are_drawn_into_files(tmp_path: Path) -> None:
    found = {"pre-norm": {n: a.plain() for n, a in at_initialisation(TINY, (1, 2)).items()}}
    (path,) = anatomy.draw_depths(found, tmp_path / "figures")
    assert path == tmp_path / "figures" / "initial-pre-norm.svg"
    assert "2 layers" in path.read_text()
