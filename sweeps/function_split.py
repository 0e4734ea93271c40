"""Does the feed-forward store and the attention carry?

One model learns two tasks at once: to recall which attribute a name has, which no context tells, and to close brackets,
which only the context tells. Then the feed-forward or the attention of all its layers is taken away by degrees, from
the same trained weights. The source chapter proposes this and did not do it: if the two divide the labour as it says,
taking away the feed-forward costs more on facts and taking away the attention more on brackets, so that the curves of
the two tasks cross. Both must be shown, on facts a "worse" and on brackets a "better"; that the tasks differ in it is
less than that. A pilot of one seed each said yes with rotary positions and left it open with learned ones, so both are
asked.
"""

from dataclasses import replace

from model.corpus.tasks import FactsAndBrackets
from model.parts.feedforward import GELUFeedForward
from model.parts.position import LearnedPosition, RotaryPosition
from model.recipe import Recipe
from model.scoring import Ablated
from model.transformer import ModelConfig
from sweeps.baseline import BASELINE, NOT_TUNED, with_model
from sweeps.engine.cli import main
from sweeps.engine.contrasts import Cell, Contrast
from sweeps.engine.study import Arm, Study

POSITIONS = {"learned": LearnedPosition(), "rope": RotaryPosition()}
TASKS, DEGREES = ("facts", "brackets"), (0.25, 0.5, 0.75, 1.0)
SYMBOLS = 512 + 64 + 16 + 1  # names, attributes, brackets, the unknown one


def recipe() -> Recipe:
    ablated = [
        Ablated(part=task, **{branch: degree})
        for task in TASKS
        for branch in ("feedforward", "attention")
        for degree in DEGREES
    ]
    scored = (*(Ablated(part=task) for task in TASKS), *ablated)
    model = ModelConfig(layers=2, d_model=64, vocabulary=SYMBOLS, feedforward=GELUFeedForward(256))
    return replace(BASELINE, model=model, scored=scored)


def contrasts(arm: str) -> tuple[Contrast, ...]:
    def off(task: str, degree: float) -> tuple[Cell, Cell]:
        """Without feed-forward, and without attention."""
        return Cell(arm, Ablated(feedforward=degree, part=task)), Cell(arm, Ablated(attention=degree, part=task))

    def lead(task: str) -> Cell:
        feedforward, attention = off(task, 1.0)
        return replace(feedforward, less=attention, called=f"the lead of the feed-forward's harm on {task} ({arm})")

    missed = (
        Contrast(f"{arm}: more missed on {task}" + (f" at {degree:g}" if degree < 1 else ""), *off(task, degree))
        for degree in (1.0, 0.5)
        for task in TASKS
    )
    return (*missed, Contrast(f"{arm}: more so on facts", lead("facts"), lead("brackets")))


def study() -> Study:
    return Study(
        name="function_split",
        question="Is feed-forward missed more where facts are recalled, and attention where brackets are closed?",
        text=FactsAndBrackets(),
        arms=tuple(
            Arm(name, with_model(recipe(), position=position), f"2 layers with {name} positions that learn both tasks")
            for name, position in POSITIONS.items()
        ),
        baseline="learned",
        varies=("model.position",),
        margin=0.1,
        margin_reason="a tenth of the probability of a right answer; less says nothing of what a branch is for",
        contrasts=tuple(contrast for arm in POSITIONS for contrast in contrasts(arm)),
        not_controlled=(
            NOT_TUNED,
            "A branch that is missed is needed by this model, which was trained with it: another one may do without, "
            "and more parameters in it need not help.",
            "The rest of a model never saw a stream without that branch, so part of the harm is that alone.",
            "An ablated model may lose more than a guess among the possible answers costs (ln 64 = 4.16 on facts, ln "
            "8 = 2.08 on brackets), as on facts without feed-forward with rotary positions, and on brackets without "
            "attention with either. What goes beyond a guess is wrong certainty and no lost knowledge.",
            "The two tasks have answers of different numbers, so that the same harm in nats is not the same share.",
            "A fact is a pair of neighbouring symbols: nothing has to be carried to it.",
            "A document of facts has three times as many answers as one of brackets, and the training counts answers.",
        ),
    )


if __name__ == "__main__":
    main(study)
