"""Members of one program trained in lockstep: the only file with the member axis M.

The members are ordinary models whose tensors are stacked and mapped over (`torch.func.vmap`), so that a part of a model
knows nothing of cohorts. No operation mixes members: losses are summed, and the gradient of a sum of terms that share
nothing is each term's own. Weights lie in one tensor of shape (M, P), P the parameters of a member, so that
clipping is a norm of rows, the optimizer has one slice for what decays and one for what does not, and a checkpoint is
a few tensors.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from model import optimizer
from model.batches import IGNORED, Batch, evaluation_batches, training_batch, window_starts, windows
from model.checks import failed_checks
from model.corpus.text import Corpus
from model.recipe import Member
from model.recorded import Recorded, called
from model.scoring import Scoring
from model.transformer import ModelConfig, Transformer

GROUPS = 2  # of a member's parameters: what decays, and what does not


@dataclass(frozen=True)
class Evaluation:
    """The loss over all held-out tokens, and the SD over full windows of a window's mean loss, in nats per token."""

    loss: float
    window_sd: float


class Cohort:
    """The weights, moments and streams of `members`, all of one program, on `device`.

    `compiled` says whether a block and the loss are compiled; it changes a result by rounding only.
    """

    def __init__(self, members: Sequence[Member], corpus: Corpus, device: str, compiled: bool) -> None:
        assert len({member.recipe.program for member in members}) == 1, "members of different programs"
        self.members, self.device = list(members), device
        self.recipe = members[0].recipe
        self.compiled = compiled
        self.dtype = torch.float64 if self.recipe.precision == "fp64" else torch.float32
        models, self.failed_checks = zip(*(_checked(member, corpus) for member in members), strict=True)
        if compiled:
            torch._dynamo.reset()  # its cache counts programs by line of code, and another cohort's are over
        self.program = _Program(self.recipe.model, self.dtype, compiled)
        shapes = {name: tensor.shape for name, tensor in self.program.template.named_parameters()}
        self.names = sorted(shapes, key=lambda name: len(shapes[name]) < 2)  # matrices first, else in the model's order
        self.shapes = [shapes[name] for name in self.names]
        self.decayed = sum(shape.numel() for shape in self.shapes if len(shape) >= 2)
        self.corpus = corpus
        self.train_text = torch.tensor(corpus.train, device=device)
        self.asked = None if corpus.train_asked is None else torch.tensor(corpus.train_asked, device=device)
        self.held_out = evaluation_batches(corpus, self.recipe.model.context, self.recipe.budget.batch)
        self._hold(torch.stack([_flat(model, self.names) for model in models]).to(device, self.dtype))

    def _hold(self, weights_MP: Tensor) -> None:
        self.weights_MP, self.gradients_MP = weights_MP, torch.zeros_like(weights_MP)
        sizes = [shape.numel() for shape in self.shapes]
        pairs = list(zip(weights_MP.split(sizes, 1), self.gradients_MP.split(sizes, 1), self.shapes, strict=True))
        self.leaves = [weights.unflatten(1, shape).detach().requires_grad_() for weights, _, shape in pairs]
        self.gradients = [gradients.unflatten(1, shape) for _, gradients, shape in pairs]
        named = dict(zip(self.names, self.leaves, strict=True))
        self.embedding, self.position, self.head = named["embedding"], _under(named, "position"), _under(named, "head")
        self.blocks = [_under(named, f"blocks.{layer}") for layer in range(self.recipe.model.layers)]
        clips = [member.recipe.optimizer.clip for member in self.members]
        self.clip_M = torch.tensor(clips, dtype=self.dtype, device=self.device)
        rows = zip(self.members, self.weights_MP, self.gradients_MP, strict=True)
        self.optimizer = optimizer.build([group for row in rows for group in self._groups(*row)], self.device)
        wide = torch.float32 if self.device == "cuda" else torch.float64  # what the fused kernels read a rate as
        self.rates_MG = torch.zeros(len(self.members), GROUPS, dtype=wide, device=self.device)
        self._begin()

    def _groups(self, member: Member, weights_P: Tensor, gradients_P: Tensor) -> list[dict[str, Any]]:
        matrices, others = weights_P[: self.decayed], weights_P[self.decayed :]
        matrices.grad, others.grad = gradients_P[: self.decayed], gradients_P[self.decayed :]
        return member.recipe.optimizer.groups([matrices], [others])

    def _begin(self) -> None:
        """Make ready for updates with the optimizer's present tensors. Every group reads its learning rate from its
        place in `rates_MG`, where a recorded update finds it."""
        for group, rate in zip(self.optimizer.param_groups, self.rates_MG.flatten(), strict=True):
            group["lr"] = rate
        self.make = Recorded() if self.device == "cuda" else called

    def update(self, step: int) -> tuple[list[float], list[float]]:
        """One update of every member: its loss on its own batch before the update, and its gradient's L2 norm before
        clipping, both in the order of `members`."""
        context, budget, text = self.recipe.model.context, self.recipe.budget, self.train_text
        orders = [_order(member) for member in self.members]
        starts_MB = np.stack(
            [window_starts(text, context, budget.batch, order, step, self.corpus.stride) for order in orders]
        )
        batch = windows(text, torch.from_numpy(starts_MB).to(self.device), context, self.asked)
        rates = [member.recipe.optimizer.rate(step, budget.steps) for member in self.members]
        self.rates_MG.copy_(torch.tensor(rates, dtype=torch.float64)[:, None])
        loss_M, norm_M = self.make(self._update, batch.inputs_BT, batch.targets_BT)
        return loss_M.tolist(), norm_M.tolist()

    def _update(self, inputs_MBT: Tensor, targets_MBT: Tensor) -> tuple[Tensor, Tensor]:
        """-> loss_M before it, norm_M before clipping."""
        losses_MBT = self._forward(self.program, inputs_MBT, targets_MBT)
        if self.asked is None:
            loss_M = losses_MBT.mean(dim=(1, 2))
        else:
            loss_M = losses_MBT.sum(dim=(1, 2)) / (targets_MBT != IGNORED).sum(dim=(1, 2))
        torch._foreach_copy_(self.gradients, torch.autograd.grad(loss_M.sum(), self.leaves))
        norm_M = torch.linalg.vector_norm(self.gradients_MP, dim=1)
        self.gradients_MP *= (self.clip_M / (norm_M + 1e-6)).clamp(max=1)[:, None]
        self.optimizer.step()
        return loss_M.detach(), norm_M

    def score(self) -> list[Evaluation]:
        """Every member's loss over all held-out text, each target once, summed in float64."""
        # A compiled program is used with its gradient, which nobody asks for here: a second one would take seconds.
        with torch.set_grad_enabled(self.compiled):
            return self._score(self.program, self.held_out)

    @torch.no_grad()
    def score_as(self, scoring: Scoring) -> list[Evaluation]:
        """Every member's loss under the conditions of `scoring`."""
        config, tokens = scoring.config(self.recipe.model), self.recipe.budget.batch * self.recipe.model.context
        batches = evaluation_batches(self.corpus, config.context, max(1, tokens // config.context), scoring.part)
        program = _Program(config, self.dtype, compiled=False)
        scoring.alter(program.template)
        return self._score(program, batches)

    def _score(self, program: "_Program", batches: Sequence[Batch]) -> list[Evaluation]:
        sums, counts = [], []
        for batch in batches:
            inputs_MBT, targets_MBT = (
                tokens.to(self.device).expand(len(self.members), -1, -1).contiguous()
                for tokens in (batch.inputs_BT, batch.targets_BT)
            )
            losses_MBT = self._forward(program, inputs_MBT, targets_MBT).detach()
            sums.append(losses_MBT.double().sum(dim=2).cpu())
            counts.append((batch.targets_BT != IGNORED).sum(dim=1))
        count_N = torch.cat(counts).numpy()
        return [_evaluation(loss_N, count_N) for loss_N in torch.cat(sums, dim=1).numpy()]

    def model(self, index: int) -> Transformer:
        """The member at `index` as a model by itself, with weights of its own."""
        with torch.device("meta"):
            model = Transformer(self.recipe.model)
        weights = {name: leaf[index].detach().clone() for name, leaf in zip(self.names, self.leaves, strict=True)}
        model.load_state_dict(weights, assign=True)
        return model

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with the members at `rows` alone."""
        before = self.optimizer
        self.members = [self.members[row] for row in rows]
        self._hold(self.weights_MP[list(rows)])
        kept = [before.param_groups[GROUPS * row + part] for row in rows for part in range(GROUPS)]
        for old, new in zip(kept, self.optimizer.param_groups, strict=True):
            self.optimizer.state[new["params"][0]] = before.state[old["params"][0]]

    def state(self) -> dict[str, Any]:
        """All that changes from update to update."""
        return {"weights": self.weights_MP, "optimizer": self.optimizer.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a `state` of these very members."""
        self.weights_MP.copy_(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._begin()

    def _forward(self, program: "_Program", inputs_MBT: Tensor, targets_MBT: Tensor) -> Tensor:
        """-> losses_MBT in float32 or wider, zero where a target is IGNORED."""
        half = self.recipe.precision == "bf16"
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=half):
            x_MBTD = vmap(program.embed)(self.embedding, self.position, inputs_MBT)
            for weights in self.blocks:
                x_MBTD = program.run_block(weights, x_MBTD)
            return program.run_losses(self.head, self.embedding, x_MBTD, targets_MBT)


class _Program:
    """The code of a model, run on the stacked weights of members; a loss is of `dtype`."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype, compiled: bool) -> None:
        self.dtype = dtype
        with torch.device("meta"):  # a model without numbers
            self.template = Transformer(config)
        self.run_block: Callable[..., Tensor] = torch.compile(self._block, dynamic=False) if compiled else self._block
        self.run_losses: Callable[..., Tensor] = (
            torch.compile(self._losses, dynamic=False) if compiled else self._losses
        )

    def embed(self, embedding_VD: Tensor, position: dict[str, Tensor], tokens_BT: Tensor) -> Tensor:
        return functional_call(self.template.position, position, nn.functional.embedding(tokens_BT, embedding_VD))

    def _block(self, weights: dict[str, Tensor], x_MBTD: Tensor) -> Tensor:
        """One block of every member. Compiled once for all blocks, which differ in their weights alone: twelve unrolled
        take a minute."""
        block = self.template.blocks[0]
        return vmap(lambda weights, x_BTD: functional_call(block, weights, x_BTD))(weights, x_MBTD)

    def _losses(self, head: dict[str, Tensor], embedding_MVD: Tensor, x_MBTD: Tensor, targets_MBT: Tensor) -> Tensor:
        def member(head: dict[str, Tensor], embedding_VD: Tensor, x_BTD: Tensor, targets_BT: Tensor) -> Tensor:
            logits_BTV = functional_call(self.template.head, head, (x_BTD, embedding_VD)).to(self.dtype)
            losses = nn.functional.cross_entropy(
                logits_BTV.flatten(0, 1), targets_BT.flatten(), ignore_index=IGNORED, reduction="none"
            )
            return losses.view(targets_BT.shape)

        return vmap(member)(head, embedding_MVD, x_MBTD, targets_MBT)


def _checked(member: Member, corpus: Corpus) -> tuple[Transformer, frozenset[str]]:
    """A new model of `member` and the checks on its first batch that it failed: none, or it is wrong on purpose."""
    config, batch = member.recipe.model, member.recipe.budget.batch
    model = config.build(member.recipe.streams.init.at(member.seed))
    failed = failed_checks(model, config, training_batch(corpus, config.context, batch, _order(member), 0))
    if failed and not member.recipe.wrong_on_purpose:
        raise next(iter(failed.values()))
    return model, frozenset(failed)


def _order(member: Member) -> int:
    return member.recipe.streams.order.at(member.seed)


def _flat(model: nn.Module, names: Sequence[str]) -> Tensor:
    tensors = dict(model.named_parameters())
    return torch.cat([tensors[name].detach().flatten() for name in names])


def _under(named: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors of the submodule `prefix`, by their names within it."""
    return {name.removeprefix(f"{prefix}."): t for name, t in named.items() if name.startswith(f"{prefix}.")}


def _evaluation(loss_N: np.ndarray, count_N: np.ndarray) -> Evaluation:
    full = count_N == count_N.max()
    means = loss_N[full] / count_N[full]
    sd = float(np.std(means, ddof=1)) if len(means) > 1 else math.nan
    return Evaluation(float(loss_N.sum() / count_N.sum()), sd)
