"""Published figures beside ours in Markdown."""

from collections.abc import Iterator, Sequence
from math import isfinite

from analysis.markdown import bullets, table
from analysis.material import Material
from analysis.publication import LAST_BATCH, Row, common_reasons
from analysis.wording import mean_and_half, number, p_value

_COLUMNS = "measure | published | ours ± 95 % for one run | difference | p adjusted | found | n"


def published_sections(material: Material) -> list[str]:
    """Nothing where no figure was declared."""
    found = material.published
    if found is None:
        return []
    parts = ["## Published figures", f"From {found.source}.", bullets(found.sentences), found.rule]
    parts += [*_table(found.figures), found.without_interval]
    if found.gaps:
        parts += ["Gaps between two arms, by the same measure:", *_table(found.gaps)]
    return parts


def _table(rows: Sequence[Row]) -> Iterator[str]:
    cells = _rows(rows)
    held_out = "held-out" + (" ± half its 95 % interval" if with_interval(rows) else "")
    head = ["arm", *_COLUMNS.split(" | "), held_out, "why"]
    known = len(head) if any(row[-1] for row in cells) else len(head) - 1  # the last column may be all empty
    yield table(head[:known], [row[:known] for row in cells])
    yield bullets(reasons(rows))


def reasons(rows: Sequence[Row]) -> list[str]:
    """What several of `rows` would say of why, once, to stand below their table."""
    return [f"{outcome.capitalize()}: {why}" for why, outcome in common_reasons(rows).items()]


def with_interval(rows: Sequence[Row]) -> bool:
    """Whether one of the held-out losses has an interval."""
    return any(isfinite(row.held_out95.low) for row in rows)


def own_words(row: Row, rows: Sequence[Row]) -> str:
    """What there is to say of `row` beside what it has in common with others of `rows`."""
    return " ".join(filter(None, (row.note, "" if row.why in common_reasons(rows) else row.why)))


def printed(value: float) -> str:
    """A published number with the digits that were published; of a difference of two, those that they give."""
    return f"{value:.6g}".replace("-", "−")


def _rows(rows: Sequence[Row]) -> list[list[str]]:
    return [
        [
            f"{row.arm} − {row.against}" if row.against else row.arm,
            measured(row.measure),
            printed(row.held.figure),
            number(row.held.ours) + (f" ± {number(row.held.half95, 0.05)}" if row.held.n else ""),
            number(row.held.difference, 0.005, signed=True),
            p_value(row.held.p_adjusted),
            str(row.held.outcome),
            str(row.held.n),
            mean_and_half(row.held_out, row.held_out95, row.held_out_error),
            own_words(row, rows),
        ]
        for row in rows
    ]


def measured(measure: str) -> str:
    """What a figure was read from, in words."""
    return "last batch" if measure == LAST_BATCH else measure.replace("val_loss", "held-out").replace("_", " ")
