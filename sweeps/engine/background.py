"""Calls made in order on a thread of their own, so that who asks for them need not wait."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as all_of
from typing import Any


class Background:
    """One thread; `do` returns at once, and `wait` when all that was asked for is done."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._calls: list[Future[Any]] = []

    def do(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Make this call after those asked for before."""
        self._calls.append(self._thread.submit(call, *arguments))

    def wait(self) -> None:
        """Until every call is made. Raises what the first one raised that failed."""
        calls, self._calls = self._calls, []
        all_of(calls)
        for call in calls:
            call.result()
