"""The noise of a study in Markdown: a table of SDs, what seeds can detect, and where the variance comes from."""

from collections.abc import Iterator

from analysis.markdown import bullets, table
from analysis.material import Material
from analysis.noise import NoiseSummary
from analysis.wording import error_of_sd, listed, number, roots, share, span


def noise_sections(material: Material) -> list[str]:
    """Nothing where nothing was measured; without the last batch in a table from elsewhere, and without arms of fewer
    than two runs."""
    noise, unit = material.analysis.noise, material.snapshot["unit"]
    if noise is None:
        return []
    head = "arm | n | SD over seeds | 95 % interval | SD of the last batch | 95 % interval | drawing one batch alone"
    rows = []
    for a in (arm for arm in noise.arms if arm.n > 1):
        error, batch_error = error_of_sd(a.sd, a.n), error_of_sd(a.batch_sd, a.n)
        held_out = [number(a.sd, error), span(a.sd_interval95, error)]
        batch = [number(a.batch_sd, batch_error), span(a.batch_sd_interval95, batch_error)]
        rows.append([a.arm, str(a.n), *held_out, *batch, number(a.expected_batch_sd, a.expected_batch_sd / 10)])
    known = 4 if material.judged else len(head.split(" | "))
    parts = [table(head.split(" | ")[:known], [row[:known] for row in rows])] if rows else []
    parts.append(bullets([*_measurement(noise), *_detectable(noise, unit), *_false_alarms(noise)]))
    if not any(parts):
        return []
    parts = ["## Noise", f"In {unit}." if unit else "", *parts]
    if noise.shares:
        parts += [
            "Variance by source, as a share of that of all runs of one recipe:",
            table(("arm", "same for all seeds", "n", "SD", "95 % interval", "share"), _shares(noise)),
        ]
    return parts


def _measurement(noise: NoiseSummary) -> Iterator[str]:
    if m := noise.measurement:
        yield m.sentence


def _detectable(noise: NoiseSummary, unit: str) -> Iterator[str]:
    if noise.detectable_from:
        found = listed([f"{number(d.difference, d.difference / 3)} with {d.n}" for d in noise.detectable])
        source, unit = " and ".join(noise.detectable_from), f" ({unit})" if unit else ""
        yield f"Smallest difference that paired seeds detect with 80 % power, from {source}: {found} seeds{unit}."


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
