"""``python -m model.diagnostics``: the residual stream before any training, by depth, placement and first weights."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from model.diagnostics.anatomy import Anatomy
from model.diagnostics.drawer import drawer
from model.diagnostics.initial import DEPTHS, at_initialisation
from model.diagnostics.output import show, writable, write
from model.initializer import PlainNormal, ScaledNormal
from model.parts.block import PostNorm, PreNorm
from model.transformer import ModelConfig

KINDS = {
    f"{norm} with {weights} weights": ModelConfig(placement=placement, initializer=initializer)
    for weights, initializer in (("plain", PlainNormal()), ("scaled", ScaledNormal()))
    for norm, placement in (("pre-norm", PreNorm()), ("post-norm", PostNorm()))
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code, 2 for a mistake, said on stderr."""
    parser = argparse.ArgumentParser(prog="python -m model.diagnostics", description=__doc__.partition(": ")[2])
    parser.add_argument("--depths", type=int, nargs="+", default=DEPTHS, metavar="L", help="numbers of blocks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements there too")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="draw the profiles there, as SVG files")
    options = parser.parse_args(arguments)
    try:
        target = writable(options.json) if options.json else None
        draw = drawer("depths") if options.figures else None
        found = {kind: at_initialisation(config, options.depths) for kind, config in KINDS.items()}
        show(_lines(found))
        plain = {kind: {layers: a.plain() for layers, a in depths.items()} for kind, depths in found.items()}
        if target:
            write(target, json.dumps(plain, indent=1, allow_nan=False) + "\n")
        if draw:
            show([f"Figures: {', '.join(map(str, draw(plain, options.figures)))}"])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _lines(found: Mapping[str, Mapping[int, Anatomy]]) -> Iterator[str]:
    """The table: a line per kind and depth."""
    yield "Before training: scale of the residual stream, last block over first, and of its"
    yield "gradient, first over last"
    yield f"{'':30}{'blocks':>7}{'stream':>8}{'gradient':>10}{'after the first':>17}"
    for kind, depths in found.items():
        for layers, a in depths.items():
            numbers = f"{a.activation_ratio:>8.2f}{a.gradient_ratio:>10.2f}{a.gradient_R[1]:>17.2e}"
            yield f"{kind:30}{layers:>7}{numbers}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
