"""In which precision a study trains when its arms all train in the same."""

from typing import Literal, get_args

from analysis.records import Records
from model.corpus.text import Corpus
from model.hardware import native_bf16
from model.recipe import Precision
from sweeps.engine.plan import make_plan
from sweeps.engine.study import Study, StudyError

Asked = Literal["fp32", "bf16", "auto"]
FINDING = "docs/findings/precision.md"  # the study that decided for bf16 wherever a machine multiplies it fast


def in_precision(study: Study, asked: Asked, records: Records, corpus: Corpus, device: str) -> Study:
    """`study` with every arm in the precision that is `asked` for; as it is when its arms differ in precision.

    'auto' is the precision of what the study's folder records, the more frequent one if it holds both; in an
    empty folder bf16 where this machine's `device` multiplies it fast, else fp32. Raises StudyError when a precision is
    asked of a study whose arms differ in it, or while the folder records runs of this plan in another one alone.
    """
    if study.precision is None:
        if asked != "auto":
            raise StudyError(f"The arms of {study.name} differ in precision; leave --precision out.")
        return study
    if asked == "auto":
        recorded = records.runs()["precision"].dropna()
        return study.with_precision(recorded.mode()[0] if len(recorded) else _fastest(device))
    known = records.recorded()
    there = [p for p in get_args(Precision) if make_plan(study.with_precision(p), corpus, known).recorded]
    if there and asked not in there:
        raise StudyError(
            f"The runs in {records.folder} were trained in {there[0]}, and one comparison holds one precision: leave "
            f"--precision out to go on in {there[0]}, or train in {asked} in another folder with --results."
        )
    return study.with_precision(asked)


def _fastest(device: str) -> Precision:
    return "bf16" if native_bf16(device) else "fp32"


def said(study: Study) -> str:
    """The precision in words, such as ``bf16``, and where to read what it does."""
    words = study.precision or "as each arm says"
    return words if words == "fp32" else f"{words} ({FINDING} compares it with fp32)"
