"""What goes on inside a model: measured in one forward and one backward pass over a batch, on any single-member model.

``measure(model, batch)`` gives an Anatomy, ``summary(anatomy)`` the few numbers of it that become curves while a model
trains, ``touch(model, batch)`` the Joints, ``checks(anatomy, joints)`` says what to look at. Beside the legend of shape
letters:

====  =====================================================================
L     blocks
R     points of the residual stream: after the embedding and after every block, L + 1
N     norms, in the model's order
====  =====================================================================
"""

from model.diagnostics.anatomy import Anatomy, summary
from model.diagnostics.checks import Check, checks
from model.diagnostics.joints import Joints, touch
from model.diagnostics.measure import measure

__all__ = ["Anatomy", "Check", "Joints", "checks", "measure", "summary", "touch"]
