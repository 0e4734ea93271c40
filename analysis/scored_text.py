"""Models scored under several conditions, and their contrasts, in Markdown and JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from analysis.compare import ArmSummary, comparison_json
from analysis.markdown import table
from analysis.scorings import Scored
from analysis.wording import error_of_mean, error_of_sd, listed, mean_and_half, number, p_value, seeds_needed, span

HELD_OUT = "held-out loss"
HEAD = "contrast | of | against | pairs | difference | 95 % interval | 90 % interval | p | p adjusted | verdict"
SAME_MODELS = (
    "The same trained models, run otherwise: differences within an arm are differences between two ways of scoring it, "
    "with no training in between. Contrasts are corrected as one family, apart from the comparisons of the arms."
)


def scored_sections(scored: Scored, snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Sections of a finding; none where nothing is scored otherwise."""
    if not scored.scores and not scored.contrasts:
        return
    yield "## Scored otherwise"
    yield SAME_MODELS
    if scored.contrasts:
        yield table([*HEAD.split(" | "), "seeds needed"], _contrasts(scored))
    if scored.scores:
        yield guessed(snapshot)
        head = ["arm", "scored", "n", "mean ± half its 95 % interval", "SD", "diverged", "missing"]
        yield table(head, ([arm, how or HELD_OUT, *_score(one)] for (arm, how), one in scored.scores.items()))


def guessed(snapshot: Mapping[str, Any]) -> str:
    """What a guess costs on each part of the text that is scored, as a sentence; empty where that is not known, as of
    a text without parts."""
    costs = [f"{number(loss, 0.05)} on {part}" for part, loss in (snapshot.get("guesses") or {}).items()]
    if not costs:
        return ""
    return (
        f"A guess among the possible answers costs {listed(costs)} ({snapshot['unit']}): a loss above that is worse "
        "than guessing."
    )


def _contrasts(scored: Scored) -> Iterator[list[str]]:
    for name, c in scored.contrasts.items():
        error = c.standard_error
        spans = [span(interval, error, signed=True) for interval in (c.interval95, c.interval90)]
        p = [p_value(c.p_difference), p_value(c.p_difference_adjusted)]
        difference = number(c.difference, error, signed=True)
        yield [name, c.arm, c.baseline, str(c.n), difference, *spans, *p, c.verdict, seeds_needed(c.seeds_needed)]


def _score(one: ArmSummary) -> list[str]:
    mean = mean_and_half(one.mean, one.interval95, error_of_mean(one.sd, one.n))
    return [str(one.n), mean, number(one.sd, error_of_sd(one.sd, one.n)), str(one.diverged), str(len(one.missing))]


def scored_json(scored: Scored) -> dict[str, Any]:
    """Contrasts and scores as named fields; not yet freed of NaN."""
    return {
        "contrasts": [{"name": name} | comparison_json(contrast) for name, contrast in scored.contrasts.items()],
        "scores": [
            {**asdict(one), "arm": arm, "scoring": how or HELD_OUT, "cell": one.arm}
            for (arm, how), one in scored.scores.items()
        ],
    }
