"""Looks inside the members while they train: when, at what, and that a training does not notice."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model.batches import IGNORED, Batch, evaluation_batches
from model.checkpoint import Checkpoint
from model.cohort import Cohort
from model.corpus.text import Corpus
from model.diagnostics import measure, summary
from model.diagnostics.live import INSIDE, look_inside, probe, spread_out
from model.optimizer import AdamW
from model.recipe import Budget, Member, Recipe
from model.train import Result, _Training, train, training


def looks(result: Result, name: str = "adjacent_kl") -> dict[int, float]:
    return {point.step: point.value for point in result.curve if point.name == INSIDE + name}


@pytest.fixture
def often(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """A recipe of 23 updates, with a look every ten."""
    monkeypatch.setattr("model.train.INSIDE_EVERY", 10)
    return replace(recipe, budget=Budget(steps=23, batch=4))


def test_looks_are_before_the_first_update_every_hundred_and_after_the_last(corpus: Corpus, recipe: Recipe) -> None:
    longer = replace(recipe, budget=Budget(steps=110, batch=4))
    (result,) = train([Member(longer, 0)], corpus)
    names = {point.name.removeprefix(INSIDE) for point in result.curve if point.name.startswith(INSIDE)}
    first = measure(longer.model.build(0), probe(Cohort([Member(longer, 0)], corpus, "cpu", compiled=False)))
    assert names == set(summary(first))
    for name, value in summary(first).items():
        assert list(looks(result, name)) == [0, 100, 110]
        assert looks(result, name)[0] == value
    assert looks(result)[110] > 2 * looks(result)[0]  # it has learned to use what it sees


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_a_training_does_not_notice(
    corpus: Corpus, often: Recipe, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other numbers are the same to the last bit, and no random number is drawn."""
    members = [Member(replace(often, precision=precision), seed) for seed in (0, 1)]  # type: ignore[arg-type]
    seen = train(members, corpus)
    random = []
    look = _Training._look_inside

    def looking(self: _Training) -> None:
        before = torch.get_rng_state()
        look(self)
        random.append(torch.equal(before, torch.get_rng_state()))

    monkeypatch.setattr(_Training, "_look_inside", looking)
    assert train(members, corpus)[0].curve == seen[0].curve
    assert random == [True] * 4
    monkeypatch.setattr(_Training, "_look_inside", lambda self: None)
    for with_looks, without in zip(seen, train(members, corpus), strict=True):
        assert tuple(point for point in with_looks.curve if not point.name.startswith(INSIDE)) == without.curve
        assert with_looks.val_loss == without.val_loss


def test_members_are_looked_at_one_by_one(corpus: Corpus, often: Recipe) -> None:
    """A member of a cohort is measured as it is alone; one that diverged is measured no more."""
    exact = replace(often, precision="fp64")
    wild = replace(exact, optimizer=AdamW(1e30, warmup=0))
    members = [Member(exact, 0), Member(wild, 1), Member(exact, 2)]
    together = train(members, corpus)
    assert list(looks(together[1])) == [0]
    for result, member in zip(together[::2], members[::2], strict=True):
        (alone,) = train([member], corpus)
        assert looks(result) == pytest.approx(looks(alone), abs=1e-9)


def test_a_look_is_not_taken_twice_when_a_training_goes_on(corpus: Corpus, often: Recipe, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "cohort.pt", 0.0)
    slices = training([Member(often, 0)], corpus, "cpu", checkpoint)
    for _ in range(11):
        next(slices)
    slices.close()
    (result,) = train([Member(often, 0)], corpus, checkpoint=checkpoint)
    assert [p.step for p in result.curve if p.name == f"{INSIDE}adjacent_kl"] == [0, 10, 20, 23]


def test_a_members_model_is_its_own(corpus: Corpus, recipe: Recipe) -> None:
    """It gives the member's loss, and does not change when the member trains on."""
    exact = replace(recipe, precision="fp64")
    cohort = Cohort([Member(exact, 0), Member(exact, 1)], corpus, "cpu", compiled=False)
    cohort.update(0)
    model = cohort.model(1)
    losses, before = cohort.score(), {name: tensor.clone() for name, tensor in model.state_dict().items()}
    total, count = 0.0, 0
    for batch in evaluation_batches(corpus, recipe.model.context, 4):
        asked = int((batch.targets_BT != IGNORED).sum())
        total += measure(model, batch).loss * asked if asked else 0.0
        count += asked
    assert total / count == pytest.approx(losses[1].loss, rel=1e-12)
    cohort.update(1)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_probe_has_no_window_without_a_target(corpus: Corpus, recipe: Recipe) -> None:
    cohort = Cohort([Member(recipe, 0)], corpus, "cpu", compiled=False)
    found = probe(cohort)
    assert found.inputs_BT.shape == (8, 8)  # not more than an update takes
    assert (found.targets_BT != IGNORED).any(dim=1).all()
    rows = torch.arange(10)[:, None].expand(-1, 3)
    targets = rows.where(rows % 2 == 0, IGNORED)
    assert chosen([Batch(rows[:4], targets[:4]), Batch(rows[4:], targets[4:])], 2) == [0, 4]


def chosen(batches: list[Batch], windows: int) -> list[int]:
    return spread_out(batches, windows).inputs_BT[:, 0].tolist()


@pytest.mark.parametrize(
    ("n", "windows", "places"), [(7, 4, [0, 1, 3, 5]), (3, 2, [0, 1]), (9, 3, [0, 3, 6]), (2, 5, [0, 1]), (0, 2, [])]
)
def test_a_few_windows_are_spread_over_all(n: int, windows: int, places: list[int]) -> None:
    """Also where there are less than twice as many as are wanted."""
    rows = torch.arange(n)[:, None].expand(-1, 3)
    assert chosen([Batch(rows, rows)], windows) == places


def test_what_is_not_finite_is_no_point(corpus: Corpus, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = Cohort([Member(recipe, 0)], corpus, "cpu", compiled=False)
    monkeypatch.setattr("model.diagnostics.live.summary", lambda anatomy: {"a": math.nan, "b": 1.0})
    assert look_inside(cohort, 0, probe(cohort)) == {f"{INSIDE}b": 1.0}
