import threading

import pytest

from sweeps.engine.background import Background


def test_calls_are_made_in_order_on_one_thread_and_waited_for() -> None:
    background, gate, made = Background(), threading.Event(), []
    background.do(gate.wait, 10)
    for i in range(20):
        background.do(lambda i: made.append((i, threading.get_ident())), i)
    assert made == []  # nobody waited for the first
    gate.set()
    background.wait()
    assert [i for i, _ in made] == list(range(20))
    assert len({thread for _, thread in made} - {threading.get_ident()}) == 1


def test_what_a_call_raises_is_raised_by_the_wait_and_stops_no_other() -> None:
    background, made = Background(), []
    background.do(lambda: 1 / 0)
    background.do(made.append, 1)
    with pytest.raises(ZeroDivisionError):
        background.wait()
    background.wait()
    assert made == [1]
