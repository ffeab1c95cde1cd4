"""What forms of a table have in common: a file, some roles, and the names that published files use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np

from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.reading import Roles, form
from modelkin.describe.measures import LayerMatrix, MeasureTable
from modelkin.structs import Fields

CATEGORIES = {"attention_norm": "norm_pre", "mlp_norm": "norm_post", "router": "router_or_gate"}
"""What published tables call roles."""
TENSOR_NAMES = {
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
    "attention_query": "q_proj",
    "attention_key": "k_proj",
    "attention_value": "v_proj",
    "attention_output": "o_proj",
}
"""What published squares call roles."""
_FILE = r"[A-Za-z0-9_][A-Za-z0-9_.{}-]{0,80}(?:/[A-Za-z0-9_{][A-Za-z0-9_.{}-]{0,80}){0,4}"
FilePattern = Annotated[str, form("part.path-form", _FILE)]


class Form(Fields, tag_field="form", tag="form"):
    """A further file of a table."""

    file: FilePattern
    """May contain ``{measure}``, ``{layer}``, ``{layers}`` and ``{model}`` if several files are written."""
    roles: Roles = ()
    """All of the table, if none is named."""

    def write(self, bench: Bench, table: MeasureTable) -> None:
        raise NotImplementedError

    def roles_of(self, table: MeasureTable) -> tuple[str, ...]:
        """Return the roles that the file is about, in the requested order."""
        present = table.distinct("role")
        return tuple(role for role in self.roles if role in present) if self.roles else present


Cells = Mapping[str, float | None]


def facing_cells(
    table: MeasureTable, role: str, a: str, b: str, view: str = "whole"
) -> Iterator[tuple[int, Cells]]:
    """Yield facing layers with all their measures, whichever way round the pair was measured."""
    part = table.where(role=role, view=view)
    straight = part.where(model_a=a, model_b=b)
    found: dict[int, dict[str, float | None]] = {}
    for row in straight if len(straight) else part.where(model_a=b, model_b=a):
        if row.layer_a is not None and row.layer_a == row.layer_b:
            cells = found.setdefault(row.layer_a, {})
            cells[row.measure] = row.value
            cells[f"{row.measure} expected"], cells[f"{row.measure} sd"] = row.expected, row.expected_sd
    yield from sorted(found.items())


def facing_values(table: MeasureTable, measure: str, role: str, a: str, b: str) -> list[float]:
    """Return a measure of the facing layers that were measured."""
    found = (cells.get(measure) for _, cells in facing_cells(table, role, a, b))
    return [value for value in found if value is not None]


def facing(grid: LayerMatrix) -> np.ma.MaskedArray[Any, Any]:
    """Return the cells of layers with the same number, in order."""
    pairs = [
        (i, grid.layers_b.index(layer)) for i, layer in enumerate(grid.layers_a) if layer in grid.layers_b
    ]
    return grid.values[[i for i, _ in pairs], [j for _, j in pairs]]
