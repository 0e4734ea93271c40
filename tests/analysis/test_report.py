"""The report: one file that loads nothing, in which every number leads to the run that gave it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from analysis.compare import analyse
from analysis.judged import Asked, judge
from analysis.material import MOST_LISTED, MOST_SHOWN, REHEARSAL, Material
from analysis.methods import INFLATED
from analysis.reading import Reading
from analysis.records import RUNS, RecordError, Records
from analysis.report import main, write, write_report
from analysis.terminal import terminal_table

MEANS = {"128x256": 4.15, "96x552": 4.10, "112x392": 4.155}
VOID = {"meta", "br", "link", "img", "hr", "input"}
LOADING = {"src", "srcset", "poster", "data", "action", "xlink:href"}
Study = Callable[..., Path]


class Page(HTMLParser):
    """Checks that tags are balanced; collects ids, links, attributes that load something, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if tag == "a" else []
        self.loads += [value for name, value in attrs if value and (name in LOADING or (name == "href" and tag != "a"))]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def as_recorded(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as a sweep records them, without what only the plan knows."""
    rows = frame.drop(columns=["stage", "point"]).to_dict("records")
    return [{key: None if pd.isna(value) else value for key, value in row.items()} for row in rows]


@pytest.fixture
def study(tmp_path: Path, snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> Study:
    """Writes a study's folder through Records, curves included."""

    def write(seeds: list[int] | None = None, diverged: Any = (), **changes: Any) -> Path:
        snapshot.update(changes)
        records = Records(tmp_path / snapshot["study"])
        records.write_snapshot(snapshot)
        frame = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(3), seeds=seeds, diverged=diverged)
        rows = as_recorded(frame)
        curves = [
            {key: row[key] for key in ("run_id", "arm", "seed")}
            | {"step": step, "name": name, "value": 7.0 - step / 600}
            for row in rows
            for name in ("val_loss", "train_loss")
            for step in range(0, 1201, 300)
        ]
        if rows:
            records.append(rows, curves)
        return records.folder

    return write


def read(folder: Path) -> tuple[str, Page]:
    text = write_report(folder).read_text(encoding="utf-8")
    return text, Page(text)


def words(page: Page) -> str:
    return " ".join(page.words)


def test_every_number_leads_to_its_run(study: Study) -> None:
    folder = study(seeds=[0, 1, 2, 3], diverged=[("96x552", 2)])
    text, page = read(folder)
    runs = Records(folder).runs()
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert not link.startswith("#") or link[1:] in page.ids
    for run in runs.itertuples():
        shown = f"{run.val_loss:.4f}" if run.status == "completed" else "diverged"
        assert f'<a href="#run-{run.run_id}">{shown}</a>' in text
    assert sum(link.startswith("#run-") for link in page.links) == 30
    assert text.count(">missing</a>") == 18


def test_the_page_loads_nothing(study: Study) -> None:
    text, page = read(study(tracking={"uri": "http://127.0.0.1:5000", "experiment_id": "1", "runs": {}}))
    assert not [value for value in page.loads if not value.startswith("#")]
    assert page.tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed"})
    assert not re.search(r"@import|url\((?!#)|@font-face", text)
    assert 'name="viewport"' in text


def test_text_from_a_study_is_never_markup(study: Study, snapshot: dict[str, Any]) -> None:
    evil = "<script>alert('x')</script>&"
    snapshot["arms"][1]["note"] = evil
    text, page = read(study(question=evil, margin_reason=evil, not_controlled=[evil], command=evil, unit="<i>nats</i>"))
    assert "script" not in page.tags
    assert "<i>" not in text
    assert text.count("&lt;script&gt;") >= 5


def test_the_same_folder_gives_the_same_bytes(study: Study) -> None:
    folder = study(diverged=[("96x552", 2)])
    first = {path.name: path.read_bytes() for path in [write_report(folder), *folder.glob("*.*")]}
    write_report(folder)
    assert set(first) == {"report.html", "verdict.json", "finding.md", "runs.csv", "study.json"}
    assert first == {path.name: path.read_bytes() for path in folder.glob("*.*")}


def test_verdict_json_is_the_analysis(study: Study, snapshot: dict[str, Any]) -> None:
    folder = study()
    write_report(folder)
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    analysis = analyse(Records(folder).planned(snapshot)[0], snapshot)
    assert {key: verdict[key] for key in ("study", "margin", "unit", "rehearsal")} == {
        "study": "ffn_ratio",
        "margin": 0.02,
        "unit": "nats per character",
        "rehearsal": False,
    }
    assert verdict["alarms"] == []
    assert [point["answer"] for point in verdict["checklist"]] == [p.answer for p in Material.read(folder).checklist]
    for said, made in zip(verdict["comparisons"], analysis.comparisons, strict=True):
        assert (said["arm"], said["baseline"], said["verdict"], said["n"]) == (
            made.arm,
            made.baseline,
            made.verdict,
            made.n,
        )
        assert (said["difference"], said["p"]) == (made.difference, made.p_difference)
        assert (said["ci_low"], said["ci_high"]) == (made.interval95.low, made.interval95.high)
        assert said["seeds_needed"] == (list(made.seeds_needed) if made.seeds_needed else None)


@pytest.mark.parametrize("seeds", [[], [0], [0, 1]])
def test_an_unfinished_study_is_reported_as_it_is(study: Study, seeds: list[int]) -> None:
    folder = study(seeds=seeds)
    text, page = read(folder)
    said = words(page)
    assert f"{3 * len(seeds)} of 30 planned runs recorded" in said
    assert "Not recorded yet: 128x256, seeds" in said
    assert "nan" not in text.replace("nant", "")
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    assert [c["verdict"] for c in verdict["comparisons"]] == ["undecided", "undecided"]


def test_a_rehearsal_says_so_everywhere(study: Study) -> None:
    folder = study(seeds=[0, 1, 2], rehearsal=True)
    text, page = read(folder)
    assert REHEARSAL in words(page)
    assert "(rehearsal)" in text.split("</title>")[0]
    assert REHEARSAL in (folder / "finding.md").read_text(encoding="utf-8")
    assert json.loads((folder / "verdict.json").read_text(encoding="utf-8"))["rehearsal"] is True
    assert REHEARSAL in " ".join(shown(Material.read(folder)).split())


def test_lineage_is_a_link_only_where_a_browser_can_follow(study: Study, snapshot: dict[str, Any]) -> None:
    run_id = snapshot["runs"][0]["run_id"]
    tracking = {"uri": "http://127.0.0.1:5000/", "experiment_id": "7", "runs": {run_id: "feedbeef"}}
    _, page = read(study(tracking=tracking))
    assert [link for link in page.links if "feedbeef" in link] == [
        "http://127.0.0.1:5000/#/experiments/7/runs/feedbeef"
    ]
    for uri in ("sqlite:///mlflow.db", "javascript:alert(1)"):
        _, page = read(study(tracking=tracking | {"uri": uri}))
        assert not [link for link in page.links if "feedbeef" in link]
        assert "feedbeef" in page.words


def test_the_best_n_gram_stands_beside_the_trivial_baselines(study: Study) -> None:
    """In the page's words, in the figure and in the finding; never as a floor: a healthy model may lie above it."""
    assert "smoothed counts" not in words(read(study())[1])
    folder = study(local={"5-gram (Kneser-Ney)": 4.02})
    text, page = read(folder)
    said = "uniform 7.09, unigram 5.51 and 5-gram (Kneser-Ney) 4.02 nats"
    assert f"what the last few tokens alone predict (smoothed counts): {said}" in words(page)
    assert text.count("5-gram (Kneser-Ney) 4.02") >= 2
    assert said in (folder / "finding.md").read_text(encoding="utf-8")
    assert json.loads((folder / "verdict.json").read_text(encoding="utf-8"))["alarms"] == []


def test_a_study_without_lineage_or_noise_arms_is_fine(study: Study, snapshot: dict[str, Any]) -> None:
    del snapshot["tracking"]
    read(study())


def test_noise_floor_shows_false_alarms_and_shares(study: Study, snapshot: dict[str, Any]) -> None:
    snapshot["arms"][1] |= {"differences": {"streams.init": "0"}}
    snapshot["arms"][2] |= {"differences": {}, "replicate": True}
    said = words(read(study())[1])
    assert "20 losses of one recipe" in said
    assert "Where the variance comes from" in said
    assert "Described, not compared: 96x552" in said


def test_declared_and_measured_equality(study: Study, snapshot: dict[str, Any]) -> None:
    snapshot["arms"][1]["parameters"] = 720_000
    folder = study(seeds=[0, 1], diverged=[("96x552", 1)], equal={"parameters": 0.02, "tokens": 0.0})
    said = words(read(folder)[1])
    assert "Tokens: declared equal within 0 %; the same in every arm. Held." in said
    assert "the farthest arm, 96x552, has 4.36 % more. Not held." in said
    assert "every completed run made 1,200 steps over 2,457,600 training tokens" in said


def test_a_folder_alone_is_enough(study: Study) -> None:
    """In a process of its own, which must not load what a laptop may lack."""
    code = (
        "import sys; from analysis.report import main; code = main(sys.argv[1:]); "
        "loaded = {'torch', 'ray', 'mlflow', 'model', 'sweeps'} & set(sys.modules); sys.exit(code or len(loaded))"
    )
    folder = study(seeds=[0])
    result = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert Path(result.stdout.strip()) == folder / "report.html"


@pytest.mark.parametrize("broken", ["absent", "file", "foreign", "format", "cut short"])
def test_a_folder_that_cannot_be_used_is_refused_in_words(
    broken: str, study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = study(seeds=[0], **({"format": 1} if broken == "format" else {}))
    if broken == "absent":
        folder = tmp_path / "nowhere"
    elif broken == "file":
        folder = folder / "study.json"
    elif broken == "foreign":
        (folder / "study.json").unlink()
    elif broken == "cut short":
        part = next((folder / "runs").iterdir())
        part.write_bytes(part.read_bytes()[:100])
    assert main([str(folder)]) == 2
    said = capsys.readouterr().err
    assert str(folder) in said
    assert "Traceback" not in said
    assert not (tmp_path / "nowhere").exists()
    assert not list(tmp_path.rglob("report.html"))
    with pytest.raises(RecordError):
        write_report(folder)


def test_runs_that_must_not_be_compared_are_refused(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    folder = study(seeds=[0, 1])
    part = next((folder / "runs").iterdir())
    table = pq.read_table(part).to_pylist()
    table[0]["corpus_sha256"] = "cd" * 32
    pq.write_table(pa.Table.from_pylist(table, schema=RUNS), part)
    assert main([str(folder)]) == 2
    assert "cannot be compared" in capsys.readouterr().err


def shown(material: Material, width: int = 80) -> str:
    console = Console(width=width, force_terminal=False, no_color=True)
    with console.capture() as capture:
        console.print(terminal_table(material.analysis, material.snapshot))
    return capture.get()


def test_the_terminal_table_fits_80_columns_whole(study: Study) -> None:
    text = shown(Material.read(study(diverged=[("96x552", 2)])))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "\x1b" not in text
    for word in ("128x256", "96x552", "baseline", "4.1", "better"):
        assert word in text
    assert not set("−–—") & set(text)


def test_a_name_is_not_markup_in_the_terminal(snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> None:
    name = "[bold]a very long name of an arm[/]"
    snapshot["arms"][1]["name"] = name
    for run in snapshot["runs"]:
        run["arm"] = name if run["arm"] == "96x552" else run["arm"]
    runs = make_runs(snapshot, {"128x256": 4.15, name: 4.1}, 0.02, np.random.default_rng(3))
    text = shown(Material(snapshot, runs, pd.DataFrame(), analyse(runs, snapshot)))
    assert "[bold]" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_an_older_version_did_not_record_is_a_dash(study: Study) -> None:
    """The parts of version 1 know neither precision nor cohort, and a folder without a repository has no commit."""
    folder = study(seeds=[0, 1], commit=None)
    text, _ = read(folder)
    assert text.count('<td>5</td><td class="text">bf16</td>') == 6
    part = next((folder / "runs").iterdir())
    table = pq.read_table(part)
    commits = pa.nulls(len(table), pa.string())
    old = table.drop_columns(["precision", "cohort", "commit"]).append_column("commit", commits)
    pq.write_table(old, part)
    text, _ = read(folder)
    assert text.count('<td>—</td><td class="text">—</td><td class="text">cpu</td>') == 6
    assert "nan" not in text.replace("nant", "")


def test_the_cost_begins_with_the_first_cohort(study: Study, snapshot: dict[str, Any]) -> None:
    """Five runs in lockstep of 30 s each, which end at midnight, began 150 s before: each took a fifth of that time."""
    folder = study(seeds=[0, 1])
    part = next((folder / "runs").iterdir())
    table = [row | {"seconds": 30.0} for row in pq.read_table(part).to_pylist()]
    pq.write_table(pa.Table.from_pylist(table, schema=RUNS), part)
    assert "6 runs, 3 min of computing, within 2 min from 2024-12-31 23:57 to" in Material.read(folder).cost


def test_the_raw_table_has_a_line_for_every_planned_run(study: Study) -> None:
    folder = study(seeds=[0, 1, 2, 3], diverged=[("96x552", 2)])
    write_report(folder)
    table = pd.read_csv(folder / "runs.csv", dtype={"run_id": str})
    assert list(table.columns[:7]) == ["arm", "seed", "stage", "point", "status", "val_loss", "run_id"]
    runs = Records(folder).runs().set_index("run_id")
    assert len(table) == 30
    assert (table["status"] == "missing").sum() == 18
    for row in table[table["status"] != "missing"].itertuples():
        assert (row.arm, row.seed, row.status) == tuple(runs.loc[row.run_id, ["arm", "seed", "status"]])
        assert row.val_loss == runs.loc[row.run_id, "val_loss"] or row.status == "diverged"
    text = (folder / "runs.csv").read_text(encoding="utf-8")
    assert ",2457600," in text
    assert "\r" not in text


def test_a_fixed_design_says_nothing_of_looks_or_tuning(study: Study) -> None:
    folder = study()
    _, page = read(folder)
    finding = (folder / "finding.md").read_text(encoding="utf-8")
    assert {"looks", "tuning"}.isdisjoint(page.ids)
    for text in (words(page), finding):
        assert INFLATED not in text
        assert "uning seeds" not in text
        assert "repeated" not in text


def test_the_checklist_is_on_the_page_and_in_the_finding(study: Study) -> None:
    folder = study()
    _, page = read(folder)
    said, finding = words(page), (folder / "finding.md").read_text(encoding="utf-8")
    for point in Material.read(folder).checklist:
        line = f"{point.answer} {point.question} {point.why}".replace(" %", "\N{NO-BREAK SPACE}%")
        assert " ".join(line.split()) in said
        assert f"- **{point.answer}**: {point.question} {point.why}" in finding


POINTS, TUNING_SEEDS = (3e-4, 1e-3, 3e-3), (1_000_000, 1_000_001, 1_000_002)
GRIDS = {"128x256": (4.40, 4.20, 4.30), "96x552": (4.30, 4.31, 4.90), "112x392": (4.5, 4.4, 4.3)}


@pytest.fixture
def tuned(tmp_path: Path, snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> Callable[[], Path]:
    """Writes a study with a grid, and looks of which one arm needed two."""

    def make() -> Path:
        rng, plan, rows = np.random.default_rng(5), [], []
        snapshot["seeds"] = list(range(12))
        snapshot["design"] = {"kind": "until_decided", "looks": [3, 5, 8, 12]}
        snapshot["tuning"] = {"key": "optimizer.learning_rate", "points": list(POINTS), "seeds": list(TUNING_SEEDS)}
        for i, point in enumerate(POINTS):
            lost = [("96x552", TUNING_SEEDS[0])] if i == 2 else []
            means = {arm: losses[i] for arm, losses in GRIDS.items()}
            frame = make_runs(snapshot, means, 0.02, rng, seeds=TUNING_SEEDS, diverged=lost)
            frame["run_id"] = [f"{i}{run_id[1:]}" for run_id in frame["run_id"]]
            plan += [(row.run_id, row.arm, row.seed, "tune", point) for row in frame.itertuples()]
            rows += as_recorded(frame)
        frame = make_runs(snapshot, MEANS | {"96x552": 4.25}, 0.02, rng, seeds=range(8))
        frame = frame[(frame["arm"] != "96x552") | (frame["seed"] < 5)]
        plan += [(row.run_id, row.arm, row.seed, "judge", None) for row in frame.itertuples()]
        snapshot["runs"] = [dict(zip(("run_id", "arm", "seed", "stage", "point"), run, strict=True)) for run in plan]
        for arm, selected in zip(snapshot["arms"], (1e-3, 3e-4, 3e-3), strict=True):
            arm["selected"] = selected
        records = Records(tmp_path / snapshot["study"])
        records.write_snapshot(snapshot)
        rows += as_recorded(frame)
        records.append(rows, [])
        return records.folder

    return make


def test_looks_have_a_figure_and_a_table_and_say_what_to_quote(tuned: Callable[[], Path]) -> None:
    folder = tuned()
    text, page = read(folder)
    said, material = words(page), Material.read(folder)
    wide, middle = material.analysis.comparisons
    assert (wide.looks[-1].seeds, middle.looks[-1].seeds) == (5, 8)
    assert f"{wide.verdict} after 5 of at most 12 seeds" in said
    assert INFLATED in said
    assert text.count('aria-label="Difference of ') >= 2
    assert {"looks", "tuning", "checklist"} <= set(page.ids)
    finding = (folder / "finding.md").read_text(encoding="utf-8")
    assert "## Looks" in finding
    assert finding.count("| 96x552 | 3 | 3 |") == 1
    assert finding.count("| 112x392 | 8 | 8 |") == 1


def test_a_grid_has_two_answers_a_table_and_a_warning_at_its_edge(tuned: Callable[[], Path]) -> None:
    folder = tuned()
    text, page = read(folder)
    said, material = words(page), Material.read(folder)
    assert "Tuning: learning rate" in said
    assert "At the selected learning rates (0.0003 for 96x552, 0.001 for 128x256)" in said
    assert "best on the grid" in said
    assert text.count('<td class="selected">') == 3
    assert "The best learning rate of 96x552 is 0.0003, the lowest of the grid" in said
    finding = (folder / "finding.md").read_text(encoding="utf-8")
    for one in material.analysis.tuning.ranges:
        assert one.sentence in said.replace("\N{NO-BREAK SPACE}%", " %")
        assert f"Usable range. {one.sentence}" in finding
    assert "1 diverged" in finding
    table = pd.read_csv(folder / "runs.csv")
    assert (table["stage"] == "tune").sum() == 27
    assert set(table["point"].dropna()) == set(POINTS)
    assert f"{len(material.runs)} of {len(material.runs)} planned runs recorded" in said


def test_the_terminal_fits_with_looks_and_tuning(tuned: Callable[[], Path]) -> None:
    text = shown(Material.read(tuned()))
    assert max(map(len, text.splitlines())) <= 80
    assert "loses" in text
    assert "usable" not in text  # the grid is too coarse for a range


def judged(losses: dict[str, list[float]], shared: bool = True, **asked: Any) -> Material:
    """The material of a table with these losses by arm; NaN where a run diverged."""
    start = {arm: 0 if shared else 100 * i for i, arm in enumerate(losses)}
    rows = [
        {"run_id": f"row-{arm}-{i}", "arm": arm, "seed": start[arm] + i, "loss": loss}
        for arm, values in losses.items()
        for i, loss in enumerate(values)
    ]
    runs = pd.DataFrame(rows)
    runs["status"] = np.where(runs["loss"].isna(), "diverged", "completed")
    question = {"metric_name": "val_loss", "unit": "", "baseline": "a", "margin": 0.05, "margin_reason": "enough"}
    question |= {"unpaired": False, "target": None, "alpha": 0.05, "floors": {}} | asked
    return judge(Reading("results.csv", runs, ("Read from results.csv.",)), Asked(**question), "python -m", noise=True)[
        0
    ]


def table_of(arms: int, seeds: int) -> dict[str, list[float]]:
    losses = np.random.default_rng(2).normal(3.2, 0.02, (arms, seeds))
    names = [*"abc", *(f"arm {i}" for i in range(arms))][:arms]
    return dict(zip(names, losses.tolist(), strict=True))


@pytest.mark.parametrize(
    ("options", "sign"),
    [
        ({}, "paired t test"),
        ({"shared": False}, "Welch"),
        ({"target": 3.19, "alpha": 0.01, "baseline": None, "margin": None}, "fixed number 3.19"),
    ],
)
def test_a_table_from_elsewhere_has_no_empty_sections(tmp_path: Path, options: dict[str, Any], sign: str) -> None:
    material = judged(table_of(3, 6) | {"c": [3.1, 3.2, float("nan"), 3.25, 3.15]}, **options)
    text = write(material, tmp_path / "new" / "report").read_text(encoding="utf-8")
    page = Page(text)
    said = words(page)
    assert {"curves", "equal", "runs", "looks", "tuning", "not-controlled"}.isdisjoint(page.ids)
    assert {"difference", "seeds", "checklist", "methods", "again"} <= set(page.ids)
    assert all(not link.startswith("#") or link[1:] in page.ids for link in page.links)
    for absent in ("MLflow", "last batch", "lockstep", "parameters", "held-out", "nan", "None", "(nats"):
        assert absent not in said
    assert sign in said
    assert "Read from results.csv." in said
    finding = (tmp_path / "new" / "report" / "finding.md").read_text(encoding="utf-8")
    for absent in ("Commit", "Corpus", "last batch", "parameters", "nan", "None"):
        assert absent not in finding
    verdict = json.loads((tmp_path / "new" / "report" / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["target"] == options.get("target")
    table = pd.read_csv(tmp_path / "new" / "report" / "runs.csv")
    assert list(table.columns) == ["arm", "seed", "stage", "point", "status", "val_loss", "run_id"]
    assert len(table) == 17
    text = shown(material)
    assert max(map(len, text.splitlines())) <= 80
    assert "nan" not in text


def test_the_terminal_says_what_a_target_is_judged_by() -> None:
    text = shown(judged(table_of(2, 5), target=3.28, alpha=0.01, baseline=None, margin=None))
    assert "target 3.28 at 0.01, one-sided" in text
    assert "needed" not in text
    assert "margin" not in text


def test_thousands_of_runs_are_in_the_raw_table_alone(tmp_path: Path) -> None:
    arms = MOST_SHOWN + 20
    material = judged(table_of(arms, MOST_LISTED // arms + 1))
    text = write(material, tmp_path).read_text(encoding="utf-8")
    page = Page(text)
    assert "too many for a page" in words(page)
    assert text.count("<article") == MOST_SHOWN
    assert f"first {MOST_SHOWN} of {arms - 1} comparisons" in words(page)
    assert len(text) < 1_000_000
    assert len(pd.read_csv(tmp_path / "runs.csv")) == len(material.runs)
    assert f"other {arms - 1 - MOST_SHOWN} comparisons" in shown(material)
    assert f"other {arms - 1 - MOST_SHOWN} comparisons" in (tmp_path / "finding.md").read_text(encoding="utf-8")
