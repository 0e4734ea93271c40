"""What a study asks of models that are scored under several conditions: cells and contrasts between them, declared
beforehand, and where each scoring stands in a figure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from model.corpus.text import Corpus
from model.recipe import Recipe
from model.scoring import Ablated, AtLength, Scoring
from model.seeding import Fixed
from sweeps.engine.mistakes import StudyError


@dataclass(frozen=True)
class Cell:
    """The loss of an arm's runs under `scoring`, without one their held-out loss; with `less` how much more that is
    than the other cell's loss of the same seed. `called` is its name where it is talked of, instead of a made one.
    """

    arm: str
    scoring: Scoring | None = None
    less: "Cell | None" = None
    called: str = ""

    @property
    def label(self) -> str:
        own = f"{self.arm} {self.scoring.name}" if self.scoring else self.arm
        return self.called or (f"{own} less {self.less.label}" if self.less else own)

    @property
    def single(self) -> tuple["Cell", ...]:
        """The cells of one loss that this one is made of."""
        return (Cell(self.arm, self.scoring), *(self.less.single if self.less else ()))

    def told(self) -> dict[str, Any]:
        """As plain data."""
        scoring = self.scoring.name if self.scoring else ""
        return {"label": self.label, "arm": self.arm, "scoring": scoring, "less": self.less and self.less.told()}


@dataclass(frozen=True)
class Contrast:
    """`cell` against `baseline`, judged as arms are: paired by seed, by the study's margin. All contrasts of a study
    are one family. `name` says in a few words what is asked.
    """

    name: str
    cell: Cell
    baseline: Cell

    @property
    def arms(self) -> set[str]:
        """Of both sides."""
        return {cell.arm for side in (self.cell, self.baseline) for cell in side.single}


def check_contrasts(contrasts: tuple[Contrast, ...], recipes: Mapping[str, Recipe]) -> None:
    """Raise StudyError for a contrast of an arm that the study has not (`recipes` are its arms'), of a scoring that the
    arm's runs are not given, of an arm that fixes a stream of randomness or of a cell with itself, and for two things
    of one name."""
    names = [contrast.name for contrast in contrasts]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise StudyError(f"Two contrasts are called {repeated[0]!r}; each needs a name of its own.")
    for contrast in contrasts:
        for cell in (*contrast.cell.single, *contrast.baseline.single):
            _check_cell(contrast, cell, recipes)
        if contrast.cell.label == contrast.baseline.label:
            raise StudyError(f"The contrast {contrast.name!r} holds {contrast.cell.label!r} against itself.")
    labels: dict[str, Cell] = {}
    sides = [side for contrast in contrasts for side in (contrast.cell, contrast.baseline)]
    for cell in (*(cell for arm, recipe in recipes.items() for cell in _cells(arm, recipe)), *sides):
        if labels.setdefault(cell.label, cell) != cell:
            raise StudyError(f"Two different cells are called {cell.label!r}; call one of them something else.")


def _check_cell(contrast: Contrast, cell: Cell, recipes: Mapping[str, Recipe]) -> None:
    recipe = recipes.get(cell.arm)
    if recipe is None:
        raise StudyError(f"The contrast {contrast.name!r} is of {cell.arm!r}; the arms are {', '.join(recipes)}.")
    if cell.scoring and cell.scoring not in recipe.scored:
        given = ", ".join(scoring.name for scoring in recipe.scored) or "under no other conditions"
        raise StudyError(
            f"The contrast {contrast.name!r} is of {cell.label!r}, but the runs of {cell.arm} are scored {given}."
        )
    check_streams(f"The contrast {contrast.name!r}", cell.arm, recipe)


def check_streams(comparison: str, arm: str, recipe: Recipe) -> None:
    """Raise StudyError when `arm`, of which `comparison` is, fixes a stream of randomness."""
    if any(isinstance(stream, Fixed) for stream in (recipe.streams.init, recipe.streams.order)):
        raise StudyError(
            f"{comparison} is of {arm!r}, which fixes a stream of randomness: its mean belongs to one draw of that "
            "stream, and a test would find differences that are none."
        )


def check_text(recipes: Iterable[Recipe], corpus: Corpus) -> None:
    """Raise StudyError when a scoring asks for a part that `corpus` has not, or for longer windows than it holds."""
    for scoring in dict.fromkeys(scoring for recipe in recipes for scoring in recipe.scored):
        if scoring.part and scoring.part not in corpus.parts:
            parts = f"has the parts {', '.join(corpus.parts)}" if corpus.parts else "has no parts"
            raise StudyError(f"Models are to be scored {scoring.name}, but the text {corpus.name} {parts}.")
        if isinstance(scoring, AtLength) and len(corpus.held_out) <= scoring.context:
            raise StudyError(
                f"Models are to be scored {scoring.name}, but the held-out part of {corpus.name} has only "
                f"{len(corpus.held_out):,} tokens; give a longer text."
            )
        if isinstance(scoring, AtLength) and corpus.stride not in (1, scoring.context + 1):
            raise StudyError(
                f"Models are to be scored {scoring.name}, but {corpus.name} is made of documents of {corpus.stride:,} "
                "tokens, and windows of another length would count answers twice or not at all."
            )


def _cells(arm: str, recipe: Recipe) -> Iterator[Cell]:
    return (Cell(arm, scoring) for scoring in (None, *recipe.scored))


def scorings(arm: str, recipe: Recipe) -> list[dict[str, Any]]:
    """Every scoring of `arm` with the name of its cell and its place in a figure: the axis, the panel, the lines that
    it is on and where on them."""
    made = [_place(scoring) | {"name": scoring.name, "label": Cell(arm, scoring).label} for scoring in recipe.scored]
    if any(isinstance(scoring, AtLength) for scoring in recipe.scored):
        at = AtLength(recipe.model.context)
        made.insert(0, _place(at) | {"name": "", "label": Cell(arm).label})
    return made


def _place(scoring: Scoring) -> dict[str, Any]:
    if isinstance(scoring, AtLength):
        line = f"stretched {scoring.stretched:g}" if scoring.stretched != 1 else ""
        return {"axis": "characters in a window", "panel": "", "lines": [line], "at": scoring.context}
    assert isinstance(scoring, Ablated)
    degrees = {f"{branch} off": degree for branch, degree in scoring.degrees.items()}
    off = {line: degree for line, degree in degrees.items() if degree}
    lines = [*degrees] if not off else [*off] if len(off) == 1 else []  # whole is where all lines begin
    at = max(degrees.values())
    return {"axis": "share of the branch taken away", "panel": scoring.part, "lines": lines, "at": at}
