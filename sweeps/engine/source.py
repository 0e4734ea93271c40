"""Which source ran: the commit, and what was changed since, read with the `git` command where there is one."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Set by git for its hooks; inherited, they would answer for the repository of the hook instead of that of the folder.
_REDIRECTIONS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
_SECONDS = 10


@dataclass(frozen=True)
class CommitState:
    """A working tree against its last commit.

    `commit` is the full hash, None without a repository, a commit or git; `uncommitted` is True when it alone does not
    say what ran. `diff` holds every change to tracked files, staged or not. Files that git neither tracks nor ignores
    count by name only (a folder of them as one name with a final slash): their contents may be large or private.
    """

    commit: str | None
    uncommitted: bool = False
    diff: str = ""
    untracked: tuple[str, ...] = ()


def commit_state(folder: Path) -> CommitState:
    """The state of the whole repository that holds `folder`; never raises, never prints, changes nothing.

    Where git is absent, refuses the folder (another owner's repository) or takes over 10 s, the state is unknown:
    ``CommitState(None)``.
    """
    status = _git(folder, "status", "--porcelain", "-z", "--untracked-files=normal")
    if status is None:
        return CommitState(None)
    commit = (_git(folder, "rev-parse", "--verify", "--quiet", "HEAD") or "").strip() or None
    against = "HEAD" if commit else "--cached"
    diff = _git(folder, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", against) or ""
    untracked = tuple(entry[3:] for entry in status.split("\0") if entry.startswith("?? "))
    return CommitState(commit, bool(status), diff, untracked)


def _git(folder: Path, *words: str) -> str | None:
    """What git prints, or None when it cannot be run or fails."""
    # Without optional locks `git status` leaves the index alone, so that a commit made meanwhile does not fail.
    environment = {name: value for name, value in os.environ.items() if name not in _REDIRECTIONS}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
