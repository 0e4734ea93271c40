"""How much does a wider feed-forward layer gain when its parameters are free?

d_ff of 128, 256 and 512 at a width of 128, 4 layers: 558,336, 689,920 and 953,088 parameters. The source chapter has
two seeds each (4.33 and 4.31; 4.27 and 4.08; 4.02 and 4.03). ffn_ratio asks the same at equal parameters.
"""

from sweeps.baseline import MARGIN, MARGIN_REASON, NOT_TUNED, four_layers
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study


def study() -> Study:
    return Study(
        name="ffn_width",
        question="What does half or double the feed-forward width change in held-out loss, parameters not held equal?",
        arms=tuple(Arm(f"{d_ff}", four_layers(128, d_ff), f"d_ff {d_ff}") for d_ff in (256, 128, 512)),
        baseline="256",
        varies=("model.feedforward.d_ff",),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(NOT_TUNED, "Parameters and time per update grow with the width."),
    )


if __name__ == "__main__":
    main(study)
