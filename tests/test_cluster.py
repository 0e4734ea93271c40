"""cluster.yaml against Ray's own reading of it, and against what its commands call. `make cluster-check` starts it."""

import itertools
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import ClickException
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import cli

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "cluster.yaml").read_text()
FILLED_IN = re.sub(r"# (head_ip|worker_ips): ", r"\1: ", TEXT)


@pytest.fixture(scope="module")
def prepared() -> dict[str, Any]:
    """The file with its addresses filled in, as Ray reads it."""
    config: dict[str, Any] = prepare_config(yaml.safe_load(FILLED_IN))
    return config


def rays(commands: list[str], verb: str) -> list[list[str]]:
    """The words of each ``ray VERB`` in `commands`, what comes before it included."""
    words = [shlex.split(command) for command in commands]
    return [w for w in words if any(a.endswith("ray") and b == verb for a, b in itertools.pairwise(w))]


def test_without_addresses_ray_says_what_to_fill_in() -> None:
    with pytest.raises(ClickException, match="Please supply a `head_ip` and list of `worker_ips`"):
        prepare_config(yaml.safe_load(TEXT))


def test_with_addresses_it_is_what_ray_asks_for(prepared: dict[str, Any]) -> None:
    validate_config(prepared)
    assert prepared["provider"] == {"type": "local", "head_ip": "10.0.0.1", "worker_ips": ["10.0.0.2", "10.0.0.3"]}
    (kind,) = prepared["available_node_types"].values()
    assert (kind["min_workers"], kind["max_workers"]) == (2, 2)  # all of them, and none is sent away when idle


def test_every_machine_gets_the_pinned_versions(prepared: dict[str, Any]) -> None:
    for role in ("head", "worker"):
        first, *_ = prepared[f"{role}_setup_commands"]
        make, c, folder, target = first.split()
        assert (make, c) == ("make", "-C")
        assert prepared["file_mounts"][folder] == "."
    dry = subprocess.run(["make", "-nB", target], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "-c constraints.txt" in dry.stdout


def test_shells_can_read_the_commands(prepared: dict[str, Any]) -> None:
    commands = [c for key in prepared if key.endswith("_commands") for c in prepared[key]]
    assert len(commands) > 6
    for command in commands:
        subprocess.run(["bash", "-n", "-c", command], check=True)


def test_ray_knows_the_options(prepared: dict[str, Any]) -> None:
    for role in ("head", "worker"):
        commands = prepared[f"{role}_start_ray_commands"]
        assert len(rays(commands, "stop")) == len(rays(commands, "start")) == 1
        (words,) = rays(commands, "start")
        at = words.index("start")
        context = cli.commands["start"].make_context("start", [w.replace("~", "/home/me") for w in words[at + 1 :]])
        assert context.params["head"] == (role == "head")
        assert words[at - 1] == "~/seedbed/.venv/bin/ray"  # not whichever is first in the PATH


def test_who_has_no_token_stays_outside(prepared: dict[str, Any]) -> None:
    assert "~/.ray/auth_token" in prepared["file_mounts"]
    for role in ("head", "worker"):
        (words,) = rays(prepared[f"{role}_start_ray_commands"], "start")
        assert "RAY_AUTH_MODE=token" in words


@pytest.mark.skipif(not shutil.which("rsync"), reason="there is no rsync")
def test_what_git_ignores_does_not_travel(prepared: dict[str, Any], tmp_path: Path) -> None:
    """By rsync itself, with the rules that Ray gives it, on the project's own patterns."""
    (tmp_path / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    travels = [".git/HEAD", ".gitignore", "Makefile", "docs/findings/ffn_ratio.md", "model/train.py", "tests/results/x"]
    stays = [".venv/bin/python", "results/ffn_ratio/study.json", "mlflow.db", "model/__pycache__/train.pyc"]
    for name in (*travels[2:], travels[0], *stays):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    filters = [word for name in prepared["rsync_filter"] for word in ("--filter", f"dir-merge,- {name}")]
    command = ["rsync", "-an", "--out-format=%n", *filters, f"{tmp_path}/", f"{tmp_path / 'elsewhere'}/"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert sorted(name for name in told if not name.endswith("/")) == sorted(travels)
