"""A look inside the members of a cohort while they train: a few numbers, from a few held-out windows."""

import math

import torch

from model.batches import IGNORED, Batch
from model.cohort import Cohort
from model.diagnostics.anatomy import summary
from model.diagnostics.measure import measure
from model.recipe import Recipe

INSIDE = "inside/"  # what the names of these curves begin with
PROBE_TOKENS = 256  # held-out tokens, about, that a look takes


def spread_out(batches: list[Batch], windows: int) -> Batch:
    """At most `windows` of the windows in `batches` that have a target, evenly through them, the first one included."""
    whole = asked(
        Batch(torch.cat([batch.inputs_BT for batch in batches]), torch.cat([batch.targets_BT for batch in batches]))
    )
    n = len(whole.inputs_BT)
    k = min(windows, n)
    chosen_K = torch.arange(k) * n // max(1, k)
    return Batch(whole.inputs_BT[chosen_K], whole.targets_BT[chosen_K])


def asked(batch: Batch) -> Batch:
    """The windows of `batch` that have a target; the others are padding."""
    asked_B = (batch.targets_BT != IGNORED).any(dim=1)
    return Batch(batch.inputs_BT[asked_B], batch.targets_BT[asked_B])


def probe(cohort: Cohort) -> Batch:
    """The windows that the members of `cohort` are looked into on, the same for every member and all along; not more
    than an update takes, so that it has room."""
    windows = min(PROBE_TOKENS // cohort.recipe.model.context, cohort.recipe.budget.batch)
    batch = spread_out(cohort.held_out, max(1, windows))
    return Batch(batch.inputs_BT.to(cohort.device), batch.targets_BT.to(cohort.device))


def as_trained(recipe: Recipe, device: str) -> torch.autocast:
    """A context in which a model computes in the precision that it is trained in."""
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=recipe.precision == "bf16")


def look_inside(cohort: Cohort, index: int, batch: Batch) -> dict[str, float]:
    """The summary of the member at `index` on `batch`, by the names of curves, without what the model does not have.

    Nothing of the cohort or of any stream of random numbers changes.
    """
    with as_trained(cohort.recipe, cohort.device):
        found = summary(measure(cohort.model(index), batch))
    return {f"{INSIDE}{name}": value for name, value in found.items() if math.isfinite(value)}
