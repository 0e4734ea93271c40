"""Compiled programs are published whole and taken up by other processes; nothing is compiled here."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from model import programs
from model.optimizer import AdamW
from model.programs import program_key, publish, published, take_up
from model.recipe import Budget, Member, Recipe


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "of others")


@pytest.fixture
def process(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of one process; asked for again by `another`."""
    return another(tmp_path_factory.mktemp("first"), monkeypatch)


def another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(programs, "_own_folder", lambda: folder)
    return folder


def test_a_published_program_is_there_for_the_next_process(
    process: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_up("a")
    compiled = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert compiled == process / "a"
    compiled.mkdir()
    (compiled / "kernel.so").write_bytes(b"code")
    publish("a")
    second = another(tmp_path / "second", monkeypatch)
    take_up("a")
    assert (second / "a" / "kernel.so").read_bytes() == b"code"
    (second / "a" / "kernel.so").write_bytes(b"half")  # what a process does in its own folder is its own affair
    publish("a")
    assert (published() / "a" / "kernel.so").read_bytes() == b"code"
    assert [path.name for path in published().iterdir()] == ["a"]


def test_of_two_processes_that_publish_the_second_leaves_nothing(
    process: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both found nothing published; the second finds the first's program in the way of its rename."""
    (process / "a").mkdir()
    (process / "a" / "kernel.so").write_bytes(b"second")
    rename = Path.rename

    def first_is_there(copy: Path, there: Path) -> Path:
        there.mkdir()
        (there / "kernel.so").write_bytes(b"first")
        return rename(copy, there)

    monkeypatch.setattr(Path, "rename", first_is_there)
    publish("a")
    assert [path.name for path in published().iterdir()] == ["a"]
    assert (published() / "a" / "kernel.so").read_bytes() == b"first"


def test_a_program_that_cannot_be_copied_is_compiled_anew(
    process: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (process / "a").mkdir()
    publish("a")
    second = another(tmp_path / "second", monkeypatch)

    def half(there: Path, own: Path) -> None:
        own.mkdir(parents=True)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(programs.shutil, "copytree", half)
    take_up("a")
    assert not (second / "a").exists()


def test_the_longest_unused_programs_go(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 2)
    for age, key in enumerate(("a", "b", "c")):
        (process / key).mkdir()
        publish(key)
        if key != "c":
            os.utime(published() / key, (age, age))
    assert sorted(path.name for path in published().iterdir()) == ["b", "c"]


def test_a_cache_that_cannot_be_written_stops_nothing(process: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published().parent.mkdir(parents=True)
    published().write_text("a file in its place")
    (process / "a").mkdir()
    publish("a")
    take_up("b")
    assert published().is_file()


def test_a_key_tells_programs_apart_and_nothing_else() -> None:
    chapter = Recipe()
    members = [Member(chapter, 0), Member(chapter, 1)]
    key = program_key(members, "cpu")
    slower = replace(chapter, optimizer=AdamW(1e-4), budget=Budget(steps=500))
    assert program_key([Member(slower, 7), Member(slower, 8)], "cpu") == key
    others = [members[:1], [Member(replace(chapter, precision="bf16"), s) for s in (0, 1)]]
    assert len({key, *(program_key(other, "cpu") for other in others), program_key(members, "cuda")}) == 4
