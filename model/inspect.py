"""``python -m model.inspect RUN_ID``: what goes on inside a trained model that a study kept (``--keep-models``)."""

import argparse
import difflib
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from model.diagnostics.ablation import ablation
from model.diagnostics.anatomy import TWIN, Anatomy, Floats, summary
from model.diagnostics.checks import Check, checks
from model.diagnostics.drawer import drawer
from model.diagnostics.faults import faults
from model.diagnostics.joints import touch
from model.diagnostics.live import as_trained
from model.diagnostics.measure import measure
from model.diagnostics.neurons import Neuron, strongest_neurons
from model.diagnostics.output import show, writable, write
from model.diagnostics.slots import idle
from model.diagnostics.tables import pages
from model.kept import KeptError, KeptModel, read

MOST_NAMED = 8  # run ids in a message


@dataclass(frozen=True, eq=False)
class Inspection:
    """All that is found out about one kept model."""

    model: KeptModel
    initial: Anatomy  # before the first update, on the same text
    trained: Anatomy
    checks: list[Check]
    faults: list[Check]  # the nine silent failures, by name; empty where numbers are not finite
    ablation_L2: Floats
    neurons: list[Neuron]

    def plain(self) -> dict[str, Any]:
        """The same as numbers, texts, lists and dictionaries of them; None for what is not finite."""
        found = {
            **{name: getattr(self.model, name) for name in ("run_id", "study", "arm", "seed")},
            "initial": self.initial.plain(),
            "trained": self.trained.plain(),
            "summary": summary(self.trained),
            "checks": [asdict(check) for check in self.checks],
            "faults": [asdict(check) for check in self.faults],
            "ablation_L2": self.ablation_L2.tolist(),
            "neurons": [asdict(neuron) for neuron in self.neurons],
            "twin": TWIN,
        }
        return {name: _finite(value) for name, value in found.items()}


def inspect(model: KeptModel) -> Inspection:
    """Measure `model` as it was before training and as it is, on the held-out windows that were kept with it."""
    batch, recipe = model.kept.probe, model.recipe
    with as_trained(recipe, "cpu"):
        initial, trained = measure(model.build_initial(), batch), measure(model.build(), batch)
        joints = touch(model.build(), batch)
        return Inspection(
            model=model,
            initial=initial,
            trained=trained,
            checks=checks(trained, joints),
            faults=faults(initial, trained, joints, idle(model.build(), [batch])),
            ablation_L2=ablation(model.build(), batch),
            neurons=strongest_neurons(model.build(), batch, model.characters),
        )


def find(run_id: str, results: Path) -> Path:
    """The file of the kept model whose run id begins with `run_id`, in any study's folder under `results`.

    Raises KeptError when there is none or more than one, saying which there are.
    """
    kept = {path.stem: path for path in sorted(results.glob("*/models/*.pt"))}
    if not kept:
        raise KeptError(f"No model is kept under {results}; a study keeps its models with --keep-models.")
    matching = [name for name in kept if name.startswith(run_id)]
    if len(matching) == 1:
        return kept[matching[0]]
    if matching:
        raise KeptError(f"{run_id} begins {len(matching)} run ids: {_named(matching)}. Give more digits.")
    nearest = difflib.get_close_matches(run_id, kept, n=3, cutoff=0.5)
    most_like = f" The nearest: {', '.join(nearest)}." if nearest else ""
    raise KeptError(f"No kept model is called {run_id}.{most_like} Kept under {results}: {_named(list(kept))}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0 whatever the checks say, 2 for a mistake, said on stderr."""
    options = _parser().parse_args(arguments)
    try:
        target = writable(options.json) if options.json else None
        draw = drawer("inspection") if options.figures else None
        found = inspect(read(find(options.run_id, options.results)))
        if target:
            write(target, json.dumps(found.plain(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        named = (("Checks", found.checks), ("Silent failures, by what gives them away", found.faults))
        looked = [(title, checked) for title, checked in named if checked]
        show(pages(found.model, found.initial, found.trained, found.ablation_L2, found.neurons, looked))
        if draw:
            show([f"Figures: {', '.join(map(str, draw(found.plain(), options.figures)))}"])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m model.inspect", description="Look inside a trained model that a study kept (--keep-models)."
    )
    parser.add_argument("run_id", metavar="RUN_ID", help="the run's id, or as much of it as is unique")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="where the studies are")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements there too")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="draw them there, as SVG files")
    return parser


def _named(run_ids: list[str]) -> str:
    rest = f" and {len(run_ids) - MOST_NAMED:,} more" if len(run_ids) > MOST_NAMED else ""
    return ", ".join(run_ids[:MOST_NAMED]) + rest


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
