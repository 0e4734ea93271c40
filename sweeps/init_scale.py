"""From which depth on must the first weights of the residual branches be scaled down?

8 to 64 layers, the matrices that write to the stream drawn from N(0, 0.02) and from N(0, 0.02 / sqrt(2 L)); pre-norm,
400 updates, since first weights matter most at first. The source chapter poses it as an exercise and expects a depth at
which the difference begins to rise: here the least one at which "plain" is worse, with no worse one below it. Each
depth is compared with itself. A seed of all eight arms costs what 20 runs of 12 layers do, about 16 minutes on two
cores.
"""

from model.initializer import PlainNormal, ScaledNormal
from sweeps.baseline import BASELINE, MARGIN, MARGIN_REASON, NOT_TUNED, with_model, with_steps
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study

DEPTHS = (8, 16, 32, 64)
SCALES = {
    "scaled": (ScaledNormal(), "branches start smaller the more there are"),
    "plain": (PlainNormal(), "all branches start alike"),
}


def study() -> Study:
    recipe = with_steps(BASELINE, 400)
    return Study(
        name="init_scale",
        question="At 8, 16, 32 and 64 layers, what does not scaling the residual branches' first weights cost?",
        arms=tuple(
            Arm(
                f"{name}-{layers}",
                with_model(recipe, layers=layers, initializer=initializer),
                f"{layers} layers, {note}",
            )
            for layers in DEPTHS
            for name, (initializer, note) in SCALES.items()
        ),
        baseline="scaled-8",
        varies=("model.layers", "model.initializer"),
        pairs=tuple((f"plain-{layers}", f"scaled-{layers}") for layers in DEPTHS),
        seeds=tuple(range(5)),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(
            NOT_TUNED + " A deeper model may want a lower one, and its first weights another then.",
            "Deeper models have more parameters; a depth is compared with itself alone.",
        ),
    )


if __name__ == "__main__":
    main(study)
