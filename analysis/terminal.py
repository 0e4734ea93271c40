"""The verdict in the terminal: one table that fits 80 columns, and the sentences under it."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from analysis.compare import Analysis, too_few
from analysis.material import MOST_SHOWN, REHEARSAL
from analysis.scorings import Scored
from analysis.verdict import ALPHA
from analysis.wording import error_of_mean, mean_and_half, number, seeds_needed, span


def terminal_table(analysis: Analysis, snapshot: Mapping[str, Any]) -> Table:
    """One row per arm, the baseline first as planned, with the sentences as the caption.

    Columns: arm, n, loss (mean ± half its 95 % interval), difference to the baseline or target, its 95 % interval,
    verdict, seeds needed (in all per arm, where undecided, whatever the truth). Losses and differences in the study's
    unit.
    """
    table = _table(_title(snapshot), _lines(analysis, snapshot))
    table.add_column("arm", overflow="fold")
    for name in ("n", "loss", "diff.", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", min_width=len("equivalent"))
    if snapshot["margin"] is not None:
        table.add_column("seeds\nneeded", justify="right")
    against = {comparison.arm: comparison for comparison in analysis.comparisons}
    references = {c.baseline for c in analysis.comparisons} if snapshot.get("pairs") else {snapshot["baseline"]}
    for arm in analysis.arms:
        cells = [arm.arm, str(arm.n), mean_and_half(arm.mean, arm.interval95, error_of_mean(arm.sd, arm.n))]
        if comparison := against.get(arm.arm):
            error = comparison.standard_error
            cells += [
                number(comparison.difference, error, signed=True),
                span(comparison.interval95, error, signed=True),
            ]
            cells += [str(comparison.verdict), seeds_needed(comparison.seeds_needed)]
        else:
            cells += ["", "", "baseline" if arm.arm in references else "not compared", ""]
        table.add_row(*map(_plain, cells[: len(table.columns)]))
    return table


def contrasts_table(scored: Scored, snapshot: Mapping[str, Any]) -> Table:
    """One row per contrast of models that were scored under several conditions, with the sentences as the caption."""
    title = f"{snapshot['study']}: trained models scored otherwise, margin {snapshot['margin']:g}"
    none = too_few([*scored.contrasts.values()], "contrast")
    table = _table(title, [none] if none else [contrast.sentence for contrast in scored.contrasts.values()])
    table.add_column("contrast", overflow="fold")
    for column in ("n", "diff.", "95 % interval"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", min_width=len("equivalent"))
    for name, c in scored.contrasts.items():
        numbers = number(c.difference, c.standard_error, signed=True), span(c.interval95, c.standard_error, signed=True)
        table.add_row(*map(_plain, (name, str(c.n), *numbers, str(c.verdict))))
    return table


def _table(title: str, lines: Sequence[str]) -> Table:
    return Table(
        title=_plain(title),
        caption=_plain("\n".join(lines)),
        title_style="bold",
        caption_style="",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _title(snapshot: Mapping[str, Any]) -> str:
    parts = [f"{snapshot['study']}: {snapshot['metric_name']}", snapshot["unit"]]
    if snapshot["target"] is not None:
        parts.append(f"target {snapshot['target']:g} at {snapshot.get('alpha', ALPHA):g}, one-sided")
    elif snapshot["margin"] is not None:
        parts.append(f"margin {snapshot['margin']:g}")
    return ", ".join(part for part in parts if part)


def _lines(analysis: Analysis, snapshot: Mapping[str, Any]) -> list[str]:
    lines = [REHEARSAL] if snapshot["rehearsal"] else []
    if none := too_few(analysis.comparisons):
        lines.append(none)
    else:
        lines += [comparison.sentence for comparison in analysis.comparisons[:MOST_SHOWN]]
        if (more := len(analysis.comparisons) - MOST_SHOWN) > 0:
            lines.append(f"The other {more:,} comparisons are in the table.")
    if analysis.tuning:
        lines += [one.sentence for one in analysis.tuning.ranges]
    return lines + [alarm.sentence for alarm in analysis.alarms]


def _plain(text: str) -> Text:
    """No markup, and dashes and minus signs that every terminal and every pipe can take."""
    for sign in "−–—":
        text = text.replace(sign, "-")
    return Text(text)
