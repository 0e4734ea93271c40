"""Seven points that a controlled experiment is asked about, answered as far as the study and its records tell.

The points are those of the source chapter, section 2.35. An answer is "verified" where the records show it, "declared"
where the study only says so, "not met", or "not known" where nothing tells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import pandas as pd

from analysis.compare import Analysis, Comparison
from analysis.design import TUNE, known_before
from analysis.equality import equalities
from analysis.power import detectable_difference
from analysis.records import COMPLETED
from analysis.tuning import setting
from analysis.verdict import ALPHA, FEWEST_SEEDS, Verdict
from analysis.wording import count, error_of_sd, listed, number, span

Answer = Literal["verified", "declared", "not met", "not known"]
Answered = tuple[Answer, str]
LEARNING_RATE = "optimizer.learning_rate"
NOTHING_YET = "Nothing is recorded yet."


@dataclass(frozen=True)
class Point:
    """A question, how far it is answered, and why that is said."""

    question: str
    answer: Answer
    why: str


def checklist(
    snapshot: Mapping[str, Any], runs: pd.DataFrame, analysis: Analysis, contrasts: Mapping[str, Comparison]
) -> tuple[Point, ...]:
    """The seven points in the chapter's order; `runs` are those of the plan that are recorded, `contrasts` by name
    what was compared of trained models that are scored otherwise.

    Of a judged table little but the noise is known, and that is what it says.
    """
    judged = snapshot["judged"] is not None
    done = runs[runs["status"] == COMPLETED]
    answers: dict[str, Answered] = {
        "Can the question be answered?": _UNKNOWN_QUESTION if judged else _question(snapshot, runs),
        "Are the nuisance variables pinned?": _UNKNOWN_NUISANCE if judged else _nuisance(snapshot, done),
        "Did every arm get the same tuning?": _UNKNOWN_TUNING if judged else _tuning(snapshot, runs, analysis),
        "Was the noise estimated?": _noise(snapshot, analysis),
        "Do trivial baselines anchor the numbers?": _baselines(snapshot, analysis),
        "Can the task show the effect?": _task(snapshot, analysis, contrasts),
        "Are the limits stated?": _UNKNOWN_LIMITS if judged else _limits(snapshot),
    }
    return tuple(Point(question, *answer) for question, answer in answers.items())


_UNKNOWN_QUESTION: Answered = (
    "not known",
    "A table of losses does not tell on which text, at which size and with how much training the arms were compared.",
)
_UNKNOWN_NUISANCE: Answered = ("not known", "A table of losses does not tell what else differs between the arms.")
_UNKNOWN_TUNING: Answered = ("not known", "A table of losses does not tell how each arm's settings were chosen.")
_UNKNOWN_LIMITS: Answered = ("not known", "A table states no limits. Say beside it what was not controlled.")


def _question(snapshot: Mapping[str, Any], runs: pd.DataFrame) -> Answered:
    shared, corpus = snapshot["held_equal"], snapshot["corpus"]
    steps = f", {int(shared['budget.steps']):,} updates" if "budget.steps" in shared else ""
    before = known_before(snapshot, runs)
    return "declared", (
        f"Its conditions are named: {count(len(snapshot['arms']), 'arm')}, the text {corpus['name']}{steps}, "
        f"{snapshot['metric_name']}, and a margin of {snapshot['margin']:g}"
        f"{f'. {before}' if before else ' fixed before any run.'} Whether it is the question to ask, no record tells."
    )


def _nuisance(snapshot: Mapping[str, Any], done: pd.DataFrame) -> Answered:
    keys = _differences(snapshot)
    alone = f"the arms differ in {listed(keys)} alone" if keys else "the arms differ in their seeds alone"
    if done.empty:
        return "declared", f"By the plan {alone}. {NOTHING_YET}"
    broken = [equality.sentence for equality in equalities(snapshot, done) if equality.held is False]
    precisions = sorted(set(done["precision"].dropna()))
    if len(precisions) > 1 and "precision" not in keys:
        broken.append(f"The runs were made in {listed(precisions)}.")
    if broken:
        return "not met", " ".join(broken)
    tokens = sorted(set(done["tokens"]))
    trained = f"{tokens[0]:,} training tokens" if len(tokens) == 1 else "the training tokens that its arm declares"
    held = [f" {equality.sentence}" for equality in equalities(snapshot, done) if equality.tolerance]
    commits = done["commit"].nunique()
    return "verified", (
        f"Each of {count(len(done), 'completed run')} has the text {snapshot['corpus']['sha256'][:10]}…, recipe "
        f"version {done['recipe_version'].iloc[0]} and {trained}; {alone}.{''.join(held)}"
        + (f" They were made at {commits} commits." if commits > 1 else "")
    )


def _tuning(snapshot: Mapping[str, Any], runs: pd.DataFrame, analysis: Analysis) -> Answered:
    keys, grid = [key for key in _differences(snapshot) if not key.startswith("streams.")], snapshot["tuning"]
    if grid:
        each = len(grid["points"]) * len(grid["seeds"])
        counts = runs[runs["stage"] == TUNE].groupby("arm").size()
        whole = all(counts.get(arm["name"], 0) == each for arm in snapshot["arms"])
        edges = [arm.arm for arm in analysis.tuning.arms if arm.at_edge] if analysis.tuning else []
        return "verified" if whole else "declared", (
            f"Every arm is given the same {count(len(grid['points']), setting(grid['key']))} with the same "
            f"{count(len(grid['seeds']), 'seed')}, {count(each, 'run')} an arm, "
            + ("all recorded" if whole else "not all of them recorded yet")
            + ", and is judged on other seeds."
            + (f" The best of {listed(edges)} lies on the edge of the grid." if edges else "")
        )
    if not keys:
        return "verified", "The arms are one recipe, so there is nothing to tune for one and not for another."
    if all(key.startswith("optimizer.") for key in keys):
        return (
            "declared",
            f"The arms are themselves settings of the optimizer ({listed(keys)}); none was tuned further.",
        )
    rate = snapshot["held_equal"].get(LEARNING_RATE)
    at = f"all were trained at a learning rate of {rate}" if rate else "the study has no grid"
    return "not met", (
        f"The arms differ in {listed(keys)}, and none was tuned: {at}, which may suit one better than another."
    )


def _noise(snapshot: Mapping[str, Any], analysis: Analysis) -> Answered:
    few = [arm.arm for arm in analysis.arms if arm.n < FEWEST_SEEDS]
    if not any(arm.n for arm in analysis.arms):
        return "not known", NOTHING_YET
    if few:
        return "not met", f"Fewer than {FEWEST_SEEDS} seeds tell nothing of the noise: {listed(few)}."
    arm = max(analysis.arms, key=lambda arm: arm.sd)
    error = error_of_sd(arm.sd, arm.n)
    text = (
        f"The noisiest arm, {arm.arm}, has an SD of {number(arm.sd, error)} over {arm.n} seeds "
        f"(95 % interval {span(arm.sd_interval95, error)})."
    )
    compared = analysis.comparisons
    found = {c.arm: smallest for c in compared if isfinite(smallest := _detectable(c, snapshot, len(compared)))}
    if not found:
        return "verified", text
    worst = max(found, key=lambda name: found[name])
    least = number(found[worst], found[worst] / 3)
    return (
        "verified",
        f"{text} Of {worst} a difference of {least} would be found with 80 % power{_corrected(len(compared))}"
        f"{_margin(snapshot)}.",
    )


def _baselines(snapshot: Mapping[str, Any], analysis: Analysis) -> Answered:
    floors = snapshot["baselines"]
    if not floors:
        how = "; name one with --floor" if snapshot["judged"] is not None else ""
        return "not known", f"No trivial baseline was given{how}."
    text = listed([f"{name} {number(level, 0.05)}" for name, level in floors.items()])
    wrong = [a.sentence for a in analysis.alarms if a.name in ("too good", "ignores its input")]
    means = {arm.arm: arm.mean for arm in analysis.arms if arm.n}
    if wrong:
        return "not met", f"They are {text}. {' '.join(wrong)}"
    if not means:
        return "declared", f"They are {text}. {NOTHING_YET}"
    highest = max(means, key=lambda arm: means[arm])
    return (
        "verified",
        f"They are {text}; every arm ends below them, the highest, {highest}, at {number(means[highest], 0.05)}.",
    )


def _task(snapshot: Mapping[str, Any], analysis: Analysis, contrasts: Mapping[str, Comparison]) -> Answered:
    nothing = [a.sentence for a in analysis.alarms if a.name == "task shows nothing"]
    if nothing:
        return "not met", " ".join(nothing)
    named = [(c.arm, c, len(analysis.comparisons)) for c in analysis.comparisons]
    named += [(name, c, len(contrasts)) for name, c in contrasts.items()]
    if not named:
        return "not known", "No arms are compared with each other."
    enough = [(name, c, family) for name, c, family in named if c.n >= FEWEST_SEEDS]
    if not enough:
        return "not known", "No comparison has seeds enough to tell."
    if apart := _told_apart(analysis.comparisons, contrasts):
        return "verified", f"It shows differences: {apart}."
    none = "No arm is told apart" if not contrasts else "No arm and no side of a contrast is told apart"
    if snapshot["margin"] is None:
        return "not known", f"{none}, and without a margin there is no difference that ought to be."
    undecided = [one for one in enough if one[1].verdict is Verdict.UNDECIDED]
    found = {name: _detectable(c, snapshot, family) for name, c, family in undecided}
    family_of = {name: family for name, _, family in undecided}
    if untested := [arm for arm, smallest in found.items() if not isfinite(smallest)]:
        return "not known", f"The losses of {listed(untested)} could not be tested."
    blind = {arm: smallest for arm, smallest in found.items() if smallest > snapshot["margin"]}
    if blind:
        arm, smallest = max(blind.items(), key=lambda item: item[1])
        return "not met", (
            f"{none}, and of {arm} only a difference of {number(smallest, smallest / 3)} or more is "
            f"found with 80 % power{_corrected(family_of[arm])}{_margin(snapshot)}: one that matters can have gone "
            "unseen."
        )
    return "verified", (
        f"{none}, and a difference of the margin would have been. Whether this text calls for what the arms differ in, "
        "losses do not tell."
    )


def _told_apart(comparisons: Sequence[Comparison], contrasts: Mapping[str, Comparison]) -> str:
    """Which arms are, and of how many contrasts the two sides; empty where none is."""
    apart, sides = [], sum(c.verdict.told_apart for c in contrasts.values())
    if arms := [c.arm for c in comparisons if c.verdict.told_apart]:
        others = list(dict.fromkeys(c.baseline for c in comparisons if c.verdict.told_apart))
        apart.append(f"{listed(arms)} and {listed(others)}")
    if sides:
        apart.append(f"the sides of {sides:,} of {count(len(contrasts), 'contrast')}")
    return "; ".join(f"{who} are told apart" for who in apart)


def _limits(snapshot: Mapping[str, Any]) -> Answered:
    stated = snapshot["not_controlled"]
    if not stated:
        return "not met", "The study names nothing that it did not control."
    return (
        "declared",
        f"The study names {count(len(stated), 'thing')} that it did not control. Of others no record tells.",
    )


def _detectable(c: Comparison, snapshot: Mapping[str, Any], family: int) -> float:
    """The difference found with 80 % power by a fixed n, with this standard error and `family` comparisons."""
    if c.n < FEWEST_SEEDS or not isfinite(c.standard_error):
        return float("nan")
    sides = 2 if snapshot["target"] is not None else 1
    alpha = sides * snapshot.get("alpha", ALPHA) / family
    return detectable_difference(c.n, c.standard_error * c.n**0.5, alpha)


def _corrected(family: int) -> str:
    return f", corrected for {family} comparisons" if family > 1 else ""


def _margin(snapshot: Mapping[str, Any]) -> str:
    return "" if snapshot["margin"] is None else f"; the margin is {snapshot['margin']:g}"


def _differences(snapshot: Mapping[str, Any]) -> list[str]:
    """The settings in which an arm differs from the baseline."""
    return sorted({key for arm in snapshot["arms"] for key in arm["differences"]})
