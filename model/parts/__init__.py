"""The parts of a Transformer block: each a small frozen value that builds its module and counts its parameters."""
