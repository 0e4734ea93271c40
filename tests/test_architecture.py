"""Imports run downwards only: sweeps -> analysis, sweeps -> model; and no module imports itself in a circle."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "model": {"torch", "numpy"},
    "analysis": {
        "numpy",
        "scipy",
        "statsmodels",
        "pandas",
        "pyarrow",
        "seaborn",
        "matplotlib",
        "jinja2",
        "markupsafe",
        "rich",
    },
    "sweeps": {"model", "analysis", "torch", "ray", "mlflow", "tyro", "rich", "pandas", "numpy"},
}
STANDARD = set(__import__("sys").stdlib_module_names)
FILES = [path for package in ALLOWED for path in sorted((ROOT / package).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """Dotted names of every import in a file, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_imports_only_what_lies_below_it(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    roots = {name.partition(".")[0] for name in imported(path)}
    assert roots - STANDARD - {package} <= ALLOWED[package]


def test_there_is_no_circle() -> None:
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
    below = {name: imported(path) & set(modules) - {name} for name, path in modules.items()}
    done: set[str] = set()
    while ready := {name for name, needs in below.items() if name not in done and needs <= done}:
        done |= ready
    assert done == set(modules), f"these import each other: {sorted(set(modules) - done)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 260
