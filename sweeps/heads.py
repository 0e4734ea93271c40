"""Does the number of attention heads matter at a width of 128?

1, 2, 4, 8 and 16 heads share the same 128 coordinates and the same parameters; 4 layers. An exercise of the source
chapter asks for 4 against 8.
"""

from model.parts.attention import CausalAttention
from sweeps.baseline import MARGIN, MARGIN_REASON, NOT_TUNED, four_layers, with_model
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study


def study() -> Study:
    return Study(
        name="heads",
        question="At equal parameters, does another number of heads than 4 change the held-out loss?",
        arms=tuple(
            Arm(
                f"{heads}",
                with_model(four_layers(), attention=CausalAttention(heads)),
                f"{heads} of {128 // heads} coordinates",
            )
            for heads in (4, 1, 2, 8, 16)
        ),
        baseline="4",
        varies=("model.attention.heads",),
        equal=(("parameters", 0.0), ("tokens", 0.0)),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(
            NOT_TUNED,
            "Scores are divided by the root of a head's width, so their scale at the start differs.",
        ),
    )


if __name__ == "__main__":
    main(study)
