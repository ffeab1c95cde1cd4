"""``vectors``: whole vectors of norm gains of all layers, saved for every experiment that uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modelkin.casework.studies.bench import Bench, NotDone, shown
from modelkin.casework.studies.reading import Aliases, Layers, Roles
from modelkin.casework.studies.spec import Experiment
from modelkin.describe.matrix import RoleChoice, parse_role
from modelkin.describe.measures import Stack, describe_rows
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.tensors import TensorSlice

MOST_VALUES = 1_000_000
"""Of one tensor: this is for vectors, not for matrices."""
_STATISTICS = ("n", "mean", "std", "minimum", "maximum", "norm", "rho")


class Vectors(Experiment, tag="vectors"):
    """Whole vectors of norm gains, saved with their statistics."""

    roles: Roles
    models: Aliases = Aliases()
    """All of the study, if none is named."""
    layers: Layers | None = None
    """All, if nothing is said."""

    def run(self, bench: Bench) -> None:
        """Read all vectors of each model in one pass, and write them with their statistics."""
        arrays: dict[str, npt.NDArray[np.float32]] = {}
        keys: dict[str, dict[str, Any]] = {}
        rows: list[dict[str, object]] = []
        wanted = self.layers.numbers if self.layers else None
        for alias, model in bench.available(self.models or tuple(bench.study.models), least=1).items():
            for role in self.roles:
                found = _tensors(model, parse_role(role), wanted)
                if isinstance(found, Message):
                    bench.leave(say("study.role-of", role=role, model=alias), found)
                    continue
                read_ones = model.read([TensorSlice.whole(name) for name in found.values()])
                stack = np.stack([np.asarray(values, dtype=np.float32).ravel() for values in read_ones])
                arrays[key := f"{alias}|{role}"] = stack
                dtypes = [model.index[name].dtype for name in found.values()]
                keys[key] = {"model": alias, "role": role, "layers": list(found), "dtypes": dtypes}
                described = describe_rows(Stack(stack))
                for (layer, name), item, dtype in zip(found.items(), described, dtypes, strict=True):
                    row = {"model": alias, "role": role, "layer": layer, "tensor": name, "dtype": dtype}
                    rows.append({**row, **{column: getattr(item, column) for column in _STATISTICS}})
        if not arrays:
            raise NotDone(say("study.no-such-vectors"))
        bench.folder.arrays(bench.data(".npz"), arrays)
        bench.folder.rows(bench.data(".csv"), rows)
        summary = [
            {
                "model": bench.name(item["model"]),
                "role": item["role"],
                "layers": len(wide),
                "n": wide.shape[1],
                "mean_first": float(wide[0].mean()),
                "mean_last": float(wide[-1].mean()),
                "min": float(wide.min()),
                "max": float(wide.max()),
            }
            for key, item in keys.items()
            for wide in [arrays[key].astype(np.float64)]
        ]
        bench.document({"vectors": keys}, tables=[shown("vectors", summary)])

    def wanted(self, bench: Bench) -> Mapping[str, Sequence[TensorSlice]]:
        """Return all vectors."""
        numbers = self.layers.numbers if self.layers else None
        models = bench.available(self.models or tuple(bench.study.models), least=1)
        found = {
            alias: [_tensors(model, parse_role(role), numbers) for role in self.roles]
            for alias, model in models.items()
        }
        return {
            alias: [
                TensorSlice.whole(name)
                for item in items
                if not isinstance(item, Message)
                for name in item.values()
            ]
            for alias, items in found.items()
        }


def _tensors(model: Model, choice: RoleChoice, wanted: tuple[int, ...] | None) -> dict[int, str] | Message:
    """Return layer -> tensor; prediction layers only if requested by name."""
    architecture = model.architecture
    present = architecture.mtp_layers if choice.mtp else architecture.layers
    found: dict[int, str] = {}
    for layer in present:
        entry = architecture.find(choice.role, layer, choice.part, mtp=choice.mtp)
        if entry is None or (wanted is not None and layer not in wanted):
            continue
        if entry.segment is not None or len(model.index[entry.tensor].shape) != 1:
            return say("study.no-plain-vector", tensor=entry.tensor)
        if model.index[entry.tensor].n_elements > MOST_VALUES:
            return say("study.too-many-values", tensor=entry.tensor, n=MOST_VALUES)
        found[layer] = entry.tensor
    if not found:
        return say("study.no-such-tensor")
    if len({model.index[name].shape for name in found.values()}) > 1:
        return say("study.lengths-in-model")
    return found
