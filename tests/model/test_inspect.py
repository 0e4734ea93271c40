"""The command `python -m model.inspect`: what it prints, writes and refuses."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from model.corpus.text import Corpus
from model.diagnostics.output import OutputError, writable
from model.inspect import inspect, main
from model.kept import KeptModel, read, to_bytes
from model.recipe import Budget, Member, Recipe
from model.train import train

RUN, OTHER = "0123456789abcdef", "0123fedcba987654"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, corpus: Corpus, recipe: Recipe) -> Path:
    """Two kept models of one study, the second after a single update."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "tiny" / "models").mkdir(parents=True)
    short = replace(recipe, budget=Budget(6, 8))
    for run_id, one in ((RUN, replace(recipe, budget=Budget(200, 8))), (OTHER, short)):
        (result,) = train([Member(one, 0)], corpus, keep_models=True)
        assert result.kept is not None
        characters = "".join(corpus.vocabulary.characters)
        model = KeptModel(run_id, "tiny", "an arm", 0, one, characters, result.kept)
        (folder / "tiny" / "models" / f"{run_id}.pt").write_bytes(to_bytes(model))
    return folder


def test_a_run_is_shown_in_tables_80_columns_wide(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([RUN[:5], "--results", str(results)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == f"{RUN}: tiny, an arm, seed 0"
    assert max(map(len, lines)) <= 80
    for title in ("residual stream", "Entropy of attention", "Norms", "as a memory of 24 slots", "gradient", "Checks"):
        assert any(title in line for line in lines)
    (kl,) = (line.split() for line in lines if line.startswith("KL of the output"))
    assert float(kl[-1]) > 10 * float(kl[-2])  # it has learned
    assert "block 1, slot" in out  # what drives its neurons


def test_a_check_that_fails_says_what_to_look_at(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([OTHER, "--results", str(results)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "adjacent-position KL: " in out
    assert "the model guesses by frequency. Look at the placement of the norms" in out


def test_json_has_all_of_it(results: Path, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    assert main([RUN, "--results", str(results), "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert (found["run_id"], found["seed"]) == (RUN, 0)
    assert len(found["trained"]["activation_R"]) == 3
    assert found["trained"]["loss"] < found["initial"]["loss"] - 0.5
    assert {type(check["passed"]) for check in found["checks"]} == {bool}
    assert [len(rises) for rises in found["ablation_L2"]] == [2, 2]
    assert found["neurons"]
    assert all(len(neuron["characters"]) <= 5 for neuron in found["neurons"])
    assert {character for n in found["neurons"] for character, _ in n["characters"]} <= {*"abcdefghij", "⏎", "�"}


def test_figures_are_drawn_by_what_announces_it(results: Path, tmp_path: Path) -> None:
    assert main([RUN, "--results", str(results), "--figures", str(tmp_path / "figures")]) == 0
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == [f"{RUN}-{name}.svg" for name in ("entropy", "kl", "memory", "norms", "residual")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["9"], f"No kept model is called 9. Kept under {{}}: {RUN}, {OTHER}."),
        (["0123456789abcdee"], f"No kept model is called 0123456789abcdee. The nearest: {RUN}"),
        (["0123"], f"0123 begins 2 run ids: {RUN}, {OTHER}. Give more digits."),
        ([RUN, "--json", "/proc/nothing/found.json"], "/proc/nothing/found.json cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence(
    results: Path, given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*given, "--results", str(results)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(said.format(results))
    assert err.count("\n") == 1


def test_a_weight_that_is_not_a_number_is_told_and_nothing_else(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = read(results / "tiny" / "models" / f"{RUN}.pt")
    broken.kept.weights["blocks.1.feedforward.output.weight"][0, 0] = math.nan
    (tmp_path / "tiny" / "models").mkdir(parents=True)
    (tmp_path / "tiny" / "models" / f"{RUN}.pt").write_bytes(to_bytes(broken))
    assert main([RUN, "--results", str(tmp_path), "--json", str(tmp_path / "found.json")]) == 0
    out = capsys.readouterr().out
    assert "numbers that are not finite" in out
    assert "Silent failures" not in out
    assert "None of these stands out" not in out
    found = json.loads((tmp_path / "found.json").read_text())
    assert ([check["passed"] for check in found["checks"]], found["faults"]) == ([False], [])


def test_silent_failures_of_a_kept_model_are_of_the_text_that_is_kept(results: Path) -> None:
    found = inspect(read(results / "tiny" / "models" / f"{RUN}.pt"))
    (dead,) = (check for check in found.faults if check.name == "dead-units")
    assert f"at any of the {found.trained.positions:,} positions looked at" in dead.look_at


def test_a_reader_who_has_seen_enough_hears_nothing_more(results: Path) -> None:
    command = [sys.executable, "-m", "model.inspect", RUN, "--results", str(results)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_an_output_that_takes_nothing_is_a_mistake(results: Path) -> None:
    command = [sys.executable, "-m", "model.inspect", RUN, "--results", str(results)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "The output cannot be written (No space left on device).\n")


@pytest.mark.parametrize("before", [None, "as it was"])
def test_whether_a_file_can_be_written_is_found_out_without_a_trace(before: str | None, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    if before is not None:
        path.write_text(before)
    assert writable(path) == path
    assert path.exists() == (before is not None)
    assert before is None or path.read_text() == before
    with pytest.raises(OutputError, match="Is a directory"):
        writable(tmp_path)


def test_where_nothing_is_kept_it_says_how_to_keep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([RUN, "--results", str(tmp_path)]) == 2
    assert "--keep-models" in capsys.readouterr().err
    (tmp_path / "tiny" / "models").mkdir(parents=True)
    (tmp_path / "tiny" / "models" / f"{RUN}.pt").write_bytes(b"half a model")
    assert main([RUN, "--results", str(tmp_path)]) == 2
    assert "holds no model that this version can read" in capsys.readouterr().err


def test_figures_without_a_drawer_are_refused(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    assert main([RUN, "--results", str(results), "--figures", "figures"]) == 2
    assert "pip install -e ." in capsys.readouterr().err
