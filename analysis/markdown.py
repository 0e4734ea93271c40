"""Markdown that stays what it is whatever a study's names and texts contain."""

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with one line per row."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(one_line, cells)) + " |" for cells in lines)


def bullets(items: Iterable[str]) -> str:
    """A list, one line per item; empty for none."""
    return "\n".join(f"- {one_line(item)}" for item in items)


def one_line(text: str) -> str:
    """`text` on one line, with what would open an HTML tag or end a table's cell escaped."""
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", " ".join(text.split())).replace("|", "\\|")
