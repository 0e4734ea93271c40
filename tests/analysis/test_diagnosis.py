"""The table of faults against alarms, counted by hand from curves that were made up."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.compare import analyse
from analysis.diagnosis import KNOWN_BY, Symptom, diagnose
from analysis.diagnosis_text import numbers_of
from analysis.finding import markdown
from analysis.material import Material
from analysis.records import CURVES, VERDICT
from analysis.report import page, write
from model.diagnostics.faults import SIGNS

ARMS = ("healthy", "leak", "rust")  # the baseline, and two arms with the faults of these names


def points(arm: str, seed: int, **values: float) -> list[dict[str, Any]]:
    """Curve points of one run; alarms and symptoms after the last step, checks before the first."""
    step = {name: 0 if name.startswith("check") else 30 for name in values}
    return [
        {"run_id": f"{arm}{seed}", "arm": arm, "seed": seed, "step": step[n], "name": n.replace("_", " "), "value": v}
        for n, v in values.items()
    ]


def frame(*runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame([point for run in runs for point in run], columns=CURVES.names)


CURVES_OF_SEVEN = frame(
    points("healthy", 0, val_loss=4.0, alarm_rust=0, alarm_leak=0, check_seal=0, symptom_leak=1.0, symptom_rust=3.0),
    points("healthy", 1, val_loss=4.0, alarm_rust=0, alarm_leak=1, check_seal=0, symptom_leak=2.0, symptom_rust=3.0),
    points("leak", 0, val_loss=4.0, alarm_rust=0, alarm_leak=1, check_seal=1, symptom_leak=9.0, symptom_rust=3.0),
    points("leak", 1, val_loss=4.0, alarm_rust=1, alarm_leak=1, check_seal=1, symptom_leak=7.0, symptom_rust=3.0),
    points("leak", 2, val_loss=4.0, alarm_rust=0, alarm_leak=0, check_seal=1, symptom_leak=8.0, symptom_rust=3.0),
    points("rust", 0, val_loss=4.0, alarm_rust=1, alarm_leak=0, check_seal=0, symptom_leak=1.0, symptom_rust=0.5),
    points("rust", 1, val_loss=4.0, check_seal=0),  # of which nothing was looked for in the end
)


def test_alarms_are_counted_by_arm_and_stand_in_the_order_of_the_arms() -> None:
    found = diagnose(CURVES_OF_SEVEN, ARMS)
    assert found is not None
    assert found.columns == ("leak", "rust", "seal")
    assert [(row.arm, row.n, row.raised) for row in found.rows] == [
        ("healthy", 2, (1, 0, 0)),
        ("leak", 3, (2, 1, 3)),
        ("rust", 1, (0, 1, 0)),
    ]
    assert (found.healthy, found.alarmed) == (2, 1)
    assert list(found.sentences) == [
        "The fault of 3 of 4 faulty models was named.",
        "It was missed: leak in 1 of 3.",
        "In the same models 1 alarm named another fault than the one that was built in.",
        "1 of 2 healthy models raised an alarm (95 % interval of it: 1.3 % to 98.7 %).",
    ]


def test_the_number_behind_an_alarm_is_spread_over_seeds() -> None:
    found = diagnose(CURVES_OF_SEVEN, ARMS)
    assert found is not None
    assert [(s.fault, s.faulty, s.healthy) for s in found.symptoms] == [
        ("leak", (7.0, 8.0, 9.0), (1.0, 1.5, 2.0)),
        ("rust", (0.5, 0.5, 0.5), (3.0, 3.0, 3.0)),
    ]


def test_what_a_number_is_and_when_it_alarms_is_what_the_model_has() -> None:
    assert {name: (sign.number, sign.alarm_when) for name, sign in SIGNS.items()} == KNOWN_BY
    symptom = Symptom("dtype-drift", (1.0, 1.0, 1.0), None)
    assert (symptom.number, symptom.alarm_when) == KNOWN_BY["dtype-drift"]
    assert (Symptom("rust", (1, 1, 1), None).number, Symptom("rust", (1, 1, 1), None).alarm_when) == ("", "")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((8.88e-6, 8.88e-6, 1.06e-5), "9e-6 to 1e-5 (9e-6)"),
        ((0.0, 8.6e-8, 0.0859), "0 to 0.0859 (9e-8)"),
        ((4.0, 4.0, 4.0), "4"),
        ((1.0001, 1.0002, 1.0003), "1"),
    ],
)
def test_a_number_has_the_digits_that_tell_something(values: tuple[float, float, float], text: str) -> None:
    assert numbers_of(Symptom("rust", values, None)) == (text, "")


@pytest.mark.parametrize(("n", "high"), [(20, 1 - 0.025 ** (1 / 20)), (3, 1 - 0.025 ** (1 / 3))])
def test_no_alarm_in_n_models_leaves_the_closed_form(n: int, high: float) -> None:
    found = diagnose(frame(*(points("healthy", seed, alarm_leak=0) for seed in range(n))), ["healthy"])
    assert found is not None
    assert found.false_alarms is not None
    assert (found.false_alarms.low, found.false_alarms.high) == (0, pytest.approx(high))


def test_nothing_is_said_where_nothing_was_looked_for() -> None:
    assert diagnose(frame(points("healthy", 0, val_loss=4.0, check_seal=0)), ARMS) is None
    assert diagnose(frame(), ARMS) is None


@pytest.fixture
def material(snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> Callable[..., Material]:
    def make(faults: Mapping[str, str]) -> Material:
        """Ten seeds of three arms; `faults` names the fault that each arm's alarm is raised for."""
        runs = make_runs(snapshot, {arm["name"]: 4.2 for arm in snapshot["arms"]}, 0.02, np.random.default_rng(7))
        curves = [
            point | {"run_id": run["run_id"]}
            for run in runs.to_dict("records")
            for point in points(
                run["arm"],
                run["seed"],
                **{f"alarm_{name}": float(faults.get(run["arm"]) == name) for name in ("96x552", "112x392")},
                symptom_96x552=0.25,
            )
        ]
        return Material(snapshot, runs, pd.DataFrame(curves, columns=CURVES.names), analyse(runs, snapshot))

    return make


def test_the_finding_and_the_page_have_the_table(material: Callable[..., Material], tmp_path: Path) -> None:
    made = material({"96x552": "96x552", "112x392": "96x552"})
    text, html = markdown(made), page(made)
    assert "| 96x552 | 10 | **10 of 10** | 0 |" in text
    assert "| 112x392 | 10 | 10 of 10 | **0** |" in text
    assert "| 128x256 | 10 | 0 | 0 |" in text
    assert "| fault | what it is known by | alarm when | where it is | where it is not |" in text
    assert "| 96x552 |  |  | 0.25 | 0.25 |" in text
    assert '<h2 id="diagnosis">' in html
    assert '<td class="selected">10 of 10</td>' in html
    for sentence in ("The fault of 10 of 20 faulty models was named.", "It was missed: 112x392 in 10 of 10."):
        assert sentence in text
        assert sentence in html
    write(made, tmp_path)
    told = json.loads((tmp_path / VERDICT).read_text())["diagnosis"]
    assert told["rows"][1] == {"arm": "96x552", "n": 10, "raised": [10, 0]}


def test_other_studies_do_not_mention_it(snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> None:
    runs = make_runs(snapshot, {"128x256": 4.2, "96x552": 4.2}, 0.02, np.random.default_rng(7))
    made = Material(snapshot, runs, CURVES.empty_table().to_pandas(), analyse(runs, snapshot))
    assert "Faults and alarms" not in markdown(made) + page(made)
