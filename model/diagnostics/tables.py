"""An inspection as text, at most 80 columns wide."""

import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from model import counting
from model.diagnostics.ablation import BRANCHES
from model.diagnostics.anatomy import TWIN, Anatomy, Floats
from model.diagnostics.checks import Check
from model.diagnostics.neurons import TOP, Neuron
from model.kept import KeptModel

WIDTH = 80
MOST_HEADS = 8  # with more, a layer's lowest, mean and highest are shown


def pages(
    model: KeptModel,
    initial: Anatomy,
    trained: Anatomy,
    ablation_L2: Floats,
    neurons: Sequence[Neuron],
    checked: Sequence[tuple[str, Sequence[Check]]],
) -> Iterator[str]:
    """The tables in the order in which one would read them, each after a line that names it."""
    config = model.recipe.model
    yield f"{model.run_id}: {model.study}, {model.arm}, seed {model.seed}"
    yield f"{config.layers} layers, d_model {config.d_model}, {counting.parameters(config).total:,} parameters"
    yield f"on {trained.positions:,} held-out tokens: loss {trained.loss:.3f}, before training {initial.loss:.3f}"
    yield from _stream(initial, trained)
    yield from _attention(trained)
    yield from _norms(trained)
    yield from _memory(trained)
    yield from _outputs(initial, trained)
    yield from _ablation(ablation_L2)
    yield from _neurons(neurons)
    for title, checks in checked:
        yield from _checks(title, checks)


def _stream(initial: Anatomy, trained: Anatomy) -> Iterator[str]:
    names = ["embedding", *(f"block {layer}" for layer in range(len(trained.bypass_gap_L)))]
    columns = (initial.activation_R, trained.activation_R, initial.gradient_R, trained.gradient_R)
    rows = [[name, *map(_three, values)] for name, *values in zip(names, *columns, strict=True)]
    ratios = (initial.activation_ratio, trained.activation_ratio, initial.gradient_ratio, trained.gradient_ratio)
    yield from _table(
        "Scale of the residual stream after each, and of its gradient",
        ["", "at the start", "now", "gradient at start", "now"],
        [*rows, ["ratio *", *map(_three, ratios)]],
    )
    yield "* of blocks: last over first for the stream, first over last for its gradient"


def _attention(trained: Anatomy) -> Iterator[str]:
    heads = trained.entropy_LH.shape[1]
    if not heads:
        return
    names, values_LH = [f"head {head}" for head in range(heads)], trained.entropy_LH
    if heads > MOST_HEADS:
        names = ["lowest", "mean", "highest"]
        values_LH = np.stack([over(values_LH, axis=1) for over in (np.min, np.mean, np.max)], axis=1)
    yield from _table(
        "Entropy of attention: 1 is a plain average of what is visible, 0 one position",
        ["block", *names],
        [[str(layer), *(f"{value:.2f}" for value in row)] for layer, row in enumerate(values_LH)],
    )


def _norms(trained: Anatomy) -> Iterator[str]:
    columns = (trained.norm_input_std_N, trained.norm_mean_ratio, np.sqrt(trained.norm_eps_N), trained.norm_scale_N)
    yield from _table(
        "Norms: what they read, and the scale of what they give with gain 1",
        ["", "std read", "|mean| / std", "sqrt(eps)", "given"],
        [[name, *map(_three, values)] for name, *values in zip(trained.norm_names, *columns, strict=True)],
    )


def _memory(trained: Anatomy) -> Iterator[str]:
    shares = (trained.dead, trained.duplicates(), trained.rate_LF.mean(1), trained.zeros_L)
    numbers = (trained.strength_LF.mean(1), trained.key_cosine_mean_L, trained.key_cosine_LF.max(1, initial=-1))
    yield from _table(
        f"Feed-forward layers as a memory of {trained.rate_LF.shape[1]:,} slots each",
        ["block", "dead", "twins *", "active", "zeros", "strength", "key cosine", "highest"],
        [
            [str(layer), *(f"{share:.1%}" for share in values[:4]), *map(_three, values[4:])]
            for layer, values in enumerate(zip(*shares, *numbers, strict=True))
        ],
    )
    yield f"* share of slots with another slot's key at a cosine above {TWIN:g}"


def _outputs(initial: Anatomy, trained: Anatomy) -> Iterator[str]:
    def values(a: Anatomy) -> list[float]:
        writes = [float(np.mean(branch_L)) for branch_L in (a.attention_write_L, a.feedforward_write_L)]
        return [a.adjacent_kl, a.logit_std, a.logit_spread, *writes]

    names = [
        "KL of the output at adjacent positions, nats",
        "scale of the logits",
        "its spread from position to position",
        "attention writes, in units of the stream, mean",
        "feed-forward writes, the same",
    ]
    before, now = initial.gradient_norm_by_role, trained.gradient_norm_by_role
    rows = [[name, *map(_three, pair)] for name, *pair in zip(names, values(initial), values(trained), strict=True)]
    yield from _table("Output and branches", ["", "at the start", "now"], rows)
    yield from _table(
        "Norm of the loss's gradient, by what parameters are for",
        ["", "at the start", "now"],
        [[role, _three(before[role]), _three(now[role])] for role in now],
    )


def _ablation(ablation_L2: Floats) -> Iterator[str]:
    rows = [[str(layer), *(f"{rise:+.3f}" for rise in rises)] for layer, rises in enumerate(ablation_L2)]
    yield from _table("Rise of the loss when a branch of one block is off, nats", ["block", *BRANCHES], rows)


def _neurons(neurons: Sequence[Neuron]) -> Iterator[str]:
    if neurons:
        yield from ("", f"What drives the strongest neurons: characters at up to {TOP} strongest positions")
    for neuron in neurons:
        common = " ".join(f"{character}{times}" for character, times in neuron.characters)
        yield f"block {neuron.layer}, slot {neuron.slot:>4}, up to {neuron.peak:.1f}: {common}"
        yield f"    {' | '.join(neuron.contexts[:3])}"


def _checks(title: str, found: Sequence[Check]) -> Iterator[str]:
    rows = [[check.name, _three(check.value), check.limit, "ok" if check.passed else "look"] for check in found]
    yield from _table(title, ["", "value", "limit", ""], rows)
    failed = [check for check in found if not check.passed]
    for check in failed:
        yield "\n" + textwrap.fill(check.sentence, WIDTH)
    if not failed:
        yield "None of these stands out."


def _table(title: str, header: list[str], rows: list[list[str]]) -> Iterator[str]:
    """An empty line, the title and the rows: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    yield f"\n{title}"
    for row in (header, *rows):
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join([row[0].ljust(len(first)), *others])


def _three(value: float) -> str:
    """Three digits; a dash for what the model does not have."""
    return "-" if np.isnan(value) else f"{value:.3g}"
