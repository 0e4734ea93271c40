"""Contrasts as a study declares them: what is refused, what its folder says of them, and what they ask for."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from analysis.records import RUNS, Records
from analysis.report import write_report
from analysis.scorings import scored
from analysis.verdict import Verdict
from model.corpus.text import Corpus
from model.recipe import Member, Recipe
from model.scoring import Ablated, AtLength
from model.seeding import Fixed, Streams
from model.train import train
from sweeps.engine.contrasts import Cell, Contrast
from sweeps.engine.fingerprint import recipe_text, run_id
from sweeps.engine.plan import Plan, Run, make_plan
from sweeps.engine.rounds import asked, judged_seeds
from sweeps.engine.rows import curve_rows, run_row
from sweeps.engine.snapshot import make_snapshot, refuse_another_question
from sweeps.engine.study import Study, StudyError

LONG, OFF = AtLength(20), Ablated(attention=1.0)
KNOWN = {"study": "s", "device": "cpu", "corpus_sha256": "a", "commit": "c", "versions": "{}"}
FAR = Contrast("far", Cell("wide", LONG), Cell("narrow", LONG))
NEED = Contrast("need", Cell("narrow", OFF), Cell("narrow"))
LEAD = Contrast("lead", Cell("wide", OFF, Cell("wide"), "wide's need"), Cell("narrow", OFF, Cell("narrow"), "narrow's"))


@pytest.fixture
def study(tiny: ModuleType) -> Study:
    """Two arms, narrow and wide, scored at 20 and without attention as well."""
    two: Study = tiny.study().with_arms(("wide",))
    scored = [replace(arm, recipe=replace(arm.recipe, scored=(LONG, OFF))) for arm in two.arms]
    return two.replace(arms=tuple(scored), contrasts=(FAR, NEED, LEAD))


def test_a_recipe_without_scorings_is_the_run_that_it_was(tiny: ModuleType) -> None:
    """Fingerprints that were recorded before there were scorings; one scoring more is another run."""
    recipe: Recipe = tiny.recipe(8)
    assert "scored" not in recipe_text(recipe)
    asked = replace(recipe, scored=(LONG,))
    assert recipe_text(asked).items() - recipe_text(recipe).items() == {
        ("scored", "(AtLength(context=20, stretched=1.0))")
    }
    assert run_id(asked, "a", 0) != run_id(recipe, "a", 0)
    assert run_id(replace(recipe, scored=(OFF,)), "a", 0) != run_id(asked, "a", 0)


@pytest.mark.parametrize(
    ("contrast", "why"),
    [
        (Contrast("far", Cell("wide"), Cell("narrow")), "Two contrasts are called 'far'"),
        (Contrast("new", Cell("broad"), Cell("narrow")), "is of 'broad'; the arms are"),
        (Contrast("new", Cell("wide", AtLength(21)), Cell("wide")), "scored at 20, attention off"),
        (Contrast("new", Cell("wide", OFF, Cell("wide", AtLength(9))), Cell("wide")), "scored at 20"),
        (Contrast("new", Cell("wide", LONG), Cell("wide", LONG)), "against itself"),
        (Contrast("new", Cell("wide", LONG, called="wide"), Cell("narrow")), "Two different cells are called 'wide'"),
    ],
)
def test_what_cannot_be_asked_is_refused(study: Study, contrast: Contrast, why: str) -> None:
    with pytest.raises(StudyError, match=why):
        study.replace(contrasts=(*study.contrasts, contrast))


def test_an_arm_that_fixes_a_stream_has_no_contrast(study: Study) -> None:
    narrow, wide = study.arms
    fixed = replace(wide, recipe=replace(wide.recipe, streams=Streams(init=Fixed(1))))
    with pytest.raises(StudyError, match="one draw of that stream"):
        study.replace(arms=(narrow, fixed), varies=(*study.varies, "streams"))


def test_one_arm_is_enough_where_there_are_contrasts(study: Study) -> None:
    alone = study.replace(arms=study.arms[:1], contrasts=(NEED,))
    assert alone.with_steps(20).contrasts == (NEED,)
    with pytest.raises(StudyError, match="only its baseline"):
        alone.replace(contrasts=())


def test_fewer_arms_have_the_contrasts_that_are_left(study: Study) -> None:
    third = replace(study.arms[1], name="third", recipe=replace(study.arms[1].recipe, precision="bf16"))
    three = study.replace(arms=(*study.arms, third), varies=(*study.varies, "precision"))
    assert three.with_arms(("third",)).contrasts == (NEED,)
    assert three.with_arms(("wide",)).contrasts == (FAR, NEED, LEAD)


def test_a_text_without_the_part_and_one_too_short_are_refused(study: Study, corpus: Corpus) -> None:
    def of(*scorings: Any) -> Study:
        arms = tuple(replace(arm, recipe=replace(arm.recipe, scored=scorings)) for arm in study.arms)
        return study.replace(arms=arms, contrasts=())

    parted = replace(corpus, parts={"first": (0, 50)})
    assert make_plan(of(Ablated(part="first"), AtLength(len(corpus.held_out) - 1)), parted, []).missing
    with pytest.raises(StudyError, match=r"scored whole on facts, but the text letters\.txt has the parts first"):
        make_plan(of(Ablated(part="facts")), parted, [])
    with pytest.raises(StudyError, match="has no parts"):
        make_plan(of(Ablated(part="facts")), corpus, [])
    with pytest.raises(StudyError, match=r"has only .* tokens; give a longer text"):
        make_plan(of(AtLength(len(corpus.held_out))), corpus, [])
    documents = replace(corpus, stride=21)
    assert make_plan(of(AtLength(20)), documents, []).missing
    with pytest.raises(StudyError, match="made of documents of 21 tokens, and windows of another length"):
        make_plan(of(AtLength(40)), documents, [])


def test_the_snapshot_tells_cells_and_where_they_stand(study: Study, corpus: Corpus) -> None:
    snapshot = make_snapshot(make_plan(study, corpus, []), corpus)
    assert [c["name"] for c in snapshot["contrasts"]] == ["far", "need", "lead"]
    assert snapshot["contrasts"][2]["cell"] == {
        "label": "wide's need",
        "arm": "wide",
        "scoring": "attention off",
        "less": {"label": "wide", "arm": "wide", "scoring": "", "less": None},
    }
    places = [(one["label"], one["name"], one["lines"], one["at"]) for one in snapshot["arms"][1]["scored"]]
    assert places == [
        ("wide", "", [""], 8),
        ("wide at 20", "at 20", [""], 20),
        ("wide attention off", "attention off", ["attention off"], 1.0),
    ]


Record = Callable[[Plan, Callable[[Run, str], float]], None]


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "study")


@pytest.fixture
def record(records: Records, corpus: Corpus) -> Record:
    """Record the missing runs of a plan with the losses that `loss` gives, by run and scoring ("" for held-out)."""

    def write(plan: Plan, loss: Callable[[Run, str], float]) -> None:
        for run in plan.missing:
            told = {"run_id": run.run_id, "study": "s", "arm": run.arm, "seed": run.seed, "status": "completed"}
            told |= {"val_loss": loss(run, ""), "recipe_version": 2, "tokens": 9, "corpus_sha256": "a"}
            row = {name: told.get(name) for name in RUNS.names} | {"finished": datetime.now(UTC)}
            same = {"run_id": run.run_id, "arm": run.arm, "seed": run.seed, "step": 30}
            names = [scoring.name for scoring in run.recipe.scored]
            points = [same | {"name": f"val_loss {name}", "value": loss(run, name)} for name in names]
            records.append([row], points)
        records.write_snapshot(make_snapshot(plan, corpus))

    return write


def noisy(run: Run, scoring: str) -> float:
    """Losses under `scoring` that no number of seeds tells apart, others that three do."""
    rng = np.random.default_rng([int(run.run_id, 16) % 2**32, len(scoring)])
    if scoring == LONG.name:
        return 3.0 + float(rng.normal(0, 0.3))
    return {"": 2.0, OFF.name: 2.5}[scoring] + (0.2 if run.arm == "wide" else 0.0) + float(rng.normal(0, 0.001))


def test_an_undecided_contrast_asks_for_seeds_of_its_arms(
    study: Study, corpus: Corpus, records: Records, record: Record
) -> None:
    """The arms themselves are told apart at the first look; which contrast is open says who goes on."""
    for contrasts, wanted in (((NEED,), (3, 3)), ((FAR, NEED), (8, 8)), ((), (3, 3))):
        looking = study.replace(contrasts=contrasts).until_decided(8)
        plan = asked(looking, corpus, records)
        while plan.missing:
            record(plan, noisy)
            plan = asked(looking, corpus, records)
        assert tuple(map(len, judged_seeds(plan).values())) == wanted


def test_contrasts_are_fixed_before_there_are_runs(
    study: Study, corpus: Corpus, records: Records, record: Record
) -> None:
    """What they, their cells and the arms are called is not."""
    plan = make_plan(study, corpus, [])
    refuse_another_question(records, make_snapshot(plan, corpus))
    record(plan, noisy)

    def ask(other: Study) -> None:
        refuse_another_question(records, make_snapshot(make_plan(other, corpus, records.recorded()), corpus))

    ask(study)
    renamed = replace(LEAD, name="what leads", cell=replace(LEAD.cell, called="of the wide"))
    ask(study.replace(contrasts=(NEED, FAR, renamed)))
    broad = study.arms[0], replace(study.arms[1], name="broad")
    ask(
        study.replace(
            arms=broad,
            contrasts=(
                replace(FAR, cell=Cell("broad", LONG)),
                NEED,
                replace(LEAD, cell=Cell("broad", OFF, Cell("broad"), "broad's need")),
            ),
        )
    )
    for contrasts in ((FAR, NEED), (), (FAR, replace(NEED, cell=Cell("narrow", LONG)), LEAD)):
        with pytest.raises(StudyError, match="other contrasts than now"):
            ask(study.replace(contrasts=contrasts))


def test_what_was_trained_and_scored_reaches_the_report(study: Study, corpus: Corpus, records: Records) -> None:
    """Real models, three seeds: each contrast's difference is the mean over the seeds of what `train` gave."""
    plan = make_plan(study, corpus, [])
    losses: dict[tuple[str, str, int], float] = {}
    for arm in study.arms:
        runs = [run for run in plan.runs if run.arm == arm.name]
        results = train([Member(run.recipe, run.seed) for run in runs], corpus)
        rows = [run_row(run, result, KNOWN) for run, result in zip(runs, results, strict=True)]
        curves = [curve_rows(run, result) for run, result in zip(runs, results, strict=True)]
        records.append(rows, [point for points in curves for point in points])
        for run, result in zip(runs, results, strict=True):
            for point in result.curve:
                losses[arm.name, point.name.removeprefix("val_loss").strip(), run.seed] = point.value
            losses[arm.name, "", run.seed] = result.val_loss
    snapshot = make_snapshot(plan, corpus)
    records.write_snapshot(snapshot)
    found = scored(*records.planned(snapshot), snapshot).contrasts

    def mean(arm: str, scoring: str) -> float:
        return float(np.mean([losses[arm, scoring, seed] for seed in study.seeds]))

    assert found["far"].difference == pytest.approx(mean("wide", "at 20") - mean("narrow", "at 20"))
    assert found["need"].difference == pytest.approx(mean("narrow", "attention off") - mean("narrow", ""))
    needs = [mean(arm, "attention off") - mean(arm, "") for arm in ("wide", "narrow")]
    assert found["lead"].difference == pytest.approx(needs[0] - needs[1])
    assert isinstance(found["need"].verdict, Verdict)
    page = unescape(write_report(records.folder).read_text()).replace("\N{NO-BREAK SPACE}%", " %")
    assert all(contrast.sentence in page for contrast in found.values())
