"""Is a post-norm Transformer stuck because its first updates are too large?

No warmup, 100 and 400 updates of it, norms before and after the residual sums, 12 layers. If the first updates do the
damage, a longer warmup must help; in the source chapter post-norm stays at 5.36 with all three.
"""

from dataclasses import replace

from model.parts.block import PostNorm, PreNorm
from model.recipe import Recipe
from sweeps.baseline import BASELINE, MARGIN, MARGIN_REASON, NOT_TUNED, with_model
from sweeps.engine.cli import main
from sweeps.engine.study import Arm, Study

PLACEMENTS = {"pre": PreNorm(), "post": PostNorm()}
USUAL, OTHERS = 100, (0, 400)


def study() -> Study:
    def recipe(name: str, updates: int) -> Recipe:
        placed = with_model(BASELINE, placement=PLACEMENTS[name])
        return replace(placed, optimizer=replace(placed.optimizer, warmup=updates))

    return Study(
        name="warmup",
        question="How much does the held-out loss of pre-norm and of post-norm models depend on warmup?",
        arms=tuple(
            Arm(f"{name}-{updates}", recipe(name, updates), f"{name}-norm, warmup over {updates} updates")
            for name in PLACEMENTS
            for updates in (USUAL, *OTHERS)
        ),
        baseline=f"pre-{USUAL}",
        varies=("model.placement", "optimizer.warmup"),
        pairs=tuple((f"{name}-{updates}", f"{name}-{USUAL}") for name in PLACEMENTS for updates in OTHERS),
        equal=(("parameters", 0.0), ("tokens", 0.0)),
        margin=MARGIN,
        margin_reason=MARGIN_REASON,
        not_controlled=(
            NOT_TUNED,
            "A longer warmup also shortens the cosine that follows it: the number of updates is the same.",
        ),
    )


if __name__ == "__main__":
    main(study)
