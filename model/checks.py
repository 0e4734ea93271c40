"""Three checks that every freshly built model passes before its first update."""

import math

import torch
from torch import Tensor, nn

from model.batches import Batch
from model.transformer import ModelConfig


class CheckError(AssertionError):
    """A built model that would train to a wrong number; a fault of the program, not of its user."""


SHAPE, INITIAL_LOSS, CAUSALITY = CHECKS = ("shape", "initial-loss", "causality")


@torch.no_grad()
def failed_checks(model: nn.Module, config: ModelConfig, batch: Batch) -> dict[str, CheckError]:
    """Those of CHECKS that `model` does not pass, in their order, each with what is wrong: the logits have the right
    shape, the loss is near ln V, no output sees its future. Where the shape is wrong nothing else is asked."""
    logits_BTV = model(batch.inputs_BT)
    shape = (*batch.inputs_BT.shape, config.vocabulary)
    if logits_BTV.shape != shape:
        return {SHAPE: CheckError(f"the logits have shape {tuple(logits_BTV.shape)} instead of {shape}")}
    failed = {}
    for name, check in (
        (INITIAL_LOSS, lambda: _check_initial_loss(logits_BTV, batch.targets_BT, config)),
        (CAUSALITY, lambda: _check_causality(model, batch.inputs_BT[:1], config.vocabulary)),
    ):
        try:
            check()
        except CheckError as error:
            failed[name] = error
    return failed


def _check_initial_loss(logits_BTV: Tensor, targets_BT: Tensor, config: ModelConfig) -> None:
    """The final norm gives a stream of unit scale, so logits have variance D std^2 and cost half of it above ln V;
    twice that plus 0.25 leaves room for the draw. The embedding is the output matrix too, so a token expects itself by
    a logit of up to D std, which among few symbols costs more."""
    loss = nn.functional.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten()).item()
    width, std, chance = config.d_model, config.initializer.std, math.log(config.vocabulary)
    allowance = 0.25 + width * std**2
    itself = math.log(config.vocabulary - 1 + math.exp(width * std)) - chance
    if not -allowance <= loss - chance <= allowance + itself:
        raise CheckError(
            f"the loss before training is {loss:.3f}, not between {chance - allowance:.2f} and "
            f"{chance + allowance + itself:.2f}, about ln {config.vocabulary} = {chance:.3f}"
        )


def _check_causality(model: nn.Module, tokens_1T: Tensor, vocabulary: int) -> None:
    """Changing the token at t must change the output at t and none before it."""
    before = model(tokens_1T)
    for t in {tokens_1T.shape[1] // 2, tokens_1T.shape[1] - 1}:
        changed = tokens_1T.clone()
        changed[0, t] = (changed[0, t] + 1) % vocabulary
        difference_T = (model(changed) - before).abs().amax(dim=(0, 2))
        if difference_T[:t].max() > 1e-5 * before.abs().max():
            raise CheckError(f"changing the token at position {t} changes outputs before it: the model sees its future")
        if difference_T[t] == 0:
            raise CheckError(f"changing the token at position {t} does not change the output there")
