"""The finding: a study's answer as a small Markdown file that is committed as the tool wrote it."""

import re
from collections.abc import Iterable, Iterator, Sequence

from analysis.compare import ArmSummary, Comparison
from analysis.material import REHEARSAL, Material, loss_or_status
from analysis.noise import NoiseSummary
from analysis.wording import (
    error_of_mean,
    error_of_sd,
    listed,
    mean_and_half,
    number,
    p_value,
    roots,
    seeds_needed,
    share,
    span,
)


def markdown(material: Material) -> str:
    """Question, verdicts, numbers, cost and every run id with its loss; losses in the study's unit throughout."""
    s, analysis = material.snapshot, material.analysis
    sections = [
        f"# {s['study']}",
        f"**Question.** {_text(s['question'])}",
        f"> **Rehearsal.** {REHEARSAL}" if s["rehearsal"] else "",
        f"Outcome: {s['metric_name']}, {s['unit']}, lower is better. "
        f"Margin: {s['margin']:g} ({_text(s['margin_reason']).rstrip('.')}).",
        "## Verdict",
        "\n".join(f"- {_text(comparison.sentence)}" for comparison in analysis.comparisons),
        "\n".join(f"- Take care: {_text(alarm.sentence)}" for alarm in analysis.alarms),
        _text(material.missing),
        f"Described, not compared: {listed(material.described)}." if material.described else "",
        "## Comparisons with the baseline",
        _comparisons(analysis.comparisons),
        "## Arms",
        _arms(material, analysis.arms),
        "## Noise",
        *_noise(material),
        "## How it was made",
        _made(material),
        "## Runs",
        "Loss by arm and seed, and the run that gave it.",
        _runs(material),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _comparisons(comparisons: Sequence[Comparison]) -> str:
    head = "arm | pairs | difference | 95 % interval | 90 % interval | p | p adjusted | verdict | seeds needed"
    return _table(head.split(" | "), map(_comparison, comparisons))


def _comparison(c: Comparison) -> list[str]:
    error = error_of_mean(c.sd, c.n)
    intervals = [span(interval, error, signed=True) for interval in (c.interval95, c.interval90)]
    p = [p_value(c.p_difference), p_value(c.p_difference_adjusted)]
    difference = number(c.difference, error, signed=True)
    return [c.arm, str(c.n), difference, *intervals, *p, c.verdict, seeds_needed(c.seeds_needed)]


def _arms(material: Material, arms: Sequence[ArmSummary]) -> str:
    head = ("arm", "parameters", "n", "mean ± half its 95 % interval", "SD", "diverged", "missing")
    parameters = {arm["name"]: arm["parameters"] for arm in material.snapshot["arms"]}
    rows = []
    for a in arms:
        mean = mean_and_half(a.mean, a.interval95, error_of_mean(a.sd, a.n))
        sd = number(a.sd, error_of_sd(a.sd, a.n))
        rows.append([a.arm, f"{parameters[a.arm]:,}", str(a.n), mean, sd, str(a.diverged), str(len(a.missing))])
    return _table(head, rows)


def _noise(material: Material) -> list[str]:
    noise, unit = material.analysis.noise, material.snapshot["unit"]
    if noise is None:
        return []
    rows = []
    for a in noise.arms:
        error, batch_error = error_of_sd(a.sd, a.n), error_of_sd(a.batch_sd, a.n)
        held_out = [number(a.sd, error), span(a.sd_interval95, error)]
        batch = [number(a.batch_sd, batch_error), span(a.batch_sd_interval95, batch_error)]
        rows.append([a.arm, str(a.n), *held_out, *batch, number(a.expected_batch_sd, a.expected_batch_sd / 10)])
    head = "arm | n | SD over seeds | 95 % interval | SD of the last batch | 95 % interval | drawing one batch alone"
    lines = [f"- {line}" for line in (*_measurement(noise), *_detectable(noise, unit), *_false_alarms(noise))]
    parts = [f"In {unit}.", _table(head.split(" | "), rows), "\n".join(lines)]
    if noise.shares:
        parts += [
            "Variance by source, as a share of that of all runs of one recipe:",
            _table(("arm", "same for all seeds", "n", "SD", "95 % interval", "share"), _shares(noise)),
        ]
    return parts


def _measurement(noise: NoiseSummary) -> Iterator[str]:
    if m := noise.measurement:
        yield m.sentence


def _detectable(noise: NoiseSummary, unit: str) -> Iterator[str]:
    if noise.detectable_from:
        found = listed([f"{number(d.difference, d.difference / 3)} with {d.n}" for d in noise.detectable])
        source = " and ".join(noise.detectable_from)
        yield f"Smallest difference that paired seeds detect with 80 % power, from {source}: {found} seeds ({unit})."


def _false_alarms(noise: NoiseSummary) -> Iterator[str]:
    if f := noise.false_alarms:
        yield (
            f"The recipe against itself, {f.losses} losses split at random into {f.n} pairs, {f.splits:,} times: "
            f"the paired t test at 5 % calls {share(f.paired_t, 1)} of the splits different."
        )
        yield (
            f"Of all pairs of single runs, {share(f.pairs_beyond_gap, 1)} differ by more than {f.gap:g} "
            f"and {share(f.pairs_beyond_margin, 1)} by more than the margin of {f.margin:g}."
        )


def _shares(noise: NoiseSummary) -> Iterator[list[str]]:
    for v in noise.shares:
        sd = v.variance**0.5
        error = error_of_sd(sd, v.n)
        spread = [number(sd, error), span(roots(v.variance_interval95), error)]
        yield [v.arm, listed(list(v.fixed)) or "nothing", str(v.n), *spread, share(v.share, 0)]


def _made(material: Material) -> str:
    s = material.snapshot
    rows = [
        ("Command", f"`{s['command']}`"),
        ("Commit", material.commit),
        ("Runs made at", listed(material.commits) if material.commits != [s["commit"]] else ""),
        ("Versions", "; ".join(material.versions)),
        ("Device", listed(sorted(set(material.runs["device"])))),
        ("Corpus", f"{material.corpus}; SHA-256 `{s['corpus']['sha256']}`"),
        ("Held equal", " ".join([*(equality.sentence for equality in material.equalities), material.measured_equal])),
        ("Trivial baselines", f"{material.trivial} {s['unit']}"),
        ("Cost", material.cost),
    ]
    return "\n".join(f"- {name}: {value}" for name, value in rows if value)


def _runs(material: Material) -> str:
    rows = []
    for seed, runs in material.by_seed.items():
        cells = [f"{loss_or_status(run)} `{run['run_id']}`" if (run := runs.get(arm)) else "" for arm in material.arms]
        rows.append([str(seed), *cells])
    return _table(("seed", *material.arms), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_text, cells)) + " |" for cells in lines)


def _text(text: str) -> str:
    """`text` on one line, with what would open an HTML tag or end a table's cell escaped."""
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", " ".join(text.split())).replace("|", "\\|")
