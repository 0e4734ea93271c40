"""Training: a list of members in, a list of results out."""

import math
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from model import counting
from model.batches import IGNORED, Batch, evaluation_batches, training_batch
from model.checks import check_before_training
from model.corpus.text import Corpus
from model.optimizer import AdamW
from model.seeding import Streams
from model.transformer import ModelConfig, Transformer

RECIPE_VERSION = 1  # raised by any change after which an unchanged recipe would train to other numbers
CURVE_POINTS = 200  # of the training loss, about
EVALUATIONS = 8  # of the whole held-out text, the last one after the last update


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
    """All that decides a run's result besides its text and its seed. Raises ValueError when warmup fills the budget."""

    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: AdamW = field(default_factory=AdamW)
    budget: Budget = field(default_factory=Budget)
    streams: Streams = field(default_factory=Streams)

    def __post_init__(self) -> None:
        if self.optimizer.warmup >= self.budget.steps:
            raise ValueError(
                f"A warmup of {self.optimizer.warmup} updates leaves nothing of {self.budget.steps} steps; "
                "train longer or warm up less."
            )

    @property
    def tokens(self) -> int:
        """Training tokens that a completed run has seen."""
        return self.budget.steps * self.budget.batch * self.model.context


@dataclass(frozen=True)
class Member:
    """One run to train."""

    recipe: Recipe
    seed: int


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
    seconds: float
    curve: tuple[Point, ...]


@dataclass(frozen=True)
class Progress:
    """Where a cohort stands: updates made and wanted over all its members."""

    steps_done: int
    steps_total: int


def train(
    members: Sequence[Member],
    corpus: Corpus,
    device: str = "cpu",
    report: Callable[[Progress], None] = lambda progress: None,
) -> list[Result]:
    """Train every member to its end or its divergence; results in the order of `members`. `report` hears of it."""
    slices = training(members, corpus, device)
    while True:
        try:
            report(next(slices))
        except StopIteration as end:
            results: list[Result] = end.value
            return results


def training(members: Sequence[Member], corpus: Corpus, device: str) -> Generator[Progress, None, list[Result]]:
    """`train` in slices: yields after about 1/200 of each member's updates and returns the results.

    Nothing that a member does raises: a loss that is not finite ends that member alone.
    """
    total = sum(member.recipe.budget.steps for member in members)
    done = 0
    results = []
    for member in members:
        run = _Run(member, corpus, device)
        for step in run.steps():
            yield Progress(done + step, total)
        done += member.recipe.budget.steps
        results.append(run.result())
    return results


class _Run:
    """One member on its way."""

    def __init__(self, member: Member, corpus: Corpus, device: str) -> None:
        self.started = time.perf_counter()
        self.member, self.recipe, self.corpus, self.device = member, member.recipe, corpus, device
        streams, config = self.recipe.streams, self.recipe.model
        self.order_seed = streams.order.at(member.seed)
        self.model: Transformer = config.build(streams.init.at(member.seed)).to(device)
        self.optimizer = self.recipe.optimizer.build(self.model)
        self.held_out = [
            _to(batch, device)
            for batch in evaluation_batches(corpus.held_out, config.context, self.recipe.budget.batch)
        ]
        check_before_training(self.model, config, self._batch(0))
        self.curve: list[Point] = []
        self.train_losses: list[float] = []
        self.diverged_at: int | None = None
        self.evaluation = Evaluation(math.nan, math.nan)

    def steps(self) -> Iterable[int]:
        """Update until the budget is spent or a loss is not finite; yields the updates made, now and then."""
        steps = self.recipe.budget.steps
        every, evaluate_every = max(1, steps // CURVE_POINTS), -(-steps // EVALUATIONS)
        for step in range(steps):
            rate = self.recipe.optimizer.rate(step, steps)
            loss, norm = self._update(step, rate)
            self.train_losses.append(loss)
            if step % every == 0 or step == steps - 1:
                self._note(step, train_loss=loss, grad_norm=norm, learning_rate=rate)
                yield step
            made = step + 1
            if math.isfinite(loss) and (made % evaluate_every == 0 or made == steps):
                self.evaluation = evaluate(self.model, self.held_out)
                self._note(made, val_loss=self.evaluation.loss)
                loss = self.evaluation.loss
            if not math.isfinite(loss):
                self.diverged_at, self.evaluation = step, Evaluation(math.nan, math.nan)
                return

    def _update(self, step: int, rate: float) -> tuple[float, float]:
        batch = self._batch(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss = nn.functional.cross_entropy(self.model(batch.inputs_BT).flatten(0, 1), batch.targets_BT.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.optimizer.clip)
        self.optimizer.step()
        return loss.item(), norm.item()

    def _batch(self, step: int) -> Batch:
        budget, context = self.recipe.budget, self.recipe.model.context
        return _to(training_batch(self.corpus.train, context, budget.batch, self.order_seed, step), self.device)

    def _note(self, step: int, **values: float) -> None:
        self.curve += [Point(step, name, value) for name, value in values.items()]

    def result(self) -> Result:
        made = len(self.train_losses)
        return Result(
            seed=self.member.seed,
            diverged_at=self.diverged_at,
            val_loss=self.evaluation.loss,
            val_window_sd=self.evaluation.window_sd,
            last_batch_loss=self.train_losses[-1],
            initial_loss=self.train_losses[0],
            parameters=counting.parameters(self.recipe.model).total,
            steps=made,
            tokens=made * self.recipe.budget.batch * self.recipe.model.context,
            seconds=time.perf_counter() - self.started,
            curve=tuple(self.curve),
        )


@dataclass(frozen=True)
class Evaluation:
    """The loss over all held-out tokens, and the SD over full windows of a window's mean loss, in nats per token."""

    loss: float
    window_sd: float


@torch.no_grad()
def evaluate(model: nn.Module, batches: Sequence[Batch]) -> Evaluation:
    """Score every target of `batches` once, summed in float64."""
    losses, counts = [], []
    for batch in batches:
        losses_BT: Tensor = nn.functional.cross_entropy(
            model(batch.inputs_BT).transpose(1, 2), batch.targets_BT, ignore_index=IGNORED, reduction="none"
        )
        losses.append(losses_BT.double().sum(dim=1).cpu())
        counts.append((batch.targets_BT != IGNORED).sum(dim=1).cpu())
    loss_N, count_N = torch.cat(losses).numpy(), torch.cat(counts).numpy()
    full = count_N == count_N.max()
    means = loss_N[full] / count_N[full]
    sd = float(np.std(means, ddof=1)) if len(means) > 1 else math.nan
    return Evaluation(float(loss_N.sum() / count_N.sum()), sd)


def _to(batch: Batch, device: str) -> Batch:
    return Batch(batch.inputs_BT.to(device), batch.targets_BT.to(device))
