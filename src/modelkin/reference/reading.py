"""Matrices of one model by purpose, read by ranges and counted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role, RoleEntry
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.tensors import Array, TensorInfo, TensorSlice

Floats = npt.NDArray[np.float32]
Sought = TypeVar("Sought")


def inner_product(first: npt.NDArray[np.floating[Any]], second: npt.NDArray[np.floating[Any]]) -> float:
    """Return the sum of the products of facing numbers, in double precision."""
    return float(np.einsum("ij,ij->i", first, second).sum(dtype=np.float64))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMatrix:
    """Where one matrix is, whatever its layout: input-first, fused with others, experts stacked."""

    slice: TensorSlice
    shape: tuple[int, int]
    """Outputs and inputs."""
    width: int
    """Columns as stored."""
    columns: npt.NDArray[np.intp] | None
    """Which of them belong to it; None means all."""
    transposed: bool

    def made(self, stored: Array) -> Floats:
        """Turn what was read into outputs x inputs."""
        values = _finite(stored).reshape(-1, self.width)
        if self.columns is not None:
            values = values[:, self.columns]
        return values.T if self.transposed else values


def _finite(values: Array) -> Floats:
    """Return numbers in single precision, with zero for NaN: no published formula says otherwise."""
    with np.errstate(over="ignore"):
        narrow = np.asarray(values, dtype=np.float32)
    if np.isfinite(narrow).all():
        return narrow
    return np.nan_to_num(narrow, nan=0.0, posinf=0.0, neginf=0.0)


class SideReader:
    """Reads one model and counts the bytes, whether they were stored already or not."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.n_bytes = 0

    def read(self, slices: Sequence[TensorSlice]) -> list[Array]:
        """Read slices in one pass."""
        self.n_bytes += self.model.cost(slices)
        return self.model.read(slices)

    def matrix(self, source: RoleMatrix) -> Floats:
        """Read one matrix."""
        return source.made(self.read([source.slice])[0])

    def rows(self, name: str, numbers: Sequence[int]) -> Floats:
        """Read some rows of a table; all of them at once if most are wanted."""
        return _finite(self.read([rows_slice(name, numbers)])[0])


class Spill:
    """Matrices that are needed again, kept in a folder that is removed when the block ends.

    When every layer of one model meets every layer of the other, each byte is read once, and memory holds a
    few matrices, not a model.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="modelkin-")
        self._files: dict[Hashable, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.clear()
        self._folder.cleanup()

    def keep(self, key: Hashable, matrix: Floats) -> None:
        """Store a matrix."""
        path = Path(self._folder.name) / f"{len(self._files)}.npy"
        np.save(path, matrix)
        self._files[key] = path

    def __getitem__(self, key: Hashable) -> Floats:
        found: Floats = np.load(self._files[key])
        return found


def rows_slice(name: str, numbers: Sequence[int]) -> TensorSlice:
    """Return the slice of some rows of a table."""
    if len(numbers) and list(numbers) == list(range(numbers[0], numbers[0] + len(numbers))):
        return TensorSlice.rows(name, numbers[0], numbers[0] + len(numbers))
    return TensorSlice.scattered(name, numbers)


def role_matrix(
    model: Model, role: Role, layer: int | None = None, *, expert: int | None = None
) -> RoleMatrix | None:
    """Find a matrix by its role; None if the model has none with two axes."""
    architecture = model.architecture
    entry = architecture.find(role, layer=layer)
    if entry is None and expert is not None:
        entry = architecture.find(role, layer=layer, expert=expert)
    if entry is None:
        return None
    info = model.index[entry.tensor]
    if len(info.shape) == 2:
        return _placed(entry, info, 0)
    if len(info.shape) == 3 and expert is not None:
        return _placed(entry, info, expert)
    return None


def _placed(entry: RoleEntry, info: TensorInfo, lead: int) -> RoleMatrix:
    n_rows, width = info.shape[-2:]
    rows: tuple[tuple[int, int], ...] = ((0, n_rows),)
    columns = None
    segment = entry.segment
    if segment is not None and segment.axis == len(info.shape) - 2:
        rows = segment.ranges()
    elif segment is not None:
        columns = np.concatenate([np.arange(start, stop) for start, stop in segment.ranges()])
    stored = sum(stop - start for start, stop in rows), width if columns is None else len(columns)
    first = lead * n_rows
    blocks = [((first + start) * width, (first + stop) * width) for start, stop in rows]
    return RoleMatrix(
        slice=TensorSlice.blocks(info.name, blocks),
        shape=(stored[1], stored[0]) if entry.transposed else stored,
        width=width,
        columns=columns,
        transposed=entry.transposed,
    )


def layer_matrices_of(
    model: Model, roles: Sequence[Role], layers: Sequence[int] | None = None
) -> list[tuple[RoleMatrix, ...]] | Message:
    """Find some matrices of every layer, or say what is missing where."""
    if not model.architecture.is_known:
        return say("unknown-architecture", model=model.location.ref)
    found = []
    for layer in model.architecture.layers if layers is None else layers:
        matrices = [role_matrix(model, role, layer) for role in roles]
        missing = [role.value for role, matrix in zip(roles, matrices, strict=True) if matrix is None]
        if missing:
            return say("reference-no-role", model=model.location.ref, role=missing[0], layer=layer)
        found.append(tuple(matrix for matrix in matrices if matrix is not None))
    return found or say("reference-no-layers", model=model.location.ref)


def both_sides(
    models: tuple[Model, Model], find: Callable[[Model], Sought | Message]
) -> tuple[Sought, Sought] | Message:
    """Find the same for both models, or return the first reason why not."""
    mine, theirs = find(models[0]), find(models[1])
    if isinstance(mine, Message):
        return mine
    return theirs if isinstance(theirs, Message) else (mine, theirs)


def slices_of(layers: Sequence[tuple[RoleMatrix, ...]]) -> list[TensorSlice]:
    """Return all slices of some matrices."""
    return [matrix.slice for layer in layers for matrix in layer]


def expert_numbers(model: Model, layer: int, role: Role) -> Iterator[int | None]:
    """Yield None for a layer with one MLP, or the numbers of its experts."""
    if model.architecture.find(Role.MLP_UP, layer=layer) is not None:
        yield None
    yield from model.architecture.experts_of(layer, role)
