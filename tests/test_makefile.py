"""`make findings` with a stand-in for Python: which studies are reported, and under which names findings are kept."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REPORT = '#!/bin/sh\n[ "$2" = analysis.report ] && echo "of $3" > "$3/finding.md"\n'

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "docs/findings").mkdir(parents=True)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text(REPORT)
    (tmp_path / ".venv/bin/python").chmod(0o755)
    (tmp_path / ".venv/ready").touch()
    return tmp_path


def findings(project: Path) -> subprocess.CompletedProcess[str]:
    command = ["make", "findings", "RESULTS=kept"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=60)


def test_findings_of_all_studies_but_rehearsals_are_copied(project: Path) -> None:
    for study in ("new", "chapter", "norm_kind-300-steps", "new-quick", "new-quick-20-steps"):
        (project / "kept" / study).mkdir(parents=True)
        (project / "kept" / study / "study.json").touch()
    (project / "kept" / "no-study").mkdir()
    ran = findings(project)
    assert ran.returncode == 0, ran.stderr
    copied = {path.name: path.read_text().strip() for path in (project / "docs/findings").iterdir()}
    assert copied == {
        "new.md": "of kept/new",
        "chapter_runs.md": "of kept/chapter",
        "norm_kind-300-steps.md": "of kept/norm_kind-300-steps",
    }


def test_a_report_that_fails_ends_it(project: Path) -> None:
    (project / "kept/new").mkdir(parents=True)
    (project / "kept/new/study.json").touch()
    (project / ".venv/bin/python").write_text("#!/bin/sh\nexit 3\n")
    assert findings(project).returncode != 0
    assert not list((project / "docs/findings").iterdir())


def test_a_folder_without_studies_is_told(project: Path) -> None:
    ran = findings(project)
    assert ran.returncode != 0
    assert "There is no study in kept" in ran.stdout
