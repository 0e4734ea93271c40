"""Golden plans: what each study trains, line by line, so that a review shows which experiments a change alters.

After an intended change: ``python tests/sweeps/test_golden.py`` writes them again.
"""

import importlib
from pathlib import Path

import pytest

from model import counting
from model.corpus.texts import TangPoems
from sweeps.engine.fingerprint import recipe_text

GOLDEN = Path(__file__).parent.parent / "golden"
SWEEPS = Path(__file__).parents[2] / "sweeps"
STUDIES = sorted(path.stem for path in SWEEPS.glob("*.py") if path.stem not in ("__init__", "baseline"))


def resolved(name: str) -> str:
    study = importlib.import_module(f"sweeps.{name}").study()
    lines = [
        f"question: {study.question}",
        f"margin {study.margin:g} in held-out loss, baseline {study.baseline}",
    ]
    lines.append(f"seeds: {', '.join(map(str, study.seeds))}")
    if study.text != TangPoems():
        lines.append(f"text: {study.text}")
    if grid := study.tune:
        points = ", ".join(f"{point:g}" for point in grid.points)
        lines.append(f"grid: {grid.key} at {points}, seeds {', '.join(map(str, grid.tuning_seeds))}")
    if study.pairs:
        lines.append("pairs: " + ", ".join(f"{arm} with {other}" for arm, other in study.pairs))
    if published := study.published:
        lines.append(f"published: SD {published.sd:g} of {published.sd_runs} runs, tolerance {published.tolerance:g}")
        lines += [f"published: {f.arm} {f.value:g} by {f.measure}" for f in published.figures]
    lines += [f"contrast: {c.name}: {c.cell.label} against {c.baseline.label}" for c in study.contrasts]
    for arm in study.arms:
        lines += [
            "",
            f"[{arm.name}] {counting.parameters(arm.recipe.model).total:,} parameters, {arm.recipe.tokens:,} tokens",
        ]
        lines += [f"{key}: {text}" for key, text in sorted(recipe_text(arm.recipe).items())]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", STUDIES)
def test_the_plan_is_the_golden_one(name: str) -> None:
    assert resolved(name) == (GOLDEN / f"{name}.txt").read_text()


if __name__ == "__main__":
    for study_name in STUDIES:
        (GOLDEN / f"{study_name}.txt").write_text(resolved(study_name))
