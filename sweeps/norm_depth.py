"""Does a Transformer with its norms after the residual sums train at all, and does depth decide?

6, 12 and 24 layers, normalised before or after each sum, at the learning rate that suits the first. In the source
chapter every post-norm model is stuck at 5.36, whatever its depth, while pre-norm reaches 4.2 to 4.4.
"""

from model.parts.block import PostNorm, PreNorm
from sweeps.baseline import BASELINE, MARGIN, MARGIN_REASON, NOT_TUNED, with_model
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study

DEPTHS = (12, 6, 24)
PLACEMENTS = {"pre": PreNorm(), "post": PostNorm()}


def study() -> Study:
    return Study(
        name="norm_depth",
        question="At 6, 12 and 24 layers, what does moving the norms behind the residual sums change in held-out loss?",
        arms=tuple(
            Arm(
                f"{name}-{layers}",
                with_model(BASELINE, layers=layers, placement=placement),
                f"{layers} layers, {name}-norm",
            )
            for layers in DEPTHS
            for name, placement in PLACEMENTS.items()
        ),
        baseline="pre-12",
        varies=("model.layers", "model.placement"),
        pairs=tuple((f"post-{layers}", f"pre-{layers}") for layers in DEPTHS),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(
            NOT_TUNED + " Whether post-norm only needs another one is the question of norm_placement_lr.",
            "Deeper models have more parameters; a depth is compared with itself alone.",
        ),
    )


if __name__ == "__main__":
    main(study)
