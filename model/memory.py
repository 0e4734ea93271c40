"""How much memory a cohort takes, from its recipe alone."""

from dataclasses import dataclass

from model import counting
from model.recipe import Recipe

CURVE_BYTES = 250  # of one point as a Python object
POINTS = 5 * 200  # of a member's curves, about
BUFFERS = 150_000_000  # bytes that the libraries take once for their own use, whatever the model
STATE_TENSORS = 6  # weights, two moments, gradients, what autograd hands over, copies for the matrix products


@dataclass(frozen=True)
class Memory:
    """Bytes that a cohort takes on its device (`state`, `activations`, `buffers`) and beside it (`curves`)."""

    state: int
    activations: int
    curves: int
    buffers: int = BUFFERS

    @property
    def total(self) -> int:
        return self.state + self.activations + self.curves + self.buffers


def memory(recipe: Recipe, members: int) -> Memory:
    """The most that a cohort of `members` of `recipe` holds at once while it trains.

    Activations are those kept for the backward pass, counted over the parts of a block, with the logits and their
    gradients. The measured peak of uncompiled cohorts is 0.6 to 1.05 of it, by a test.
    """
    config, wide = recipe.model, 8 if recipe.precision == "fp64" else 4
    narrow = 2 if recipe.precision == "bf16" else wide
    tokens = recipe.budget.batch * config.context
    width, hidden, scores = config.d_model, config.feedforward.d_ff, config.attention.heads * config.context
    # The stream, what two norms keep and their outputs; queries, keys, values and the heads' outputs, the scores before
    # and after softmax; the hidden layer before and after its activation.
    block = wide * (5 * width + 2 * scores) + narrow * (10 * width + 2 * scores + 3 * hidden)
    head = config.vocabulary * (3 * wide + 2 * narrow) + 2 * wide * width
    parameters = counting.parameters(config).total
    return Memory(
        state=members * STATE_TENSORS * wide * parameters,
        activations=members * tokens * (config.layers * block + head),
        curves=members * POINTS * CURVE_BYTES,
    )
