"""Scores and contrasts of trained models: held against SciPy, against the comparisons of arms, and told everywhere."""

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats

from analysis.compare import analyse
from analysis.design import TUNE
from analysis.finding import markdown
from analysis.material import Material
from analysis.methods import methods
from analysis.records import CURVES, Records
from analysis.report import page, write
from analysis.scorings import Scored, scored
from analysis.terminal import contrasts_table
from analysis.verdict import Verdict, holm_shaffer

BASE, WIDE, MIDDLE = "128x256", "96x552", "112x392"
MEANS = {BASE: 4.15, WIDE: 4.10, MIDDLE: 4.155}
FAR = "at 128"
Runs = Callable[..., pd.DataFrame]


def cell(arm: str, scoring: str = "", less: dict[str, Any] | None = None, label: str = "") -> dict[str, Any]:
    own = f"{arm} {scoring}".strip()
    return {"label": label or own, "arm": arm, "scoring": scoring, "less": less}


def contrast(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "cell": ours, "baseline": theirs}


def place(arm: str, scoring: str, at: int) -> dict[str, Any]:
    label = f"{arm} {scoring}".strip()
    return {"name": scoring, "label": label, "axis": "length", "panel": "", "lines": [""], "at": at}


ACROSS = contrast("across", cell(WIDE, FAR), cell(BASE, FAR))
WITHIN = contrast("within", cell(WIDE, FAR), cell(WIDE))
BETWEEN = contrast(
    "between", cell(WIDE, FAR, cell(WIDE), "wide's loss of far"), cell(BASE, FAR, cell(BASE), "base's loss of far")
)


@pytest.fixture
def asked(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The snapshot with every arm scored at 128 as well, and three contrasts."""
    for arm in snapshot["arms"]:
        arm["scored"] = [place(arm["name"], "", 64), place(arm["name"], FAR, 128)]
    return snapshot | {"contrasts": [ACROSS, WITHIN, BETWEEN]}


@pytest.fixture
def runs(asked: dict[str, Any], make_runs: Runs) -> pd.DataFrame:
    return make_runs(asked, MEANS, 0.02, np.random.default_rng(0))


def points(runs: pd.DataFrame, rng: np.random.Generator, shift: float = 0.1) -> pd.DataFrame:
    """The score of each completed run, as its curves hold it, among other curves."""
    rows = []
    for run in runs[runs["status"] == "completed"].itertuples():
        same = {"run_id": run.run_id, "arm": run.arm, "seed": run.seed, "step": 1200}
        rows.append(same | {"name": f"val_loss {FAR}", "value": run.val_loss + shift + 0.01 * rng.normal()})
        rows.append(same | {"name": "val_loss", "value": run.val_loss})
    return pd.DataFrame(rows, columns=CURVES.names)


@pytest.fixture
def curves(runs: pd.DataFrame) -> pd.DataFrame:
    return points(runs, np.random.default_rng(1))


def by_seed(frame: pd.DataFrame, arm: str, column: str) -> np.ndarray:
    own = frame[frame["arm"] == arm].sort_values("seed")
    return own[column].to_numpy(float)


def test_contrasts_are_paired_t_tests_corrected_as_one_family(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame
) -> None:
    far = curves[curves["name"] == f"val_loss {FAR}"]
    there = {arm: by_seed(far, arm, "value") for arm in MEANS}
    here = {arm: by_seed(runs, arm, "val_loss") for arm in MEANS}
    sides = {
        "across": (there[WIDE], there[BASE]),
        "within": (there[WIDE], here[WIDE]),
        "between": (there[WIDE] - here[WIDE], there[BASE] - here[BASE]),
    }
    expected = {name: stats.ttest_rel(*pair).pvalue for name, pair in sides.items()}
    found = scored(runs, curves, asked).contrasts
    assert list(found) == list(sides)
    for name, c in found.items():
        ours, theirs = sides[name]
        assert c.difference == pytest.approx((ours - theirs).mean())
        assert c.p_difference == pytest.approx(expected[name])
        assert c.n == 10
    adjusted, _ = holm_shaffer([*expected.values()], [c.p_equivalence for c in found.values()])
    np.testing.assert_allclose([c.p_difference_adjusted for c in found.values()], adjusted)
    assert found["within"].verdict is Verdict.WORSE
    assert found["between"].sentence.startswith("wide's loss of far ")


@pytest.mark.parametrize("kind", ["fixed", "until_decided", "open"])
def test_contrasts_of_held_out_losses_are_the_comparisons_of_the_arms(
    asked: dict[str, Any], runs: pd.DataFrame, kind: str
) -> None:
    """In every design, diverged and missing runs included: the same numbers, verdicts and words."""
    asked |= {"design": {"kind": kind, "looks": [10] if kind == "fixed" else [3, 5, 10]}}
    asked["contrasts"] = [contrast(arm, cell(arm), cell(BASE)) for arm in (WIDE, MIDDLE)]
    runs.loc[runs["run_id"] == runs["run_id"][3], ["status", "val_loss", "diverged_at"]] = ["diverged", np.nan, 7.0]
    runs = runs[~((runs["arm"] == WIDE) & (runs["seed"] == 9))]
    for c, expected in zip(
        scored(runs, CURVES.empty_table().to_pandas(), asked).contrasts.values(),
        analyse(runs, asked).comparisons,
        strict=True,
    ):
        lost = tuple(replace(d, why=d.why.replace("recorded loss", "recorded run")) for d in c.dropped)
        assert repr(replace(c, dropped=lost)) == repr(expected)


def test_on_a_grid_a_contrast_names_the_points_of_all_its_arms(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame
) -> None:
    for arm, point in zip(asked["arms"], (1e-3, 3e-3, 3e-4), strict=True):
        arm["selected"] = point
    asked["tuning"] = {"key": "optimizer.learning_rate", "points": [3e-4, 1e-3, 3e-3], "seeds": [7, 8, 9]}
    more = cell(WIDE, FAR, cell(BASE, FAR), "wide's over base's")
    asked["contrasts"] = [ACROSS, WITHIN, contrast("of two arms", more, cell(MIDDLE, FAR))]
    said = {name: c.sentence for name, c in scored(runs, curves, asked).contrasts.items()}
    assert said["across"].startswith(
        f"At the selected learning rates (0.003 for {WIDE}, 0.001 for {BASE}): {WIDE} {FAR}"
    )
    assert said["within"].startswith(f"At the selected learning rate (0.003 for {WIDE}): ")
    points = f"0.003 for {WIDE}, 0.001 for {BASE}, 0.0003 for {MIDDLE}"
    assert said["of two arms"].startswith(f"At the selected learning rates ({points}): ")
    asked["arms"][0]["selected"] = None
    unselected = scored(runs, curves, asked).contrasts["of two arms"]
    assert unselected.sentence.startswith("wide's over base's ")


def test_contrasts_do_not_touch_the_comparisons_of_the_arms(asked: dict[str, Any], runs: pd.DataFrame) -> None:
    assert repr(analyse(runs, asked)) == repr(analyse(runs, asked | {"contrasts": []}))


def test_a_score_is_the_mean_over_the_seeds(asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame) -> None:
    found = scored(runs, curves, asked).scores
    assert list(found) == [(arm["name"], how) for arm in asked["arms"] for how in ("", FAR)]
    values = curves[(curves["arm"] == WIDE) & (curves["name"] == f"val_loss {FAR}")]["value"]
    low, high = stats.t.interval(0.95, 9, values.mean(), stats.sem(values))
    one = found[WIDE, FAR]
    assert (one.n, one.mean, one.interval95.low, one.interval95.high) == pytest.approx((10, values.mean(), low, high))
    assert found[WIDE, ""].mean == pytest.approx(by_seed(runs, WIDE, "val_loss").mean())


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_seeds_decide_nothing(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame, n: int
) -> None:
    found = scored(runs[runs["seed"] < n], curves, asked)
    assert {c.verdict for c in found.contrasts.values()} == {Verdict.UNDECIDED}
    assert all("a verdict needs at least 3" in c.sentence for c in found.contrasts.values())
    assert {one.n for one in found.scores.values()} == {n}


def test_a_diverged_run_and_a_score_that_is_not_finite_are_told(
    asked: dict[str, Any], make_runs: Runs, tmp_path: Path
) -> None:
    runs = make_runs(asked, MEANS, 0.02, np.random.default_rng(0), diverged=[(WIDE, 3)])
    curves = points(runs, np.random.default_rng(1))
    broken = (curves["arm"] == WIDE) & (curves["seed"] == 5) & (curves["name"] == f"val_loss {FAR}")
    for value in (np.inf, np.nan):
        curves.loc[broken, "value"] = value
        found = scored(runs, curves, asked)
        across, between = found.contrasts["across"], found.contrasts["between"]
        assert [(d.seed, d.why) for d in across.dropped] == [
            (3, f"{WIDE} {FAR} diverged at step 312"),
            (5, f"{WIDE} {FAR} diverged"),
        ]
        assert across.sentence.startswith("Given convergence (2 of 10 runs")
        assert (across.n, across.diverged_arm, between.n, between.diverged_arm) == (8, 2, 8, 2)
        assert (found.scores[WIDE, FAR].diverged, found.scores[WIDE, ""].diverged) == (2, 1)
    assert "left out of" in page(Material(asked, runs, curves, analyse(runs, asked)))


def test_scores_lost_by_half_of_an_arm_decide_nothing(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame
) -> None:
    """Survivors are another sample: with six of ten not finite in one arm alone, the rate is what differs."""
    lost = (curves["arm"] == WIDE) & (curves["seed"] < 6) & (curves["name"] == f"val_loss {FAR}")
    curves.loc[lost, "value"] = np.inf
    across = scored(runs, curves, asked).contrasts["across"]
    assert across.verdict is Verdict.UNDECIDED
    assert "the rates of divergence differ" in across.sentence


def test_a_run_without_its_score_is_named(asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame) -> None:
    curves = curves[~((curves["arm"] == BASE) & (curves["seed"] == 4) & (curves["name"] != "val_loss"))]
    found = scored(runs, curves, asked)
    across = found.contrasts["across"]
    assert [(d.seed, d.why) for d in across.dropped] == [(4, f"{BASE} {FAR} has no recorded loss")]
    assert (across.n, found.contrasts["within"].n, found.scores[BASE, FAR].missing) == (9, 10, (4,))


def test_an_arm_that_was_decided_earlier_lacks_no_seeds(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame
) -> None:
    """The baseline stopped at the look at five seeds and the arm went on, for another contrast."""
    asked["design"] = {"kind": "until_decided", "looks": [3, 5, 10]}
    asked["runs"] = [run for run in asked["runs"] if run["arm"] == WIDE or run["seed"] < 5]
    there = runs[(runs["arm"] == WIDE) | (runs["seed"] < 5)]
    across = scored(there, curves, asked).contrasts["across"]
    assert (across.n, across.dropped, [look.seeds for look in across.looks]) == (5, (), [3, 5])
    without = there[~((there["arm"] == BASE) & (there["seed"] == 4))]
    across = scored(without, curves, asked).contrasts["across"]
    assert [d.seed for d in across.dropped] == [4]


def test_a_condition_that_changes_nothing_is_no_evidence(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame
) -> None:
    """Scores that are the held-out losses: equal to the last digit, which would read as equivalence."""
    far = curves["name"] == f"val_loss {FAR}"
    curves.loc[far, "value"] = curves[far]["run_id"].map(runs.set_index("run_id")["val_loss"])
    within = scored(runs, curves, asked).contrasts["within"]
    assert within.verdict is Verdict.UNDECIDED
    assert "may not reach what is scored" in within.sentence


def test_runs_that_tuned_a_grid_are_not_scored(asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame) -> None:
    tuning = runs.assign(stage=TUNE, seed=runs["seed"] + 1000, run_id="t" + runs["run_id"])
    both = pd.concat([runs, tuning], ignore_index=True)
    more = pd.concat([curves, curves.assign(run_id="t" + curves["run_id"], value=9.0)], ignore_index=True)
    assert repr(scored(both, more, asked)) == repr(scored(runs, curves, asked))


def test_of_a_study_without_scorings_nothing_is_said(snapshot: dict[str, Any], make_runs: Runs, tmp_path: Path) -> None:
    """Also where it was recorded before there were any."""
    runs = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(0))
    material = Material(snapshot, runs, CURVES.empty_table().to_pandas(), analyse(runs, snapshot))
    assert material.scored == Scored({}, {})
    assert "otherwise" not in markdown(material) + page(material) + methods(material)
    write(material, tmp_path)
    assert "contrasts" not in json.loads((tmp_path / "verdict.json").read_text())


def test_page_finding_json_and_terminal_say_the_same(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame, tmp_path: Path
) -> None:
    material = Material(asked, runs, curves, analyse(runs, asked))
    write(material, tmp_path)
    html, finding = ((tmp_path / name).read_text() for name in ("report.html", "finding.md"))
    data = json.loads((tmp_path / "verdict.json").read_text())
    said = [c.sentence for c in material.scored.contrasts.values()]
    for sentence in said:
        assert sentence.replace(" %", "\N{NO-BREAK SPACE}%").replace("'", "&#39;") in html
        assert sentence in finding
    assert [c["sentence"] for c in data["contrasts"]] == said
    assert [c["name"] for c in data["contrasts"]] == ["across", "within", "between"]
    assert {(one["arm"], one["scoring"]) for one in data["scores"]} == {
        (arm, how) for arm in MEANS for how in ("held-out loss", FAR)
    }
    assert html.count('aria-label="Loss by the condition') == html.count('aria-label="Difference of each contrast') == 1
    assert "m = 3" in methods(material)
    console = Console(file=StringIO(), width=80)
    console.print(contrasts_table(material.scored, asked))
    shown = console.file.getvalue()
    assert all(c.verdict.split()[0] in shown for c in material.scored.contrasts.values())
    assert max(map(len, shown.splitlines())) <= 80


def test_solved_models_whose_contrasts_are_decided_raise_no_alarm(
    asked: dict[str, Any], make_runs: Runs, tmp_path: Path
) -> None:
    """Read from a folder, as a report is: without its contrasts the same study shows nothing."""
    runs = make_runs(asked, dict.fromkeys(MEANS, 0.004), 0.0005, np.random.default_rng(0))
    curves = points(runs, np.random.default_rng(1))
    rows = runs.drop(columns=["stage", "point"]).astype({"diverged_at": object})
    records = Records(tmp_path)
    records.append(rows.where(rows.notna(), None).to_dict("records"), curves.to_dict("records"))
    said = "too easy to show a difference"
    for contrasts in ([WITHIN], []):
        records.write_snapshot(asked | {"contrasts": contrasts})
        material = Material.read(tmp_path)
        (task,) = [point for point in material.checklist if "show the effect" in point.question]
        assert task.answer == ("verified" if contrasts else "not met")
        assert all((said in text) == (not contrasts) for text in (markdown(material), page(material)))


def test_what_a_guess_costs_on_each_part_stands_beside_the_scores(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame
) -> None:
    guesses = {"facts": np.log(64), "brackets": np.log(8)}
    said = "A guess among the possible answers costs 4.16 on facts and 2.08 on brackets (nats per character): "
    for told in (guesses, {}, None):
        snapshot = asked if told is None else asked | {"guesses": told}
        material = Material(snapshot, runs, curves, analyse(runs, snapshot))
        assert [text.count(said) for text in (markdown(material), page(material))] == [bool(told)] * 2


def test_looks_at_contrasts_are_shown_by_their_names(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame
) -> None:
    """Beside those at the comparisons of the arms, with figures of their own."""
    asked["design"] = {"kind": "until_decided", "looks": [3, 5, 10]}
    material = Material(asked, runs, curves, analyse(runs, asked))
    finding, html = markdown(material), page(material)
    looks = finding.split("## Looks")[1].split("\n## ")[0]
    rows = [line.split(" | ")[:2] for line in looks.splitlines() if line.startswith("| ")][2:]
    names = [WIDE, MIDDLE, "across", "within", "between"]
    assert rows == [[f"| {name}", str(seeds)] for name in names for seeds in (3, 5, 10)]
    for name in names:
        assert html.count(f'aria-label="Difference of {name} at each look') == 1
        assert f'aria-label="Looks at {name}"' in html
    assert html.count("with its repeated 95 % interval".replace(" %", "\N{NO-BREAK SPACE}%")) >= 7


def test_contrasts_of_too_few_seeds_are_one_sentence(
    asked: dict[str, Any], runs: pd.DataFrame, curves: pd.DataFrame
) -> None:
    few = runs[runs["seed"] < 2]
    material = Material(asked, few, curves, analyse(few, asked))
    console = Console(file=StringIO(), width=80)
    console.print(contrasts_table(material.scored, asked))
    for text in (markdown(material), page(material), " ".join(console.file.getvalue().split())):
        assert text.count("None of 3 contrasts can be decided: each has 2 paired seeds and needs 3.") == 1
        assert "a verdict needs at least 3" not in text


def test_a_study_of_one_arm_is_its_contrasts(asked: dict[str, Any], make_runs: Runs) -> None:
    """No comparison of arms is made up where there is none."""
    asked |= {"arms": asked["arms"][:1], "contrasts": [contrast("far or near", cell(BASE, FAR), cell(BASE))]}
    asked["runs"] = [run for run in asked["runs"] if run["arm"] == BASE]
    runs = make_runs(asked, {BASE: 4.15}, 0.02, np.random.default_rng(0))
    curves = points(runs, np.random.default_rng(1))
    material = Material(asked, runs, curves, analyse(runs, asked))
    html, text = page(material), methods(material)
    assert 'id="scored"' in html
    assert 'id="difference"' not in html
    assert "#difference" not in html
    assert "No arm was" not in text + html
    assert "1 contrast of these scores was declared" in text


def test_a_neighbour_gives_its_scores_too(tmp_path: Path, asked: dict[str, Any], runs: pd.DataFrame) -> None:
    """Whatever study recorded a run first, its scores come with it."""
    one = runs.drop(columns=["stage", "point"]).to_dict("records")[0] | {"diverged_at": None}
    point = {"run_id": one["run_id"], "arm": one["arm"], "seed": one["seed"], "step": 1200, "value": 4.5}
    other = Records(tmp_path / "other")
    other.write_snapshot(asked)
    other.append([one], [point | {"name": name} for name in ("val_loss", f"val_loss {FAR}")])
    rows, curves = Records(tmp_path / "own").neighbours([one["run_id"]])
    assert [row["run_id"] for row in rows] == [one["run_id"]]
    assert {p["name"] for p in curves} == {"val_loss", f"val_loss {FAR}"}
