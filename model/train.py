"""Training: the members of a cohort in, a list of results out."""

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from model import counting
from model.checkpoint import Checkpoint, Clock
from model.cohort import Cohort, Evaluation
from model.corpus.text import Corpus
from model.hardware import has_compiler
from model.programs import program_key, publish, take_up
from model.recipe import Member

CURVE_POINTS = 200  # of the training loss, about
EVALUATIONS = 8  # of the whole held-out text, the last one after the last update
WORTH_COMPILING = 2e13  # FLOPs of a cohort's updates; below, compiling takes longer than it saves


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
    checkpoint: Checkpoint | None = None,
) -> list[Result]:
    """Train every member to its end or its divergence; results in the order of `members`. `report` hears of it.

    All members are of one program. A cohort for which the device has not enough memory is halved, and the halves are
    trained one after the other. With a `checkpoint` the state is kept there from time to time, and training goes on
    from it when it is of these members and this text.
    """
    slices = training(members, corpus, device, checkpoint)
    try:
        while True:
            report(next(slices))
    except StopIteration as end:
        results: list[Result] = end.value
        return results
    except torch.OutOfMemoryError:
        if len(members) == 1:
            raise
    slices.close()
    half = len(members) // 2
    return [
        result
        for part in (members[:half], members[half:])
        for result in train(part, corpus, device, report, checkpoint)
    ]


def training(
    members: Sequence[Member],
    corpus: Corpus,
    device: str,
    checkpoint: Checkpoint | None = None,
    compiled: bool | None = None,
) -> Generator[Progress, None, list[Result]]:
    """`train` in slices: yields after the first update and then about 200 times, and returns the results.

    Nothing that a member does raises: a loss that is not finite ends that member alone. `compiled` overrules the
    choice by the amount of work.
    """
    return (yield from _Training(members, corpus, device, checkpoint, compiled).slices())


def worth_compiling(members: Sequence[Member], device: str) -> bool:
    """Whether a cohort's updates are so much work that a compiled program saves more than compiling takes."""
    flops = sum(m.recipe.tokens * counting.training_flops_per_token(m.recipe.model) for m in members)
    return flops >= WORTH_COMPILING and has_compiler(device)


@dataclass
class _Course:
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


class _Training:
    """A cohort on its way; `rows` are the places in `members` of those that the cohort still holds."""

    def __init__(
        self,
        members: Sequence[Member],
        corpus: Corpus,
        device: str,
        checkpoint: Checkpoint | None,
        compiled: bool | None,
    ) -> None:
        self.members, self.checkpoint = list(members), checkpoint
        self.recipe = members[0].recipe
        self.compiled = worth_compiling(members, device) if compiled is None else compiled
        self.identity = f"{corpus.sha256} {device} {self.compiled} {self.members}"
        self.courses = [_Course() for _ in members]
        self.rows = list(range(len(members)))
        self.step, self.earlier, self.started = 0, 0.0, time.perf_counter()
        self.program = program_key(members, device) if self.compiled else None
        if self.program:
            take_up(self.program)
        self.cohort = Cohort(members, corpus, device, self.compiled)
        self._resume()

    def slices(self) -> Generator[Progress, None, list[Result]]:
        steps, begun = self.recipe.budget.steps, self.step
        clock = Clock(self.checkpoint.seconds if self.checkpoint else math.inf)
        every, evaluate_every = max(1, steps // CURVE_POINTS), -(-steps // EVALUATIONS)
        while self.step < steps and self.rows:
            step, last = self.step, self.step == steps - 1
            noted = step % every == 0 or last
            self._update(step, noted)
            if self.program and step == begun:
                publish(self.program)
            self.step += 1
            if self.step % evaluate_every == 0 or last:
                self._score()
            if last:
                self._score_otherwise()
            self._drop_diverged()
            if noted:
                yield Progress(self._made(), steps * len(self.members))
            if self.checkpoint and clock.due():
                with suppress(OSError):  # on a full disk a run goes on without: what that costs is time after a crash
                    self.checkpoint.write(self._state())
        seconds = (self.earlier + time.perf_counter() - self.started) / len(self.members)
        return [self._result(*pair, seconds) for pair in zip(self.members, self.courses, strict=True)]

    def _update(self, step: int, noted: bool) -> None:
        for row, loss, norm in zip(self.rows, *self.cohort.update(step), strict=True):
            course = self.courses[row]
            if course.diverged_at is not None:
                continue
            course.losses.append(loss)
            if noted:
                rate = self.members[row].recipe.optimizer.rate(step, self.recipe.budget.steps)
                course.note(step, train_loss=loss, grad_norm=norm, learning_rate=rate)
            if not math.isfinite(loss):
                course.diverged(step)

    def _score(self) -> None:
        for row, evaluation in zip(self.rows, self.cohort.score(), strict=True):
            course = self.courses[row]
            if course.diverged_at is None:
                course.scored(self.step, evaluation)
                if not math.isfinite(evaluation.loss):
                    course.diverged(self.step - 1)

    def _score_otherwise(self) -> None:
        """Under the other conditions that the recipe asks for; a member that diverged is not scored."""
        for scoring in self.recipe.scored:
            for row, evaluation in zip(self.rows, self.cohort.score_as(scoring), strict=True):
                if self.courses[row].diverged_at is None:
                    self.courses[row].note(self.step, **{f"val_loss {scoring.name}": evaluation.loss})

    def _drop_diverged(self) -> None:
        """Stop computing diverged members once they are half of the cohort: a smaller one is compiled anew."""
        going = [index for index, row in enumerate(self.rows) if self.courses[row].diverged_at is None]
        if 2 * len(going) <= len(self.rows):
            self.rows = [self.rows[index] for index in going]
            if going:
                self.cohort.keep(going)

    def _made(self) -> int:
        """Updates of all members; a diverged one counts as if it had made all the cohort made."""
        return self.step * len(self.members)

    def _state(self) -> dict[str, Any]:
        return {
            "identity": self.identity,
            "step": self.step,
            "seconds": self.earlier + time.perf_counter() - self.started,
            "rows": self.rows,
            "courses": [asdict(course) for course in self.courses],
            "cohort": self.cohort.state(),
        }

    def _resume(self) -> None:
        state = self.checkpoint.read() if self.checkpoint else None
        if state is None or state["identity"] != self.identity:
            return
        self.courses = [_Course(**course) for course in state["courses"]]
        self.step, self.earlier, self.rows = state["step"], state["seconds"], state["rows"]
        if self.rows and len(self.rows) < len(self.members):
            self.cohort.keep(self.rows)
        self.cohort.restore(state["cohort"])

    def _result(self, member: Member, course: _Course, seconds: float) -> Result:
        made = len(course.losses)
        return Result(
            seed=member.seed,
            diverged_at=course.diverged_at,
            val_loss=course.val_loss,
            val_window_sd=course.val_window_sd,
            last_batch_loss=course.losses[-1],
            initial_loss=course.losses[0],
            parameters=counting.parameters(member.recipe.model).total,
            steps=made,
            tokens=made * member.recipe.budget.batch * member.recipe.model.context,
            seconds=seconds,
            cohort=len(self.members),
            curve=tuple(Point(*point) for point in course.curve),
        )
