"""Named checks of an Anatomy: a number, its limit, and what to look at when it is past it.

The limits are the source chapter's where it gives one and most healthy models of this project keep to it. What is past
one is worth a look and need not be a fault: of 23 sound models whose measurements are in docs/records 8 ended past one.

- All five that copy with rotary positions: gradient ratio 6.8 to 20.9, entropy 0.39 to 0.48 in four of them.
- Two of the chapter's with rotary positions: entropy 0.45 and 0.43, a head of the second at 0.09.
- One that learned too little, pre-norm at a rate of 0.0001: activation ratio 6.5, gradient ratio 15.7, entropy 0.97.

Tiny models of a text in which the last character tells all have an entropy up to 0.98: attention has nothing to do.
Healthy pre-norm models of 4 layers had, after 600 updates: entropy 0.87 to 0.89 over all heads (0.92 after 100) and up
to 0.99 in one, 13 to 16 % of the last layer's slots never active, 1 to 4 % with a twin, adjacent KL 2.5, activation
ratio 1.8 (2.4 after 100).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from model.diagnostics.anatomy import TWIN, Anatomy, known
from model.diagnostics.joints import Joints

ADJACENT_KL = 0.05  # nats, at least: below, the output hardly depends on what came before
ACTIVATION_RATIO = 4.0  # last block over first, at most
GRADIENT_RATIO = 5.0  # first block over last, or last over first, at most
ENTROPY = (0.5, 0.95)  # of attention, mean over all heads; the chapter has 0.9
SATURATED, AVERAGING = 0.1, 0.99  # of a single head at least, of a whole layer at most
NORM_SCALE = 0.9  # of what a norm gives, at least: sqrt(v / (v + eps)) with a variance v of 4 eps
NORM_UNEVEN = 0.1  # of the same from position to position, relative, at most
BYPASS_GAP = 0.02  # of the stream's scale, at most, where the norms are not on the stream by design
PROJECTION_GAP = 0.01  # of the heads' scale, at least
HEAD_DEGREE = 0.5  # at most: 1 is a head that grows with the stream
LOGIT_SPREAD = 1e-3  # of the logits' scale from position to position, relative, at least
DEAD = 0.3  # share of a layer's slots, at most: twice what healthy models have
DUPLICATES = 0.1  # share of a layer's slots, at most


@dataclass(frozen=True)
class Check:
    """One measurement held against its limit; `value` is NaN where the model has no such part, which passes."""

    name: str
    value: float
    limit: str
    passed: bool
    look_at: str  # what to look at when it does not pass

    @property
    def sentence(self) -> str:
        """What is wrong and what to look at; only of a check that did not pass."""
        return f"{self.name}: {self.value:.3g}, and the limit is {self.limit}. {self.look_at}"


def checks(anatomy: Anatomy, joints: Joints, trained: bool = True) -> list[Check]:
    """Every check of a trained model; of one before its first update only what must hold from the start.

    Where numbers are not finite that is the only one: of what is made of them nothing can be said.
    """
    finite = Check(
        "numbers that are not finite",
        float(anatomy.not_finite),
        "= 0",
        not anatomy.not_finite,
        "The loss, the stream or a gradient is infinite or not a number, and nothing else can be judged. Look for a "
        "weight that is not finite, and at the first block whose stream is not.",
    )
    if not finite.passed:
        return [finite]
    return [finite, *_from_the_start(anatomy, joints), *(_after_training(anatomy) if trained else ())]


def _from_the_start(a: Anatomy, joints: Joints) -> Iterator[Check]:
    first, last = a.gradient_R[1], a.gradient_R[-1]
    yield at_most(
        "activation, last block / first",
        _times(a.activation_R[-1], a.activation_R[1]),
        ACTIVATION_RATIO,
        "The stream grows from block to block. Look at the scale of the first weights of what writes to it (1 / "
        "sqrt(2 L) of the others') and at whether a branch adds its own input again.",
    )
    yield at_most(
        "gradient, first block / last or inverse",
        max(_times(first, last), _times(last, first)),
        GRADIENT_RATIO,
        "Blocks learn at different rates. Look here; it need not be a fault: a task that is copied by sharp attention "
        "looks so. Look at the profile for the block where the gradient jumps, and at its norms.",
    )
    yield at_least(
        "norms: scale of what they give",
        known(np.min, a.norm_scale_N),
        NORM_SCALE,
        "A norm's input is so small that eps decides. Look at the table of norms: eps, and the scale of what they "
        "read.",
    )
    yield at_most(
        "norms: from position to position",
        known(np.max, a.norm_uneven_N / a.norm_scale_N),
        NORM_UNEVEN,
        "What a norm gives has another scale at every position. Look at the axis over which it normalises: the "
        "features' is the last.",
    )
    others = a.norm_width_N[a.norm_width_N != a.width]
    yield Check(
        "norms: entries of what they read",
        float(others[0] if len(others) else a.width),
        f"= {a.width}",
        not len(others),
        "A norm reads something else than the stream. Look for one behind the output matrix: it takes the scale of the "
        "logits away, which is how a model says that it is sure.",
    )
    yield at_most(
        "stream past the branches: gap",
        known(np.max, a.bypass_gap_L[~joints.post_norm]),
        BYPASS_GAP,
        "After a block the stream is not what it was before plus what the branches wrote. Look for a norm, a "
        "factor or a cast on the stream itself; a model without a residual is so by design.",
    )
    yield at_least(
        "attention: output projection",
        known(np.min, a.projection_gap_L),
        PROJECTION_GAP,
        "Attention gives its heads' means as they are. Look at whether its output matrix is there and used.",
    )
    yield at_most(
        "head: degree in the stream's scale",
        a.head_degree,
        HEAD_DEGREE,
        "Logits grow with the stream. Look for the final norm, before the output matrix.",
    )
    yield at_least(
        "logits: spread of their scale",
        a.logit_spread,
        LOGIT_SPREAD,
        "Logits have the same scale at every position. Look for a norm behind the output matrix.",
    )
    kinds = {*a.dtypes_R, *a.norm_dtypes_N}
    yield Check(
        "dtypes of the stream",
        float(len(kinds)),
        "= 1",
        len(kinds) == 1,
        f"The stream is {' and '.join(sorted(kinds))}. Look at the first block whose norms read another type.",
    )


def _after_training(a: Anatomy) -> Iterator[Check]:
    yield at_least(
        "adjacent-position KL",
        a.adjacent_kl,
        ADJACENT_KL,
        "The output is nearly the same everywhere: the model guesses by frequency. Look at the placement of the "
        "norms, the residual, warmup and learning rate, and hold the loss against the unigram baseline.",
    )
    mean = known(np.mean, a.entropy_LH)
    yield Check(
        "attention entropy, mean",
        mean,
        f"{ENTROPY[0]:g} to {ENTROPY[1]:g}",
        math.isnan(mean) or ENTROPY[0] <= mean <= ENTROPY[1],
        "Look here; it need not be a fault: a task that is copied by sharp attention looks so (low), and one in which "
        "the last character tells all (high). Look at the scores' division by sqrt(K): without it attention "
        "saturates, with it twice it averages.",
    )
    yield at_least(
        "attention entropy, lowest head",
        known(np.min, a.entropy_LH),
        SATURATED,
        "A head looks at one position only and passes hardly any gradient to its scores. Look at the scale of its "
        "queries and keys; a head that copies from a fixed distance is so by trade.",
    )
    yield at_most(
        "attention entropy, highest layer",
        known(np.max, a.entropy_LH.mean(axis=1)) if a.entropy_LH.size else math.nan,
        AVERAGING,
        "All heads of a layer take the plain average of what they see. Look at its gradient norms and ablation, and at "
        "the scale of its scores.",
    )
    yield at_most(
        "memory: slots never active",
        known(np.max, a.dead),
        DEAD,
        f"Slots of a layer are active at none of {a.positions:,} positions: parameters without a use. Look at the "
        "activation (ReLU kills, GELU can revive), the learning rate and the biases.",
    )
    yield at_most(
        "memory: slots with a twin",
        known(np.max, a.duplicates()),
        DUPLICATES,
        f"Slots of a layer have nearly the same key (cosine above {TWIN:g}). Look at d_ff, which may be larger than "
        "the task needs.",
    )


def at_least(name: str, value: float, limit: float, look_at: str) -> Check:
    """A check that `value` is above `limit`; NaN passes."""
    return Check(name, value, f"> {limit:.3g}", math.isnan(value) or value > limit, look_at)


def at_most(name: str, value: float, limit: float, look_at: str) -> Check:
    """A check that `value` is below `limit`; NaN passes."""
    return Check(name, value, f"< {limit:.3g}", math.isnan(value) or value < limit, look_at)


def _times(of: float, to: float) -> float:
    """`of` / `to`: infinite where `to` is zero, which is no missing part but a broken one."""
    return float(of / to) if to else math.inf
