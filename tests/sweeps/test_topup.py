"""The searcher by itself, asked as Tune asks it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray import cloudpickle
from ray.tune.search import Searcher

from sweeps.engine.topup import TopUp


@given(sizes=st.lists(st.integers(1, 5), max_size=5), places=st.integers(1, 4), data=st.data())
def test_a_round_begins_when_the_one_before_has_ended(sizes: list[int], places: int, data: st.DataObject) -> None:
    """Every configuration once and in order, as many at a time as there are places, never two rounds at a time."""
    rounds = [[{"cohort": (number, i)} for i in range(size)] for number, size in enumerate(sizes)]
    queue, given_out, asked = iter(rounds), [], 0
    running: dict[str, dict[str, Any]] = {}

    def more() -> list[dict[str, Any]]:
        nonlocal asked
        assert not running
        asked += 1
        return next(queue, [])

    searcher = TopUp(more)
    while True:
        suggested = searcher.suggest(name := f"trial {len(given_out)}") if len(running) < places else None
        if suggested == Searcher.FINISHED:
            break
        if isinstance(suggested, dict):
            running[name] = suggested
            given_out.append(suggested)
            assert len({one["cohort"][0] for one in running.values()}) == 1
        else:
            ended = data.draw(st.sampled_from(sorted(running)))
            del running[ended]
            searcher.on_trial_complete(ended, error=data.draw(st.booleans()))
    assert given_out == [one for configurations in rounds for one in configurations]
    assert asked == len(rounds) + 1


def test_tune_may_pickle_it_whatever_it_holds_on_to() -> None:
    searcher = TopUp(lambda: [{"cohort": 0}])
    searcher.held = open(__file__)  # noqa: SIM115  # has no pickle
    try:
        cloudpickle.dumps(searcher)
    finally:
        searcher.held.close()


def test_what_asking_raises_reaches_the_one_who_launched() -> None:
    def full() -> list[dict[str, Any]]:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        TopUp(full).suggest("trial")
