"""The finding: a study's answer as a small Markdown file that is committed as the tool wrote it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.compare import ArmSummary, Comparison, too_few
from analysis.diagnosis_text import diagnosis_sections
from analysis.markdown import bullets, one_line, table
from analysis.material import MOST_SHOWN, REHEARSAL, Material, loss_or_status, sample_size
from analysis.methods import INFLATED
from analysis.noise_text import noise_sections
from analysis.published_text import published_sections
from analysis.records import TABLE
from analysis.scored_text import scored_sections
from analysis.tuning import ArmTuning, PointSummary, Tuning
from analysis.wording import (
    count,
    error_of_mean,
    error_of_sd,
    listed,
    mean_and_half,
    number,
    p_value,
    seeds_needed,
    span,
)

MOST_COLUMNS = 6  # arms side by side in a table of runs; of more, each has a row


def markdown(material: Material) -> str:
    """Question, verdicts, numbers, checklist, cost and every run id with its loss, in the study's unit throughout.

    Sections that have nothing to say are left out. Published figures, where a study has them, come first.
    """
    s, analysis, contrasts = material.snapshot, material.analysis, material.scored.contrasts
    none, no_contrast = too_few(analysis.comparisons), too_few([*contrasts.values()], "contrast")
    more = 0 if none else len(analysis.comparisons) - MOST_SHOWN
    sections = [
        f"# {one_line(s['study'])}",
        f"**Question.** {one_line(s['question'])}",
        f"> **Rehearsal.** {REHEARSAL}" if s["rehearsal"] else "",
        one_line(material.outcome),
        one_line(s["judged"]["note"]) if s["judged"] else "",
        *published_sections(material),
        "## Verdict",
        bullets([none] if none else (comparison.sentence for comparison in analysis.comparisons[:MOST_SHOWN])),
        f"The other {more:,} comparisons are in the table." if more > 0 else "",
        bullets([no_contrast] if no_contrast else (f"{name}: {c.sentence}" for name, c in contrasts.items())),
        bullets(f"Take care: {alarm.sentence}" for alarm in analysis.alarms),
        one_line(material.missing),
        f"Described, not compared: {one_line(listed(material.described))}." if material.described else "",
        *(_compared(material) if analysis.comparisons or not contrasts else ()),
        *_looks(looked_at(material)),
        *(_tuning(analysis.tuning) if analysis.tuning else ()),
        *scored_sections(material.scored, s),
        *diagnosis_sections(material),
        "## Arms",
        _arms(material, analysis.arms),
        *noise_sections(material),
        "## Checklist",
        bullets(f"**{point.answer}**: {point.question} {point.why}" for point in material.checklist),
        *(("## What was not controlled", bullets(s["not_controlled"])) if s["not_controlled"] else ()),
        "## How it was made",
        _made(material),
        "## Runs",
        *_runs(material),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _compared(material: Material) -> Iterator[str]:
    pairs, against = (
        bool(material.snapshot.get("pairs")),
        "baseline" if material.snapshot["target"] is None else "target",
    )
    yield "## Comparisons" + ("" if pairs else f" with the {against}")
    yield _comparisons(material.analysis.comparisons, pairs)


def _comparisons(comparisons: Sequence[Comparison], pairs: bool) -> str:
    sizes = "pairs" if all(c.paired for c in comparisons) else "runs"
    head = f"arm | {sizes} | difference | 95 % interval | 90 % interval | p | p adjusted | verdict | seeds needed"
    return table(head.split(" | "), (_comparison(c, pairs) for c in comparisons))


def _comparison(c: Comparison, pairs: bool) -> list[str]:
    error = c.standard_error
    intervals = [span(interval, error, signed=True) for interval in (c.interval95, c.interval90)]
    p = [p_value(c.p_difference), p_value(c.p_difference_adjusted)]
    difference = number(c.difference, error, signed=True)
    arm = f"{c.arm} against {c.baseline}" if pairs else c.arm
    return [arm, sample_size(c), difference, *intervals, *p, c.verdict, seeds_needed(c.seeds_needed)]


def looked_at(material: Material) -> list[tuple[str, Comparison]]:
    """The comparisons, by their arm, and the contrasts, by their own name, of which looks are told."""
    named = [*((c.arm, c) for c in material.analysis.comparisons), *material.scored.contrasts.items()]
    return [(name, c) for name, c in named if c.looks]


def _looks(looked: Sequence[tuple[str, Comparison]]) -> Iterator[str]:
    if not looked:
        return
    yield "## Looks"
    yield INFLATED
    rows = []
    for name, c in looked:
        for look in c.looks:
            error = error_of_mean(c.sd, look.n)
            intervals = [span(i, error, signed=True) for i in (look.interval95, look.interval90)]
            p = [p_value(look.p_difference), p_value(look.threshold)]
            rows.append(
                [name, str(look.seeds), str(look.n), number(look.difference, error, signed=True), *intervals, *p]
            )
    head = "of | seeds | pairs | difference | repeated 95 % interval | repeated 90 % interval | p | threshold"
    yield table(head.split(" | "), rows)


def _tuning(tuning: Tuning) -> Iterator[str]:
    yield f"## Tuning: {one_line(tuning.setting)}"
    yield (
        f"Mean loss (SD) of {tuning.seeds} tuning seeds at each point of `{tuning.key}`, the selected point in bold. "
        "The verdict above is the best-of-tuned answer: it holds at the selected points, by seeds that selected "
        "nothing."
    )
    head = ("arm", *(f"{point:g}" for point in tuning.points))
    yield table(head, ([arm.arm, *(_point(arm, point) for point in arm.points)] for arm in tuning.arms))
    yield bullets(_range_lines(tuning))


def _point(arm: ArmTuning, point: PointSummary) -> str:
    text = number(point.mean, error_of_mean(point.sd, point.n))
    if point.n > 1:
        text += f" ({number(point.sd, error_of_sd(point.sd, point.n))})"
    text = f"**{text}**" if point.point == arm.selected else text
    return f"{text}, {point.diverged} diverged" if point.diverged else text


def _range_lines(tuning: Tuning) -> Iterator[str]:
    for one in tuning.ranges:
        own = span(one.widened95, (one.widened95.high - one.widened95.low) / 4, signed=True)
        yield f"Best on the grid, {one.arm} against {one.baseline}: 95 % interval {own}, widened for the selection."
    for one in tuning.ranges:
        yield f"Usable range. {one.sentence}"


def _arms(material: Material, arms: Sequence[ArmSummary]) -> str:
    head = ["arm", "parameters", "n", "mean ± half its 95 % interval", "SD", "diverged", "missing"]
    parameters = {arm["name"]: arm["parameters"] for arm in material.snapshot["arms"]}
    rows = []
    for a in arms:
        mean = mean_and_half(a.mean, a.interval95, error_of_mean(a.sd, a.n))
        sd = number(a.sd, error_of_sd(a.sd, a.n))
        size = "" if parameters[a.arm] is None else f"{parameters[a.arm]:,}"
        rows.append([a.arm, size, str(a.n), mean, sd, str(a.diverged), str(len(a.missing))])
    if material.judged:
        head, rows = head[:1] + head[2:], [row[:1] + row[2:] for row in rows]
    return table(head, rows)


def _made(material: Material) -> str:
    s = material.snapshot
    rows = [("Command", f"`{s['command']}`")]
    if not material.judged:
        equal = [*(equality.sentence for equality in material.equalities), material.measured_equal]
        rows += [
            ("Commit", material.commit),
            ("Runs made at", listed(material.commits) if material.commits != [s["commit"]] else ""),
            ("Versions", "; ".join(material.versions)),
            ("Precision", trained_in(material)),
            ("Device", listed(sorted(set(material.runs["device"])))),
            ("Corpus", f"{material.corpus}; SHA-256 `{s['corpus']['sha256']}`"),
            ("Held equal", " ".join(equal)),
            ("Cost", material.cost),
        ]
    rows.append(("Trivial baselines", f"{material.trivial} {s['unit']}" if s["baselines"] else ""))
    return "\n".join(f"- {name}: {value}" for name, value in rows if value)


def trained_in(material: Material) -> str:
    """The precision of the recorded runs, by arm where there is more than one; empty where no run tells."""
    told = material.runs[["precision", "arm"]].dropna()
    arms = {str(name): listed(sorted(set(of))) for name, of in told.groupby("precision")["arm"]}
    text = "; ".join(arms if len(arms) == 1 else (f"{name} ({of})" for name, of in arms.items()))
    silent = len(material.runs) - len(told)
    return f"{text}; {count(silent, 'run')} of which it is not recorded" if text and silent else text


def _runs(material: Material) -> Iterator[str]:
    if not material.small:
        yield f"{material.progress}; each of them is in `{TABLE}`."
        return
    yield "Loss by arm and seed." if material.judged else "Loss by arm and seed, and the run that gave it."
    by_seed = material.by_seed
    if len(material.arms) > MOST_COLUMNS:
        head = ["arm", *(f"seed {seed}" for seed in by_seed)]
        rows = [[arm, *(_run(material, runs.get(arm)) for runs in by_seed.values())] for arm in material.arms]
    else:
        head = ["seed", *material.arms]
        rows = [[str(seed), *(_run(material, at.get(arm)) for arm in material.arms)] for seed, at in by_seed.items()]
    yield table(head, rows)
    if len(material.tuning):
        yield f"The {len(material.tuning):,} tuning runs are in `{TABLE}`."


def _run(material: Material, run: Mapping[str, Any] | None) -> str:
    if run is None:
        return ""
    return loss_or_status(run) + ("" if material.judged else f" `{run['run_id']}`")
