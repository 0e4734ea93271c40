"""The finding: small, complete, and every number of it comes from the analysis or the records."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.compare import analyse
from analysis.finding import markdown
from analysis.material import REHEARSAL, Material
from analysis.records import CURVES
from analysis.report import page
from analysis.terminal import terminal_table

MEANS = {"128x256": 4.15, "96x552": 4.10, "112x392": 4.155}


@pytest.fixture
def material(snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> Callable[..., Material]:
    def make(seeds: list[int] | None = None, **options: Any) -> Material:
        runs = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(7), seeds=seeds, **options)
        return Material(snapshot, runs, CURVES.empty_table().to_pandas(), analyse(runs, snapshot))

    return make


def rows_after(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table after `heading`, without its head."""
    lines = text.split(f"\n## {heading}\n", 1)[1].splitlines()
    table = [
        line
        for line in lines[: next((i for i, line in enumerate(lines) if line.startswith("## ")), None)]
        if line.startswith("|")
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_every_run_of_the_plan_is_there_with_its_loss(material: Callable[..., Material]) -> None:
    made = material(seeds=list(range(9)), diverged=[("96x552", 4)])
    text = markdown(made)
    cells = [cell for row in rows_after(text, "Runs") for cell in row[1:]]
    expected = {
        run.run_id: f"{run.val_loss:.4f}" if run.status == "completed" else "diverged" for run in made.runs.itertuples()
    }
    for run in made.snapshot["runs"]:
        assert f"{expected.get(run['run_id'], 'missing')} `{run['run_id']}`" in cells
    assert len(cells) == 30
    assert "Not recorded yet: 128x256, seed 9; 96x552, seed 9; 112x392, seed 9." in text


def test_it_says_what_a_reader_must_know(material: Callable[..., Material]) -> None:
    made = material()
    text, s = markdown(made), made.snapshot
    assert text.startswith("# ffn_ratio\n")
    for comparison in made.analysis.comparisons:
        assert comparison.sentence in text
    for part in (
        s["question"],
        s["command"],
        s["commit"],
        s["corpus"]["sha256"],
        "torch 2.13.0",
        "30 runs, 15 min of computing",
    ):
        assert part in text
    assert len(text.splitlines()) <= 150
    assert "nan" not in text
    assert "Rehearsal" not in text


@pytest.mark.parametrize(
    ("precisions", "said"),
    [
        (["bf16", "bf16", "bf16"], "bf16"),
        (["fp32", "bf16", "fp32"], "bf16 (96x552); fp32 (112x392 and 128x256)"),
        ([None, "bf16", "bf16"], "bf16; 10 runs of which it is not recorded"),
        ([None, None, None], ""),
    ],
)
def test_the_precision_of_the_runs_is_told(
    material: Callable[..., Material], precisions: list[str | None], said: str
) -> None:
    made = material()
    made.runs["precision"] = made.runs["arm"].map(dict(zip(MEANS, precisions, strict=True)))
    lines = [line for line in markdown(made).splitlines() if line.startswith("- Precision: ")]
    assert lines == [f"- Precision: {said}"] * bool(said)
    assert page(made).count(f"<dt>Precision</dt><dd>{said}</dd>") == bool(said)


def test_comparisons_are_rounded_by_their_standard_error(material: Callable[..., Material]) -> None:
    made = material()
    first, comparison = rows_after(markdown(made), "Comparisons with the baseline")[0], made.analysis.comparisons[0]
    assert first[:2] == ["96x552", "10"]
    assert float(first[2].replace("−", "-")) == pytest.approx(comparison.difference, abs=0.0005)
    low, high = (float(end) for end in first[3].strip("[]").replace("−", "-").split(","))
    assert (low, high) == pytest.approx((comparison.interval95.low, comparison.interval95.high), abs=0.0005)


def test_rehearsal_is_the_first_thing_after_the_question(
    material: Callable[..., Material], snapshot: dict[str, Any]
) -> None:
    made = material()
    snapshot["rehearsal"] = True
    assert f"> **Rehearsal.** {REHEARSAL}" in markdown(made).splitlines()[:6]


def test_nothing_recorded_is_said_in_words(material: Callable[..., Material]) -> None:
    text = markdown(material(seeds=[]))
    assert "Cost: nothing yet" in text
    assert text.count("undecided") >= 2
    assert "nan" not in text


def test_uncommitted_changes_are_told(material: Callable[..., Material], snapshot: dict[str, Any]) -> None:
    made = material()
    snapshot["uncommitted"] = True
    assert "Commit: abc123 with changes or files that are not committed" in markdown(made)
    snapshot["commit"] = None
    assert "Commit: no commit was recorded" in markdown(made)


def test_markup_in_a_text_stays_text(material: Callable[..., Material], snapshot: dict[str, Any]) -> None:
    made = material()
    snapshot["question"] = "Is a | b\nsmaller <script>?"
    assert "**Question.** Is a \\| b smaller &lt;script>?" in markdown(made)


@pytest.mark.parametrize(("seeds", "has"), [([], "no paired seed"), ([4], "1 paired seed"), ([0, 1], "2 paired seeds")])
def test_comparisons_of_too_few_seeds_are_one_sentence(
    material: Callable[..., Material], seeds: list[int], has: str
) -> None:
    made = material(seeds=seeds)
    one = f"None of 2 comparisons can be decided: each has {has} and needs 3."
    console = Console(file=StringIO(), width=80)
    console.print(terminal_table(made.analysis, made.snapshot))
    for text in (markdown(made), page(made), " ".join(console.file.getvalue().split())):
        assert text.count(one) == 1
        assert "a verdict needs at least 3" not in text


def test_a_diverged_run_is_told_however_few_there_are(material: Callable[..., Material]) -> None:
    text = markdown(material(seeds=[0, 1], diverged=[("96x552", 1)]))
    assert "None of" not in text
    assert text.count("is undecided") == 2


def test_arms_of_which_nothing_varies_are_left_out_of_the_noise(material: Callable[..., Material]) -> None:
    """A study of single runs has no such section, and its page says why."""
    text = markdown(material(seeds=[0, 1], diverged=[("96x552", 1)]))
    assert [row[0] for row in rows_after(text, "Noise")] == ["128x256", "112x392"]
    single = material(seeds=[0])
    assert "## Noise" not in markdown(single)
    assert "nothing is known of the noise" in page(single)


def test_of_many_arms_each_has_a_row_in_the_table_of_runs(
    snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]
) -> None:
    first = snapshot["arms"][0]
    snapshot["arms"] += [{**first, "name": name} for name in ("d", "e", "f", "g")]
    snapshot["runs"] += [
        run | {"run_id": f"{name}{run['seed']}", "arm": name} for name in "defg" for run in snapshot["runs"][::3]
    ]
    runs = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(7), seeds=[0, 1])
    text = markdown(Material(snapshot, runs, CURVES.empty_table().to_pandas(), analyse(runs, snapshot)))
    rows = rows_after(text, "Runs")
    assert [row[0] for row in rows] == [arm["name"] for arm in snapshot["arms"]]
    assert {len(row) for row in rows} == {11}
    assert rows[-1][3] == "missing `g2`"


def test_noise_of_a_recipe_against_itself(material: Callable[..., Material]) -> None:
    made = material()
    made.snapshot["arms"][2]["replicate"] = True
    made.snapshot["arms"][2]["differences"] = {}
    made.snapshot["arms"][1]["differences"] = {"streams.init": "0"}
    text = markdown(Material(made.snapshot, made.runs, made.curves, analyse(made.runs, made.snapshot)))
    assert "The recipe against itself, 20 losses" in text
    assert "| 96x552 | init | 10 |" in text
    assert "Described, not compared: 96x552." in text
