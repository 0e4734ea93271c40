"""The study as it was asked and planned, as plain data: ``study.json``, from which a report can be made anywhere."""

import functools
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from analysis.design import FIXED, JUDGE, OPEN, UNTIL_DECIDED
from analysis.records import RecordError, Records
from model import counting
from model.corpus.baselines import scored, uniform_loss, unigram_loss
from model.corpus.ngrams import ngram_losses
from model.corpus.text import Corpus
from sweeps.engine.contrasts import scorings
from sweeps.engine.fingerprint import recipe_text
from sweeps.engine.plan import Plan
from sweeps.engine.source import CommitState
from sweeps.engine.study import StudyError

SNAPSHOT_FORMAT = 2
UNKNOWN = CommitState(None)


def make_snapshot(plan: Plan, corpus: Corpus, command: str = "", source: CommitState = UNKNOWN) -> dict[str, Any]:
    """Everything of a study that its records do not hold."""
    study, looks = plan.study, list(plan.study.looks)
    texts = [recipe_text(arm.recipe) for arm in study.arms]
    shared = functools.reduce(lambda a, b: dict(a.items() & b.items()), texts)
    if study.tune:
        shared.pop(study.tune.key, None)  # the grid sets it, for each arm by itself
    return {
        "format": SNAPSHOT_FORMAT,
        "study": study.name,
        "question": study.question,
        "metric": "val_loss",
        "metric_name": "held-out loss",
        "unit": corpus.unit,
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
                "selected": plan.selected.get(arm.name),
                "scored": scorings(arm.name, arm.recipe),
            }
            for arm in study.arms
        ],
        "seeds": list(study.seeds),
        "design": {"kind": UNTIL_DECIDED if looks else FIXED, "looks": looks or [len(study.seeds)]},
        "tuning": study.tune
        and {"key": study.tune.key, "points": list(study.tune.points), "seeds": list(study.tune.tuning_seeds)},
        "pairs": [list(pair) for pair in study.pairs],
        "published": study.published and asdict(study.published),
        "contrasts": [
            {"name": contrast.name, "cell": contrast.cell.told(), "baseline": contrast.baseline.told()}
            for contrast in study.contrasts
        ],
        "paired": True,
        "target": None,
        "judged": None,
        "runs": [
            {"run_id": run.run_id, "arm": run.arm, "seed": run.seed, "stage": run.stage, "point": run.point}
            for run in plan.runs
        ],
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
            "unigram": unigram_loss(corpus.held_out[scored(corpus)]),
        },
        "local": _local(corpus),
        "rehearsal": study.rehearsal,
        "command": command,
        "commit": source.commit,
        "uncommitted": source.uncommitted,
    }


@functools.lru_cache(maxsize=1)
def _local(corpus: Corpus) -> dict[str, float]:
    """The loss of the best n-gram, by its name: what the last few tokens alone predict."""
    order, loss = ngram_losses(corpus).best
    return {f"{order}-gram (Kneser-Ney)": loss}


def opened(records: Records, snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The design of `snapshot`, a study that is asked with a fixed number of seeds: open when its records were already
    judged with other seeds, as one look more.

    A number of seeds that is raised after a verdict was seen is chosen by the data, which a t test does not allow for.
    """
    design: dict[str, Any] = snapshot["design"]
    before = _asked_before(records)
    if before is None or design["kind"] != FIXED:
        return design
    judged = {run["run_id"] for run in before["runs"] if run["stage"] == JUDGE}
    seen = before["design"]["looks"] if judged and judged <= set(records.recorded()) else []
    if before["design"]["kind"] == OPEN:
        seen = before["design"]["looks"]
    looks = sorted({look for look in seen if look <= len(snapshot["seeds"])} | set(design["looks"]))
    changed = before["design"]["kind"] == OPEN or (seen and before["seeds"] != snapshot["seeds"])
    return {"kind": OPEN, "looks": looks} if changed else design


def refuse_another_question(records: Records, snapshot: Mapping[str, Any]) -> None:
    """Raise StudyError when runs of this plan are recorded that were asked for with another margin, baseline, grid,
    looks, pairs, contrasts or published figures: they are fixed before there are data, and a verdict by a margin that
    was chosen afterwards has no error rate.

    A baseline is its runs: it may be renamed.
    """
    planned = {run["run_id"] for run in snapshot["runs"]}
    before = _asked_before(records)
    if before is None or not planned & set(records.recorded()):
        return
    changed = []
    kinds = [one["design"]["kind"] for one in (before, snapshot)]
    if UNTIL_DECIDED in kinds and before["design"] != snapshot["design"]:
        changed.append(f"{_seeds_asked(before)}, and now it is {_seeds_asked(snapshot)}")
    if before["tuning"] != snapshot["tuning"]:
        changed.append(f"{_grid_asked(before)}, and now it is {_grid_asked(snapshot)}")
    if before["margin"] != snapshot["margin"]:
        changed.append(f"a margin of {before['margin']:g}, and now it is {snapshot['margin']:g}")
    if not _baseline_runs(before) & _baseline_runs(snapshot) and _baseline_runs(before) & planned:
        changed.append(f"the baseline {before['baseline']}, and now it is {snapshot['baseline']}")
    if (before.get("pairs") or []) != snapshot["pairs"]:
        changed.append("other pairs of arms to compare than now")
    if _contrasts_asked(before) != _contrasts_asked(snapshot):
        changed.append("other contrasts than now")
    if _figures_asked(before) != _figures_asked(snapshot):
        changed.append("other published figures, or another rule to hold runs against them, than now")
    if changed:
        raise StudyError(
            f"The runs in {records.folder} were asked for with {'; and with '.join(changed)}. That is fixed before "
            "there are data: ask as before, or ask the new question under another name, or in another folder with "
            "--results."
        )


def _asked_before(records: Records) -> dict[str, Any] | None:
    """The study as its folder says it was last asked; None where nothing can be known of that."""
    try:
        before = records.snapshot()
    except RecordError:
        return None  # there is none, or it is lost or damaged, and it is written anew
    if before["format"] == SNAPSHOT_FORMAT:
        return before
    runs = [{"stage": JUDGE, "point": None} | run for run in before["runs"]]
    return before | {"runs": runs, "tuning": None, "design": {"kind": FIXED, "looks": [len(before["seeds"])]}}


def _seeds_asked(snapshot: Mapping[str, Any]) -> str:
    most = snapshot["design"]["looks"][-1]
    if snapshot["design"]["kind"] == UNTIL_DECIDED:
        return f"--until-decided --max-seeds {most}"
    return f"{most} seeds"


def _grid_asked(snapshot: Mapping[str, Any]) -> str:
    tuning = snapshot["tuning"]
    if tuning is None:
        return "no grid"
    return f"{len(tuning['seeds'])} seeds at {tuning['key']} {', '.join(f'{point:g}' for point in tuning['points'])}"


def _contrasts_asked(snapshot: Mapping[str, Any]) -> list[str]:
    """What is held against what, whatever arms, cells and contrasts are called."""
    arms = {arm["name"]: sorted(arm["differences"].items()) for arm in snapshot["arms"]}

    def cell(told: Mapping[str, Any]) -> list[Any]:
        return [arms[told["arm"]], told["scoring"], told["less"] and cell(told["less"])]

    return sorted(repr([cell(one["cell"]), cell(one["baseline"])]) for one in snapshot.get("contrasts") or ())


def _figures_asked(snapshot: Mapping[str, Any]) -> list[Any]:
    """Published figures and the rule for them, without what is only said of them."""
    asked = snapshot.get("published")
    if not asked:
        return []
    figures = sorted((figure["arm"], figure["measure"], figure["value"]) for figure in asked["figures"])
    return [figures, asked["sd"], asked["sd_runs"], asked["tolerance"]]


def _baseline_runs(snapshot: Mapping[str, Any]) -> set[str]:
    return {run["run_id"] for run in snapshot["runs"] if run["arm"] == snapshot["baseline"]}
