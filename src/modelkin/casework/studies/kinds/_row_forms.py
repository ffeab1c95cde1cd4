"""Tables with a row for each layer and tensor, as published analyses write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from modelkin.casework.studies._bench import Bench
from modelkin.describe.measures import Table

from ._form import CATEGORIES, Form, form_roles

Tensors = Mapping[tuple[str, str, str], Mapping[str, str]]


def _tensors(bench: Bench) -> Tensors:
    """Return what is known of each tensor, by model, role and layer as text."""
    rows = bench.folder.read_csv(bench.data("-tensors.csv"))
    return {(row["model"], row["role"], row["layer"]): row for row in rows}


def _cells(
    table: Table, role: str, view: str, a: str, b: str
) -> Iterator[tuple[int, dict[str, float | None]]]:
    """Yield facing layers with all their measures."""
    found: dict[int, dict[str, float | None]] = {}
    for row in table.where(role=role, view=view, model_a=a, model_b=b):
        if row.layer_a is not None and row.layer_a == row.layer_b:
            cells = found.setdefault(row.layer_a, {})
            cells[row.measure] = row.value
            cells[f"{row.measure} expected"], cells[f"{row.measure} sd"] = row.expected, row.expected_sd
            cells["n"] = row.n
    yield from sorted(found.items())


def layerwise(bench: Bench, form: Form, table: Table) -> None:
    """Write one row for each facing layer and role, with names and files of the tensors."""
    a, b = form.models[:2]
    tensors = _tensors(bench)
    matched: dict[int, float | None] = {}
    if form.routers is not None and bench.folder.has(path := bench.data(".json", of=form.routers)):
        matched = {row["layer"]: row["matched"] for row in bench.folder.read_json(path)["layers"]}
    rows = []
    for role in form_roles(form, table):
        for layer, cells in _cells(table, role, "whole", a, b):
            one, other = (tensors.get((name, role, str(layer)), {}) for name in (a, b))
            rows.append(
                [
                    layer,
                    layer,
                    CATEGORIES.get(role, role),
                    cells.get("cosine"),
                    cells.get("pearson"),
                    matched.get(layer) if role == "router" else None,
                    one.get("bytes"),
                    one.get("shape"),
                    one.get("tensor"),
                    other.get("tensor"),
                    one.get("file"),
                    other.get("file"),
                    cells.get("cosine expected"),
                    cells.get("excess-cosine"),
                    cells.get("n"),
                ]
            )
    columns = (
        "layer_B",
        "layer_A",
        "category",
        "cosine",
        "pearson",
        "aligned_expert_cosine",
        "bytes",
        "shape",
        "key_A",
        "key_B",
        "shard_A",
        "shard_B",
        "cosine_expected",
        "excess_cosine",
        "n",
    )
    bench.folder.csv(form.file, columns, sorted(rows, key=lambda row: (row[0], row[2])))


def sampled(bench: Bench, form: Form, table: Table) -> None:
    """Write one row for each layer, role and cut, with what came of it; every value counts once in n."""
    a, b = form.models[:2]
    tensors = _tensors(bench)
    rows = []
    for role in form_roles(form, table):
        part = table.where(role=role, model_a=a, model_b=b)
        cut = {row.layer_a for row in part if row.view != "whole" and row.value is not None}
        reasons = {(row.view, row.layer_a): row.reason for row in part}
        for view in part.distinct("view"):
            for layer, cells in _cells(part, role, view, a, b):
                one, other = (tensors.get((name, role, str(layer)), {}) for name in (a, b))
                reason = reasons[view, layer]
                cosine, expected, sd = (
                    cells.get(name) for name in ("cosine", "cosine expected", "cosine sd")
                )
                rows.append(
                    [
                        layer,
                        role,
                        view,
                        _status(reason, one, other, view, layer in cut),
                        one.get("dtype"),
                        other.get("dtype"),
                        one.get("shape"),
                        other.get("shape"),
                        _yes(cells.get("byte-identity")),
                        cosine,
                        cells.get("relative-l2"),
                        expected,
                        sd,
                        (cosine - expected) / sd
                        if cosine is not None and expected is not None and sd
                        else None,
                        cells.get("n"),
                        reason or one.get("note"),
                    ]
                )
    columns = (
        "layer",
        "tensor",
        "view",
        "status",
        f"{a}_dtype",
        f"{b}_dtype",
        f"{a}_shape",
        f"{b}_shape",
        "raw_hash_equal",
        "cosine",
        "rel_rmse",
        "cosine_expected",
        "cosine_expected_sd",
        "z_cos",
        "n",
        "note",
    )
    bench.folder.csv(form.file, columns, sorted(rows, key=lambda row: (row[0], row[1], row[2])))


def _status(
    reason: str | None, one: Mapping[str, str], other: Mapping[str, str], view: str, cut: bool
) -> str:
    if not one or not other:
        return "missing_in_one_repo"
    if view != "whole":
        return "truncated_to_fit"
    if reason is None:
        return "ok"
    return "shape_mismatch_but_trunc_test_ok" if cut else "shape_or_dtype_mismatch"


def _yes(value: float | None) -> bool | None:
    return None if value is None else value == 1.0
