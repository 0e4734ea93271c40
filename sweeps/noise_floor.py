"""How large is the difference that a lucky seed makes, and where does it come from?

The baseline of ffn_ratio against itself with other seeds: any verdict but "equivalent" or "undecided" is a false alarm.
Two more arms let only the first weights, or only the order of the text, follow the seed.
"""

from dataclasses import replace

from model.seeding import Fixed, Follow, Streams
from sweeps.baseline import four_layers
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study


def study() -> Study:
    recipe, other_seeds = four_layers(), Follow(offset=1000)
    return Study(
        name="noise_floor",
        question="How far do runs of one recipe spread over seeds, and what does that spread let a comparison detect?",
        arms=(
            Arm("both", recipe, "first weights and order of the text follow the seed, as in every other study"),
            Arm(
                "again", replace(recipe, streams=Streams(other_seeds, other_seeds)), "the same recipe with other seeds"
            ),
            Arm("init", replace(recipe, streams=Streams(order=Fixed(0))), "only the first weights follow the seed"),
            Arm(
                "order", replace(recipe, streams=Streams(init=Fixed(0))), "only the order of the text follows the seed"
            ),
        ),
        baseline="both",
        varies=("streams",),
        equal=(("parameters", 0.0), ("tokens", 0.0)),
        margin=0.02,
        margin_reason="the margin of ffn_ratio, whose noise this is",
        not_controlled=(
            "The seeds of 'again' have nothing in common with those of 'both', so pairing them gains nothing.",
            "Seed 0 of 'both', 'init' and 'order' is one and the same draw, since it is the one that they hold fixed.",
            "Ten runs know an SD to a factor of 0.7 to 1.8, so shares are rough and need not add up to the whole.",
            "'init' and 'order' hold the other stream at one value (seed 0), so they show the spread around one draw.",
        ),
    )


if __name__ == "__main__":
    main(study)
