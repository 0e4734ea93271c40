"""The recipe from which every study departs: the chapter's defaults."""

from dataclasses import replace
from typing import Any

from model.parts.feedforward import GELUFeedForward
from model.recipe import Budget, Recipe
from model.transformer import ModelConfig

# Decoder only, 12 layers, d_model 128, 4 heads, d_ff 256, learned positions, tied embedding; windows of 64 characters
# in batches of 32; AdamW (0.9, 0.95) at 3e-3, 100 updates of warmup, then cosine; 1,200 updates.
BASELINE = Recipe()

MARGIN = 0.02
MARGIN_REASON = "0.02 nats is 2 % of perplexity; a smaller difference would not change a design"
NOT_TUNED = "The learning rate is the baseline's for every arm; none of them was tuned."


def four_layers(d_model: int = 128, d_ff: int = 256) -> Recipe:
    """The baseline with 4 layers and the given widths: small enough for ten seeds on a laptop."""
    return replace(BASELINE, model=ModelConfig(layers=4, d_model=d_model, feedforward=GELUFeedForward(d_ff)))


def with_model(recipe: Recipe, **changes: Any) -> Recipe:
    """`recipe` with other sizes or parts of its model."""
    return replace(recipe, model=replace(recipe.model, **changes))


def with_steps(recipe: Recipe, steps: int) -> Recipe:
    """`recipe` trained for `steps` updates."""
    return replace(recipe, budget=Budget(steps, recipe.budget.batch))
