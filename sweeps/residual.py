"""What is left of a Transformer without its residual stream?

2, 4 and 12 layers with and without the sums, 600 updates. In the source chapter every model without them ends at the
same 5.392, whatever its depth: too neat to pass unasked, and what a model would come to that learned the frequencies
of characters and no more.
"""

from model.parts.block import NoResidual, PreNorm
from sweeps.baseline import BASELINE, MARGIN, MARGIN_REASON, NOT_TUNED, with_model, with_steps
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study

DEPTHS = (4, 2, 12)
STREAMS = {"with": PreNorm(), "without": NoResidual()}


def study() -> Study:
    recipe = with_steps(BASELINE, 600)
    return Study(
        name="residual",
        question="At 2, 4 and 12 layers, what does taking the residual sums away cost in held-out loss?",
        arms=tuple(
            Arm(
                f"{name}-{layers}",
                with_model(recipe, layers=layers, placement=stream),
                f"{layers} layers, {name} residual sums",
            )
            for layers in DEPTHS
            for name, stream in STREAMS.items()
        ),
        baseline="with-4",
        varies=("model.layers", "model.placement"),
        pairs=tuple((f"without-{layers}", f"with-{layers}") for layers in DEPTHS),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(
            NOT_TUNED,
            "First weights are scaled for a residual stream, and are the same without one: without sums a signal may "
            "fade for the scale alone.",
        ),
    )


if __name__ == "__main__":
    main(study)
