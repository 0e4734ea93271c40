"""Texts: where they come from, how they become tokens, and the trivial baselines of the very stream that is scored."""
