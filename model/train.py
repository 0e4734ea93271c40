"""Training: the members of a cohort in, a list of results out."""

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import torch

from model import counting
from model.checkpoint import Checkpoint, Clock
from model.checks import CHECKS
from model.cohort import Cohort
from model.corpus.text import Corpus
from model.course import Course, Result
from model.diagnostics.diagnosis import diagnose
from model.diagnostics.live import look_inside, probe, spread_out
from model.hardware import has_compiler
from model.kept import PROBE_TOKENS, Kept
from model.programs import program_key, publish, take_up
from model.recipe import Member

CURVE_POINTS = 200  # of the training loss, about
EVALUATIONS = 8  # of the whole held-out text, the last one after the last update
INSIDE_EVERY = 100  # updates from one look inside the members to the next; before the first and after the last, too
# FLOPs of a cohort's updates; below, compiling takes longer than it saves. Measured on a CPU, not yet on a GPU.
WORTH_COMPILING = {"cpu": 2e13, "cuda": 2e15}


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
    keep_models: bool = False,
) -> list[Result]:
    """Train every member to its end or its divergence; results in the order of `members`. `report` hears of it.

    All members are of one program. A cohort for which the device has not enough memory is halved, and the halves are
    trained one after the other, with one state between them: a crash costs both. With a `checkpoint` the state is kept
    there from time to time, and training goes on from it when it is of these members and this text. With `keep_models`
    a result brings the trained model along.
    """
    slices = training(members, corpus, device, checkpoint, keep_models=keep_models)
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
        for result in train(part, corpus, device, report, checkpoint, keep_models)
    ]


def training(
    members: Sequence[Member],
    corpus: Corpus,
    device: str,
    checkpoint: Checkpoint | None = None,
    compiled: bool | None = None,
    keep_models: bool = False,
) -> Generator[Progress, None, list[Result]]:
    """`train` in slices: yields after the first update and then about 200 times, and returns the results.

    Nothing that a member does raises: a loss that is not finite ends that member alone. `compiled` overrules the
    choice by the amount of work.
    """
    return (yield from _Training(members, corpus, device, checkpoint, compiled, keep_models).slices())


def worth_compiling(members: Sequence[Member], device: str) -> bool:
    """Whether a cohort's updates are so much work that a compiled program saves more than compiling takes.

    Never what is wrong on purpose: a compiler may mend it. It leaves out a cast to bfloat16 that is taken back at once.
    """
    if members[0].recipe.wrong_on_purpose:
        return False
    flops = sum(m.recipe.tokens * counting.training_flops_per_token(m.recipe.model) for m in members)
    return flops >= WORTH_COMPILING[device] and has_compiler(device)


class _Training:
    """A cohort on its way; `rows` are the places in `members` of those that the cohort still holds."""

    def __init__(
        self,
        members: Sequence[Member],
        corpus: Corpus,
        device: str,
        checkpoint: Checkpoint | None,
        compiled: bool | None,
        keep_models: bool,
    ) -> None:
        self.members, self.checkpoint, self.keep_models = list(members), checkpoint, keep_models
        self.recipe, self.device = members[0].recipe, device
        self.compiled = worth_compiling(members, device) if compiled is None else compiled
        self.identity = f"{corpus.sha256} {device} {self.compiled} {self.members}"
        self.courses = [Course() for _ in members]
        self.rows = list(range(len(members)))
        self.step, self.earlier, self.started = 0, 0.0, time.perf_counter()
        self.cohort = Cohort(members, corpus, device, self.compiled)
        self.probe = probe(self.cohort)
        self.unpublished: str | None = None  # the program that the next update makes or takes
        self._resume()
        self._take_up_program()

    def slices(self) -> Generator[Progress, None, list[Result]]:
        steps = self.recipe.budget.steps
        clock = Clock(self.checkpoint.seconds if self.checkpoint else math.inf)
        every, evaluate_every = max(1, steps // CURVE_POINTS), -(-steps // EVALUATIONS)
        if not self.step:
            self._note_checks()
            self._look_inside()
        while self.step < steps and self.rows:
            step, last = self.step, self.step == steps - 1
            noted = step % every == 0 or last
            self._update(step, noted)
            if self.unpublished:
                publish(self.unpublished)
                self.unpublished = None
            self.step += 1
            if self.step % evaluate_every == 0 or last:
                self._score()
            if last:
                self._score_otherwise()
            if self.step % INSIDE_EVERY == 0 or last:
                self._look_inside()
            if last and self.recipe.diagnosed:
                self._diagnose()
            self._drop_diverged()
            if noted:
                yield Progress(self._made(), steps * len(self.members))
            if self.checkpoint and clock.due():
                with suppress(OSError):  # on a full disk a run goes on without: what that costs is time after a crash
                    self.checkpoint.write(self._state())
        seconds = (self.earlier + time.perf_counter() - self.started) / len(self.members)
        models = self._models()
        return [
            course.result(member, len(self.members), seconds, models.get(row))
            for row, (member, course) in enumerate(zip(self.members, self.courses, strict=True))
        ]

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

    def _look_inside(self) -> None:
        for index, row in enumerate(self.rows):
            if self.courses[row].diverged_at is None:
                self.courses[row].note(self.step, **look_inside(self.cohort, index, self.probe))

    def _note_checks(self) -> None:
        """What the checks before training found, where that does not stop a member or is asked for."""
        if self.recipe.wrong_on_purpose or self.recipe.diagnosed:
            for course, failed in zip(self.courses, self.cohort.failed_checks, strict=True):
                course.note(0, **{f"check {name}": float(name in failed) for name in CHECKS})

    def _diagnose(self) -> None:
        for index, row in enumerate(self.rows):
            if self.courses[row].diverged_at is None:
                self.courses[row].note(self.step, **diagnose(self.cohort, index))

    def _models(self) -> dict[int, Kept]:
        """By the places of the members that came to an end: what is kept of them."""
        going = [pair for pair in enumerate(self.rows) if self.courses[pair[1]].diverged_at is None]
        if not self.keep_models:
            return {}
        windows = spread_out(self.cohort.held_out, max(1, PROBE_TOKENS // self.recipe.model.context))
        return {row: Kept(self.cohort.model(index).cpu().state_dict(), windows) for index, row in going}

    def _drop_diverged(self) -> None:
        """Stop computing diverged members once they are half of the cohort: a smaller one is compiled anew."""
        going = [index for index, row in enumerate(self.rows) if self.courses[row].diverged_at is None]
        if 2 * len(going) <= len(self.rows):
            self.rows = [self.rows[index] for index in going]
            if going:
                self.cohort.keep(going)
                self._take_up_program()

    def _take_up_program(self) -> None:
        """Compile what comes next for as many members as there are now, or take it from where it is published."""
        if self.compiled and self.rows:
            key = program_key([self.members[row] for row in self.rows], self.device)
            take_up(key)
            self.unpublished = key

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
        self.courses = [Course(**course) for course in state["courses"]]
        self.step, self.earlier, self.rows = state["step"], state["seconds"], state["rows"]
        if not self.rows:
            return  # all have diverged, and nothing is computed any more
        if len(self.rows) < len(self.members):
            self.cohort.keep(self.rows)
        self.cohort.restore(state["cohort"])
