"""The source chapter's checkable numbers beside what comes out: ``docs/findings/chapter.md``.

``python benchmarks/chapter_claims.py`` computes every number of the page, in about a minute on one thread. What the
chapter measured by training is the question of the studies, and its 28 runs that of ``sweeps/chapter.py``.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from claims.arithmetic import arithmetic
from claims.claim import Claim, Held
from claims.frequencies import frequencies
from claims.gradients import gradients
from claims.growth import growth, logits_without_norm
from claims.numerics import numerics

from analysis.markdown import table

PAGE = Path(__file__).parent.parent / "docs" / "findings" / "chapter.md"
WORDS: dict[Held, str] = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
HEAD = ("section", "what it says", "its value", "what comes out", "", "how")
INTRODUCTION = (
    "Numbers of the source chapter that can be computed without training a model of its size, each beside what comes "
    "out. A value holds when ours rounds to its digits, or lies as near as its row says; statements are answered with "
    "yes or no. Made by `make claims`; no number here was written by hand but the chapter's own, and in the last row "
    "the SD of `noise_floor.md`."
)
LEFT = (
    "Not checked here: what the chapter measured in trained models. Its 28 losses are held against ours by "
    "`sweeps/chapter.py`, its comparisons by the studies; dead slots, key cosines and entropies are measured by "
    "`model/diagnostics`. That logits are 4 times as wide without the final norm, the chapter says of a "
    "trained model: before training they are {logits:.3f} times as wide, for the factor is the width of the stream."
)


def row(claim: Claim) -> list[str]:
    """A claim as a row of the page."""
    return [claim.section, claim.says, ", ".join(claim.printed), ", ".join(claim.texts), claim.held, claim.how + "."]


def page(claims: Sequence[Claim]) -> str:
    """The whole page in Markdown."""
    counts = Counter(claim.held for claim in claims)
    told = ", ".join(f"{counts[held]} {words}" for held, words in WORDS.items())
    parts = ["# The chapter's numbers", INTRODUCTION, f"Of {len(claims)} claims {told}."]
    return "\n\n".join([*parts, table(HEAD, map(row, claims)), LEFT.format(logits=logits_without_norm())]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compute the chapter's checkable numbers and write the page.")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="where the page goes")
    to = parser.parse_args().page
    torch.set_num_threads(1)
    to.write_text(page([*frequencies(), *growth(), *gradients(), *numerics(), *arithmetic()]))
    print(to)


if __name__ == "__main__":
    main()
