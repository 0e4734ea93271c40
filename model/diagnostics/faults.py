"""The nine silent failures of the source chapter (section 2.15), named from measurements alone.

A model with one of them neither raises nor refuses to train. What its parts are called and how it was configured is not
asked: each fault is known by one number, of the model before its first update or of the trained one.
"""

import math

import numpy as np

from model.diagnostics.anatomy import Anatomy, Floats, known
from model.diagnostics.checks import Check, at_least, at_most
from model.diagnostics.joints import Joints

EPS, UNBOUNDED, NO_FINAL_NORM, DEAD = "eps-too-large", "unbounded-residual", "no-final-norm", "dead-units"
UNPROJECTED, BETWEEN, WRONG_AXIS = "no-output-projection", "norm-between-blocks", "norm-over-wrong-axis"
AFTER_HEAD, DRIFT = "norm-after-head", "dtype-drift"
FAULTS = (EPS, UNBOUNDED, NO_FINAL_NORM, DEAD, UNPROJECTED, BETWEEN, WRONG_AXIS, AFTER_HEAD, DRIFT)

WEAKEST = math.sqrt(0.5)  # of a norm: what it gives when the variance that it reads is no larger than eps
GROWTH = 2.0  # of the stream's scale a block
DEGREE = 0.5  # half way between what a norm holds (0) and what follows its input (1)
MIXED = 0.01  # of the heads' scale
CROSSING = 1e-3  # of how far a norm's output moves where its input does
DEAD_SHARE = 0.05  # of a layer's units
COARSE = 0.5  # share of numbers: rounded ones all are coarse, others one in 65,536


def faults(before: Anatomy, after: Anatomy, joints: Joints, idle_L: Floats) -> list[Check]:
    """One check for each of FAULTS, in their order; a fault is there where its check did not pass.

    `before` is the model as it starts; `after`, `joints` and the idle slots are of the trained one. A number that a
    model does not have, such as the growth from block to block of a single one, is NaN or healthy, and passes.
    """
    rate = 1 / (len(before.activation_R) - 2) if len(before.activation_R) > 2 else math.nan
    degree_L = np.maximum(joints.path_degree_L, joints.reading_degree_L)
    return [
        at_least(
            EPS,
            known(np.min, before.norm_scale_N),
            WEAKEST,
            "Before training a norm gives less than it should: the variance that it reads is below its eps. Look at "
            "eps and at the scale of the first weights; later the stream is large and hides it.",
        ),
        at_most(
            UNBOUNDED,
            before.activation_ratio**rate,
            GROWTH,
            "Before training the stream grows by this factor a block, where sums of branches grow as the root of their "
            "number. Look at what is added: a factor, or a stream that is added to itself.",
        ),
        at_most(
            NO_FINAL_NORM,
            min(after.head_degree, float(joints.path_degree_L[-1])),
            DEGREE,
            "Logits grow with the stream. Look for the norm between the last block and the output matrix.",
        ),
        at_most(
            DEAD,
            known(np.max, idle_L),
            DEAD_SHARE,
            "Units of a layer give exactly nothing anywhere in the held-out text, so that nothing comes back to them. "
            "Look at the activation, at the biases of the first matrix and at the learning rate.",
        ),
        at_least(
            UNPROJECTED,
            known(np.min, after.projection_gap_L),
            MIXED,
            "Attention gives its heads' means as they are. Look at whether its output matrix is there and used.",
        ),
        at_least(
            BETWEEN,
            known(np.min, degree_L),
            DEGREE,
            "A block reads through a norm, and its stream passes through another. Look for a norm in the loop over "
            "blocks; nothing but sums belongs on the stream.",
        ),
        at_most(
            WRONG_AXIS,
            joints.crossing,
            CROSSING,
            "What a norm gives at one position depends on another. Look at the axis: the features' is the last.",
        ),
        at_least(
            AFTER_HEAD,
            joints.embedding_degree,
            DEGREE,
            "Logits keep their scale when the output matrix is doubled. Look for a norm behind it.",
        ),
        at_most(
            DRIFT,
            max(joints.coarse) - min(joints.coarse),
            COARSE,
            "In one place the stream holds numbers that bfloat16 holds, in another finer ones. Look for a cast, and "
            "assert the dtype after each block.",
        ),
    ]
