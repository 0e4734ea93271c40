"""Published figures beside ours in Markdown."""

from collections.abc import Sequence

from analysis.markdown import bullets, table
from analysis.material import Material
from analysis.publication import LAST_BATCH, Row
from analysis.wording import mean_and_half, number, p_value

_COLUMNS = "measure | published | ours ± 95 % for one run | difference | p adjusted | found | n | held-out | why"
HEAD = ("arm", *_COLUMNS.split(" | "))


def published_sections(material: Material) -> list[str]:
    """Nothing where no figure was declared."""
    found = material.published
    if found is None:
        return []
    parts = ["## Published figures", f"From {found.source}.", bullets(found.sentences), found.rule]
    parts.append(table(HEAD, _rows(found.figures)))
    if found.gaps:
        parts += ["Gaps between two arms, by the same measure:", table(HEAD, _rows(found.gaps))]
    return parts


def _rows(rows: Sequence[Row]) -> list[list[str]]:
    return [
        [
            f"{row.arm} − {row.against}" if row.against else row.arm,
            measured(row.measure),
            number(row.held.figure),
            number(row.held.ours) + (f" ± {number(row.held.half95, 0.05)}" if row.held.n else ""),
            number(row.held.difference, 0.005, signed=True),
            p_value(row.held.p_adjusted),
            str(row.held.outcome),
            str(row.held.n),
            mean_and_half(row.held_out, row.held_out95, row.held_out_error),
            " ".join(filter(None, (row.note, row.why))),
        ]
        for row in rows
    ]


def measured(measure: str) -> str:
    """What a figure was read from, in words."""
    return "last batch" if measure == LAST_BATCH else measure.replace("val_loss", "held-out").replace("_", " ")
