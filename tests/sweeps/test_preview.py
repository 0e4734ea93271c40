"""``--plan``: cohorts, their memory and their time, before anything is spent."""

import os
import re
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.corpus.text import Corpus
from sweeps.engine.grid import Grid
from sweeps.engine.plan import make_plan
from sweeps.engine.preview import busy, seconds_per_run
from sweeps.engine.study import Study

Give = Callable[..., tuple[int, str, str]]


def test_a_run_takes_time_and_the_threads_are_given_back(tiny: ModuleType, corpus: Corpus) -> None:
    threads = torch.get_num_threads()
    cohort = make_plan(tiny.study(), corpus, []).cohorts(1, 2**30)[0]
    assert len(cohort) == 6
    assert 1e-4 < seconds_per_run(cohort, corpus, "cpu") < 60
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("steps", [4, 5])
def test_a_very_short_study_can_be_timed(tiny: ModuleType, corpus: Corpus, steps: int) -> None:
    cohort = make_plan(tiny.study().with_steps(steps), corpus, []).cohorts(1, 2**30)[0]
    assert 1e-5 < seconds_per_run(cohort, corpus, "cpu") < 60


@given(st.lists(st.floats(0.1, 10), max_size=12), st.integers(1, 4))
def test_places_are_busy_as_long_as_a_queue_takes(seconds: list[float], places: int) -> None:
    """Against a walk through time: whenever a task ends, the next in the queue takes its place."""
    running: list[float] = []
    queue, now = list(seconds), 0.0
    while queue or running:
        while queue and len(running) < places:
            running.append(now + queue.pop(0))
        now = min(running)
        running.remove(now)
    assert busy(seconds, places) == pytest.approx(now)


def test_the_plan_shows_the_grid_the_looks_and_what_they_may_come_to(give: Give, tiny: ModuleType) -> None:
    def tuned() -> Study:
        two: Study = tiny.study().with_arms(("wide",))
        return two.replace(tune=Grid("optimizer.learning_rate", (1e-3, 1e-2), seeds=3))

    code, out, err = give("--plan", "--until-decided", "--max-seeds", "8", "--device", "cpu", study=tuned)
    assert (code, err) == (0, "")
    assert "Grid: optimizer.learning_rate at 0.001, 0.01, 3 tuning seeds a point for every arm;" in out
    assert "Until decided: looks at 3, 5, 8 seeds; an arm that is decided gets no more." in out
    assert "In all 18 to 28 runs." in out
    assert "12 of 12 runs to train" in out
    code, out, err = give("--plan", "--seeds", "4", "--device", "cpu", study=tuned)
    assert "In all 20 runs." in out
    assert "Until decided" not in out


def test_the_plan_shows_cohorts_and_their_cost(give: Give, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    code, out, err = give("--plan", "--seeds", "5", "--device", "cpu")
    assert (code, err) == (0, "")
    costs = [" ".join(line.split()).split(" 0.14 GiB")[0] for line in out.splitlines() if "GiB" in line]
    assert costs == ["narrow 2 x 5", "wide 1 x 3, 1 x 2", "wild 2 x 5"]
    assert re.search(r"15 of 15 runs to train in 4 cohorts, 2 at a time on this machine: about \d+ s \(", out)
