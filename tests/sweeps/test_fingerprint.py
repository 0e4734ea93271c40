import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from model.batches import window_starts
from model.optimizer import AdamW
from model.parts.norm import RMSNorm
from model.recipe import RECIPE_VERSION, Recipe
from model.scoring import AtLength
from model.seeding import Follow, Streams
from model.transformer import ModelConfig
from sweeps.engine.fingerprint import flatten, recipe_text, run_id

SHA = "ab" * 32


def test_every_setting_is_in_the_text() -> None:
    text = recipe_text(Recipe())
    assert text["model.d_model"] == "128"
    assert text["model.norm"] == "LayerNorm"
    assert text["model.norm.eps"] == "1e-05"
    assert text["optimizer.betas"] == "(0.9, 0.95)"
    assert text["streams.order.offset"] == "0"
    assert text["precision"] == "fp32"
    assert text.keys().isdisjoint({"model", "optimizer", "budget", "streams"})


@pytest.mark.parametrize(
    "other",
    [
        Recipe(model=ModelConfig(layers=11)),
        Recipe(model=ModelConfig(norm=RMSNorm())),
        Recipe(optimizer=AdamW(learning_rate=3e-3 + 1e-15)),
        Recipe(streams=Streams(init=Follow(1))),
        Recipe(precision="bf16"),
    ],
)
def test_any_change_is_another_run(other: Recipe) -> None:
    assert run_id(other, SHA, 0) != run_id(Recipe(), SHA, 0)


def test_a_field_added_later_leaves_recorded_runs_their_identity() -> None:
    """The identity of the baseline's run as it was before recipes had a head and scorings."""
    assert run_id(Recipe(), SHA, 0) == "9aaef6fcb0494f13"
    assert recipe_text(Recipe()).keys().isdisjoint({"model.head", "scored", "wrong_on_purpose"})
    scored = Recipe(scored=(AtLength(128), AtLength(256)))
    assert (
        recipe_text(scored)["scored"] == "(AtLength(context=128, stretched=1.0), AtLength(context=256, stretched=1.0))"
    )
    assert run_id(scored, SHA, 0) != run_id(Recipe(), SHA, 0)


def test_text_and_seed_are_part_of_the_identity() -> None:
    ids = {run_id(Recipe(), sha, seed) for sha in (SHA, "cd" * 32) for seed in (0, 1)}
    assert len(ids) == 4
    assert all(len(i) == 16 and int(i, 16) >= 0 for i in ids)


def test_the_identity_is_the_same_in_another_process() -> None:
    """Whatever the hash seed: records made yesterday must be found today."""
    code = (
        "from model.recipe import Recipe; from sweeps.engine.fingerprint import run_id; "
        f"print(run_id(Recipe(), {SHA!r}, 7))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "1"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == run_id(Recipe(), SHA, 7)


def test_the_identity_does_not_change_between_versions() -> None:
    """Pinned: changing it would make every recorded run unknown. Raise RECIPE_VERSION instead when training changes."""
    assert run_id(Recipe(), SHA, 0) == "9aaef6fcb0494f13"


def test_a_seed_draws_what_it_drew() -> None:
    """Pinned with the recipe's version: a seed that is added to recorded ones must see text and begin with weights as
    it would have then. Where this must change, so must RECIPE_VERSION."""
    assert RECIPE_VERSION == 2
    assert window_starts(np.arange(1000), 8, 4, seed=0, step=3).tolist() == [885, 361, 307, 507]
    weights = dict(ModelConfig(layers=2, d_model=16, context=8, vocabulary=12).build(seed=0).named_parameters())
    matrices = (weights["embedding"], weights["blocks.1.attention.query_key_value.weight"])
    drawn = [matrix.flatten()[:3].tolist() for matrix in matrices]
    pinned = [[-0.02285127, 0.01057849, -0.02319472], [-0.01201818, 0.00261216, 0.00092580]]
    np.testing.assert_allclose(drawn, pinned, rtol=1e-4)


def test_values_without_a_stable_text_are_refused() -> None:
    @dataclass(frozen=True)
    class Part:
        function: Any

    for value in (lambda x: x, object(), [1, 2], {"a": 1}, ModelConfig):
        with pytest.raises(ValueError, match=r"part\.function is a .* no stable text"):
            flatten(Part(value), "part")


def test_numbers_that_print_alike_stay_apart() -> None:
    assert flatten(replace(AdamW(), weight_decay=1), "o") != flatten(replace(AdamW(), weight_decay=1.0), "o")
