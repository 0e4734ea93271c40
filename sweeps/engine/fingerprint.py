"""A recipe as flat, stable text, and the identity of a run that follows from it.

A run is its recipe, its text and its seed; never the device, the host, the cohort or a path. The same command again
finds the same identities and so runs nothing.
"""

import dataclasses
import hashlib
import json
from typing import Any

from model.later import LATER
from model.recipe import RECIPE_VERSION, Recipe


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """`value` as dotted keys and texts, such as ``model.norm -> LayerNorm`` and ``model.norm.eps -> 1e-05``.

    A field that is LATER is left out at its default.

    Raises ValueError for a value whose text could differ between two processes: a function, an array, any object that
    is not a frozen dataclass of plain values.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        flat = {prefix: type(value).__name__} if prefix else {}
        for field in dataclasses.fields(value):
            own = getattr(value, field.name)
            if not (field.metadata == LATER and own == _default(field)):
                flat |= flatten(own, f"{prefix}.{field.name}" if prefix else field.name)
        return flat
    return {prefix: _text(value, prefix)}


def _default(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _text(value: Any, key: str) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_text(item, key) for item in value) + ")"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = ", ".join(f"{name}={text}" for name, text in flatten(value).items())
        return f"{type(value).__name__}({inner})"
    if value is None or type(value) in (bool, int, float, str):
        return value if isinstance(value, str) else repr(value)
    raise ValueError(
        f"{key} is a {type(value).__name__}, which has no stable text, so a run of it could not be found again; "
        "use numbers, texts, tuples or a frozen dataclass of them."
    )


def recipe_text(recipe: Recipe) -> dict[str, str]:
    """The flat recipe without the names of its four sections, which never differ."""
    sections = {f.name for f in dataclasses.fields(recipe) if dataclasses.is_dataclass(getattr(recipe, f.name))}
    return {key: text for key, text in flatten(recipe).items() if key not in sections}


def run_id(recipe: Recipe, corpus_sha256: str, seed: int) -> str:
    """16 hexadecimal digits that name one run for good."""
    identity = {"recipe": recipe_text(recipe), "corpus": corpus_sha256, "version": RECIPE_VERSION, "seed": seed}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
