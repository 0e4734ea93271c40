"""Which characters drive a neuron: a slot of the memory, read from the text that activates it most."""

from collections import Counter
from dataclasses import dataclass

import torch

from model.batches import Batch
from model.diagnostics.slots import hidden
from model.diagnostics.trace import traced, wide
from model.transformer import Transformer

STRONGEST = 2  # neurons of a layer that are shown
TOP = 50  # positions at most at which a neuron is strongest and active, of which the characters are counted
COMMONEST = 5  # characters
BEFORE = 7  # characters of context
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Neuron:
    """One slot of a layer's memory and what activates it."""

    layer: int
    slot: int
    peak: float  # its largest hidden value
    characters: tuple[tuple[str, int], ...]  # at the positions where it is strongest, with how often
    contexts: tuple[str, ...]  # the text up to and with the positions where it is strongest, the strongest first


@torch.no_grad()
def strongest_neurons(model: Transformer, batch: Batch, characters: str) -> list[Neuron]:
    """Of every layer the neurons with the largest hidden value, if it is above 0; `characters` are those of the tokens
    1, 2, ... A position counts where a neuron is active: far below zero GELU gives -0.0, more than a little below."""
    with traced(model) as trace:
        model(batch.inputs_BT)
    texts = ["".join(_character(token, characters) for token in row) for row in batch.inputs_BT.tolist()]
    T, found = batch.inputs_BT.shape[1], []
    for layer, block in enumerate(model.blocks):
        h_BTF = hidden(block, f"blocks.{layer}", trace)
        if h_BTF is None:
            continue
        h_PF = wide(h_BTF).flatten(0, 1)
        for slot in h_PF.amax(0).topk(min(STRONGEST, h_PF.shape[1])).indices.tolist():
            top = h_PF[:, slot].topk(min(TOP, len(h_PF)))
            active = top.indices[top.values > 0].tolist()
            if not active:
                continue
            places = [divmod(place, T) for place in active]
            counted = Counter(texts[window][t] for window, t in places)
            contexts = [texts[window][max(0, t - BEFORE) : t + 1] for window, t in places]
            common = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:COMMONEST]
            found.append(
                Neuron(layer, slot, top.values[0].item(), tuple(common), tuple(dict.fromkeys(contexts))[:COMMONEST])
            )
    return found


def _character(token: int, characters: str) -> str:
    known = characters[token - 1] if token else UNKNOWN
    return "⏎" if known == "\n" else known
