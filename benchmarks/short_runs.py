"""Eighty runs of a model so small that what is measured is all that is not training: Ray, MLflow, Parquet, the report.

Run by ``throughput.py``; by hand it is a study like any other: ``python benchmarks/short_runs.py --corpus FILE``.
"""

from dataclasses import replace

from model.optimizer import AdamW
from model.parts.feedforward import GELUFeedForward
from model.recipe import Budget, Recipe
from model.transformer import ModelConfig
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study


def study() -> Study:
    recipe = Recipe(
        ModelConfig(layers=1, d_model=16, context=16, vocabulary=12, feedforward=GELUFeedForward(16)),
        AdamW(learning_rate=1e-2, warmup=3),
        Budget(steps=50, batch=8),
    )
    slower = replace(recipe, optimizer=AdamW(learning_rate=1e-3, warmup=3))
    return Study(
        name="short_runs",
        question="What does a run cost besides its training?",
        arms=(Arm("fast", recipe, "learning rate 0.01"), Arm("slow", slower, "learning rate 0.001")),
        baseline="fast",
        varies=("optimizer.learning_rate",),
        margin=0.01,
        margin_reason="no answer is wanted",
        seeds=tuple(range(40)),
    )


if __name__ == "__main__":
    main(study)
