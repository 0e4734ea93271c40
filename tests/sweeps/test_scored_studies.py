"""The studies that score trained models otherwise: what they declare is what they say they ask."""

import math

import pytest

from model.corpus.tasks import Brackets, Facts, FactsAndBrackets
from model.parts.position import RotaryPosition
from model.scoring import AtLength
from sweeps import function_split, positions
from sweeps.engine.contrasts import Cell
from sweeps.engine.plan import make_plan
from sweeps.engine.snapshot import make_snapshot
from sweeps.engine.study import Study, StudyError


def sides(study: Study) -> dict[str, tuple[Cell, Cell]]:
    return {contrast.name: (contrast.cell, contrast.baseline) for contrast in study.contrasts}


def test_the_factor_is_by_how_much_longer_the_windows_are() -> None:
    asked = sides(positions.study())
    for length in (128, 256):
        factor = length // positions.recipes()["rope"][0].model.context
        ours, theirs = asked[f"NTK x{factor} at {length}"]
        assert ours == Cell("rope", AtLength(length, factor))
        assert theirs == Cell("rope", AtLength(length))
    scorings = [cell.scoring for cell, _ in asked.values() if cell.arm == "rope"]
    swept = {scoring.stretched for scoring in scorings if scoring and scoring.context == 256}
    assert swept == {1.0, 2.0, 4.0, 8.0}


def test_only_rotary_models_are_stretched() -> None:
    for name, (recipe, _) in positions.recipes().items():
        assert {AtLength(128), AtLength(256)} <= set(recipe.scored)
        assert any(scoring.stretched != 1 for scoring in recipe.scored) == (name == "rope")
        assert isinstance(recipe.model.position, RotaryPosition) == name.startswith("rope")


@pytest.mark.parametrize("arm", ["learned", "rope"])
def test_the_curves_cross_when_both_halves_are_shown(arm: str) -> None:
    """On each task the same two ablations stand against each other, in the same order."""
    asked = sides(function_split.study())
    for degree in ("", " 0.5"):
        for task in ("facts", "brackets"):
            name = f"{arm}: more missed on {task}" + (f" at{degree}" if degree else "")
            assert [cell.label for cell in asked[name]] == [
                f"{arm} {branch} off{degree} on {task}" for branch in ("feedforward", "attention")
            ]
    facts, brackets = asked[f"{arm}: more so on facts"]
    for task, lead in (("facts", facts), ("brackets", brackets)):
        assert [cell.label for cell in lead.single] == [
            f"{arm} {branch} off on {task}" for branch in ("feedforward", "attention")
        ]


def test_the_text_of_the_split_has_its_parts() -> None:
    study = function_split.study()
    small = FactsAndBrackets(Facts(8, train_documents=4, held_out_documents=2), Brackets(4, 3, 4, 2))
    assert isinstance(study.text, FactsAndBrackets)
    config = study.arms[0].recipe.model
    corpus = small.build(config.vocabulary, config.context)
    plan = make_plan(study, corpus, [])
    assert plan.missing
    assert make_snapshot(plan, corpus)["guesses"] == {"facts": math.log(8), "brackets": math.log(4)}
    with pytest.raises(StudyError, match="the text facts has no parts"):
        make_plan(study, Facts(8, 4, 2).build(config.vocabulary, config.context), [])
