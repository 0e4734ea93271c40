"""Does the window of learning rates in which post-norm trains widen with the batch?

8 to 256 windows in a batch, norms before and after the sums, each tuned over a decade and a half of rates; every arm
sees the same 1.6 million characters, so a larger batch makes fewer updates (3,200 to 100) and warms up for the same
eighth of them. The chapter holds 32 throughout, and names this as what it left out: with less noise in the gradient
the narrow window might widen.

6 layers: there the chapter's post-norm was stuck already, and a run costs half of one at 12. 6 arms of 20 runs on the
grid and 5 judged are 150 runs: on two cores some two hours with bfloat16 instructions, about five and a half without.
"""

from dataclasses import replace

from model.parts.block import PostNorm, PreNorm
from model.recipe import Budget, Recipe
from sweeps.baseline import BASELINE, MARGIN, MARGIN_REASON, with_model
from sweeps.engine.cli import main
from sweeps.engine.grid import Grid
from sweeps.engine.study import Arm, Study

WINDOWS = 800 * 32  # of a run
BATCHES = (8, 32, 256)
PLACEMENTS = {"pre": PreNorm(), "post": PostNorm()}


def recipe(name: str, batch: int) -> Recipe:
    placed, steps = with_model(BASELINE, layers=6, placement=PLACEMENTS[name]), WINDOWS // batch
    return replace(placed, optimizer=replace(placed.optimizer, warmup=steps // 8), budget=Budget(steps, batch))


def study() -> Study:
    return Study(
        name="batch_size",
        question="With all the same text, does post-norm lose less away from its best rate when its batch is larger?",
        arms=tuple(
            Arm(f"{name}-{batch}", recipe(name, batch), f"{name}-norm, {WINDOWS // batch:,} updates on {batch} windows")
            for batch in BATCHES
            for name in PLACEMENTS
        ),
        baseline="post-32",
        varies=("model.placement", "budget", "optimizer.warmup"),
        equal=(("parameters", 0.0), ("tokens", 0.0)),
        pairs=(
            *((f"post-{batch}", "post-32") for batch in BATCHES if batch != 32),
            *((f"pre-{batch}", f"post-{batch}") for batch in BATCHES),
        ),
        tune=Grid("optimizer.learning_rate", (3e-4, 1e-3, 3e-3, 1e-2), seeds=5),
        seeds=tuple(range(5)),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(
            "Only the learning rate was tuned, over values half a decade apart; clipping and weight decay are the "
            "baseline's. Weight decay acts once an update, so it does more over more of them.",
            "A larger batch makes fewer updates of the same text: gradients with less noise, and less often.",
        ),
    )


if __name__ == "__main__":
    main(study)
