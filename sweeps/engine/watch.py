"""What the driver is told while cohorts train."""

from collections.abc import Callable
from dataclasses import dataclass

from model.train import Result


@dataclass(frozen=True)
class Watch:
    """Called in the driver, one call at a time; a cohort is named by its place in the list that was launched."""

    advanced: Callable[[int, int], None]  # cohort, updates made in it
    finished: Callable[[int, list[Result]], None]  # cohort, one result per run
    failed: Callable[[int, str], None]  # cohort, why
