"""Results that are too neat, too good or too poor to be taken at their word; each alarm says what to look at next."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, groupby

import numpy as np
from numpy.typing import ArrayLike

from analysis.intervals import no_variation
from analysis.neat import CHANCE, grain, shifted, spread, tied_by_chance
from analysis.tuning import Tuning
from analysis.verdict import FEWEST_SEEDS, Verdict
from analysis.wording import listed, numbers

NEAR = 0.01  # a mean loss this close to a trivial baseline, or to 0, leaves no room for an effect, in nats
TOO_GOOD = 0.02  # a trivial baseline below this share of the highest was scored on the text that it was counted from
FEW_ARMS = 20  # so many are held against each other, of more each one against the first
SHOWN = 5  # alarms of one kind, and names in one, before the rest is counted
COARSE = 1e-5  # losses rounded to this or more may owe what is odd about them to rounding
_EQUAL = "equal losses"

Losses = Mapping[str, Mapping[int, float]]  # arm -> seed -> final loss of a completed run


@dataclass(frozen=True)
class Alarm:
    """Something about `arms` that makes their numbers doubtful; `sentence` says what to look at next."""

    name: str
    arms: tuple[str, ...]
    sentence: str


def alarms(
    losses: Losses,
    compared_arms: Sequence[str],
    floors: Mapping[str, float],
    tuning: Tuning | None = None,
    contrasts: Collection[Verdict] = (),
) -> tuple[Alarm, ...]:
    """Every alarm of a study's completed losses; `floors` are the trivial baselines by name, in nats per token, and
    `contrasts` what was decided of trained models that are scored otherwise.

    Arms are held against each other among `compared_arms` only, the baseline first: an arm that fixes a stream may
    rightly meet the baseline on a seed. Of each kind the first are told and the rest is counted.
    """
    means = {arm: float(np.mean([*of_arm.values()])) for arm, of_arm in losses.items() if of_arm}
    found = _few_seeds({arm: len(of_arm) for arm, of_arm in losses.items()})
    found += chain.from_iterable(_seedless(arm, [*of_arm.values()]) for arm, of_arm in losses.items())
    found += _against_floors(means, floors, contrasts) if floors else ()
    found += _equal_losses(losses, compared_arms)
    twins = [set(alarm.arms) for alarm in found if alarm.name == _EQUAL]
    found += (alarm for alarm in _shifts(losses, compared_arms) if not any(set(alarm.arms) <= twin for twin in twins))
    found += _on_the_grid(tuning, compared_arms) if tuning else ()
    return tuple(chain.from_iterable(_shortened([*same]) for _, same in groupby(found, key=lambda alarm: alarm.name)))


def _few_seeds(counts: Mapping[str, int]) -> list[Alarm]:
    few = {arm: n for arm, n in counts.items() if n < FEWEST_SEEDS}
    named = listed([f"{arm} ({n})" for arm, n in few.items()], SHOWN)
    text = f"Fewer than {FEWEST_SEEDS} completed seeds: {named}. No verdict is given from so few; add seeds."
    return [Alarm("fewer than 3 seeds", tuple(few), text)] if few else []


def _seedless(arm: str, values: Sequence[float]) -> Iterator[Alarm]:
    if len(values) >= 2 and no_variation(values, float(np.abs(values).max())):
        text = (
            f"Every seed of {arm} ends at the same loss ({values[0]:.6g}): the seed does not reach the training. "
            f"Look at how the run's seed is handed to the initial weights and the batch order{_rounding(values)}."
        )
        yield Alarm("zero seed variance", (arm,), text)


def _against_floors(
    means: Mapping[str, float], floors: Mapping[str, float], contrasts: Collection[Verdict]
) -> Iterator[Alarm]:
    """Trivial baselines that cannot be, arms that end at one, and a task on which every arm ends at one or at 0.

    That every arm solves its task is as it should be where solved models are scored otherwise, and told apart so.
    """
    highest = max(max(floors.values()), min(means.values(), default=0.0))
    trivial = {name: level for name, level in floors.items() if level >= TOO_GOOD * highest}
    for name in [name for name in floors if name not in trivial]:
        text = (
            f"The trivial baseline {name} scores {floors[name]:.3g}, too good for one: it has seen the text that it is "
            "scored on. Count it on the training text and score it on the held-out text."
        )
        yield Alarm("too good", (), text)
    reached = {
        arm: max((level, name) for name, level in trivial.items() if mean >= level - NEAR)
        for arm, mean in means.items()
        if mean >= min(trivial.values(), default=np.inf) - NEAR
    }
    for arm, (level, name) in reached.items():
        below = f"only {level - means[arm]:.3f} below" if means[arm] < level else "not below"
        text = (
            f"{arm} ends at a mean loss of {means[arm]:.3f}, {below} the {name} baseline ({level:.3f}): it "
            "has learned hardly more than that. Look at its learning curve and gradient norms, then at learning rate "
            "and warmup."
        )
        yield Alarm("ignores its input", (arm,), text)
    if 1 < len(means) == len(reached):
        text = (
            "Every arm ends at a trivial baseline: nothing was learned that the arms could differ in. Train longer or "
            "at another learning rate, or take a text from which a model of this size can learn."
        )
        yield Alarm("task shows nothing", tuple(means), text)
    solved = bool(means) and highest > 10 * NEAR and all(abs(mean) < NEAR for mean in means.values())
    if solved and not any(verdict.told_apart for verdict in contrasts):
        text = (
            f"Every arm ends within {NEAR:g} of a perfect score: the task is too easy to show a difference. Take a "
            "harder one, or fewer training steps."
        )
        yield Alarm("task shows nothing", tuple(means), text)


def _equal_losses(losses: Losses, arms: Sequence[str]) -> Iterator[Alarm]:
    """Arms with the same loss on a seed, unless rounding explains it; by sorting, for tables of a million runs."""
    counts = np.array([len(losses[arm]) for arm in arms], dtype=int)
    total = int(counts.sum())
    arm = np.repeat(np.arange(len(arms)), counts)
    seed = np.fromiter(chain.from_iterable(losses[name] for name in arms), np.int64, total)
    loss = np.fromiter(chain.from_iterable(losses[name].values() for name in arms), float, total)
    order = np.lexsort((arm, loss, seed))
    arm, seed, loss = arm[order], seed[order], loss[order]
    tie = np.flatnonzero((np.diff(seed) == 0) & (np.diff(loss) == 0))
    pairs, of_pair, ties = np.unique(arm[tie] * len(arms) + arm[tie + 1], return_inverse=True, return_counts=True)
    first, second = np.divmod(pairs, max(1, len(arms)))
    facts = np.full((3, len(arms)), np.nan)
    for i in np.union1d(first, second):
        values = [*losses[arms[i]].values()]
        facts[:, i] = len(values), grain(values), spread(values)
    found = np.flatnonzero(tied_by_chance(ties, *np.minimum(facts[:, first], facts[:, second])) < CHANCE)
    seeds = np.split(seed[tie][np.argsort(of_pair, kind="stable")], np.cumsum(ties)[:-1]) if len(found) else []
    alike: dict[tuple[tuple[int, ...], int], list[int]] = {}  # by seeds and last arm: a third twin joins the pair
    for i in found:
        on = tuple(seeds[i].tolist())
        alike[on, int(second[i])] = [*alike.pop((on, int(first[i])), [int(first[i])]), int(second[i])]
    for (on, last), twins in alike.items():
        named = tuple(arms[i] for i in twins)
        text = (
            f"{listed(named, SHOWN)} end at exactly the same loss on seed{'s' * (len(on) > 1)} {numbers(on)}: too neat "
            "for different configurations. Look at whether the setting that differs reaches the model"
            f"{_rounding([*losses[arms[last]].values()])}."
        )
        yield Alarm(_EQUAL, named, text)


def _shifts(losses: Losses, arms: Sequence[str]) -> Iterator[Alarm]:
    pairs = combinations(arms, 2) if len(arms) <= FEW_ARMS else ((arms[0], arm) for arm in arms[1:])
    for first, second in pairs:
        ours, theirs = losses[first], losses[second]
        both = np.array([(ours[seed], theirs[seed]) for seed in ours if seed in theirs]).reshape(-1, 2).T
        if both.shape[1] >= FEWEST_SEEDS and shifted(*both):
            text = (
                f"{first} and {second} differ by nearly the same amount ({(both[0] - both[1]).mean():+.4g}) on every "
                "seed: too neat for two trainings. Look at whether both are scored on the same text, by the same code"
                f"{_rounding(both)}."
            )
            yield Alarm("constant shift", (first, second), text)


def _on_the_grid(tuning: Tuning, arms: Sequence[str]) -> Iterator[Alarm]:
    """Points of the grid that end at the same mean, and optima at its edge."""
    at: dict[tuple[int, float], list[tuple[str, float]]] = defaultdict(list)
    for arm in tuning.arms:
        for point in arm.points if arm.arm in arms else ():
            at[point.n, point.mean].append((arm.arm, point.point))
    for (n, mean), who in at.items():
        if n and len(who) > 1:
            named = listed([f"{arm} at {point:g}" for arm, point in who], SHOWN)
            text = (
                f"{named} end at exactly the same mean loss ({mean:.6g}) over the tuning seeds: too neat for different "
                f"configurations. Look at whether the {tuning.setting} and the setting that differs reach the training."
            )
            yield Alarm(_EQUAL, tuple(dict.fromkeys(arm for arm, _ in who)), text)
    for arm in tuning.arms:
        if arm.at_edge and arm.selected is not None:
            side = "lowest" if arm.selected == min(tuning.points) else "highest"
            text = (
                f"The best {tuning.setting} of {arm.arm} is {arm.selected:g}, the {side} of the grid: a better one may "
                "lie beyond. Extend the grid on that side, for every arm alike."
            )
            yield Alarm("optimum at the edge", (arm.arm,), text)


def _shortened(alike: list[Alarm]) -> list[Alarm]:
    """Alarms of one kind, those beyond the first few as one."""
    first, rest = alike[:SHOWN], alike[SHOWN:]
    if len(rest) < 2:
        return alike
    arms = tuple(dict.fromkeys(chain.from_iterable(alarm.arms for alarm in rest)))
    text = f"The same alarm ({rest[0].name}) is raised {len(rest):,} times more, of {listed(arms, SHOWN)}."
    return [*first, Alarm(rest[0].name, arms, text)]


def _rounding(values: ArrayLike) -> str:
    """What else to look at, where losses have few digits."""
    step = grain(values)
    return f", and at the digits of the losses, which are rounded to {step:g}" if step >= COARSE else ""
