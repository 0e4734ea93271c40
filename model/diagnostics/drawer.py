"""What draws measurements: another package, which announces itself, for this one knows nothing of drawing."""

import importlib.metadata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

GROUP = "seedbed.figures"  # entry points; each takes measurements as plain values and a folder, and returns the files


class DrawerError(ValueError):
    """No installed package draws this."""


def drawer(name: str) -> Callable[[Mapping[str, Any], Path], list[Path]]:
    """The entry point `name` of the group. Raises DrawerError where no installed package announces it."""
    for point in importlib.metadata.entry_points(group=GROUP, name=name):
        draw: Callable[[Mapping[str, Any], Path], list[Path]] = point.load()
        return draw
    raise DrawerError(
        f"--figures needs a package that announces {name} under {GROUP}; install this one: pip install -e ."
    )
