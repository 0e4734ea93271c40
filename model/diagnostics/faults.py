"""The nine silent failures of the source chapter (section 2.15), named from measurements alone.

A model with one of them neither raises nor refuses to train. How it was configured is not asked: each fault is known by
one number, of the model before its first update or of the trained one. What is asked is that parts are called as here:
a block's branches ``attention`` and ``feedforward``, and its norms by names that end in ``norm``.
"""

import math
from dataclasses import dataclass

import numpy as np

from model.diagnostics.anatomy import Anatomy, known
from model.diagnostics.checks import Check, at_least, at_most
from model.diagnostics.joints import Joints
from model.diagnostics.slots import Idle

EPS, UNBOUNDED, NO_FINAL_NORM, DEAD = "eps-too-large", "unbounded-residual", "no-final-norm", "dead-units"
UNPROJECTED, BETWEEN, WRONG_AXIS = "no-output-projection", "norm-between-blocks", "norm-over-wrong-axis"
AFTER_HEAD, DRIFT = "norm-after-head", "dtype-drift"

DEGREE = 0.5  # half way between what a norm holds (0) and what follows its input (1)
GROWTH = 2.0  # of the stream's scale a block, which no sum of branches that read through norms comes near


@dataclass(frozen=True)
class Sign:
    """What gives a fault away."""

    number: str  # what is measured
    limit: float
    above: bool  # whether the fault is there from the limit upwards, or from it downwards
    look_at: str

    @property
    def alarm_when(self) -> str:
        """Where the number lies when the fault is there, such as ``≥ 0.5``."""
        return f"{'≥' if self.above else '≤'} {self.limit:.3g}"

    def check(self, name: str, value: float, positions: int) -> Check:
        """Passed where the fault is not there."""
        check = at_most if self.above else at_least
        return check(name, value, self.limit, self.look_at.format(positions=positions))


SIGNS = {
    EPS: Sign(
        "what the weakest norm gives before training, where 1 is whole",
        math.sqrt(0.5),  # when the variance that it reads is no larger than eps
        False,
        "Before training a norm gives less than it should: the variance that it reads is below its eps. Look at "
        "eps and at the scale of the first weights; later the stream is large and hides it.",
    ),
    UNBOUNDED: Sign(
        "factor by which a block multiplies the stream before training",
        1.05,  # a sum has 1; a stream taken 1.1 times at each of two sums 1.21
        True,
        "Before training a block multiplies the stream by this factor, so that it grows exponentially with depth; sums "
        "of branches grow about 8-fold in 48 layers with plain first weights, 1.4-fold with scaled ones. Look at what "
        "is added: a factor, or a stream that is added to itself.",
    ),
    NO_FINAL_NORM: Sign(
        "degree of the logits in the last stream: 1 follows it, 0 is a norm between",
        DEGREE,
        True,
        "Logits grow with the stream. Look for the norm between the last block and the output matrix.",
    ),
    DEAD: Sign(
        "share of units that give exactly nothing, in the layer with most",
        0.05,
        True,
        "Units of a layer give exactly nothing at any of the {positions:,} positions looked at, so that nothing comes "
        "back to them; more text may use some of them. Look at the activation, at the biases of the first matrix and "
        "at the learning rate.",
    ),
    UNPROJECTED: Sign(
        "how far attention's output is from its heads' means, in units of theirs",
        0.01,
        False,
        "Attention gives its heads' means as they are. Look at whether its output matrix is there and used.",
    ),
    BETWEEN: Sign(
        "degree of what a block passes on or reads in its stream: 0 is a norm on both",
        DEGREE,
        False,
        "A block reads through a norm, and its stream passes through another. Look for a norm in the loop over "
        "blocks; nothing but sums belongs on the stream.",
    ),
    WRONG_AXIS: Sign(
        "how far a norm's output moves where its input does not, over where it does",
        1e-3,
        True,
        "What a norm gives at one position depends on another. Look at the axis: the features' is the last.",
    ),
    AFTER_HEAD: Sign(
        "degree of the logits in the output matrix: 1 follows it, 0 is a norm behind it",
        DEGREE,
        False,
        "Logits keep their scale when the output matrix is doubled. Look for a norm behind it.",
    ),
    DRIFT: Sign(
        "share of the stream's numbers that bfloat16 holds, highest less lowest place",
        0.5,  # rounded ones all are such, others one in 65,536
        True,
        "In one place the stream holds numbers that bfloat16 holds, in another finer ones. Look for a cast, and "
        "assert the dtype after each block.",
    ),
}
FAULTS = tuple(SIGNS)


def faults(before: Anatomy, after: Anatomy, joints: Joints, idle: Idle) -> list[Check]:
    """One check for each of FAULTS, in their order; a fault is there where its check did not pass.

    `before` is the model as it starts; `after`, `joints` and the idle slots are of the trained one. A number that a
    model does not have, such as a factor on the stream where none passes, is NaN and passes. Empty where numbers are
    not finite, of which no fault can be told.
    """
    if before.not_finite or after.not_finite:
        return []
    values = {
        EPS: known(np.min, before.norm_scale_N),
        UNBOUNDED: _factor(before, joints),
        NO_FINAL_NORM: min(after.head_degree, float(joints.path_degree_L[-1])),
        DEAD: known(np.max, idle.share_L),
        UNPROJECTED: known(np.min, after.projection_gap_L),
        BETWEEN: known(np.min, np.maximum(joints.path_degree_L, joints.reading_degree_L)),
        WRONG_AXIS: joints.crossing,
        AFTER_HEAD: joints.embedding_degree,
        DRIFT: max(joints.coarse) - min(joints.coarse),
    }
    return [sign.check(name, values[name], idle.positions) for name, sign in SIGNS.items()]


def _factor(before: Anatomy, joints: Joints) -> float:
    """What a block multiplies the stream by, where no norm stands on it: the largest of all blocks'.

    A branch that itself adds what it reads does not show there; by it the stream as a whole grows by GROWTH a block.
    """
    factor = known(np.max, before.bypass_factor_L[joints.path_degree_L > DEGREE])
    blocks = len(before.bypass_factor_L)
    growth = before.activation_ratio ** (1 / (blocks - 1)) if blocks > 1 else 1.0
    return growth if growth >= GROWTH else factor
