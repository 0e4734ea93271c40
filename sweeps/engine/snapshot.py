"""The study as it was asked and planned, as plain data: ``study.json``, from which a report can be made anywhere."""

import functools
from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from analysis.design import FIXED, JUDGE, OPEN, UNTIL_DECIDED
from analysis.records import RecordError, Records
from analysis.verdict import FEWEST_SEEDS
from model import counting
from model.corpus.baselines import guess_losses, trivial_losses
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
                "batch": arm.recipe.budget.batch,
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
        "baselines": trivial_losses(corpus),
        "guesses": {part: loss for part, loss in guess_losses(corpus).items() if part},
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
    """The design of `snapshot`, a study that is asked with a fixed number of seeds: open when other seeds were asked
    for before, and so many of them are recorded that a verdict could be seen. They are one look more.

    Seeds that are asked for after a verdict was seen, be it a running one, are chosen by the data, which a t test does
    not allow for. The same seeds again, as after Ctrl-C, are no look.
    """
    design: dict[str, Any] = snapshot["design"]
    before = _asked_before(records)
    if before is None or design["kind"] != FIXED:
        return design
    looks = set(before["design"]["looks"]) if before["design"]["kind"] == OPEN else set()
    if before["seeds"] != snapshot["seeds"]:
        looks |= _seen(before, set(records.recorded()))
    if not looks:
        return design
    return {"kind": OPEN, "looks": sorted({n for n in looks if n <= len(snapshot["seeds"])} | set(design["looks"]))}


def _seen(before: Mapping[str, Any], recorded: Collection[str]) -> set[int]:
    """How many seeds are recorded in all arms of a comparison or a contrast, where that is enough for a verdict: of
    several the fewest. Empty where no verdict could be seen."""
    seeds: dict[str, set[int]] = {}
    for run in before["runs"]:
        if run["stage"] == JUDGE and run["run_id"] in recorded:
            seeds.setdefault(run["arm"], set()).add(run["seed"])
    others = [arm["name"] for arm in before["arms"] if arm["name"] != before["baseline"]]
    sides = [set(pair) for pair in before.get("pairs") or [(arm, before["baseline"]) for arm in others]]
    sides += [_arms(one["cell"]) | _arms(one["baseline"]) for one in before.get("contrasts") or ()]
    shared = [len(set.intersection(*(seeds.get(arm, set()) for arm in arms))) for arms in sides]
    return set(sorted(n for n in shared if n >= FEWEST_SEEDS)[:1])


def _arms(cell: Mapping[str, Any]) -> set[str]:
    """Of a cell as the snapshot tells it."""
    return {cell["arm"]} | (_arms(cell["less"]) if cell["less"] else set())


def asked_since(records: Records, snapshot: Mapping[str, Any]) -> str:
    """When the question of `snapshot` was first asked as it is now, in its folder (ISO 8601, UTC): now, where that
    tells of another question or of none. Seeds of an open design may be added to it."""
    before = _asked_before(records)
    if before and "asked" in before and not _changes(before, snapshot):
        same_seeds = before["seeds"] == snapshot["seeds"] or snapshot["design"]["kind"] == OPEN
        family = [sorted(_recipes(one).values()) for one in (before, snapshot)]
        if same_seeds and family[0] == family[1] and _baseline_runs(before) & _baseline_runs(snapshot):
            return str(before["asked"])
    return datetime.now(UTC).isoformat()


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
    if changed := _changes(before, snapshot):
        raise StudyError(
            f"The runs in {records.folder} were asked for with {'; and with '.join(changed)}. That is fixed before "
            "there are data: ask as before, or ask the new question in another folder with --results, of other seeds, "
            "since the same ones give the same losses there."
        )


def _changes(before: Mapping[str, Any], snapshot: Mapping[str, Any]) -> list[str]:
    """What `before` asked for otherwise than `snapshot` does, each in words."""
    planned = {run["run_id"] for run in snapshot["runs"]}
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
    return changed


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
    arms = _recipes(snapshot)

    def cell(told: Mapping[str, Any]) -> list[Any]:
        return [arms[told["arm"]], told["scoring"], told["less"] and cell(told["less"])]

    return sorted(repr([cell(one["cell"]), cell(one["baseline"])]) for one in snapshot.get("contrasts") or ())


def _recipes(snapshot: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Each arm by its differences from the baseline."""
    return {arm["name"]: sorted(arm["differences"].items()) for arm in snapshot["arms"]}


def _figures_asked(snapshot: Mapping[str, Any]) -> list[Any]:
    """Published figures and the rule for them, without what is only said of them."""
    asked = snapshot.get("published")
    if not asked:
        return []
    figures = sorted((figure["arm"], figure["measure"], figure["value"]) for figure in asked["figures"])
    return [figures, asked["sd"], asked["sd_runs"], asked["tolerance"]]


def _baseline_runs(snapshot: Mapping[str, Any]) -> set[str]:
    return {run["run_id"] for run in snapshot["runs"] if run["arm"] == snapshot["baseline"]}
