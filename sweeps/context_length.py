"""How much context does the text need?

Windows of 8 to 128 characters, 4 layers, 800 updates, 2,048 characters in each. In the source chapter 16 is worse
than 8 (4.971 against 4.846), and the chapter reads that as noise of 0.1 to 0.2.
"""

from dataclasses import replace

from model.recipe import Budget, Recipe
from sweeps.baseline import MARGIN, MARGIN_REASON, NOT_TUNED, four_layers, with_model
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study

CHARACTERS = 2048  # of an update


def windows_of(context: int) -> Recipe:
    return replace(with_model(four_layers(), context=context), budget=Budget(800, CHARACTERS // context))


def study() -> Study:
    return Study(
        name="context_length",
        question="What do windows of 8 to 128 characters, in training and in scoring, change in held-out loss?",
        arms=tuple(Arm(f"{n}", windows_of(n), f"windows of {n} characters") for n in (64, 8, 16, 32, 128)),
        baseline="64",
        varies=("model.context", "budget.batch"),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(
            NOT_TUNED,
            "Each arm is scored on windows of its own length, so that its first characters have as little before them "
            "as in training: a shorter window is scored with less context, which is the question.",
            "An update holds as many characters in every arm, so fewer windows where they are longer.",
            "Learned positions: a longer window has more of them, 128 parameters each.",
        ),
    )


if __name__ == "__main__":
    main(study)
