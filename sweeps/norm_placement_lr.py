"""Is post-norm worse than pre-norm, or does it only want another learning rate?

12 layers, 900 updates, each placement at four learning rates. In the source chapter they differ by 1.01 nats at 3e-3
and by 0.03 at 3e-4, one run each; best against best pre-norm is ahead by 0.32. Two questions, answered apart: which is
better at the rate selected for it, and which is usable over the wider range of rates.
"""

from model.parts.block import PostNorm
from sweeps.baseline import BASELINE, MARGIN, MARGIN_REASON, with_model, with_steps
from sweeps.engine.cli import main
from sweeps.engine.grid import Grid
from sweeps.engine.study import Arm, Study


def study() -> Study:
    recipe = with_steps(BASELINE, 900)
    return Study(
        name="norm_placement_lr",
        question="With the learning rate selected for each, is post-norm worse than pre-norm in held-out loss?",
        arms=(
            Arm("pre", recipe, "each branch reads a normalised stream"),
            Arm("post", with_model(recipe, placement=PostNorm()), "the stream is normalised after each sum"),
        ),
        baseline="pre",
        varies=("model.placement",),
        equal=(("parameters", 0.0), ("tokens", 0.0)),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        tune=Grid("optimizer.learning_rate", (1e-4, 3e-4, 1e-3, 3e-3), seeds=5),
        not_controlled=(
            "Only the learning rate was tuned, over the chapter's four values, which lie half a decade apart; warmup, "
            "clipping and weight decay are the baseline's.",
        ),
    )


if __name__ == "__main__":
    main(study)
