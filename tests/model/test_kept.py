"""A model's file: what goes in comes out, and nothing else is let in."""

import copy
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from model.batches import Batch
from model.corpus.text import Corpus
from model.kept import Kept, KeptError, KeptModel, parts_of, read, to_bytes
from model.optimizer import AdamW
from model.parts.faulty import AmplifyingResidual
from model.parts.norm import RMSNorm
from model.recipe import Member, Recipe
from model.train import train


def kept(recipe: Recipe, corpus: Corpus, seed: int = 3) -> KeptModel:
    (result,) = train([Member(recipe, seed)], corpus, keep_models=True)
    assert result.kept is not None
    characters = "".join(corpus.vocabulary.characters)
    return KeptModel("0123456789abcdef", "tiny", "an arm", seed, recipe, characters, result.kept)


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_a_model_comes_back_whole(corpus: Corpus, recipe: Recipe, tmp_path: Path, precision: str) -> None:
    recipe = replace(recipe, precision=precision, model=replace(recipe.model, norm=RMSNorm(1e-4)))  # type: ignore[arg-type]
    before, path = kept(recipe, corpus), tmp_path / "model.pt"
    path.write_bytes(to_bytes(before))
    after = read(path)
    for name in ("run_id", "study", "arm", "seed", "recipe", "characters", "dtype"):
        assert getattr(after, name) == getattr(before, name)
    probe = after.kept.probe
    assert torch.equal(probe.inputs_BT, before.kept.probe.inputs_BT)
    assert torch.equal(probe.targets_BT, before.kept.probe.targets_BT)
    assert torch.equal(after.build()(probe.inputs_BT), before.build()(probe.inputs_BT))
    first = recipe.model.build(3).to(after.dtype)
    assert torch.equal(after.build_initial()(probe.inputs_BT), first(probe.inputs_BT))


def test_a_kept_model_has_the_runs_loss(corpus: Corpus, recipe: Recipe) -> None:
    """Its probe is all of so small a held-out text."""
    exact = replace(recipe, precision="fp64")
    (result,) = train([Member(exact, 3)], corpus)
    model = kept(exact, corpus)
    logits = model.build()(model.kept.probe.inputs_BT)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), model.kept.probe.targets_BT.flatten())
    assert loss.item() == pytest.approx(result.val_loss, rel=1e-12)


def test_only_what_is_asked_for_and_finished_is_kept(corpus: Corpus, recipe: Recipe) -> None:
    wild = replace(recipe, optimizer=AdamW(1e30, warmup=0))
    members = [Member(recipe, 0), Member(wild, 1), Member(wild, 2)]
    assert [result.kept is None for result in train(members, corpus, keep_models=True)] == [False, True, True]
    assert [result.kept for result in train(members, corpus)] == [None] * 3


def test_every_part_of_a_recipe_can_be_read_back_and_nothing_else(tmp_path: Path, recipe: Recipe) -> None:
    assert {Recipe, AdamW, RMSNorm, AmplifyingResidual} <= parts_of(Recipe)
    assert not any(part.__module__.partition(".")[0] != "model" for part in parts_of(Recipe))
    path = tmp_path / "model.pt"
    path.write_bytes(to_bytes(_around(replace(recipe, model=replace(recipe.model, placement=AmplifyingResidual())))))
    assert read(path).recipe.model.placement == AmplifyingResidual()
    path.write_bytes(to_bytes(_around(replace(recipe, model=replace(recipe.model, norm=Foreign())))))  # type: ignore[arg-type]
    with pytest.raises(KeptError, match="holds no model that this version can read"):
        read(path)


def test_a_recipe_from_before_a_field_existed_has_its_default(tmp_path: Path, recipe: Recipe) -> None:
    """As written by a version without `scored`: the pickle of a dataclass is its fields."""
    older = copy.deepcopy(recipe)
    del older.__dict__["scored"]
    del older.model.__dict__["head"]
    (tmp_path / "model.pt").write_bytes(to_bytes(_around(older)))
    assert read(tmp_path / "model.pt").recipe == replace(recipe)


@pytest.mark.parametrize(
    "content",
    [b"", b"no model", pickle.dumps({"format": 1}), pickle.dumps(print)],
    ids=["empty", "text", "dict", "code"],
)
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.pt").write_bytes(content)
    with pytest.raises(KeptError, match=r"holds no model|is no model"):
        read(tmp_path / "model.pt")
    with pytest.raises(KeptError, match="cannot be read"):
        read(tmp_path / "nothing.pt")
    torch.save({"weights": {}, "format": 7}, tmp_path / "model.pt")
    with pytest.raises(KeptError, match="another version"):
        read(tmp_path / "model.pt")


@dataclass(frozen=True)
class Foreign:
    """No part of this project."""

    eps: float = 1.0


def _around(recipe: Recipe) -> KeptModel:
    probe = Batch(torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 2, dtype=torch.int64))
    return KeptModel("0", "tiny", "an arm", 0, recipe, "ab", Kept({"embedding": torch.zeros(2, 2)}, probe))
