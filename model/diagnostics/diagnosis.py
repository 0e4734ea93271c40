"""Which of the nine silent failures a trained member of a cohort has, as points of its curves."""

import math

from model.batches import Batch
from model.cohort import Cohort
from model.diagnostics.faults import faults
from model.diagnostics.joints import touch
from model.diagnostics.live import as_trained, asked, spread_out
from model.diagnostics.measure import measure
from model.diagnostics.slots import idle

ALARM, SYMPTOM = "alarm ", "symptom "  # what the names of these curves begin with: 1 or 0, and the number behind it


def diagnose(cohort: Cohort, index: int) -> dict[str, float]:
    """By the names of curves, whether the member at `index` has each fault, and by what number that is known.

    It is looked at on as many held-out windows as an update takes; for dead units on all of them. The numbers of two
    faults are of the member as it starts, those of the other seven of the trained one. Empty where one of the two gives
    numbers that are not finite.
    """
    recipe, member = cohort.recipe, cohort.members[index]
    batch = _on(cohort.device, spread_out(cohort.held_out, recipe.budget.batch))
    first = member.recipe.model.build(member.recipe.streams.init.at(member.seed)).to(cohort.device, cohort.dtype)
    trained = cohort.model(index)
    with as_trained(recipe, cohort.device):
        windows = [asked(one) for one in cohort.held_out]
        unused = idle(trained, (_on(cohort.device, one) for one in windows if len(one.inputs_BT)))
        found = faults(measure(first, batch), measure(trained, batch), touch(trained, batch), unused)
    alarms = {f"{ALARM}{check.name}": float(not check.passed) for check in found}
    return alarms | {f"{SYMPTOM}{check.name}": check.value for check in found if math.isfinite(check.value)}


def _on(device: str, batch: Batch) -> Batch:
    return Batch(batch.inputs_BT.to(device), batch.targets_BT.to(device))
