"""A study as a value: the question, what is compared, what may differ, and the smallest difference that matters.

Nothing runs when a study is made; it is only checked. Every mistake is a StudyError that says what to change.
"""

import dataclasses
import difflib
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analysis.sequential import looks_up_to
from analysis.verdict import FEWEST_SEEDS
from model import counting
from model.recipe import Budget, Precision, Recipe
from sweeps.engine.fingerprint import recipe_text
from sweeps.engine.grid import FEWEST_TUNING_SEEDS, FIRST_TUNING_SEED, Grid

QUANTITIES = {
    "parameters": lambda recipe: counting.parameters(recipe.model).total,
    "tokens": lambda recipe: recipe.tokens,
}
MOST_SEEDS = 10_000
REHEARSAL_SHARE = 10  # a rehearsal trains a tenth of the steps
REHEARSAL_SEEDS = 5


class StudyError(ValueError):
    """A study that cannot be asked as it stands."""


@dataclass(frozen=True)
class Arm:
    """One configuration under comparison; `note` says in a line what it is."""

    name: str
    recipe: Recipe
    note: str


@dataclass(frozen=True)
class Study:
    """A question and the runs that answer it.

    `varies` lists the recipe keys, or the beginnings of keys, in which arms may differ from the baseline; any other
    difference is refused. `equal` gives quantities that must agree over the arms, with the tolerance as a share of the
    baseline's. `margin` is the smallest difference of the held-out loss that matters, in nats per token, fixed before
    any data; a study without one is refused.

    With a grid in `tune` every arm is first tuned on it, and then judged on `seeds` at the point selected for it. With
    `looks`, numbers of seeds, seeds are added from look to look until an arm is decided; the last look has all `seeds`.
    """

    name: str
    question: str
    arms: tuple[Arm, ...]
    baseline: str
    varies: tuple[str, ...]
    margin: float | None = None
    margin_reason: str = ""
    equal: tuple[tuple[str, float], ...] = (("tokens", 0.0),)
    seeds: tuple[int, ...] = tuple(range(10))
    not_controlled: tuple[str, ...] = ()
    tune: Grid | None = None
    looks: tuple[int, ...] = ()
    rehearsal: bool = False

    def __post_init__(self) -> None:
        self._check_margin()
        self._check_seeds()
        self._check_arms()
        self._check_differences()
        self._check_grid()
        self._check_equal()
        assert not self.looks or (*sorted(set(self.looks)), len(self.seeds)) == (*self.looks, self.looks[-1])

    def arm(self, name: str) -> Arm:
        """The arm called `name`; an unknown name is a StudyError that suggests the nearest."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        names = [arm.name for arm in self.arms]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"its arms are {', '.join(names)}."
        raise StudyError(f"The study {self.name} has no arm {name!r}; {hint}")

    @property
    def precision(self) -> Precision | None:
        """The precision of every arm, or None when arms differ in it."""
        found = {arm.recipe.precision for arm in self.arms}
        return found.pop() if len(found) == 1 else None

    def differences(self, arm: Arm) -> dict[str, str]:
        """The keys in which `arm` differs from the baseline, with the arm's text, or 'absent'."""
        ours, theirs = recipe_text(arm.recipe), recipe_text(self.arm(self.baseline).recipe)
        return {key: ours.get(key, "absent") for key in sorted(ours | theirs) if ours.get(key) != theirs.get(key)}

    def is_replicate(self, arm: Arm) -> bool:
        """Whether `arm` is the baseline's own recipe under other seeds, so that any difference is chance."""
        differences = self.differences(arm)
        return bool(differences) and all(key.startswith("streams.") and key.endswith(".offset") for key in differences)

    def replace(self, **changes: Any) -> "Study":
        """A copy with `changes`, checked again."""
        return dataclasses.replace(self, **changes)

    def with_steps(self, steps: int) -> "Study":
        """The same study with every arm trained for `steps` updates, under a name of its own."""
        changed = self._map_recipes(lambda r: dataclasses.replace(r, budget=Budget(steps, r.budget.batch)))
        return changed._named(f"{steps}-steps") if changed != self else self

    def until_decided(self, most: int) -> "Study":
        """The same study with seeds added at declared looks until each arm is decided, at most `most` of them."""
        if not FEWEST_SEEDS <= most <= MOST_SEEDS:
            raise StudyError(f"--max-seeds is {FEWEST_SEEDS} at least and {MOST_SEEDS:,} at most, but it is {most:,}.")
        return self.replace(seeds=tuple(range(most)), looks=looks_up_to(most))

    def with_text(self, name: str | None, vocabulary: int | None) -> "Study":
        """The same study on the text `name` or with another vocabulary, under a name of its own."""
        study = self if name is None else self._named(re.sub(r"\W+", "-", name))
        if vocabulary is None:
            return study
        return study._named(f"{vocabulary}-symbols")._map_recipes(
            lambda r: dataclasses.replace(r, model=dataclasses.replace(r.model, vocabulary=vocabulary))
        )

    def with_precision(self, precision: Precision) -> "Study":
        """The same study, under the same name, with every arm trained in `precision`: one folder holds one precision,
        and a run's identity tells it."""
        return self._map_recipes(lambda r: dataclasses.replace(r, precision=precision))

    def with_arms(self, names: tuple[str, ...]) -> "Study":
        """The study of the baseline and the arms in `names` alone, under a name of its own: fewer comparisons are
        another family, and their verdicts must not replace those of the whole study."""
        kept = {self.arm(name).name for name in names} | {self.baseline}
        arms = tuple(arm for arm in self.arms if arm.name in kept)
        others = "-".join(arm.name for arm in arms if arm.name != self.baseline)
        return self.replace(arms=arms)._named(others) if arms != self.arms else self

    def as_rehearsal(self) -> "Study":
        """A tenth of the steps and of the warmup and at most five seeds, under a name of its own: it shows every part
        at work within minutes, and its verdict is about models that have hardly been trained."""

        def shorter(recipe: Recipe) -> Recipe:
            optimizer = dataclasses.replace(recipe.optimizer, warmup=recipe.optimizer.warmup // REHEARSAL_SHARE)
            budget = Budget(max(2, recipe.budget.steps // REHEARSAL_SHARE), recipe.budget.batch)
            return dataclasses.replace(recipe, optimizer=optimizer, budget=budget)

        rehearsal = self._map_recipes(shorter)._named("quick")
        grid = self.tune and dataclasses.replace(self.tune, seeds=FEWEST_TUNING_SEEDS)
        return rehearsal.replace(seeds=self.seeds[:REHEARSAL_SEEDS], tune=grid, rehearsal=True)

    def _named(self, addition: str) -> "Study":
        return self.replace(name=f"{self.name}-{addition}")

    def _map_recipes(self, change: Callable[[Recipe], Recipe]) -> "Study":
        return self.replace(arms=tuple(dataclasses.replace(arm, recipe=change(arm.recipe)) for arm in self.arms))

    def _check_margin(self) -> None:
        if not isinstance(self.margin, int | float) or not (self.margin > 0 and math.isfinite(self.margin)):
            raise StudyError(
                f"The study {self.name} needs a margin above zero, the smallest difference that matters, but was given "
                f"{'none' if self.margin is None else repr(self.margin)}."
            )

    def _check_seeds(self) -> None:
        if len(self.seeds) > MOST_SEEDS:
            raise StudyError(f"{len(self.seeds):,} seeds are more than the {MOST_SEEDS:,} that a study may have.")
        if not self.seeds:
            raise StudyError(f"The study {self.name} has no seeds; give at least one, and three for any verdict.")
        repeated = sorted(seed for seed, count in Counter(self.seeds).items() if count > 1)
        if repeated:
            raise StudyError(
                f"The seeds {', '.join(map(str, repeated))} are given more than once; each counts once only."
            )
        if min(self.seeds) < 0:
            raise StudyError(f"Seeds are whole numbers from 0 up, but {min(self.seeds)} was given.")

    def _check_arms(self) -> None:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise StudyError(f"Two arms of {self.name} have the same name: {', '.join(names)}.")
        self.arm(self.baseline)
        if len(names) < 2:
            raise StudyError(
                f"The study {self.name} has only its baseline {self.baseline!r}; name an arm to compare it with."
            )

    def _check_differences(self) -> None:
        seen: dict[tuple[tuple[str, str], ...], str] = {}
        for arm in self.arms:
            differences = self.differences(arm)
            undeclared = [key for key in differences if not _covered(key, self.varies)]
            if undeclared:
                raise StudyError(
                    f"The arm {arm.name!r} differs from the baseline {self.baseline!r} in {', '.join(undeclared)}, "
                    f"which the study does not list under varies ({', '.join(self.varies) or 'nothing'})."
                )
            twin = seen.setdefault(tuple(sorted(differences.items())), arm.name)
            if twin != arm.name:
                raise StudyError(
                    f"The arms {twin!r} and {arm.name!r} have the same recipe, so they would be the same runs."
                )

    def _check_grid(self) -> None:
        if self.tune is None:
            return
        own = [arm.name for arm in self.arms if self.tune.key in self.differences(arm)]
        if own:
            raise StudyError(
                f"The arms {', '.join(own)} set {self.tune.key} to a value of their own, and the grid sets it for all; "
                "let arms differ in it, or tune it."
            )
        if max(self.seeds) >= FIRST_TUNING_SEED:
            raise StudyError(
                f"The seed {max(self.seeds)} may serve to tune, for those are the seeds from {FIRST_TUNING_SEED} up; "
                "judge on smaller ones."
            )

    def _recipes(self) -> list[tuple[str, Recipe]]:
        """Every recipe that may be trained, with what it is called."""
        if self.tune is None:
            return [(arm.name, arm.recipe) for arm in self.arms]
        points = self.tune.points
        return [(f"{arm.name} at {point:g}", self.tune.at(arm.recipe, point)) for arm in self.arms for point in points]

    def _check_equal(self) -> None:
        recipes = self._recipes()
        for quantity, tolerance in self.equal:
            if quantity not in QUANTITIES:
                raise StudyError(f"{quantity!r} cannot be held equal; choose from {', '.join(QUANTITIES)}.")
            wanted = QUANTITIES[quantity](self.arm(self.baseline).recipe)
            unequal = [
                f"{name} has {value:,}"
                for name, recipe in recipes
                if abs((value := QUANTITIES[quantity](recipe)) - wanted) > tolerance * wanted
            ]
            if unequal:
                raise StudyError(
                    f"The study holds {quantity} equal within {tolerance:.1%} of {wanted:,} ({self.baseline}), but "
                    f"{', '.join(unequal)}."
                )


def _covered(key: str, varies: tuple[str, ...]) -> bool:
    return any(key == declared or key.startswith(f"{declared}.") for declared in varies)
