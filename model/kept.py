"""A trained model in one file: all that it takes to run it and to look into it, without its text and its study."""

import importlib
import io
import pickle
import pkgutil
import zipfile
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import torch
from torch import Tensor

import model.parts
from model.batches import Batch
from model.recipe import Recipe
from model.transformer import Transformer

FORMAT = 1
PROBE_TOKENS = 8192  # held-out tokens, about, that are kept with a model
_Value = TypeVar("_Value")


class KeptError(ValueError):
    """A file that holds no model that can be used; the message says why."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What a trained member leaves beside its numbers, on the CPU: weights by name, and held-out windows."""

    weights: dict[str, Tensor]
    probe: Batch


@dataclass(frozen=True, eq=False)
class KeptModel:
    """A run's model with all that belongs to it."""

    run_id: str
    study: str
    arm: str
    seed: int
    recipe: Recipe
    characters: str  # of the vocabulary: the character of token i is characters[i - 1], and 0 is any other
    kept: Kept

    def build(self) -> Transformer:
        """The model as it was after its last update."""
        return self._hold(self.kept.weights)

    def build_initial(self) -> Transformer:
        """The model as it was before its first update."""
        first = self.recipe.model.build(self.recipe.streams.init.at(self.seed))
        return self._hold({name: tensor.to(self.dtype) for name, tensor in first.state_dict().items()})

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self.kept.weights["embedding"].dtype

    def _hold(self, weights: dict[str, Tensor]) -> Transformer:
        with torch.device("meta"):
            built = Transformer(self.recipe.model)
        built.load_state_dict({name: tensor.clone() for name, tensor in weights.items()}, assign=True)
        return built


def to_bytes(whole: KeptModel) -> bytes:
    """The content of the file of `whole`."""
    content = {field.name: getattr(whole, field.name) for field in fields(whole) if field.name != "kept"}
    probe = {"inputs": whole.kept.probe.inputs_BT, "targets": whole.kept.probe.targets_BT}
    buffer = io.BytesIO()
    torch.save(content | {"format": FORMAT, "weights": whole.kept.weights} | probe, buffer)
    return buffer.getvalue()


def read(path: Path) -> KeptModel:
    """The model in `path`. Runs no code of the file's: it may hold tensors, plain values and the parts of a recipe.

    Raises KeptError when it cannot be read, is of another format, or names a part that this version does not have.
    """
    if path.is_file() and not zipfile.is_zipfile(path):  # what PyTorch writes is one; another it would try to guess
        raise KeptError(f"{path} holds no model that this version can read (it is not a whole file of PyTorch's).")
    try:
        with torch.serialization.safe_globals([*parts_of(Recipe)]):
            content: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except OSError as error:
        raise KeptError(f"{path} cannot be read ({error.strerror or error}).") from None
    except (RuntimeError, EOFError, LookupError, AttributeError, pickle.UnpicklingError) as error:
        raise KeptError(f"{path} holds no model that this version can read ({_first_line(error)}).") from None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise KeptError(f"{path} is no model that was kept by a study, or it is of another version.")
    probe = Batch(content.pop("inputs"), content.pop("targets"))
    recipe, weights = _anew(content.pop("recipe")), content.pop("weights")
    return KeptModel(recipe=recipe, kept=Kept(weights, probe), **content)


def parts_of(kind: Any) -> set[type]:
    """The dataclasses among `kind`, the types of its fields and their subclasses in this package, wherever they
    stand in a union."""
    for module in pkgutil.iter_modules(model.parts.__path__, "model.parts."):
        importlib.import_module(module.name)  # a subclass is known once its module is
    return _parts_of(kind)


def _parts_of(kind: Any) -> set[type]:
    if isinstance(kind, type) and is_dataclass(kind):
        ours = [part for part in kind.__subclasses__() if part.__module__.partition(".")[0] == "model"]
        inner = [*get_type_hints(kind).values(), *ours]
        return {kind}.union(*(_parts_of(part) for part in inner))
    return set().union(*(_parts_of(argument) for argument in get_args(kind)))


def _anew(value: _Value) -> _Value:
    """`value` made anew from what it holds, so that fields which came later are there, at their defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{name: _anew(own) for name, own in vars(value).items()})
    return value


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.partition("\n")[0].rstrip(".")
