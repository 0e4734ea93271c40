"""Controlled experiments: one question per file, and the engine that runs them."""
