"""The procedure as a paragraph that can be pasted into a paper: what was done, in this study and no other."""

from collections.abc import Sequence

from analysis.design import FIXED, OPEN, UNTIL_DECIDED, known_before
from analysis.material import Material
from analysis.sequential import MIXTURE
from analysis.tuning import BEST_ON_GRID, setting
from analysis.verdict import ALPHA, FEWEST_SEEDS
from analysis.wording import count, listed, numbers

LOOKS = {
    UNTIL_DECIDED: (
        "Looking repeatedly is paid for by exact small-sample alpha spending (Lan and DeMets 1983), linear in the "
        "share of the seeds (Kim and DeMets 1987, rho = 1), with thresholds on the p value of the t test that were "
        "calibrated by simulating normal differences. The p values and intervals are the repeated ones, which hold "
        "at whatever look one stops."
    ),
    OPEN: (
        "No most number of seeds was declared beforehand, so looking is paid for by the Gaussian-mixture e-process "
        f"of a t statistic with unknown variance (g = {MIXTURE:g}; Wang and Ramdas 2023, Lindon et al. 2022): p "
        "values are 1 / e, and the intervals are the confidence sequences that invert it. Both hold at whatever "
        "number of seeds one stops."
    ),
}
INFLATED = (
    "After an early stop the point estimate exaggerates, since chance took part in the stopping: the interval is the "
    "result to quote."
)


def methods(material: Material) -> str:
    """The paragraph; it says nothing of what the study did not do."""
    parts = [_runs(material), *_tuned(material), *filter(None, [_known(material)]), _outcome(material)]
    if material.analysis.comparisons or not material.scored.contrasts:
        parts.append(_test(material))
    parts += [*_contrasts(material), *_looks(material), _family(material), _undecided(material), _diverged(material)]
    if material.described:
        parts.append(f"{listed(material.described)} fix a stream of randomness and are described, not compared.")
    return " ".join(parts)


def _runs(material: Material) -> str:
    s = material.snapshot
    if s["judged"]:
        return (
            f"The losses of {count(len(s['arms']), 'arm')} ({count(s['judged']['rows'], 'run')}) were read from "
            f"{s['judged']['source']}, a table that does not tell how they were trained."
        )
    seeds = "a seed fixes the order of the training data, so runs that share a seed form a pair"
    if any(arm["replicate"] for arm in s["arms"]):
        seeds += "; replicates repeat the baseline's recipe with seeds of their own"
    most = "with at most " if s["design"]["kind"] == UNTIL_DECIDED else "with seeds "
    these = count(len(s["seeds"]), "seed") if s["design"]["kind"] == UNTIL_DECIDED else numbers(s["seeds"])
    return f"Each of {count(len(s['arms']), 'arm')} was trained {most}{these}; {seeds}."


def _known(material: Material) -> str:
    """Which runs the question was asked after."""
    return known_before(material.snapshot, material.runs)


def _tuned(material: Material) -> Sequence[str]:
    tuning = material.snapshot["tuning"]
    if not tuning:
        return ()
    what, seeds = setting(tuning["key"]), len(tuning["seeds"])
    points = listed([f"{point:g}" for point in tuning["points"]])
    return (
        f"Before that the {what} of every arm was tuned on one grid ({points}) with the same {count(seeds, 'seed')} "
        "of their own: the point with the lowest mean loss was selected, one with a diverged run only where every "
        "point had one. The comparisons are made at the selected points, on seeds that were not used for the "
        f"selection; as claims about the best points of the grid their intervals are widened by {BEST_ON_GRID:g} SD / "
        f"√{seeds} on each side. The usable range is the mean loss over the grid above an arm's own best on it, no "
        "run counted with more than 1, compared with the baseline's by a t test on the jackknife over seeds, its p "
        "values adjusted by Holm's method.",
    )


def _outcome(material: Material) -> str:
    s = material.snapshot
    unit, text = f" in {s['unit']}" if s["unit"] else "", ""
    if s["corpus"]:
        text = f" over the whole held-out text ({s['corpus']['held_out_tokens']:,} tokens)"
    return f"The outcome is {s['metric_name']}{unit}{text}; lower is better."


def _test(material: Material) -> str:
    s, compared = material.snapshot, material.analysis.comparisons
    arms = listed([c.arm for c in compared]) or "No arm"
    were = "was" if len(compared) < 2 else "were each"
    sizes = _from_to([c.n_arm for c in compared])
    if s["target"] is not None:
        alpha = s.get("alpha", ALPHA)
        return (
            f"The mean{'s' * (len(compared) > 1)} of {arms} (n = {sizes} runs) {were} compared with the fixed number "
            f"{s['target']:g} by a one-sample t test at {alpha:g}, one-sided towards the side on which it lies, with "
            f"which the {100 * (1 - 2 * alpha):g} % t interval of the difference agrees."
        )
    if not s["paired"]:
        ns = f"n = {sizes} against {_from_to([c.n_baseline for c in compared])} runs"
        test, each, kind = "Welch's two-sided t test of the means", "their difference", "Welch's"
    else:
        ns = f"pairs: n = {_from_to([c.n for c in compared])}"
        test, each, kind = "a two-sided paired t test on the per-seed differences", "their mean", "paired"
    interval = "95 % t interval" if s["design"]["kind"] == FIXED else "95 % interval"
    if s.get("pairs"):
        arms, against = listed([f"{c.arm} with {c.baseline}" for c in compared]) or "No arm", ""
    else:
        against = f" with the baseline {s['baseline']}"
    text = f"{arms} {were} compared{against} ({ns}) by {test}, reported as {each} with a "
    if s["margin"] is None:
        return f"{text}{interval}."
    return (
        f"{text}{interval}, and for equivalence by two one-sided {kind} t tests (TOST) at 5 %, that is, the 90 % "
        f"interval inside {_margin(material)}."
    )


def _contrasts(material: Material) -> Sequence[str]:
    contrasts = material.scored.contrasts
    if not contrasts:
        return ()
    pairs = _from_to([c.n for c in contrasts.values()])
    declared = "declared" if _known(material) else "declared beforehand"
    return (
        f"Each trained model was scored under other conditions as well, without further training. "
        f"{count(len(contrasts), 'contrast')} of these scores {'was' if len(contrasts) == 1 else 'were'} {declared} "
        f"({listed(list(contrasts))}; pairs: n = {pairs}) and judged by two-sided paired t tests on the "
        f"per-seed differences, and for equivalence by two one-sided ones (TOST) at 5 % with {_margin(material)}; "
        f"their p values were adjusted as a family of their own (m = {len(contrasts)}) by Holm's step-down method with "
        "Shaffer's multipliers. A score that is not finite counts as a divergence.",
    )


def _margin(material: Material) -> str:
    s = material.snapshot
    reason, unit = s["margin_reason"].strip().rstrip("."), f" {s['unit']}" if s["unit"] else ""
    if s["judged"]:
        return f"a margin of ±{s['margin']:g}{unit} ({reason})"
    fixed = "" if _known(material) else " that was fixed before any run"
    return f"a margin of ±{s['margin']:g}{unit}{fixed} (reason: {reason})"


def _looks(material: Material) -> Sequence[str]:
    design = material.snapshot["design"]
    if design["kind"] == FIXED:
        return ()
    at = listed([str(look) for look in design["looks"]])
    if design["kind"] == UNTIL_DECIDED:
        declared = "declared" if _known(material) else "declared beforehand"
        kinds = {"comparisons": material.analysis.comparisons, "contrasts": material.scored.contrasts}
        what = " or ".join(kind for kind, found in kinds.items() if found) or "comparisons"
        when = (
            f"Looks at the results were {declared}, after {at} seeds. Only arms of {what} that were still undecided "
            "were given more seeds, and whatever was compared between such arms was then judged anew."
        )
    else:
        when = f"The results were looked at after {at} seeds."
    named = [*((c.arm, c) for c in material.analysis.comparisons), *material.scored.contrasts.items()]
    ends = [f"{name} after {c.looks[-1].seeds} seeds" for name, c in named if c.looks]
    return (when, LOOKS[design["kind"]], *([f"The last looks: {listed(ends)}."] if ends else []), INFLATED)


def _family(material: Material) -> str:
    s, m, contrasts = material.snapshot, len(material.analysis.comparisons), len(material.scored.contrasts)
    alpha = f"{s.get('alpha', ALPHA):g}"
    if m < 2 and contrasts < 2:
        return f"A verdict needs a p value below {alpha}."
    if m == 0:
        return f"A verdict needs an adjusted p value below {alpha}. The intervals are those of one contrast alone."
    if m == 1:
        return (
            f"A verdict on the arm needs a p value below {alpha}, one on a contrast an adjusted p value below it. The "
            "intervals are those of one contrast alone."
        )
    if s["margin"] is None:
        how = f"The p values of all compared arms (m = {m}) were adjusted by Holm's step-down method"
    else:
        how = (
            f"The p values of both hypotheses of all compared arms (m = {m}) were adjusted together by Holm's "
            "step-down method with Shaffer's multipliers, since an arm's two hypotheses exclude each other"
        )
    return f"{how}; a verdict needs an adjusted p value below {alpha}. The intervals are those of one arm alone."


def _undecided(material: Material) -> str:
    s = material.snapshot
    few = f"With fewer than {('zero', 'one', 'two', 'three')[FEWEST_SEEDS]} "
    few += "runs" if s["target"] is not None else "pairs" if s["paired"] else "runs of either arm"
    neither = "the hypothesis is not" if s["margin"] is None else "neither hypothesis is"
    return f"{few}, or when {neither} rejected, the verdict is undecided."


def _diverged(material: Material) -> str:
    if material.snapshot["target"] is not None:
        return "An arm of which a run diverged is undecided: the mean of its other runs is not its own."
    return (
        "Diverged runs are counted and named; losses are compared among the runs that converged, and only where the "
        "rates of divergence are compatible (Boschloo's exact test at 5 %, Fisher's beyond 100 runs)."
    )


def _from_to(values: Sequence[int]) -> str:
    found = sorted(set(values))
    return " to ".join(f"{n:,}" for n in (found if len(found) < 2 else (found[0], found[-1]))) or "0"
