"""Small Transformers and how they are trained; PyTorch only.

Shapes live in names: ``x_BTD`` is a tensor of shape (B, T, D).

====  =====================================================================
B     sequences in a batch
T     positions in a sequence, at most the context length
S     positions that are attended to (keys)
D     width of the residual stream, ``d_model``
H     attention heads
K     width of one head, ``d_model / heads``
F     width of the feed-forward layer, ``d_ff``
V     vocabulary size, the unknown symbol included
N     windows of the held-out text
====  =====================================================================
"""
