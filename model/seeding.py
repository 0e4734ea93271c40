"""How a run's seed splits into named streams: `init` draws the first weights, `order` the batches.

An arm may let a stream follow the seed, hold it fixed, or shift it, which is how a study asks where noise comes from.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Follow:
    """The stream of seed s is s + offset: another seed, another draw."""

    offset: int = 0

    def at(self, seed: int) -> int:
        return seed + self.offset


@dataclass(frozen=True)
class Fixed:
    """The stream is the same whatever the seed."""

    value: int = 0

    def at(self, seed: int) -> int:
        return self.value


Stream = Follow | Fixed


@dataclass(frozen=True)
class Streams:
    """The streams of a recipe. The same seed means the same batches in every arm whose `order` is equal."""

    init: Stream = field(default_factory=Follow)
    order: Stream = field(default_factory=Follow)
