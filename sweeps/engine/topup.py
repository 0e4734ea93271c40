"""The searcher that gives Ray Tune one cohort after the other, and asks for more when all have ended."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ray.tune.search import Searcher


class TopUp(Searcher):
    """Suggests the configurations that `more` returns, round by round; a round begins when the one before has ended.

    `more` is called in the driver, before the first round and after each, and returns nothing when the study is done.
    """

    def __init__(self, more: Callable[[], Sequence[dict[str, Any]]]) -> None:
        super().__init__(metric="done", mode="max")
        self.more, self.waiting, self.going = more, deque[dict[str, Any]](), set[str]()

    def __getstate__(self) -> dict[str, Any]:
        # Tune pickles it for a restore that is never made here, and what `more` holds on to has no pickle.
        return {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if not self.waiting and not self.going:
            self.waiting.extend(self.more())
            if not self.waiting:
                return str(Searcher.FINISHED)
        if not self.waiting:
            return None  # for now: the next round depends on how this one ends
        self.going.add(trial_id)
        return self.waiting.popleft()

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.going.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: what is asked for follows from the records."""

    def restore(self, checkpoint_path: str) -> None:
        raise AssertionError("a launch is never restored by Tune; the records say what is missing")
