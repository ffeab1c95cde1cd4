"""Forms with one row per layer and tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.reading import AliasPair, MatchedRouters
from modelkin.describe.measures import MeasureTable

from .form import CATEGORIES, Cells, Form, facing_cells

Tensors = Mapping[tuple[str, str, str], Mapping[str, str]]
BothTensors = tuple[Mapping[str, str], Mapping[str, str]]


def _tensors(bench: Bench) -> Tensors:
    """Return what is known about each tensor, by model, role and layer as text."""
    rows = bench.folder.read_csv(bench.data("-tensors.csv"))
    return {(row["model"], row["role"], row["layer"]): row for row in rows if row["tensor"]}


def _shape(tensor: Mapping[str, str]) -> str | None:
    """Write a shape as Python does; files of measures have it as ``128x4096``."""
    return str(tuple(map(int, tensor["shape"].split("x")))) if tensor else None


class Layerwise(Form, tag="layerwise"):
    """One row for each facing layer and role, with names and files of the tensors."""

    models: AliasPair
    routers: MatchedRouters | None = None
    """Experiment of kind ``routers`` whose matched cosines are added."""

    def write(self, bench: Bench, table: MeasureTable) -> None:
        a, b = self.models
        tensors = _tensors(bench)
        matched: dict[int, float | None] = {}
        if self.routers is not None and bench.folder.has(path := bench.data(".json", of=self.routers)):
            matched = {row["layer"]: row["matched"] for row in bench.folder.read_json(path)["layers"]}
        rows: list[tuple[int, dict[str, Any]]] = []
        for role in self.roles_of(table):
            for layer, cells in facing_cells(table, role, a, b):
                one, other = (tensors.get((name, role, str(layer)), {}) for name in (a, b))
                if not one or not other:  # as published: a layer that one of them lacks has no row
                    continue
                row = {
                    "layer_B": layer,
                    "layer_A": layer,
                    "category": CATEGORIES.get(role, role),
                    "cosine": cells.get("cosine"),
                    "pearson": cells.get("pearson"),
                    "aligned_expert_cosine": matched.get(layer) if role == "router" else None,
                    "bytes": one["bytes"],
                    "shape": _shape(one),
                    "key_A": one["tensor"],
                    "key_B": other["tensor"],
                    "shard_A": one["file"],
                    "shard_B": other["file"],
                }
                rows.append((layer, row))
        bench.folder.rows(self.file, _in_order(rows))


def _in_order(rows: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Sort rows by layer; those of a layer stay as they are."""
    return [row for _, row in sorted(rows, key=lambda item: item[0])]


class TensorRows(Form, tag="tensor-rows"):
    """A row for each tensor of the layers that both models have."""

    models: AliasPair

    def write(self, bench: Bench, table: MeasureTable) -> None:
        a, b = self.models
        tensors = _tensors(bench)
        mine, theirs = ({layer for model, _, layer in tensors if model == name} for name in (a, b))
        rows: list[tuple[int, dict[str, Any]]] = []
        for role in self.roles_of(table):
            part = table.where(role=role, model_a=a, model_b=b)
            cuts = dict(facing_cells(part, role, a, b, "prefix"))
            for layer, cells in facing_cells(part, role, a, b):
                one, other = (tensors.get((name, role, str(layer)), {}) for name in (a, b))
                if str(layer) in mine & theirs and (one or other):
                    rows.append((layer, self.row(bench, layer, (one, other), cells, cuts.get(layer))))
        bench.folder.rows(self.file, _in_order(rows))

    def row(
        self, bench: Bench, layer: int, tensors: BothTensors, cells: Cells, cut: Cells | None
    ) -> dict[str, Any]:
        """Make the row of a tensor; `cut` is what was measured on the beginning of the larger one."""
        raise NotImplementedError


def _same_bytes(cells: Cells) -> bool | None:
    same = cells.get("byte-identity")
    return None if same is None else same == 1.0


def _published_count(bench: Bench, tensors: BothTensors) -> int:
    """Return how many values the published probe reads of a tensor, some of them repeatedly."""
    experiment: Any = next(item for item in bench.study.experiments if item.id == bench.id)
    size = min(math.prod(map(int, tensor["shape"].split("x"))) for tensor in tensors)
    return int(max(1, experiment.windows) * min(size, experiment.sample))


class Windows(TensorRows, tag="windows"):
    """One row for each layer and tensor of sampled values, with the result of the truncation test.

    ``z_cos`` is as published: the cosine times the root of the values, where each window of a small tensor
    counts all of it again. In ``data``, ``deviations`` are what it should be: the distance from the expected
    cosine in its standard deviations, every value counted once.
    """

    def write(self, bench: Bench, table: MeasureTable) -> None:
        super().write(bench, table)
        rows: list[tuple[int, dict[str, Any]]] = []
        for role in self.roles_of(table):
            for view in ("whole", "prefix"):
                for layer, cells in facing_cells(table, role, *self.models, view):
                    cosine, expected, sd = map(cells.get, ("cosine", "cosine expected", "cosine sd"))
                    if cosine is not None and expected is not None and sd:
                        named = {"layer": layer, "role": role, "view": view, "cosine": cosine}
                        rows.append((layer, {**named, "deviations": (cosine - expected) / sd}))
        bench.folder.rows(bench.data("-deviations.csv"), _in_order(rows))

    def row(
        self, bench: Bench, layer: int, tensors: BothTensors, cells: Cells, cut: Cells | None
    ) -> dict[str, Any]:
        one, other = tensors
        a, b = self.models
        status = "ok"
        if not one or not other:
            status = "missing_in_one_repo"
        elif cells.get("cosine") is None:
            is_cut = cut is not None and cut.get("cosine") is not None
            status = "shape_mismatch_but_trunc_test_ok" if is_cut else "shape_or_dtype_mismatch"
            cells = cut if cut is not None and is_cut else cells
        cosine = cells.get("cosine")
        larger = "compared with the first rows or columns of the larger tensor"
        return {
            "layer": layer,
            "tensor": (one or other)["tensor"],
            "status": status,
            f"{a}_dtype": one.get("dtype"),
            f"{b}_dtype": other.get("dtype"),
            f"{a}_shape": one.get("shape"),
            f"{b}_shape": other.get("shape"),
            "raw_hash_equal": _same_bytes(cells),
            "cosine": cosine,
            "rel_rmse": cells.get("relative-l2"),
            "z_cos": None if cosine is None else cosine * math.sqrt(_published_count(bench, tensors)),
            "note": larger if status.startswith("shape_mismatch_but") else None,
        }


_NO_NUMBER, _NO_SHAPE = "nan", "None"
"""What the published file has where there is nothing; the other published tables leave it empty."""


def _number(cells: Cells, measure: str) -> float | str:
    value = cells.get(measure)
    return _NO_NUMBER if value is None else value


class Detailed(TensorRows, tag="detailed"):
    """One row for each layer and tensor, without the truncation test; models that lack a tensor are named."""

    def row(
        self, bench: Bench, layer: int, tensors: BothTensors, cells: Cells, cut: Cells | None
    ) -> dict[str, Any]:
        one, other = tensors
        status = "ok" if cells.get("cosine") is not None else "shape_mismatch"
        if not one or not other:
            status = f"missing_in_{bench.name(self.models[1 if one else 0])}"
        return {
            "layer": layer,
            "key": (one or other)["tensor"],
            "status": status,
            "cosine": _number(cells, "cosine"),
            "rel_rmse": _number(cells, "relative-l2"),
            "raw_hash_equal": _same_bytes(cells),
            "a_shape": _shape(one) or _NO_SHAPE,
            "b_shape": _shape(other) or _NO_SHAPE,
            "note": None,
        }
