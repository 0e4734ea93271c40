"""The command line for anyone's results, end to end: the verdicts are SciPy's tests, stdout is one document, and every
mistake is a sentence."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.judge import main

Losses = Mapping[str, Mapping[object, object]]  # arm -> seed -> what is written in the cell
Judge = Callable[..., dict[str, Any]]
Table = Callable[[Losses], str]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    def write(losses: Losses) -> str:
        path = tmp_path / "results.csv"
        rows = [f"{arm},{seed},{cell}\n" for arm, cells in losses.items() for seed, cell in cells.items()]
        path.write_text("arm,seed,val_loss\n" + "".join(rows))
        return str(path)

    return write


@pytest.fixture
def judge(table: Table, capsys: pytest.CaptureFixture[str]) -> Judge:
    """The JSON of a table of losses; A is the baseline unless the options say otherwise."""

    def run(losses: Losses, *options: str, margin: float = 0.05) -> dict[str, Any]:
        compared = options if "--target" in options else ("--baseline", "A", "--margin", str(margin), *options)
        assert main([table(losses), "--metric", "val_loss", *compared, "--json"]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        found: dict[str, Any] = json.loads(out)
        return found

    return run


def only(found: Mapping[str, Any]) -> dict[str, Any]:
    (comparison,) = found["comparisons"]
    return dict(comparison)


def by_seed(values: Sequence[float], first: int = 0) -> dict[object, object]:
    return {seed: repr(float(value)) for seed, value in enumerate(values, first)}


A, B = ([3.0, 3.2, 3.1, 3.3, 3.25], [2.9, 3.15, 3.0, 3.1, 3.2])


def test_a_small_table_by_hand(judge: Judge) -> None:
    """Differences -0.1, -0.2, -0.3: t = -2 sqrt 3 with two degrees of freedom, where t's distribution is algebraic."""
    found = judge({"A": {0: 1, 1: 2, 2: 3}, "B": {0: 0.9, 1: 1.8, 2: 2.7}})
    assert {key: found[key] for key in ("source", "metric", "unit", "baseline", "margin", "target", "paired")} == {
        "source": "results.csv",
        "metric": "val_loss",
        "unit": "",
        "baseline": "A",
        "margin": 0.05,
        "target": None,
        "paired": True,
    }
    b = only(found)
    t = 2 * 3**0.5
    assert (b["arm"], b["baseline"], b["verdict"], b["n"], b["paired"]) == ("B", "A", "undecided", 3, True)
    assert b["difference"] == pytest.approx(-0.2)
    assert b["p"] == pytest.approx(1 - t / (2 + t**2) ** 0.5)
    assert [b["ci_low"], b["ci_high"]] == pytest.approx([-0.2 - 4.302653 / 300**0.5, -0.2 + 4.302653 / 300**0.5], 1e-6)
    low, high = b["seeds_needed"]
    assert 3 < low < high
    assert (b["dropped"], b["diverged_arm"], b["diverged_baseline"]) == ([], 0, 0)
    assert found["alarms"] == []
    assert found["notes"] == [
        "Read from results.csv: 6 runs of 2 arms.",
        "Paired by seed, since the arms share seeds with A: t tests of the differences per seed.",
    ]


def test_paired_is_scipy(judge: Judge) -> None:
    b = only(judge({"A": by_seed(A), "B": by_seed(B)}))
    oracle = stats.ttest_rel(B, A)
    interval = oracle.confidence_interval(0.95)
    assert b["p"] == pytest.approx(oracle.pvalue)
    assert [b["ci_low"], b["ci_high"]] == pytest.approx([interval.low, interval.high])
    assert b["verdict"] == ("better" if oracle.pvalue < 0.05 else "undecided")


@pytest.mark.parametrize("asked", [False, True])
def test_unpaired_is_welch(judge: Judge, asked: bool) -> None:
    """Because no seed is shared, or because it was asked for; the arms need not have equally many runs."""
    first = 0 if asked else 100
    found = judge({"A": by_seed(A), "B": by_seed(B[:4], first)}, *["--unpaired"] * asked)
    b, oracle = only(found), stats.ttest_ind(B[:4], A, equal_var=False)
    interval = oracle.confidence_interval(0.95)
    assert found["paired"] is b["paired"] is False
    assert b["p"] == pytest.approx(oracle.pvalue)
    assert [b["ci_low"], b["ci_high"]] == pytest.approx([interval.low, interval.high])
    assert (b["n"], b["n_arm"], b["n_baseline"]) == (4, 4, 5)
    assert ("as asked" if asked else "no arm shares a seed") in found["notes"][-1]


@pytest.mark.parametrize("alpha", [None, 0.01])
@pytest.mark.parametrize(("shift", "side"), [(-0.04, "less"), (-0.4, "less"), (0.4, "greater")])
def test_a_target_is_a_one_sided_test(judge: Judge, shift: float, side: str, alpha: float | None) -> None:
    values = [3.28 + shift + z for z in (0.05, -0.06, 0.01, 0.02, -0.03, 0.01)]
    given = [] if alpha is None else ["--alpha", str(alpha)]
    found = judge({"A": by_seed(values)}, "--target", "3.28", *given)
    a, p = only(found), stats.ttest_1samp(values, 3.28, alternative=side).pvalue
    assert (found["target"], found["alpha"], found["margin"], found["paired"]) == (3.28, alpha or 0.05, None, False)
    assert (a["arm"], a["baseline"], a["n"]) == ("A", "target 3.28", 6)
    assert a["p"] == pytest.approx(p)
    shown = {"less": "better", "greater": "worse"}[side]
    assert a["verdict"] == (shown if p < (alpha or 0.05) else "undecided")


def test_the_error_rate_of_a_target_decides(judge: Judge) -> None:
    values = [3.24, 3.20, 3.25, 3.26, 3.27]
    assert 0.01 < stats.ttest_1samp(values, 3.28, alternative="less").pvalue < 0.05
    losses = {"mine": by_seed(values)}
    assert only(judge(losses, "--target", "3.28"))["verdict"] == "better"
    assert only(judge(losses, "--target", "3.28", "--alpha", "0.01"))["verdict"] == "undecided"


def test_every_arm_is_held_against_the_target(judge: Judge) -> None:
    found = judge({"A": by_seed([3.1, 3.12, 3.11]), "B": by_seed([3.4, 3.42, 3.41], 7)}, "--target", "3.28")
    assert [(c["arm"], c["verdict"]) for c in found["comparisons"]] == [("A", "better"), ("B", "worse")]
    assert "against 3.28 at 0.05" in found["notes"][-1]


def test_a_missing_seed_drops_its_pair_by_name(judge: Judge) -> None:
    b = only(judge({"A": by_seed(A), "B": by_seed(B[:4]) | {4: ""}}))
    assert b["p"] == pytest.approx(stats.ttest_rel(B[:4], A[:4]).pvalue)
    assert b["dropped"] == [{"seed": 4, "why": "B has no recorded run"}]
    without = only(judge({"A": by_seed(A), "B": by_seed(B[:4])}))
    assert (without["p"], without["dropped"]) == (b["p"], b["dropped"]), "an empty cell or no row: the same"


def test_divergence_counts(judge: Judge) -> None:
    """Never a missing value: a rate that differs leaves the losses without an answer."""
    b = only(judge({"A": by_seed(A), "B": by_seed(B[:4]) | {4: "nan"}}))
    assert (b["n"], b["diverged_arm"]) == (4, 1)
    assert b["dropped"] == [{"seed": 4, "why": "B diverged"}]
    assert "Given convergence" in b["sentence"] or b["verdict"] == "undecided"
    good, bad = by_seed(np.linspace(3, 3.1, 10)), by_seed(np.linspace(2, 2.1, 3)) | dict.fromkeys(range(3, 10), "inf")
    b = only(judge({"A": good, "B": bad}))
    assert (b["verdict"], b["diverged_arm"]) == ("undecided", 7)
    assert "rates of divergence differ" in b["sentence"]


def test_one_seed_decides_nothing(judge: Judge) -> None:
    found = judge({"A": {0: 3.0}, "B": {0: 2.0}})
    b = only(found)
    assert (b["verdict"], b["n"], b["p"], b["ci_low"], b["seeds_needed"]) == ("undecided", 1, None, None, None)
    assert [alarm["name"] for alarm in found["alarms"]] == ["fewer than 3 seeds"]
    assert only(judge({"A": {0: 3.0}}, "--target", "9"))["verdict"] == "undecided"


@pytest.mark.parametrize("options", [(), ("--target", "3.28")])
def test_constant_arms_decide_nothing(judge: Judge, options: tuple[str, ...]) -> None:
    found = judge({"A": by_seed([3.0] * 5), "B": by_seed([2.0] * 5)}, *options)
    assert {c["verdict"] for c in found["comparisons"]} == {"undecided"}
    assert {c["p"] for c in found["comparisons"]} == {None}
    assert [alarm["name"] for alarm in found["alarms"]].count("zero seed variance") == 2


def test_three_arms_with_seeds_of_their_own(judge: Judge) -> None:
    """Sharing decides: all share some with the baseline, or none does; a mixture is refused (below)."""
    found = judge({"A": by_seed(A), "B": by_seed(B, 1), "C": by_seed(B, 2)})
    assert found["paired"]
    assert [c["n"] for c in found["comparisons"]] == [4, 3]
    assert [[d["seed"] for d in c["dropped"]] for c in found["comparisons"]] == [[0, 5], [0, 1, 5, 6]]
    apart = judge({"A": by_seed(A), "B": by_seed(B, 10), "C": by_seed(B, 10)})
    assert not apart["paired"]


def test_a_single_shared_seed_is_pointed_at(judge: Judge) -> None:
    found = judge({"A": by_seed(A), "B": by_seed(B, 4)})
    assert only(found)["verdict"] == "undecided"
    assert "B share fewer than 3" in found["notes"][-1]


def test_arms_and_notes_keep_their_text(judge: Judge) -> None:
    found = judge({"0.10": by_seed(A), "0.1": by_seed(B)}, "--baseline", "0.10")
    assert only(found)["arm"] == "0.1"
    named = judge({"A": {"x": 1, "y": 2.2, "z": 3}, "B": {"y": 2, "x": 1.1, "z": 3.3}})
    assert "x is 0, y is 1, z is 2" in " ".join(named["notes"])
    assert only(named)["difference"] == pytest.approx((0.1 - 0.2 + 0.3) / 3)


def test_a_floor_is_an_alarm(judge: Judge) -> None:
    found = judge({"A": by_seed(A), "B": by_seed(B)}, "--floor", "unigram=2.5", "--floor", "uniform=3.3")
    assert [alarm["arms"] for alarm in found["alarms"] if alarm["name"] == "ignores its input"] == [["A"], ["B"]]
    assert judge({"A": by_seed(A), "B": by_seed(B)}, "--floor", "uniform=9")["alarms"] == []


def test_wide_is_long(judge: Judge, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text("seed,A,B\n" + "".join(f"{i},{a!r},{b!r}\n" for i, (a, b) in enumerate(zip(A, B, strict=True))))
    assert main([str(wide), "--baseline", "A", "--margin", "0.05", "--json"]) == 0
    assert (
        json.loads(capsys.readouterr().out)["comparisons"] == judge({"A": by_seed(A), "B": by_seed(B)})["comparisons"]
    )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), arms=st.integers(2, 4), n=st.integers(3, 6), shift=st.floats(-100, 100))
def test_what_may_change_nothing(judge: Judge, seed: int, arms: int, n: int, shift: float) -> None:
    """The order of the rows, a constant added to all losses; and swapping two arms turns the verdict round."""
    rng = np.random.default_rng(seed)
    values = rng.normal(3, 0.1, (arms, n)) + rng.normal(0, 0.2, (arms, 1))
    names = ["A", "B", "C", "D"][:arms]
    losses = {name: by_seed(row) for name, row in zip(names, values, strict=True)}
    plain = judge(losses)["comparisons"]
    shuffled = {"A": losses["A"]} | {name: dict(sorted(losses[name].items(), reverse=True)) for name in names[:0:-1]}
    reordered = {c["arm"]: c for c in judge(shuffled)["comparisons"]}
    moved = judge({name: by_seed(row + shift) for name, row in zip(names, values, strict=True)})["comparisons"]
    for one, other in zip(plain, moved, strict=True):
        assert one == reordered[one["arm"]]
        assert one["verdict"] == other["verdict"]
        assert one["difference"] == pytest.approx(other["difference"], abs=1e-11)
    if arms == 2:
        turned = only(judge({"A": losses["B"], "B": losses["A"]}))
        flip = {"better": "worse", "worse": "better", "undecided": "undecided", "equivalent": "equivalent"}
        first, _, rest = plain[0]["verdict"].partition(" ")
        assert turned["verdict"] == f"{flip[first]} {rest}".strip()
        assert turned["difference"] == pytest.approx(-plain[0]["difference"])


MISTAKES = {
    "no baseline": ([], "--baseline ARM and --target NUMBER"),
    "both": (["--baseline", "A", "--margin", "0.1", "--target", "3"], "one of --baseline"),
    "no margin": (["--baseline", "A"], "Give --margin"),
    "alpha without target": (["--baseline", "A", "--margin", "0.1", "--alpha", "0.01"], "--alpha belongs to --target"),
    "margin with target": (["--target", "3", "--margin", "0.1"], "--margin would have no effect"),
    "unpaired with target": (["--target", "3", "--unpaired"], "--unpaired would have no effect"),
    "margin of nothing": (["--baseline", "A", "--margin", "0"], "0 is not above 0"),
    "margin in words": (["--baseline", "A", "--margin", "0,01"], "0,01 is no number"),
    "margin nan": (["--baseline", "A", "--margin", "nan"], "nan is no number"),
    "alpha of 5": (["--target", "3", "--alpha", "5"], "5 is not between 0 and 0.5"),
    "floor": (["--target", "3", "--floor", "7"], "7 is not NAME=VALUE"),
    "unknown option": (["--target", "3", "--margni", "0.1"], "--margni"),
    "unknown baseline": (["--baseline", "a", "--margin", "0.1"], "no arm a"),
    "unknown column": (["--target", "3", "--seed", "sede"], "did you mean seed?"),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_mistake_is_a_sentence(name: str, as_json: bool, table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    options, said = MISTAKES[name]
    source = table({"A": by_seed(A), "B": by_seed(B)})
    assert main([source, "--metric", "val_loss", *options, *["--json"] * as_json]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert len(re.findall(r"[.?](?=\s[A-Z]|$)", err.strip())) <= 2


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ({"A": by_seed(A), "B": by_seed(B), "C": by_seed(B, 50)}, "No seed of C is one of A's"),
        ({"A": by_seed(A)}, "A is the only arm"),
        ({}, "no run in results.csv"),
        ({"A": {0: "x"}}, '"x" in A seed 0 (row 2)'),
    ],
)
def test_a_table_that_cannot_be_judged(
    losses: Losses, said: str, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([table(losses), "--metric", "val_loss", "--baseline", "A", "--margin", "0.1"]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err


def test_an_arm_for_a_wide_table_is_a_mistake(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([table({}), "--arm", "arm", "--baseline", "A", "--margin", "0.1"]) == 2
    assert "--arm belongs to a long table" in capsys.readouterr().err


def test_help_says_what_a_table_looks_like(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    for words in ("one row per run", "one row per seed", 'na_rep="nan"', "mlflow:EXPERIMENT", "W&B", "Lower is better"):
        assert words in said


def test_the_terminal_shows_table_and_notes(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    source = table({"A": by_seed(A), "B": by_seed(B), "C": by_seed(A[:4]) | {4: "inf"}})
    options = ["--metric", "val_loss", "--unit", "nats per token"]
    assert main([source, *options, "--baseline", "A", "--margin", "0.01"]) == 0
    out = capsys.readouterr().out
    for words in (
        "results.csv: val_loss, nats per token",
        "baseline",
        "Diverged: C seed 4 (row 16).",
        "Paired by seed",
    ):
        assert words in out
    assert main([source, *options, "--target", "3.28"]) == 0
    out = capsys.readouterr().out
    assert "target 3.28" in out
    assert "None" not in out


def test_in_a_process_of_its_own_stdout_is_one_document(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else there, whatever is imported; and neither PyTorch, Ray, MLflow nor the drawing is."""
    options = [table({"A": by_seed(A), "B": by_seed(B)}), "--metric", "val_loss", "--baseline", "A", "--margin", "0.05"]
    code = """
import runpy, sys
try:
    runpy.run_module("analysis.judge", run_name="__main__")
except SystemExit as ended:
    sys.exit(ended.code or len({"torch", "ray", "mlflow", "matplotlib", "seaborn"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", code, *options, "--json"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.isascii()
    assert main([*options, "--json"]) == 0
    assert json.loads(result.stdout) == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("options", [("--baseline", "A", "--margin", "0.05"), ("--target", "3.28", "--alpha", "0.01")])
@pytest.mark.parametrize("unit", ["", "nats per token"])
def test_the_report(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], unit: str
) -> None:
    source = table({"A": by_seed(A), "B": by_seed(B[:3]) | {3: "", 4: "nan"}, "C": by_seed(B)})
    folder = tmp_path / "report"
    asked = [source, "--metric", "val_loss", *options, "--unit", unit, "--report", str(folder)]
    assert main(asked) == 0
    assert {"report.html", "verdict.json", "finding.md", "runs.csv"} <= {path.name for path in folder.iterdir()}
    assert capsys.readouterr().out.rstrip().endswith("report.html")
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["comparisons"]
    assert json.loads((folder / "verdict.json").read_text())["comparisons"] == told
    page = (folder / "report.html").read_text()
    assert not re.search(r">\s*(None|nan|NaT|\(\))\s*<|\b(None|nan|NaT) (to|nats)\b|\[(nan|None)|\(\)", page)
    assert "row-2" in (folder / "runs.csv").read_text()


def test_a_report_hides_passwords_and_spares_a_study(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = table({"A": by_seed(A), "B": by_seed(B)})
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.json").write_text("{}")
    options = ["--metric", "val_loss", "--baseline", "A", "--margin", "0.05", "--report"]
    assert main([source, *options, str(tmp_path / "study")]) == 2
    assert "folder of a study" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["study.json"]
    reason = ["--margin-reason", "see https://me:secret@example.org/why"]  # shown as it was given, not in the command
    assert main([source, *options, str(tmp_path / "report"), *reason]) == 0
    said = "".join((tmp_path / "report" / name).read_text() for name in ("report.html", "finding.md"))
    assert "secret" not in said.replace(reason[1], "")
    assert main([source, *options, source]) == 2
    assert "results.csv" in capsys.readouterr().err
