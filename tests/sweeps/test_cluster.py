"""Joining a cluster that lets nobody in without a token."""

import socket
import subprocess
import sys
from pathlib import Path

JOIN = """
import sys
from sweeps.engine.launch import LaunchError, cluster
try:
    with cluster(sys.argv[1]):
        pass
except LaunchError as error:
    print(error)
"""


def test_who_has_no_token_is_told_where_it_belongs(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"127.0.0.1:{there.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", JOIN, address],
            cwd=Path(__file__).parents[2], env=environment | {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path)},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr
    assert f"cluster at '{address}' cannot be joined (Token authentication is enabled but no" in done.stdout
    assert "put that into ~/.ray/auth_token" in done.stdout
