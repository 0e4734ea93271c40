"""What the cells of anyone's table mean: text in, losses and whole-number seeds out, nothing guessed in silence.

An empty cell is a run that is missing; a written NaN or infinity is a run that diverged. A text that could be two
numbers is refused. The frames here have the columns ``arm``, ``seed``, ``cell`` and ``row``, all text.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

NAMED = 5  # runs that a sentence names before it counts the rest
MISSING_CELLS = frozenset({"", "-", "–", "—", ".", "?", "n/a", "na", "#n/a", "<na>", "null", "none"})
DIVERGED_CELLS = frozenset({"nan", "inf", "infinity", "∞", "diverged"})  # with or without a sign
_POWER = r"(?:e[+-]?[0-9]+)?"
_NUMBER = rf"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+){_POWER}"
_DECIMAL_COMMA = rf"[+-]?(?:[0-9]*|[0-9]{{1,3}}(?:\.[0-9]{{3}})+),[0-9]+{_POWER}"  # 1,23 or 1.234,5
_GROUPED = rf"[+-]?[1-9][0-9]{{0,2}}(?:,[0-9]{{3}})+(?:\.[0-9]*)?{_POWER}"  # 1,234.5 or 1,234,567


class TableError(ValueError):
    """A table that cannot be read as it is; the message says where and what to write instead."""


def losses(
    table: pd.DataFrame, semicolons: bool, advice: str
) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[str]]:
    """The numbers of ``cell`` [rows], where they are absent [rows], and what was read in a way worth saying.

    A diverged run's number is NaN or infinite. `semicolons` tells that these separate the cells, as they do where the
    comma is the decimal sign. Raises TableError for a cell that is no number, with `advice`, or may be two.
    """
    text = table["cell"].str.strip().str.lower().str.replace("−", "-", regex=False)
    values = np.full(len(text), np.nan)
    plain = text.str.fullmatch(_NUMBER).to_numpy(dtype=bool)
    values[plain] = text[plain].to_numpy(dtype=object).astype(float)
    absent = text.isin(MISSING_CELLS).to_numpy()
    odd = ~plain & ~absent & ~text.str.lstrip("+-").isin(DIVERGED_CELLS).to_numpy()
    if not odd.any():
        return values, absent, []
    decimal, grouped = (text[odd].str.fullmatch(form) for form in (_DECIMAL_COMMA, _GROUPED))
    if not (decimal | grouped).all():
        raise TableError(f"No number: {named(table[odd][~(decimal | grouped)], 'cell')}. {advice}")
    commas, points = table[odd][decimal & ~grouped], table[odd][grouped & ~decimal]
    if len(points) or text[plain].str.contains(".", regex=False).any():
        if len(commas):
            raise TableError(
                f"Some losses have a decimal comma ({named(commas, 'cell')}) and others a decimal point. "
                "Write all of them in one way."
            )
        numbers = text[odd].str.replace(",", "", regex=False)
        note = "Commas in the losses were read as marks of thousands."
    elif len(commas) or semicolons:
        numbers = text[odd].str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        note = "Commas in the losses were read as decimal commas."
    else:
        raise TableError(
            f"Thousands or decimals, these losses could be both: {named(table[odd], 'cell')}. Write a decimal point."
        )
    values[odd] = numbers.to_numpy(dtype=object).astype(float)
    return values, absent, [note]


def whole_seeds(labels: pd.Series) -> tuple[NDArray[np.int64], list[str]]:
    """A whole number per label [rows]: the label itself where all are whole, else its place in order of appearance.

    ``1``, ``01`` and ``1.0`` are one seed, as tools rewrite whole numbers; other labels are equal when their text is.
    """
    codes, known = pd.factorize(labels)
    numbers = pd.to_numeric(known.to_series(), errors="coerce")
    if (numbers.abs() < 2**53).all() and (numbers % 1 == 0).all():  # beyond, neighbours are one float
        seeds, notes = numbers.to_numpy().astype(np.int64), []
    else:
        seeds = np.arange(len(known), dtype=np.int64)
        shown = ", ".join(f"{label} is {seed}" for seed, label in enumerate(known[:NAMED]))
        more = ", and so on" if len(known) > NAMED else ""
        notes = [f"The seeds are not all whole numbers, so they were numbered in order of appearance: {shown}{more}."]
    return seeds[codes], notes


def named(table: pd.DataFrame, column: str | None = None) -> str:
    """The first rows of `table` in words, with what they hold in `column`, and a count of the others."""
    some = table[:NAMED]
    held = [""] * len(some) if column is None else [f'"{cell}" in ' for cell in some[column]]
    runs = zip(held, some["arm"], some["seed"], some["row"], strict=True)
    more = f" and {len(table) - NAMED:,} more" if len(table) > NAMED else ""
    return ", ".join(f"{cell}{arm} seed {seed} ({row})" for cell, arm, seed, row in runs) + more
