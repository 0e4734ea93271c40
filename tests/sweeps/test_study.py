import importlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model.corpus.tasks import CopyTask
from model.corpus.texts import TangPoems, TextFile, text_called
from model.optimizer import AdamW
from model.parts.feedforward import GELUFeedForward
from model.parts.norm import RMSNorm
from model.recipe import Budget, Recipe
from model.seeding import Fixed, Follow, Streams
from model.transformer import ModelConfig
from sweeps.engine.cli import parse_seeds
from sweeps.engine.grid import Grid
from sweeps.engine.study import Arm, Study, StudyError

SWEEPS = Path(__file__).parents[2] / "sweeps"
BASE = Recipe(model=ModelConfig(layers=1))
WIDE = replace(BASE, model=replace(BASE.model, feedforward=GELUFeedForward(512)))


def make(**changes: Any) -> Study:
    settings = {
        "name": "example",
        "question": "Does width help?",
        "arms": (Arm("base", BASE, "as is"), Arm("wide", WIDE, "wider")),
        "baseline": "base",
        "varies": ("model.feedforward",),
        "margin": 0.02,
        "margin_reason": "a test",
    }
    return Study(**(settings | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("margin", [0, -0.01, None, math.nan, math.inf, "0.02"])
def test_a_margin_is_needed(margin: object) -> None:
    with pytest.raises(StudyError, match="needs a margin above zero"):
        make(margin=margin)


def test_a_study_that_forgets_its_margin_is_refused_in_words() -> None:
    with pytest.raises(StudyError, match="but was given none"):
        Study("example", "Does width help?", make().arms, "base", ("model.feedforward",))


def test_seeds() -> None:
    with pytest.raises(StudyError, match="has no seeds"):
        make(seeds=())
    with pytest.raises(StudyError, match="seeds 1, 4 are given more than once"):
        make(seeds=(4, 1, 1, 2, 4))
    with pytest.raises(StudyError, match="from 0 up"):
        make(seeds=(-1, 0))


def test_an_undeclared_difference_is_refused_and_every_offender_named() -> None:
    sneaky = replace(WIDE, model=replace(WIDE.model, norm=RMSNorm()), optimizer=AdamW(learning_rate=1e-3))
    with pytest.raises(StudyError, match=r"'sneaky' differs .* in model\.norm, optimizer\.learning_rate, which"):
        make(arms=(Arm("base", BASE, ""), Arm("sneaky", sneaky, "")))


def test_a_declared_beginning_does_not_cover_another_key() -> None:
    with pytest.raises(StudyError, match=r"model\.feedforward\.d_ff"):
        make(varies=("model.feed", "model.feedforward.d"))


def test_unequal_parameters_are_refused() -> None:
    with pytest.raises(StudyError, match=r"holds parameters equal within 2\.0% of 294,016 .* but wide has 359,808"):
        make(equal=(("parameters", 0.02),))
    with pytest.raises(StudyError, match="'flops' cannot be held equal"):
        make(equal=(("flops", 0.02),))


def test_unequal_tokens_are_refused_unless_released() -> None:
    longer = replace(BASE, budget=Budget(steps=2400))
    arms = (Arm("base", BASE, ""), Arm("longer", longer, ""))
    with pytest.raises(StudyError, match="holds tokens equal"):
        make(arms=arms, varies=("budget.steps",))
    assert make(arms=arms, varies=("budget.steps",), equal=()).arms == arms


def test_arms_must_be_apart() -> None:
    with pytest.raises(StudyError, match="same name"):
        make(arms=(Arm("base", BASE, ""), Arm("base", WIDE, "")))
    with pytest.raises(StudyError, match="have the same recipe"):
        make(arms=(Arm("base", BASE, ""), Arm("twin", BASE, "")))
    with pytest.raises(StudyError, match="only its baseline"):
        make(arms=(Arm("base", BASE, ""),))


def test_an_unknown_arm_suggests_the_nearest() -> None:
    with pytest.raises(StudyError, match="no arm 'wid'; did you mean 'wide'"):
        make().with_arms(("wid",))
    with pytest.raises(StudyError, match="its arms are base, wide"):
        make(baseline="zzz")
    chosen = make(
        arms=(
            *make().arms,
            Arm("wider", replace(WIDE, model=replace(WIDE.model, feedforward=GELUFeedForward(600))), ""),
        )
    )
    assert [arm.name for arm in chosen.with_arms(("wide",)).arms] == ["base", "wide"]
    assert chosen.with_arms(("wide",)).name == "example-wide"
    assert make().with_arms(("wide", "base")) == make()


def test_replicates_are_told_from_other_arms() -> None:
    arms = {
        "base": Streams(),
        "again": Streams(Follow(100), Follow(100)),
        "init": Streams(order=Fixed(0)),
    }
    study = make(
        arms=tuple(Arm(name, replace(BASE, streams=streams), "") for name, streams in arms.items()), varies=("streams",)
    )
    assert [study.is_replicate(arm) for arm in study.arms] == [False, True, False]


def test_steps_and_rehearsal_make_other_runs() -> None:
    study = make()
    shorter = study.with_steps(300)
    assert {arm.recipe.budget.steps for arm in shorter.arms} == {300}
    assert shorter.name == "example-300-steps"
    assert study.with_steps(1200) is study
    with pytest.raises(ValueError, match="A warmup of 100 updates leaves nothing of 50 steps"):
        study.with_steps(50)
    rehearsal = study.as_rehearsal()
    assert rehearsal.rehearsal
    assert rehearsal.name == "example-quick"
    assert rehearsal.seeds == (0, 1, 2, 3, 4)
    assert {(arm.recipe.budget.steps, arm.recipe.optimizer.warmup) for arm in rehearsal.arms} == {(120, 10)}


def test_the_precision_is_that_of_all_arms_or_none() -> None:
    study = make()
    assert study.precision == "fp32"
    half = study.with_precision("bf16")
    assert half.precision == "bf16"
    assert half.name == study.name
    assert half.with_precision("fp32") == study
    mixed = make(arms=(Arm("base", BASE, ""), Arm("half", replace(BASE, precision="bf16"), "")), varies=("precision",))
    assert mixed.precision is None


def test_another_text_or_vocabulary_is_another_name() -> None:
    """A variation must not replace the records' report of the study itself."""
    study = make()
    assert study.with_text(None, None) is study
    assert study.with_text(TextFile(Path("my text.txt")), None).name == "example-my-text-txt"
    assert study.with_text(TangPoems(whole=True), None).name == "example-tang-all"
    smaller = study.with_text(None, 60)
    assert smaller.name == "example-60-symbols"
    assert {arm.recipe.model.vocabulary for arm in smaller.arms} == {60}


@pytest.mark.parametrize(("given", "seeds"), [("3", (0, 1, 2)), ("3,5,8", (3, 5, 8)), ("7, 2,", (7, 2)), ("0", ())])
def test_seeds_on_the_command_line(given: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(given) == seeds


@pytest.mark.parametrize("given", ["", "ten", "1.5", "-3", "1;2", "1,,2", "9" * 30])
def test_seeds_that_are_none(given: str) -> None:
    with pytest.raises(StudyError, match=r"--seeds takes a number|more than the 10,000"):
        parse_seeds(given)


@pytest.mark.parametrize("name", sorted(path.stem for path in SWEEPS.glob("*.py")))
def test_the_studies_can_be_asked(name: str) -> None:
    module = importlib.import_module(f"sweeps.{name}")
    if not hasattr(module, "study"):
        assert name in ("__init__", "baseline")
        return
    study = module.study()
    assert study.name == name
    assert study.as_rehearsal().rehearsal
    assert study.until_decided(20).seeds == tuple(range(20))


def test_a_rehearsal_tunes_with_the_fewest_seeds() -> None:
    tuned = make(tune=Grid("optimizer.learning_rate", (1e-3, 3e-3), seeds=7))
    assert tuned.as_rehearsal().tune == Grid("optimizer.learning_rate", (1e-3, 3e-3), seeds=3)


def test_a_task_made_for_a_question_is_not_replaced() -> None:
    study = make(text=CopyTask())
    assert study.with_text(None, 60).text == CopyTask()
    with pytest.raises(
        StudyError, match="The text of example is a task made for its question, so it takes no --corpus"
    ):
        study.with_text(TextFile(Path("my text.txt")), None)


def test_the_whole_collection_is_a_name_unless_it_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert text_called(Path("tang-all")) == TangPoems(whole=True)
    assert text_called(Path("tang")) == TextFile(Path("tang"))
    (tmp_path / "tang-all").write_text("mine")
    assert text_called(Path("tang-all")) == TextFile(Path("tang-all"))
