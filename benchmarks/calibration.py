"""The error rates of this project's verdicts, by seeded simulation, beside those of what people use today.

``python benchmarks/calibration.py`` takes some minutes on two cores and writes ``calibration.md``, ``.csv`` and
``.svg`` into docs/benchmarks: every bar with what was required and what came out, in the worst of its cases.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rates.bars import FEWEST, Row, measure
from rates.page import figure, page, table
from rates.published import sections


@dataclass(frozen=True)
class Options:
    """Measure every error rate and write the page."""

    studies: int = 50_000
    """Simulated studies behind a bar; slow ones have a tenth or so, none fewer than 4,000."""
    folder: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("docs/benchmarks")
    """Write there."""


def job(section: str, index: int, studies: int) -> tuple[str, float, float, int]:
    """The numbers of a row; its bar, made of functions, does not travel between processes."""
    row = measure(sections()[section][index], studies)
    return row.where, row.measured, row.error, row.studies


def main() -> None:
    options = tyro.cli(Options)
    if options.studies < FEWEST:
        raise SystemExit(f"No rate is published from fewer than {FEWEST} studies, got --studies {options.studies}.")
    asked = sections()
    measured: dict[str, list[Row]] = {section: [] for section in asked}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [(section, i, bar) for section, bars in asked.items() for i, bar in enumerate(bars)]
        futures = [pool.submit(job, section, i, options.studies) for section, i, _ in jobs]
        for (section, _, bar), future in zip(jobs, futures, strict=True):
            row = Row(bar, *future.result())
            measured[section].append(row)
            required = f" (required {bar.required}) {row.met}" if bar.required else ""
            print(f"{bar.name}: {row.measured:.2f} {bar.unit} ± {row.error:.2f}{required}", flush=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in (("md", page(measured)), ("csv", table(measured)), ("svg", figure(measured) + "\n")):
        (options.folder / f"calibration.{suffix}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
