"""A study as a value: the question, what is compared, what may differ, and the smallest difference that matters.

Nothing runs when a study is made; it is only checked. Every mistake is a StudyError that says what to change.
"""

import dataclasses
import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from analysis.sequential import looks_up_to
from analysis.verdict import FEWEST_SEEDS
from model import counting
from model.corpus.text import Corpus
from model.corpus.texts import TangPoems, Task, Text, WrittenText
from model.recipe import Budget, Precision, Recipe
from sweeps.engine.contrasts import Contrast, check_contrasts
from sweeps.engine.fingerprint import recipe_text
from sweeps.engine.grid import FEWEST_TUNING_SEEDS, FIRST_TUNING_SEED, Grid
from sweeps.engine.mistakes import MOST_SEEDS, StudyError, check_margin, check_seeds
from sweeps.engine.published import Published, check_figures, check_pairs

QUANTITIES = {
    "parameters": lambda recipe: counting.parameters(recipe.model).total,
    "tokens": lambda recipe: recipe.tokens,
}
REHEARSAL_SHARE = 10  # a rehearsal trains a tenth of the steps
REHEARSAL_SEEDS = 5


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

    With `pairs`, (arm, what it is compared with), these comparisons are made in place of every arm's with the baseline.
    `published` are figures of others, of the same text and steps, that the arms are held against. `contrasts` are
    comparisons of trained models scored under several conditions; a study that has some may have its baseline for its
    only arm. `text` is what all arms train on and are scored on.
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
    pairs: tuple[tuple[str, str], ...] = ()
    published: Published | None = None
    contrasts: tuple[Contrast, ...] = ()
    text: Text = field(default_factory=TangPoems)
    rehearsal: bool = False

    def __post_init__(self) -> None:
        check_margin(self.name, self.margin)
        check_seeds(self.name, self.seeds)
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
        return changed.replace(published=None)._named(f"{steps}-steps") if changed != self else self

    def until_decided(self, most: int) -> "Study":
        """The same study with seeds added at declared looks until each arm is decided, at most `most` of them."""
        if not FEWEST_SEEDS <= most <= MOST_SEEDS:
            raise StudyError(f"--max-seeds is {FEWEST_SEEDS} at least and {MOST_SEEDS:,} at most, but it is {most:,}.")
        return self.replace(seeds=tuple(range(most)), looks=looks_up_to(most))

    def corpus(self) -> Corpus:
        """The text, with the vocabulary and context of the baseline. Raises CorpusError."""
        config = self.arm(self.baseline).recipe.model
        return self.text.build(config.vocabulary, config.context)

    def with_text(self, text: WrittenText | None, vocabulary: int | None) -> "Study":
        """The same study on another text or with another vocabulary, under a name of its own."""
        if text and isinstance(self.text, Task):
            raise StudyError(f"The text of {self.name} is a task made for its question, so it takes no --corpus.")
        study = self.replace(text=text, published=None)._named(re.sub(r"\W+", "-", text.name)) if text else self
        if vocabulary is None:
            return study
        return (
            study.replace(published=None)
            ._named(f"{vocabulary}-symbols")
            ._map_recipes(lambda r: dataclasses.replace(r, model=dataclasses.replace(r.model, vocabulary=vocabulary)))
        )

    def with_precision(self, precision: Precision) -> "Study":
        """The same study, under the same name, with every arm trained in `precision`: one folder holds one precision,
        and a run's identity tells it."""
        return self._map_recipes(lambda r: dataclasses.replace(r, precision=precision))

    def with_arms(self, names: tuple[str, ...]) -> "Study":
        """The study of the baseline and the arms in `names` alone, under a name of its own: fewer comparisons are
        another family, and their verdicts must not replace those of the whole study."""
        kept = {self.arm(name).name for name in names} | {self.baseline}
        pairs = tuple(pair for pair in self.pairs if pair[0] in kept)
        if self.pairs and not pairs:
            raise StudyError(f"None of {', '.join(names)} is compared with another arm; name one that is.")
        kept |= {reference for _, reference in pairs}
        arms = tuple(arm for arm in self.arms if arm.name in kept)
        others = "-".join(arm.name for arm in arms if arm.name != self.baseline)
        contrasts = tuple(contrast for contrast in self.contrasts if contrast.arms <= kept)
        published = self.published and self.published.of(kept)
        changed = self.replace(arms=arms, pairs=pairs, published=published, contrasts=contrasts)
        return changed._named(others) if arms != self.arms else self

    def as_rehearsal(self) -> "Study":
        """A tenth of the steps and of the warmup and at most five seeds, under a name of its own: it shows every part
        at work within minutes, and its verdict is about models that have hardly been trained."""

        def shorter(recipe: Recipe) -> Recipe:
            optimizer = dataclasses.replace(recipe.optimizer, warmup=recipe.optimizer.warmup // REHEARSAL_SHARE)
            budget = Budget(max(2, recipe.budget.steps // REHEARSAL_SHARE), recipe.budget.batch)
            return dataclasses.replace(recipe, optimizer=optimizer, budget=budget)

        rehearsal = self._map_recipes(shorter)._named("quick")
        grid = self.tune and dataclasses.replace(self.tune, seeds=FEWEST_TUNING_SEEDS)
        return rehearsal.replace(seeds=self.seeds[:REHEARSAL_SEEDS], tune=grid, published=None, rehearsal=True)

    def _named(self, addition: str) -> "Study":
        return self.replace(name=f"{self.name}-{addition}")

    def _map_recipes(self, change: Callable[[Recipe], Recipe]) -> "Study":
        return self.replace(arms=tuple(dataclasses.replace(arm, recipe=change(arm.recipe)) for arm in self.arms))

    def _check_arms(self) -> None:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise StudyError(f"Two arms of {self.name} have the same name: {', '.join(names)}.")
        self.arm(self.baseline)
        if len(names) < 2 and not self.contrasts:
            raise StudyError(
                f"The study {self.name} has only its baseline {self.baseline!r}; name an arm to compare it with."
            )
        recipes = {arm.name: arm.recipe for arm in self.arms}
        check_contrasts(self.contrasts, recipes)
        check_pairs(self.pairs, recipes)
        if self.published:
            check_figures(self.published, recipes)

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
