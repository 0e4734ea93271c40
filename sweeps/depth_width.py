"""At equal parameters, deep and narrow or shallow and wide?

2, 4, 6 and 16 layers whose width makes about 690,000 parameters, the feed-forward layers twice as wide as the stream.
"""

from sweeps.baseline import MARGIN, MARGIN_REASON, NOT_TUNED, four_layers, with_model
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study

WIDTHS = {4: 128, 2: 172, 6: 108, 16: 68}  # by layers


def study() -> Study:
    return Study(
        name="depth_width",
        question="At equal parameters, what do more layers of a narrower stream change in held-out loss?",
        arms=tuple(
            Arm(
                f"{layers}x{width}",
                with_model(four_layers(width, 2 * width), layers=layers),
                f"{layers} layers, width {width}",
            )
            for layers, width in WIDTHS.items()
        ),
        baseline="4x128",
        varies=("model.layers", "model.d_model", "model.feedforward.d_ff"),
        equal=(("parameters", 0.02), ("tokens", 0.0)),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(
            NOT_TUNED,
            "Initial weights cannot be matched where shapes differ; what is paired by seed is the order of the text.",
            "Four heads in every arm, so that a head is as narrow as 17 coordinates in the deepest.",
            "A narrower stream spends fewer parameters on the embedding.",
        ),
    )


if __name__ == "__main__":
    main(study)
