"""How much context does the text need?

Windows of 8 to 128 characters, 4 layers, 800 updates. In the source chapter 16 is worse than 8 (4.971 against 4.846),
and the chapter reads that as noise of 0.1 to 0.2. It holds 32 windows in an update, so that with windows of 8 a model
sees an eighth of the text that it sees with such of 64, and of 128 twice as much. Both are asked here: as many
characters in an update, which leaves the context alone to differ, and as many windows, as in the chapter.
"""

from dataclasses import replace

from model.recipe import Budget, Recipe
from sweeps.baseline import MARGIN, MARGIN_REASON, NOT_TUNED, four_layers, with_model
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study

CONTEXTS = (64, 8, 16, 32, 128)
CHARACTERS = 2048  # of an update
WINDOWS = 32  # of an update of the chapter, and CHARACTERS where they are of 64


def recipe(context: int, windows: int) -> Recipe:
    return replace(with_model(four_layers(), context=context), budget=Budget(800, windows))


def arm(context: int, windows: int) -> Arm:
    name = f"{context}x{windows}"
    return Arm(name, recipe(context, windows), f"{windows} windows of {context} characters in an update")


def study() -> Study:
    return Study(
        name="context_length",
        question="What do windows of 8 to 128 characters, in training and in scoring, change in held-out loss?",
        arms=(
            *(arm(context, CHARACTERS // context) for context in CONTEXTS),
            *(arm(context, WINDOWS) for context in CONTEXTS if context * WINDOWS != CHARACTERS),
        ),
        baseline=f"64x{WINDOWS}",
        varies=("model.context", "budget.batch"),
        equal=(),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(
            NOT_TUNED,
            "Each arm is scored on windows of its own length, so that its first characters have as little before them "
            "as in training: a shorter window is scored with less context, which is the question.",
            "Of 2,048 characters in an update there are fewer windows where they are longer; arms of 32 windows in an "
            "update differ in the text that they see as well, from an eighth to twice the baseline's.",
            "Learned positions: a longer window has more of them, 128 parameters each.",
        ),
    )


if __name__ == "__main__":
    main(study)
