"""A study of models so small that a run takes a second; run as a file by the tests, like any study."""

import os
from dataclasses import replace

from model.optimizer import AdamW
from model.parts.feedforward import GELUFeedForward
from model.recipe import Budget, Recipe
from model.transformer import ModelConfig
from sweeps.engine import checkpoints
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study

STEPS = 30
if "TINY_CHECKPOINT_SECONDS" in os.environ:
    checkpoints.CHECKPOINT_SECONDS = float(os.environ["TINY_CHECKPOINT_SECONDS"])


def recipe(d_ff: int, learning_rate: float = 1e-2) -> Recipe:
    return Recipe(
        model=ModelConfig(layers=1, d_model=16, context=8, vocabulary=12, feedforward=GELUFeedForward(d_ff)),
        optimizer=AdamW(learning_rate=learning_rate, warmup=3),
        budget=Budget(STEPS, batch=8),
    )


def study() -> Study:
    return Study(
        name="tiny",
        question="Does a wider feed-forward help a very small model?",
        arms=(
            Arm("narrow", recipe(8), "8 hidden units"),
            Arm("wide", recipe(32), "32 hidden units"),
            Arm("wild", replace(recipe(8), optimizer=AdamW(learning_rate=1e30, warmup=3)), "a rate that diverges"),
        ),
        baseline="narrow",
        varies=("model.feedforward.d_ff", "optimizer.learning_rate"),
        margin=0.05,
        margin_reason="a test",
        seeds=(0, 1, 2),
    )


if __name__ == "__main__":
    main(study)
