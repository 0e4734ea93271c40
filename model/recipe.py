"""What is trained: a recipe, and a member, which is a recipe with a seed."""

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from model.later import LATER
from model.optimizer import AdamW
from model.scoring import Scoring
from model.seeding import Streams
from model.transformer import ModelConfig

RECIPE_VERSION = 2  # raised by any change after which an unchanged recipe would train to other numbers

# fp32: everything in float32. bf16: matrix products in bfloat16, everything else (weights, moments, the residual
# stream, norms, softmax, loss) in float32. fp64: everything in float64, the oracle of the tests.
Precision = Literal["fp32", "bf16", "fp64"]


@dataclass(frozen=True)
class Budget:
    """How much is trained: `steps` updates on `batch` windows each. Raises ValueError below one."""

    steps: int = 1200
    batch: int = 32

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but it is {getattr(self, name)}.")


@dataclass(frozen=True)
class Recipe:
    """All that decides a run's result besides its text and its seed.

    Raises ValueError when warmup fills the budget, for an unknown precision, and for a scoring without effect.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: AdamW = field(default_factory=AdamW)
    budget: Budget = field(default_factory=Budget)
    streams: Streams = field(default_factory=Streams)
    precision: Precision = "fp32"
    scored: tuple[Scoring, ...] = field(default=(), metadata=LATER)  # beside the held-out loss, after the last update
    wrong_on_purpose: bool = field(default=False, metadata=LATER)  # the checks before training do not stop it
    diagnosed: bool = field(default=False, metadata=LATER)  # the nine silent failures are looked for in the end

    def __post_init__(self) -> None:
        if self.optimizer.warmup >= self.budget.steps:
            raise ValueError(
                f"A warmup of {self.optimizer.warmup} updates leaves nothing of {self.budget.steps} steps; "
                "train longer or warm up less."
            )
        if self.precision not in get_args(Precision):
            raise ValueError(f"precision must be one of {', '.join(get_args(Precision))}, not {self.precision!r}.")
        names = [scoring.name for scoring in self.scored]
        if len(set(names)) < len(names):
            raise ValueError(f"Two scorings are the same: {', '.join(names)}.")
        for scoring in self.scored:
            scoring.check(self.model)

    @property
    def tokens(self) -> int:
        """Training tokens that a completed run has seen."""
        return self.budget.steps * self.budget.batch * self.model.context

    @property
    def program(self) -> "Recipe":
        """The recipe less what is a vector over the members of a cohort: the optimizer's numbers, the scale of the
        first weights, the streams. Recipes of equal programs have tensors of the same shapes and run the same code, so
        that they can train in lockstep."""
        model = replace(self.model, initializer=type(self.model.initializer)())
        return replace(self, model=model, optimizer=AdamW(warmup=0), streams=Streams())


@dataclass(frozen=True)
class Member:
    """One run to train."""

    recipe: Recipe
    seed: int
