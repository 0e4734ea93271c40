"""The words with which a snapshot says how a study came to its runs, and what its arms are compared with."""

from collections.abc import Mapping
from typing import Any

JUDGE, TUNE = "judge", "tune"  # stages of a run: it counts for a verdict, or it served to select a point of a grid
FIXED = "fixed"  # a number of seeds that was chosen before any run
UNTIL_DECIDED = "until_decided"  # looks declared beforehand, with a most number of seeds
OPEN = "open"  # seeds were added after a verdict had been seen


def reference(snapshot: Mapping[str, Any], arm: str) -> str:
    """The arm that `arm` is compared with: the one that its pair names, in a study without pairs the baseline."""
    return str(dict(snapshot.get("pairs") or ()).get(arm, snapshot["baseline"]))
