"""What becomes of one member of a cohort while it trains, and at the end."""

import math
from dataclasses import dataclass, field

from model import counting
from model.cohort import Evaluation
from model.kept import Kept
from model.recipe import Member


@dataclass(frozen=True)
class Point:
    """One value of a curve, after `step` updates."""

    step: int
    name: str
    value: float


@dataclass(frozen=True)
class Result:
    """What one member came to; losses in nats per token. A diverged member has NaN for its held-out loss."""

    seed: int
    diverged_at: int | None  # index of the update before or after which a loss was first found non-finite
    val_loss: float  # mean over every held-out token
    val_window_sd: float  # SD over the full held-out windows of a window's mean loss
    last_batch_loss: float  # of the last training batch, before its update
    initial_loss: float  # of the first training batch, before any update
    parameters: int
    steps: int
    tokens: int
    seconds: float  # wall time of the cohort, divided by its members
    cohort: int  # members trained in lockstep, this one included
    curve: tuple[Point, ...]
    kept: Kept | None = None  # its model, where it was asked for and the member did not diverge


@dataclass
class Course:
    """What has become of one member so far."""

    losses: list[float] = field(default_factory=list)  # of its training batches, one an update
    curve: list[tuple[int, str, float]] = field(default_factory=list)
    diverged_at: int | None = None
    val_loss: float = math.nan
    val_window_sd: float = math.nan

    def note(self, step: int, **values: float) -> None:
        self.curve += [(step, name, value) for name, value in values.items()]

    def scored(self, step: int, evaluation: Evaluation) -> None:
        self.val_loss, self.val_window_sd = evaluation.loss, evaluation.window_sd
        self.note(step, val_loss=evaluation.loss)

    def diverged(self, step: int) -> None:
        self.diverged_at, self.val_loss, self.val_window_sd = step, math.nan, math.nan

    def result(self, member: Member, cohort: int, seconds: float, kept: Kept | None) -> Result:
        """What `member` came to, one of a `cohort` of so many, which took `seconds` for each of them."""
        made = len(self.losses)
        return Result(
            seed=member.seed,
            diverged_at=self.diverged_at,
            val_loss=self.val_loss,
            val_window_sd=self.val_window_sd,
            last_batch_loss=self.losses[-1],
            initial_loss=self.losses[0],
            parameters=counting.parameters(member.recipe.model).total,
            steps=made,
            tokens=made * member.recipe.budget.batch * member.recipe.model.context,
            seconds=seconds,
            cohort=cohort,
            curve=tuple(Point(*point) for point in self.curve),
            kept=kept,
        )
