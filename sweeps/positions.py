"""Which positions carry beyond the length that they were trained on?

Learned, rotary, and rotary positions of four times the base, 4 layers, 2,000 updates on windows of 64 characters,
scored on windows of 64, 128 and 256: the source chapter's experiment. There learned positions, the last of which
stands for all beyond, do better than rotary ones at 256 (4.852 against 4.934), and the larger base, which the
chapter takes for NTK-aware scaling, is behind the plain one at every length and last at 256 (5.087); from one run of
each it decides nothing. What is called NTK-aware scaling stretches the frequencies of a trained model when it is
scored, by how much longer the windows are. That is asked of the rotary models here, by that factor and by others.
"""

from dataclasses import replace

from model.parts.position import RotaryPosition
from model.recipe import Recipe
from model.scoring import AtLength
from sweeps.baseline import MARGIN, MARGIN_REASON, NOT_TUNED, four_layers, with_model, with_steps
from sweeps.engine.cli import main
from sweeps.engine.contrasts import Cell, Contrast
from sweeps.engine.study import Arm, Study

TRAINED, LONGER, FACTORS = 64, (128, 256), (2.0, 4.0, 8.0)
AT_128, AT_256 = PLAIN = tuple(AtLength(length) for length in LONGER)
STRETCHED = tuple(AtLength(length, factor) for factor in FACTORS for length in (TRAINED, *LONGER))


def recipes() -> dict[str, tuple[Recipe, str]]:
    """Each arm's recipe and what it is."""
    recipe = replace(with_steps(four_layers(), 2000), scored=PLAIN)
    rotary = with_model(recipe, position=RotaryPosition())
    return {
        "learned": (recipe, "a vector for each position, the last one for all that lie beyond"),
        "rope": (replace(rotary, scored=PLAIN + STRETCHED), "rotary positions; stretched when scored, too"),
        "rope-base-x4": (with_model(recipe, position=RotaryPosition(40_000.0)), "rotary, the base times 4"),
    }


def contrasts() -> tuple[Contrast, ...]:
    at = {length: AtLength(length) for length in LONGER}
    ntk = {length: AtLength(length, length / TRAINED) for length in LONGER}
    return (
        *(Contrast(f"rope or learned at {n}", Cell("rope", at[n]), Cell("learned", at[n])) for n in LONGER),
        Contrast("base x4 or rope at 64", Cell("rope-base-x4"), Cell("rope")),
        *(Contrast(f"base x4 or rope at {n}", Cell("rope-base-x4", at[n]), Cell("rope", at[n])) for n in LONGER),
        *(Contrast(f"NTK x{n // TRAINED} at {n}", Cell("rope", ntk[n]), Cell("rope", at[n])) for n in LONGER),
        *(
            Contrast(f"NTK x{factor:g} at 256", Cell("rope", AtLength(256, factor)), Cell("rope", AT_256))
            for factor in FACTORS
            if factor != 256 / TRAINED
        ),
        Contrast("NTK x4 or learned at 256", Cell("rope", ntk[256]), Cell("learned", AT_256)),
        Contrast("NTK x4 or base x4 at 256", Cell("rope", ntk[256]), Cell("rope-base-x4", AT_256)),
        Contrast("NTK x4 at 64", Cell("rope", AtLength(TRAINED, 4.0)), Cell("rope")),
    )


def study() -> Study:
    return Study(
        name="positions",
        question="Which positions, trained on windows of 64 characters, serve windows of 64, 128 and 256?",
        arms=tuple(Arm(name, *made) for name, made in recipes().items()),
        baseline="learned",
        varies=("model.position", "scored"),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        contrasts=contrasts(),
        not_controlled=(
            NOT_TUNED,
            "Learned positions have 8,192 parameters more than rotary ones.",
            "Longer windows also give more context: what a loss at 256 gains by that and loses by positions never seen "
            "is not told apart; a model trained at 256 would tell.",
            "The base times 4 is not quite what NTK-aware scaling by 4 makes of it: of heads of 32 coordinates the "
            "base times 4.39.",
            "Of the factors those are scored that were chosen beforehand; the best may lie between.",
        ),
    )


if __name__ == "__main__":
    main(study)
