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
from analysis.material import REHEARSAL, Material
from analysis.records import RUNS, RecordError, Records
from analysis.report import main, write_report
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


@pytest.fixture
def study(tmp_path: Path, snapshot: dict[str, Any], make_runs: Callable[..., pd.DataFrame]) -> Study:
    """Writes a study's folder through Records, curves included."""

    def write(seeds: list[int] | None = None, diverged: Any = (), **changes: Any) -> Path:
        snapshot.update(changes)
        records = Records(tmp_path / snapshot["study"])
        records.write_snapshot(snapshot)
        frame = make_runs(snapshot, MEANS, 0.02, np.random.default_rng(3), seeds=seeds, diverged=diverged)
        rows = [{key: None if pd.isna(v) else v for key, v in row.items()} for row in frame.to_dict("records")]
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
    assert set(first) == {"report.html", "verdict.json", "finding.md", "study.json"}
    assert first == {path.name: path.read_bytes() for path in folder.glob("*.*")}


def test_verdict_json_is_the_analysis(study: Study, snapshot: dict[str, Any]) -> None:
    folder = study()
    write_report(folder)
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    analysis = analyse(Records(folder).runs(), snapshot)
    assert {key: verdict[key] for key in ("study", "margin", "unit", "rehearsal")} == {
        "study": "ffn_ratio",
        "margin": 0.02,
        "unit": "nats per character",
        "rehearsal": False,
    }
    assert verdict["alarms"] == []
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
    folder = study(seeds=[0], **({"format": 2} if broken == "format" else {}))
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
