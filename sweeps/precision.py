"""Does training in bf16 cost anything in held-out loss?

The baseline of ffn_ratio twice: with matrix products in float32, and in bfloat16 with all else (weights, moments, the
residual stream, norms, softmax, loss) in float32. Where bf16 is fast it is what every other study trains in, so this
one is asked of the machinery rather than of a model.
"""

from dataclasses import replace

from sweeps.baseline import four_layers
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study


def study() -> Study:
    recipe = four_layers()
    return Study(
        name="precision",
        question="Does training in bf16 change the held-out loss?",
        arms=(
            Arm("fp32", replace(recipe, precision="fp32"), "every product in float32"),
            Arm("bf16", replace(recipe, precision="bf16"), "matrix products in bfloat16, all else in float32"),
        ),
        baseline="fp32",
        varies=("precision",),
        equal=(("parameters", 0.0), ("tokens", 0.0)),
        margin=0.02,
        margin_reason="the margin of ffn_ratio, which would otherwise be decided in another precision than it was "
        "asked in",
        not_controlled=(
            "Two runs of one seed start alike and see the same text, but rounding drives them apart, so that pairing "
            "by seed may gain little.",
            "One size of model, one learning rate, 1,200 updates: a longer or a less stable training may differ.",
            "What bf16 rounds, and in which order sums are taken, is the machine's: CPUs and GPUs differ.",
            "Held-out loss is scored in the precision of the arm.",
        ),
    )


if __name__ == "__main__":
    main(study)
