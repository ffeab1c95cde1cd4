"""``vectors``: whole vectors of norm gains of all layers, kept for every experiment that looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.casework.studies._bench import Bench, Skipped, shown_table
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.describe.matrix import RoleChoice, parse_layer_list, parse_role
from modelkin.describe.measures import Stack, describe
from modelkin.model import Model
from modelkin.tensors import TensorSlice

from ._kind import Kind
from ._reading import read_layers, read_roles

MOST_VALUES = 1_000_000
"""Of one tensor: this is for vectors, not for matrices."""
_COLUMNS = (
    "model",
    "role",
    "layer",
    "tensor",
    "dtype",
    "n",
    "mean",
    "std",
    "minimum",
    "maximum",
    "norm",
    "rho",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """Options of the experiment."""

    models: tuple[str, ...]
    roles: tuple[str, ...]
    layers: tuple[int, ...] | None


def read(parts: dict[str, Node], scope: Scope) -> Vectors:
    """Read the options."""
    return Vectors(
        models=scope.aliases(parts.get("models")),
        roles=read_roles(parts["roles"]),
        layers=parse_layer_list(read_layers(parts["layers"])) if "layers" in parts else None,
    )


def run(bench: Bench, options: Vectors) -> None:
    """Read all vectors of each model in one pass, and write them with their statistics."""
    arrays: dict[str, npt.NDArray[np.float32]] = {}
    keys: dict[str, dict[str, object]] = {}
    rows: list[list[object]] = []
    for alias, model in bench.available(options.models, least=1).items():
        for role in options.roles:
            choice = parse_role(role)
            found = _tensors(model, choice, options.layers)
            if isinstance(found, str):
                bench.leave(f"{role} of {alias}", found)
                continue
            read_ones = model.read([TensorSlice.whole(name) for name in found.values()])
            stack = np.stack([np.asarray(values, dtype=np.float32).ravel() for values in read_ones])
            arrays[key := f"{alias}|{role}"] = stack
            dtypes = [model.index[name].dtype for name in found.values()]
            keys[key] = {"model": alias, "role": role, "layers": list(found), "dtypes": dtypes}
            described = describe(Stack(stack))
            for (layer, name), item, dtype in zip(found.items(), described, dtypes, strict=True):
                numbers = (item.mean, item.std, item.minimum, item.maximum, item.norm, item.rho)
                rows.append([alias, role, layer, name, dtype, item.n, *numbers])
    if not arrays:
        raise Skipped("no model has such vectors")
    bench.folder.arrays(bench.data(".npz"), arrays)
    bench.folder.csv(bench.data(".csv"), _COLUMNS, rows)
    shown = [
        [
            bench.name(str(item["model"])),
            item["role"],
            len(arrays[key]),
            arrays[key].shape[1],
            *_range(arrays[key]),
        ]
        for key, item in keys.items()
    ]
    bench.document(
        {"vectors": keys},
        tables=[
            shown_table(
                "vectors", ("model", "role", "layers", "n", "mean_first", "mean_last", "min", "max"), shown
            )
        ],
    )


def _range(values: npt.NDArray[np.float32]) -> tuple[float, float, float, float]:
    wide = values.astype(np.float64)
    return float(wide[0].mean()), float(wide[-1].mean()), float(wide.min()), float(wide.max())


def _tensors(model: Model, choice: RoleChoice, wanted: tuple[int, ...] | None) -> dict[int, str] | str:
    """Return layer -> tensor; prediction layers only where they are asked for by name."""
    architecture = model.architecture
    present = architecture.mtp_layers if choice.mtp else architecture.layers
    found: dict[int, str] = {}
    for layer in present:
        entry = architecture.find(choice.role, layer, choice.part)
        if entry is None or (wanted is not None and layer not in wanted):
            continue
        if entry.segment is not None or len(model.index[entry.tensor].shape) != 1:
            return f"{entry.tensor} is no plain vector"
        if model.index[entry.tensor].n_elements > MOST_VALUES:
            return f"{entry.tensor} has more than {MOST_VALUES:,} values"
        found[layer] = entry.tensor
    if not found:
        return "it has no such tensor in the layers that were asked for"
    if len({model.index[name].shape for name in found.values()}) > 1:
        return "its layers have vectors of different lengths"
    return found


@dataclass(frozen=True, slots=True)
class Saved:
    """Vectors that were saved: the layers of one role of one model."""

    layers: tuple[int, ...]
    values: npt.NDArray[np.float64]
    dtypes: tuple[str, ...]

    @property
    def n(self) -> int:
        """Length of the vectors."""
        return int(self.values.shape[1])

    def at(self, layers: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return the vectors of some layers, in this order."""
        return self.values[[self.layers.index(layer) for layer in layers]]


def load_vectors(bench: Bench, experiment: str) -> Mapping[tuple[str, str], Saved]:
    """Read saved vectors, by alias and role."""
    document = bench.folder.read_json(bench.earlier(experiment))["vectors"]
    arrays = bench.folder.read_arrays(bench.earlier(experiment, ".npz"))
    return {
        (item["model"], item["role"]): Saved(
            tuple(item["layers"]), arrays[key].astype(np.float64), tuple(item["dtypes"])
        )
        for key, item in document.items()
    }


def both_vectors(
    saved: Mapping[tuple[str, str], Saved], a: str, b: str, role: str
) -> tuple[Saved, Saved, tuple[int, ...]]:
    """Return the vectors of two models and the layers that both have."""
    for alias in (a, b):
        if (alias, role) not in saved:
            raise Skipped(f"there are no vectors of {alias} for {role}")
    one, other = saved[a, role], saved[b, role]
    if one.n != other.n:
        raise Skipped(f"vectors have {one.n} and {other.n} values")
    common = tuple(layer for layer in one.layers if layer in other.layers)
    if not common:
        raise Skipped("the models have no layer in common")
    return one, other, common


KIND = Kind(
    name="vectors",
    meaning="whole vectors of norm gains, saved with their statistics",
    fields=Fields(required=("roles",), optional=("models", "layers"), read=read),
    run=run,
)
