"""`commit_state` against a real, temporary git repository."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sweeps.engine.source import CommitState, commit_state

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *words: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    clean |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, env=clean, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitignore").write_text("results/\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_a_clean_tree_is_its_commit(repository: Path) -> None:
    (repository / "results").mkdir()
    (repository / "results" / "ignored.txt").write_text("x")
    assert commit_state(repository) == CommitState(git(repository, "rev-parse", "HEAD"))


@pytest.mark.parametrize("staged", [False, True])
def test_the_diff_rebuilds_what_ran_from_the_commit(repository: Path, tmp_path: Path, staged: bool) -> None:
    (repository / "a.txt").write_text("one\ntwo, \u4e8c\n")
    if staged:
        git(repository, "add", "a.txt")
    state = commit_state(repository / "inner")  # from a folder inside: still the whole repository
    assert state.uncommitted
    assert state.untracked == ()
    git(repository, "reset", "--hard", "--quiet")
    (tmp_path / "patch").write_text(state.diff)
    git(repository, "apply", str(tmp_path / "patch"))
    assert (repository / "a.txt").read_text() == "one\ntwo, \u4e8c\n"


def test_untracked_files_count_by_name_only(repository: Path) -> None:
    (repository / "a secret.txt").write_text("password")
    (repository / "new").mkdir()
    (repository / "new" / "b.txt").write_text("password")
    state = commit_state(repository)
    assert state.uncommitted
    assert state.diff == ""
    assert set(state.untracked) == {"a secret.txt", "new/"}


def test_settings_of_the_user_do_not_change_the_diff(repository: Path) -> None:
    git(repository, "config", "diff.external", "false")
    git(repository, "config", "color.diff", "always")
    git(repository, "config", "diff.relative", "true")
    (repository / "a.txt").write_text("two\n")
    assert "\n-one\n+two\n" in commit_state(repository / "inner").diff


def test_before_the_first_commit_there_is_no_hash_but_a_diff(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "a.txt")
    state = commit_state(tmp_path)
    assert (state.commit, state.uncommitted) == (None, True)
    assert "+one" in state.diff


def test_a_hook_of_another_repository_does_not_redirect(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / "elsewhere" / "index"))
    assert commit_state(repository).commit == git(repository, "rev-parse", "HEAD")


def test_unknown_without_a_repository_without_git_and_without_the_folder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert commit_state(tmp_path) == CommitState(None)
    assert commit_state(tmp_path / "missing") == CommitState(None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_state(repository) == CommitState(None)
    assert capfd.readouterr() == ("", "")


def test_the_repository_is_left_as_it_was(repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    before = {path: path.read_bytes() for path in (repository / ".git").rglob("*") if path.is_file()}
    commit_state(repository)
    assert {path: path.read_bytes() for path in (repository / ".git").rglob("*") if path.is_file()} == before
