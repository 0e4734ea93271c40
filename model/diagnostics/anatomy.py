"""The measurements of one model on one batch, and the numbers that sum them up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.diagnostics.trace import ratio

Floats = NDArray[np.float64]
TWIN = 0.9  # cosine of two keys from which one slot does the other's work


@dataclass(frozen=True, eq=False)
class Anatomy:
    """What `measure` finds. A part of a model that has no such thing, such as a block without attention, has NaN.

    A scale is a standard deviation (of a vector's entries: a root mean square), in the tensor's own unit.
    """

    width: int  # D
    positions: int  # B x T that were looked at; a slot of the memory counts as dead when none of them activates it
    loss: float  # nats per token

    activation_R: Floats  # standard deviation of the stream's entries
    gradient_R: Floats  # standard deviation of the entries of the loss's gradient with respect to the stream
    dtypes_R: tuple[str, ...]  # of the stream
    attention_write_L: Floats  # scale of what attention adds, over that of the stream before the block
    feedforward_write_L: Floats  # the same of the feed-forward layer
    bypass_gap_L: Floats  # scale of stream after - stream before - both branches, over that of the stream after: 0
    #                       where the stream passes untouched, as in pre-norm
    bypass_factor_L: Floats  # what multiplies the stream before in stream after - both branches, by least squares

    entropy_LH: Floats  # of attention, in units of ln(visible positions), mean over positions that see at least two
    projection_gap_L: Floats  # scale of attention's output less the heads' means side by side, over that of the means:
    #                           0 where there is no output projection

    norm_names: tuple[str, ...]
    norm_dtypes_N: tuple[str, ...]  # of what a norm reads, which shows the stream within a block too
    norm_width_N: NDArray[np.int64]  # entries of the vectors that it reads: D, or V behind the output matrix
    norm_eps_N: Floats
    norm_input_mean_N: Floats  # mean over positions of |mean over D|
    norm_input_std_N: Floats  # mean over positions of the standard deviation over D
    norm_scale_N: Floats  # mean over positions of the scale over D of what comes out, with gain 1 and bias 0: 1, and
    #                       sqrt(v / (v + eps)) where the input's variance v is not far above eps
    norm_uneven_N: Floats  # its standard deviation over positions: 0 for a norm over the last axis

    rate_LF: Floats  # share of positions at which a slot of the memory is active: its hidden value is above 0
    strength_LF: Floats  # mean of a slot's hidden values where it is active, 0 for a dead one
    peak_LF: Floats  # a slot's largest hidden value
    zeros_L: Floats  # share of hidden values that are exactly 0: under GELU only what is far below
    key_cosine_mean_L: Floats  # over pairs of slots, of their keys, the rows of the first matrix
    key_cosine_LF: Floats  # of a slot's key with the one most like it; -1 for a single slot

    adjacent_kl_T: Floats  # (T - 1,): nats, of the output at a position against the one before it, mean over windows
    logit_std: float  # mean over positions of the standard deviation over V
    logit_spread: float  # its standard deviation over positions, relative: 0 where logits are normalised
    logit_dtype: str
    head_degree: float  # log2 of what the logits grow by when the last stream doubles: 0 behind a norm, 1 if none

    gradient_norms: Mapping[str, float]  # L2 norm of the loss's gradient by parameter; 0 where the loss ignores it

    @property
    def activation_ratio(self) -> float:
        """Scale of the stream after the last block, over that after the first."""
        return ratio(float(self.activation_R[-1]), float(self.activation_R[1]))

    @property
    def gradient_ratio(self) -> float:
        """Scale of the stream's gradient after the first block, over that after the last."""
        return ratio(float(self.gradient_R[1]), float(self.gradient_R[-1]))

    @property
    def not_finite(self) -> int:
        """How many of the loss, the stream's scales, its gradient's and the parameters' gradients are not finite."""
        numbers = [self.loss, *self.activation_R, *self.gradient_R, *self.gradient_norms.values()]
        return int(np.sum(~np.isfinite(numbers)))

    @property
    def adjacent_kl(self) -> float:
        """Mean over positions; 0 for a model that gives the same distribution everywhere."""
        return float(self.adjacent_kl_T.mean())

    @property
    def norm_mean_ratio(self) -> Floats:
        """(N,): how far a norm's input is from mean zero, in units of its standard deviation."""
        return np.array([ratio(*pair) for pair in zip(self.norm_input_mean_N, self.norm_input_std_N, strict=True)])

    @property
    def dead(self) -> Floats:
        """(L,): share of slots that no position activates."""
        return _of_slots(self.rate_LF == 0, self.rate_LF)

    def duplicates(self, limit: float = TWIN) -> Floats:
        """(L,): share of slots that have a twin, another slot's key at a cosine above `limit`."""
        return _of_slots(self.key_cosine_LF > limit, self.key_cosine_LF)

    @property
    def gradient_norm_by_role(self) -> dict[str, float]:
        """L2 norm of the gradient by what parameters are for, such as ``attention.output.weight``, over all blocks."""
        squares: dict[str, float] = {}
        for name, norm in self.gradient_norms.items():
            first, _, rest = name.partition(".")
            role = rest.partition(".")[2] if first == "blocks" else name
            squares[role] = squares.get(role, 0.0) + norm**2
        return {role: square**0.5 for role, square in squares.items()}

    def plain(self) -> dict[str, Any]:
        """The measurements as numbers, texts, lists and dictionaries of them, by the names of the fields."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value.tolist()
            if isinstance(value, np.ndarray)
            else list(value)
            if isinstance(value, tuple)
            else value
            for name, value in values.items()
        }


def summary(anatomy: Anatomy) -> dict[str, float]:
    """The numbers that become curves while a model trains; NaN where the model has no such part."""
    return {
        "activation_ratio": anatomy.activation_ratio,
        "gradient_ratio": anatomy.gradient_ratio,
        "adjacent_kl": anatomy.adjacent_kl,
        "attention_entropy": known(np.mean, anatomy.entropy_LH),
        "attention_entropy_lowest": known(np.min, anatomy.entropy_LH),
        "attention_entropy_highest": known(np.max, anatomy.entropy_LH),
        "norm_scale": known(np.min, anatomy.norm_scale_N),
        "norm_input_mean": known(np.mean, anatomy.norm_mean_ratio),
        "dead_slots": known(np.mean, anatomy.dead),
        "duplicate_slots": known(np.mean, anatomy.duplicates()),
        "activation_rate": known(np.mean, anatomy.rate_LF),
        "logit_std": anatomy.logit_std,
    }


def known(over: Callable[[Floats], Any], values: Floats) -> float:
    """`over` of those values that are not NaN; NaN when there are none."""
    there = values[~np.isnan(values)]
    return float(over(there)) if there.size else np.nan


def _of_slots(hit_LF: NDArray[np.bool_], known_LF: Floats) -> Floats:
    """Share of the slots of each layer that are hit, NaN for a layer without slots."""
    return np.where(np.isnan(known_LF), np.nan, hit_LF).mean(axis=1) if hit_LF.size else np.full(len(hit_LF), np.nan)
