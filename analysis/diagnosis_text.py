"""The table of faults against alarms in Markdown, and its cells."""

from collections.abc import Iterator

from analysis.diagnosis import Diagnosis, Row, Symptom, diagnose
from analysis.markdown import bullets, table
from analysis.material import Material

CHECKS = (
    "Two alarms, eps-too-large and unbounded-residual, read a number of the model as it starts, the other seven one of "
    "the trained model; none is told what the model is. The last columns are the checks before training, which stop "
    "any model that is not wrong on purpose."
)
NUMBERS = (
    "The number that each fault is known by: what it is, where it lies when the alarm is raised, and what it was, "
    "lowest to highest (median) over seeds, in the fault's arm and in healthy ones."
)


def diagnosed(material: Material) -> Diagnosis | None:
    """Which faults were looked for and found; None where none was looked for."""
    return diagnose(material.curves_of_completed, material.arms)


def diagnosis_sections(material: Material) -> Iterator[str]:
    """Sections of a finding; none where no model was diagnosed."""
    found = diagnosed(material)
    if found is None:
        return
    yield "## Faults and alarms"
    yield bullets(found.sentences)
    rows = [
        [row.arm, str(row.n), *(f"**{cell}**" if own else cell for cell, own in cells(row, found))]
        for row in found.rows
    ]
    yield table(("arm", "models", *(column.replace("-", " ") for column in found.columns)), rows)
    yield CHECKS
    if found.symptoms:
        yield NUMBERS
        head = ("fault", "what it is known by", "alarm when", "where it is", "where it is not")
        yield table(head, ([s.fault, s.number, s.alarm_when, *numbers_of(s)] for s in found.symptoms))


def cells(row: Row, found: Diagnosis) -> Iterator[tuple[str, bool]]:
    """In how many of an arm's models each column is true, and whether it is the arm's own fault."""
    for name, raised in zip(found.columns, row.raised, strict=True):
        yield (f"{raised} of {row.n}" if raised else "0"), name == row.arm


def numbers_of(symptom: Symptom) -> tuple[str, str]:
    """The spread of a fault's number in its own arm, and in healthy ones."""
    return _spread(symptom.faulty), _spread(symptom.healthy) if symptom.healthy else ""


def _spread(values: tuple[float, float, float]) -> str:
    low, middle, high = (_short(value) for value in values)
    return low if low == high else f"{low} to {high} ({middle})"


def _short(value: float) -> str:
    """Three digits, and of what is nearly zero one and its power of ten: ``2e-6``."""
    return f"{value:.3g}" if value == 0 or abs(value) >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")
