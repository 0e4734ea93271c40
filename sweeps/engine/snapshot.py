"""The study as it was asked and planned, as plain data: ``study.json``, from which a report can be made anywhere."""

import functools
from collections.abc import Mapping
from typing import Any

from analysis.records import RecordError, Records
from model import counting
from model.corpus.baselines import uniform_loss, unigram_loss
from model.corpus.text import Corpus
from sweeps.engine.fingerprint import recipe_text
from sweeps.engine.plan import Plan
from sweeps.engine.source import CommitState
from sweeps.engine.study import StudyError

SNAPSHOT_FORMAT = 1


def make_snapshot(plan: Plan, corpus: Corpus, command: str, source: CommitState) -> dict[str, Any]:
    """Everything of a study that its records do not hold."""
    study = plan.study
    texts = [recipe_text(arm.recipe) for arm in study.arms]
    shared = functools.reduce(lambda a, b: dict(a.items() & b.items()), texts)
    return {
        "format": SNAPSHOT_FORMAT,
        "study": study.name,
        "question": study.question,
        "metric": "val_loss",
        "metric_name": "held-out loss",
        "unit": "nats per character",
        "margin": study.margin,
        "margin_reason": study.margin_reason,
        "baseline": study.baseline,
        "arms": [
            {
                "name": arm.name,
                "note": arm.note,
                "parameters": counting.parameters(arm.recipe.model).total,
                "replicate": study.is_replicate(arm),
                "differences": study.differences(arm),
            }
            for arm in study.arms
        ],
        "seeds": list(study.seeds),
        "runs": [{"run_id": run.run_id, "arm": run.arm, "seed": run.seed} for run in plan.runs],
        "varies": list(study.varies),
        "equal": dict(study.equal),
        "held_equal": dict(sorted(shared.items())),
        "not_controlled": list(study.not_controlled),
        "corpus": {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "characters": corpus.characters,
            "vocabulary": corpus.vocabulary.size,
            "coverage": corpus.coverage,
            "train_tokens": len(corpus.train),
            "held_out_tokens": len(corpus.held_out),
        },
        "baselines": {
            "uniform": uniform_loss(corpus.vocabulary.size),
            "unigram": unigram_loss(corpus.held_out[1:]),
        },
        "rehearsal": study.rehearsal,
        "command": command,
        "commit": source.commit,
        "uncommitted": source.uncommitted,
    }


def refuse_another_question(records: Records, snapshot: Mapping[str, Any]) -> None:
    """Raise StudyError when runs of this plan are recorded that were asked for with another margin or baseline: both
    are fixed before there are data, and a verdict by a margin that was chosen afterwards has no error rate.

    A baseline is its runs: it may be renamed.
    """
    planned = {run["run_id"] for run in snapshot["runs"]}
    if not planned & set(records.recorded()):
        return
    try:
        before = records.snapshot()
    except RecordError:
        return  # lost or damaged: nothing is known of what was asked, and it is written anew
    changed = []
    if before["margin"] != snapshot["margin"]:
        changed.append(f"a margin of {before['margin']:g}, and now it is {snapshot['margin']:g}")
    if not _baseline_runs(before) & _baseline_runs(snapshot) and _baseline_runs(before) & planned:
        changed.append(f"the baseline {before['baseline']}, and now it is {snapshot['baseline']}")
    if changed:
        raise StudyError(
            f"The runs in {records.folder} were asked for with {'; and with '.join(changed)}. That is fixed before "
            "there are data: ask the new question under another name, or in another folder with --results."
        )


def _baseline_runs(snapshot: Mapping[str, Any]) -> set[str]:
    return {run["run_id"] for run in snapshot["runs"] if run["arm"] == snapshot["baseline"]}
