"""What was measured as one page, one table of all numbers and one figure; nothing in them is typed by hand."""

import csv
import io
from collections.abc import Mapping, Sequence

import numpy as np
import scipy

from analysis.drawing import FAINT, INK, appearances, canvas, name_rows, svg
from rates.bars import SEED, Row
from rates.published import ALSO, BARS, RIVALS, SHOWN, SHOWN_SEEDS, rival_name
from rates.rivals import METHODS
from rates.scenarios import MAIN, NORMAL, RHOS, SEEDS, SKEW, SKEW_A, STRESS

Measured = Mapping[str, Sequence[Row]]
READING = (
    f"In the table of bars *{SKEW_A.name}* is *one arm skewed*. Arms that are tuned have a response over a grid of "
    "seven points: *flat*, *bowl* and *sharp* (parabolas), *pointed* (a V), *tilted* (a line), *wall* (flat, then "
    "rising), *cliff* (falling until 60 %, then all of the runs diverge); *10 x* is ten times as steep, "
    "*mirrored* turned round. Coverage is that of 95 % intervals, of normal losses with equal SDs and 1:3. An "
    "extreme that was chosen is measured again, and what was chance in it falls back, so *highest* can come out "
    "below *lowest*: of pairs of normal losses theory has 95 % in every cell, and what their row shows is chance. "
    "Welch's intervals are a little too wide, most so at 3 seeds."
)


def table(measured: Measured) -> str:
    """Every number, as CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        ("section", "bar", "required", "measured", "unit", "monte_carlo_error", "studies", "met", "worst_case")
    )
    for section, rows in measured.items():
        for row in rows:
            numbers = f"{row.measured:.4f}", row.bar.unit, f"{row.error:.4f}", row.studies
            writer.writerow((section, row.bar.name, row.bar.required, *numbers, row.met, row.where))
    return buffer.getvalue()


def page(measured: Measured) -> str:
    """The bars, then what people use today, in Markdown."""
    bars = measured[BARS]
    missed = [row for row in bars if row.met == "no"]
    counted = [row for row in bars if row.met]
    lines = [
        "# Error rates",
        "",
        "Measured by `make calibration` on made-up losses whose truth is known: of the rules that give a verdict, and "
        "of what people use today. Each bar is held against its worst case, which is found among all and then measured "
        "again on a fresh stream. ± is one Monte Carlo standard error; *within error* is a miss by two at most. "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}, seed {SEED}; every number is in "
        "[calibration.csv](calibration.csv).",
        "",
        f"Main scenarios: {', '.join(scenario.name for scenario in MAIN)}; lognormal has skewness {SKEW:g}, gamma 2, "
        "and both arms have the same distribution but for SD 1:3. *One arm skewed*: one lognormal, one normal; "
        "*stress*: and the lognormal one has three times the SD. Numbers of seeds: "
        f"{', '.join(map(str, SEEDS))}; correlations (rho) of pairs: {', '.join(f'{rho:g}' for rho in RHOS)}, of the "
        "normals that the losses are made of.",
        "",
        READING,
        "",
        f"{sum(row.met == 'yes' for row in counted)} of {len(counted)} bars are met, "
        f"{sum(row.met == 'within error' for row in counted)} within error" + (", these are not:" if missed else "."),
        "",
        *(f"- {row.bar.name}: {row.measured:.1f} where {row.bar.required} is required" for row in missed),
        *[""] * bool(missed),
        "## Bars",
        "",
        "| bar | required | measured | ± | studies | met | worst case |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_row(row) for row in bars),
        "",
        "## What people use today",
        "",
        "Differences claimed where there is none, in %, at "
        + ", ".join(map(str, SHOWN_SEEDS))
        + " seeds; 5 is nominal. "
        "Pairs correlate with 0.5. The Monte Carlo standard error is at most "
        f"{max(row.error for row in measured[RIVALS]):.1f}.",
        "",
        "![Differences claimed where there is none, by method and number of seeds](calibration.svg)",
        "",
        "| method | " + " | ".join(SHOWN) + " |",
        "| --- |" + " --- |" * len(SHOWN),
        *_rivals(measured),
        "",
        "| habit | goes wrong, % | ± | studies |",
        "| --- | --- | --- | --- |",
        *(f"| {row.bar.name} | {row.measured:.1f} | {row.error:.1f} | {row.studies:,} |" for row in measured[ALSO]),
        "",
    ]
    return "\n".join(lines)


def _row(row: Row) -> str:
    places = 2 if row.measured < 2 else 1
    unit = "" if row.bar.unit == "%" else f" {row.bar.unit}"
    return (
        f"| {row.bar.name} | {row.bar.required} | {row.measured:.{places}f}{unit} | {row.error:.2f} | {row.studies:,} "
        f"| {row.met} | {row.where} |"
    )


def _rivals(measured: Measured) -> list[str]:
    rates = {row.bar.name: row.measured for row in measured[RIVALS]}
    return [
        f"| {method.name} | "
        + " | ".join(
            ", ".join(f"{rates[rival_name(method.name, scenario, n)]:.0f}" for n in SHOWN_SEEDS) for scenario in SHOWN
        )
        + " |"
        for method in METHODS
    ]


def figure(measured: Measured) -> str:
    """Differences claimed where there is none, by method and number of seeds, in the easiest and the worst scenario."""
    rates = {row.bar.name: row.measured for row in measured[RIVALS]}
    names = [method.name for method in METHODS]
    with canvas(7.6, rows=2) as (drawn, both):
        for axes, scenario in zip(both, (NORMAL.name, STRESS.name), strict=True):
            shares = np.array([[rates[rival_name(name, scenario, n)] for name in names] for n in SHOWN_SEEDS])
            axes.axvline(5, color=INK, lw=1, ls=":")
            axes.hlines(range(len(names)), shares.min(0), shares.max(0), color=FAINT, lw=0.8, zorder=1)
            for of_n, n, look in zip(shares, SHOWN_SEEDS, appearances(len(SHOWN_SEEDS)), strict=True):
                axes.plot(of_n, range(len(names)), look["marker"], color=look["color"], ms=5.5, label=f"{n} seeds")
            name_rows(axes, names)
            axes.set_xlim(-1, 36)
            axes.set_title(scenario, loc="left")
        both[1].set_xlabel("false differences, %")
        drawn.legend(*both[0].get_legend_handles_labels(), loc="outside upper left", ncols=4, frameon=False)
    return svg(
        drawn, "calibration", "Differences claimed where there is none, in percent, by method and number of seeds"
    )
