"""A trained model scored under other conditions: the same weights, another code, and every effect by an oracle."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from model.cohort import Cohort
from model.corpus.tasks import Brackets, Facts, FactsAndBrackets
from model.corpus.text import Corpus
from model.parts.block import NoResidual, PostNorm
from model.parts.position import RotaryPosition
from model.recipe import Budget, Member, Recipe
from model.scoring import Ablated, AtLength, Scoring
from model.train import Result, train
from model.transformer import Transformer

LONG = AtLength(20)
STRETCHED = AtLength(20, stretched=2.5)
HALF = Ablated(feedforward=0.5)


@pytest.fixture(scope="module")
def exact(recipe: Recipe) -> Recipe:
    return replace(recipe, precision="fp64", budget=Budget(12, batch=8))


@pytest.fixture(scope="module")
def rotary(exact: Recipe) -> Recipe:
    return replace(exact, model=replace(exact.model, position=RotaryPosition(100.0)))


def trained(recipe: Recipe, corpus: Corpus) -> tuple[Cohort, Transformer]:
    """A cohort of one after its updates, and that member as a plain model."""
    cohort = Cohort([Member(recipe, 3)], corpus, "cpu", compiled=False)
    for step in range(recipe.budget.steps):
        cohort.update(step)
    return cohort, cohort.model(0)


def score(cohort: Cohort, scoring: Scoring) -> float:
    return cohort.score_as(scoring)[0].loss


@torch.no_grad()
def loss_in_windows(model: nn.Module, stream: np.ndarray, context: int) -> float:
    """Every token but the first once, window by window, each seen from the start of its window."""
    tokens, total = torch.tensor(stream), 0.0
    for start in range(0, len(tokens) - 1, context):
        window = tokens[start : start + context + 1]
        total += nn.functional.cross_entropy(model(window[None, :-1])[0], window[1:], reduction="sum").item()
    return total / (len(tokens) - 1)


def scores(result: Result) -> dict[str, float]:
    return {p.name.removeprefix("val_loss "): p.value for p in result.curve if p.name.startswith("val_loss ")}


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_at_the_length_of_training_it_is_the_held_out_loss(
    request: pytest.FixtureRequest, corpus: Corpus, exact: Recipe, position: str, placement: str
) -> None:
    recipe = request.getfixturevalue("rotary") if position == "rotary" else exact
    if placement == "post":
        recipe = replace(recipe, model=replace(recipe.model, placement=PostNorm()))
    cohort, _ = trained(recipe, corpus)
    assert score(cohort, AtLength(recipe.model.context)) == cohort.score()[0].loss


def test_learned_positions_beyond_the_last_take_the_last(corpus: Corpus, exact: Recipe) -> None:
    """As a model whose table of positions is continued by its last row."""
    cohort, model = trained(exact, corpus)
    table = model.position.embedding.detach()
    longer = Transformer(replace(exact.model, context=20)).double()
    weights = model.state_dict() | {"position.embedding": torch.cat([table, table[-1:].expand(12, -1)])}
    longer.load_state_dict(weights)
    assert score(cohort, LONG) == pytest.approx(loss_in_windows(longer, corpus.held_out, 20), abs=1e-12)
    assert score(cohort, AtLength(5)) == pytest.approx(loss_in_windows(model, corpus.held_out, 5), abs=1e-12)


@pytest.mark.parametrize(("scoring", "base"), [(LONG, 100.0), (STRETCHED, 100.0 * 2.5 ** (4 / 2))])
def test_a_stretched_model_is_one_of_the_stretched_base(
    corpus: Corpus, rotary: Recipe, scoring: AtLength, base: float
) -> None:
    """The same weights under the base of bloc97's formula; heads here have 4 coordinates."""
    cohort, model = trained(rotary, corpus)
    other = Transformer(replace(rotary.model, position=RotaryPosition(base))).double()
    other.load_state_dict(model.state_dict())
    assert score(cohort, scoring) == pytest.approx(loss_in_windows(other, corpus.held_out, 20), abs=1e-12)


def test_stretching_and_length_are_seen_in_the_loss(corpus: Corpus, rotary: Recipe) -> None:
    cohort, _ = trained(rotary, corpus)
    found = [score(cohort, scoring) for scoring in (LONG, STRETCHED, AtLength(8, 2.5))] + [cohort.score()[0].loss]
    assert len({round(loss, 9) for loss in found}) == 4


def by_hand(model: Transformer, attention: float, feedforward: float) -> nn.Module:
    """`model`, pre-norm, as a loop with each branch times its own factor."""

    class ByHand(nn.Module):
        def forward(self, tokens_BT: Tensor) -> Tensor:
            x_BTD = model.position(model.embedding[tokens_BT])
            for block in model.blocks:
                x_BTD = x_BTD + attention * block.attention(block.attention_norm(x_BTD))
                x_BTD = x_BTD + feedforward * block.feedforward(block.feedforward_norm(x_BTD))
            logits_BTV: Tensor = model.head(x_BTD, model.embedding)
            return logits_BTV

    return ByHand()


@pytest.mark.parametrize("degrees", [(1.0, 0.0), (0.0, 1.0), (0.25, 0.0), (0.0, 0.5), (0.5, 1.0)])
def test_an_ablated_branch_is_the_loop_with_that_branch_weaker(
    corpus: Corpus, exact: Recipe, degrees: tuple[float, float]
) -> None:
    cohort, model = trained(exact, corpus)
    expected = loss_in_windows(by_hand(model, *(1 - d for d in degrees)), corpus.held_out, 8)
    assert score(cohort, Ablated(*degrees)) == pytest.approx(expected, abs=1e-12)
    assert score(cohort, Ablated(*degrees)) != pytest.approx(cohort.score()[0].loss, abs=1e-6)


def test_without_all_branches_a_model_is_its_embedding_and_its_head(corpus: Corpus, exact: Recipe) -> None:
    cohort, model = trained(exact, corpus)

    class Bare(nn.Module):
        def forward(self, tokens_BT: Tensor) -> Tensor:
            x_BTD = model.embedding[tokens_BT] + model.position.embedding[: tokens_BT.shape[1]]
            normed_BTD = nn.functional.layer_norm(x_BTD, (16,), model.head.norm.gain, model.head.norm.bias)
            return normed_BTD @ model.embedding.T

    expected = loss_in_windows(Bare(), corpus.held_out, 8)
    assert score(cohort, Ablated(1.0, 1.0)) == pytest.approx(expected, abs=1e-9)


def test_scoring_leaves_the_model_as_it_was(corpus: Corpus, exact: Recipe) -> None:
    cohort, _ = trained(exact, corpus)
    before, loss = cohort.weights_MP.clone(), cohort.score()[0].loss
    for scoring in (LONG, Ablated(1.0, 1.0)):
        cohort.score_as(scoring)
    assert torch.equal(cohort.weights_MP, before)
    assert cohort.score()[0].loss == loss
    assert cohort.update(12)[0][0] == pytest.approx(trained(exact, corpus)[0].update(12)[0][0], abs=0)


def test_a_part_of_the_text_is_scored_alone(corpus: Corpus, exact: Recipe) -> None:
    parted = replace(corpus, parts={"first": (0, 50), "second": (50, 130)})
    cohort, model = trained(exact, parted)
    for part, (start, end) in parted.parts.items():
        stream = corpus.held_out[start:end]
        whole, off = (score(cohort, Ablated(attention=degree, part=part)) for degree in (0.0, 1.0))
        assert whole == pytest.approx(loss_in_windows(model, stream, 8), abs=1e-12)
        assert off == pytest.approx(loss_in_windows(by_hand(model, 0.0, 1.0), stream, 8), abs=1e-12)


def test_of_a_task_the_answers_of_one_part_are_scored(exact: Recipe) -> None:
    """Document by document, and only what is asked: facts and brackets are two losses of one text."""
    task = FactsAndBrackets(Facts(4, 40, 6), Brackets(2, 3, 40, 6)).build(21, 8)
    cohort, model = trained(replace(exact, model=replace(exact.model, vocabulary=21)), task)
    assert task.held_out_asked is not None
    for part, (start, end) in task.parts.items():
        ids, asked = (torch.tensor(a[start:end]).view(-1, 9) for a in (task.held_out, task.held_out_asked))
        logits = by_hand(model, 1.0, 0.5)(ids[:, :-1])[asked[:, 1:]]
        expected = nn.functional.cross_entropy(logits, ids[:, 1:][asked[:, 1:]]).item()
        assert score(cohort, Ablated(feedforward=0.5, part=part)) == pytest.approx(expected, abs=1e-12)


def test_a_scored_member_of_a_cohort_is_itself_alone(corpus: Corpus, rotary: Recipe) -> None:
    """Training is bit for bit what it is without scorings, and each member's scores are its own."""
    asked = replace(rotary, scored=(LONG, STRETCHED, HALF))
    together = train([Member(asked, seed) for seed in range(3)], corpus)
    plain = train([Member(rotary, seed) for seed in range(3)], corpus)
    for seed, (result, without) in enumerate(zip(together, plain, strict=True)):
        (alone,) = train([Member(asked, seed)], corpus)
        assert list(scores(result)) == ["at 20", "at 20 stretched 2.5", "feedforward off 0.5"]
        for name, loss in scores(alone).items():
            assert scores(result)[name] == pytest.approx(loss, abs=1e-10)
        assert result.val_loss == without.val_loss
        assert [p for p in result.curve if not p.name.startswith("val_loss ")] == list(without.curve)
    assert len({scores(result)["at 20"] for result in together}) == 3
    assert all(p.step == 12 for p in together[0].curve if p.name.startswith("val_loss "))


def test_a_diverged_member_is_not_scored(corpus: Corpus, exact: Recipe) -> None:
    asked = replace(exact, scored=(HALF,))
    wild = replace(asked, optimizer=replace(asked.optimizer, learning_rate=1e60, warmup=0))
    good, bad = train([Member(asked, 0), Member(wild, 1)], corpus)
    assert bad.diverged_at is not None
    assert not scores(bad)
    assert scores(good) == pytest.approx(scores(train([Member(asked, 0)], corpus)[0]), abs=1e-10)


@pytest.mark.parametrize(
    ("position", "scoring", "why"),
    [
        ("exact", AtLength(8), "the held-out loss"),
        ("rotary", AtLength(8), "the held-out loss"),
        ("exact", AtLength(20, 2.0), "no frequencies to stretch"),
        ("exact", AtLength(1), "context must be at least 2"),
        ("exact", Ablated(), "Nothing is ablated"),
    ],
)
def test_a_scoring_without_effect_is_refused(
    request: pytest.FixtureRequest, position: str, scoring: Scoring, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        replace(request.getfixturevalue(position), scored=(scoring,))


def test_what_no_model_can_be_scored_by_is_refused(rotary: Recipe) -> None:
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="above 0"):
            AtLength(20, wrong)
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            Ablated(attention=wrong)
    with pytest.raises(ValueError, match="the same"):
        replace(rotary, scored=(LONG, HALF, AtLength(20)))
    narrow = replace(rotary.model, attention=replace(rotary.model.attention, heads=8))
    with pytest.raises(ValueError, match="one frequency"):
        replace(rotary, model=narrow, scored=(STRETCHED,))
    with pytest.raises(ValueError, match="residual"):
        replace(rotary, model=replace(rotary.model, placement=NoResidual()), scored=(HALF,))
