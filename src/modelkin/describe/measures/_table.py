"""Results in long form: one row for each measure and pair of tensors. Stored by column, so many rows fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, final

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say

from ._measure import MeasuredPairs
from ._registry import MEASURES

Column = npt.NDArray[Any]
NO_LAYER = -1
"""How a tensor outside the layers is stored; rows and files say None."""
NOTHING = say("joined", parts=())
"""The note for nothing to report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRow:
    """One measure of one pair of tensors."""

    measure: str
    role: str
    view: str
    """``whole``; or ``prefix`` and ``groups``, if the larger tensor was cut to the smaller one."""
    model_a: str
    layer_a: int | None
    """None for what is outside the layers."""
    model_b: str
    layer_b: int | None
    value: float | None = None
    """None if it was not measured; `reason` says why."""
    reason: Message | None = None
    expected: float | None = None
    """The measure's mean over all reorderings of one tensor's values; None if unknown."""
    expected_sd: float | None = None
    """Its standard deviation over them, if known exactly."""
    n: int = 0
    """Distinct values of each tensor that were compared."""
    note: Message = NOTHING
    """What part of the tensors that is."""


TEXT = ("measure", "role", "view", "model_a", "model_b")
SAID = ("reason", "note")
LAYERS = ("layer_a", "layer_b")
FLOATS = ("value", "expected", "expected_sd")
COLUMNS = tuple(item.name for item in fields(MeasureRow))
_KINDS: Mapping[str, type] = {
    **dict.fromkeys((*TEXT, *SAID), np.object_),
    **dict.fromkeys((*LAYERS, "n"), np.int64),
    **dict.fromkeys(FLOATS, np.float64),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerMatrix:
    """A measure over layers of two models (or of one): rows are layers of a, columns layers of b."""

    values: np.ma.MaskedArray[Any, Any] = field(repr=False)
    """What was not measured is masked."""
    expected: np.ma.MaskedArray[Any, Any] = field(repr=False)
    layers_a: tuple[int | None, ...]
    layers_b: tuple[int | None, ...]


@final
class MeasureTable:
    """Rows, as columns. Immutable by convention: every method returns a new table.

    Examples
    --------
    >>> table = MeasureTable.of_rows([])
    >>> len(table), list(table)
    (0, [])
    """

    __slots__ = ("_columns",)

    def __init__(self, columns: Mapping[str, Column]) -> None:
        if tuple(columns) != COLUMNS or len({len(column) for column in columns.values()}) > 1:
            raise ValueError(f"columns: expected equally long columns {', '.join(COLUMNS)}")
        self._columns = dict(columns)

    # -- making ----------------------------------------------------------------------------------------

    @classmethod
    def of_rows(cls, rows: Iterable[MeasureRow]) -> MeasureTable:
        """Make a table from rows."""
        many = list(rows)
        return cls.of_columns({name: [getattr(row, name) for row in many] for name in COLUMNS})

    @classmethod
    def of_columns(cls, found: Mapping[str, Sequence[Any]]) -> MeasureTable:
        """Make a table from plain values by column; missing ones are None."""
        return cls({name: _column(name, found[name]) for name in COLUMNS})

    @classmethod
    def of_measured(
        cls,
        found: MeasuredPairs,
        *,
        layers: tuple[Sequence[int | None], Sequence[int | None]],
        models: tuple[str, str],
        measure: str,
        role: str,
        n: int,
        view: str = "whole",
        note: Message = NOTHING,
    ) -> MeasureTable:
        """Make the rows of one measure of one pair of models, layer by layer."""
        size = len(found)
        constant: dict[str, object] = {"measure": measure, "role": role, "view": view, "note": note}
        constant |= {"model_a": models[0], "model_b": models[1]}
        columns = {name: _column(name, [value] * size) for name, value in constant.items()}
        columns["layer_a"], columns["layer_b"] = (_column("layer_a", many) for many in layers)
        columns["value"] = found.values.filled(np.nan)
        columns["expected"] = found.expected.filled(np.nan)
        columns["expected_sd"] = found.expected_sd.filled(np.nan)
        columns["reason"] = found.reasons
        columns["n"] = np.full(size, n, dtype=np.int64)
        return cls({name: columns[name] for name in COLUMNS})

    @classmethod
    def joined(cls, tables: Sequence[MeasureTable]) -> MeasureTable:
        """Concatenate tables."""
        if not tables:
            return cls.of_rows([])
        return cls({name: np.concatenate([table._columns[name] for table in tables]) for name in COLUMNS})

    # -- reading ---------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._columns["n"])

    def __repr__(self) -> str:
        return f"MeasureTable({len(self)} rows, {int(self.values.count())} measured)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MeasureTable) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[MeasureRow]:
        for cells in zip(*(self._plain(name) for name in COLUMNS), strict=True):
            yield MeasureRow(**dict(zip(COLUMNS, cells, strict=True)))

    def cells(self) -> Iterator[tuple[Any, ...]]:
        """Yield rows as plain values, messages in English; missing ones are None."""
        told = {message: str(message) for message in self.messages()}
        return zip(
            *(
                [told.get(value) for value in self._columns[name]] if name in SAID else self._plain(name)
                for name in COLUMNS
            ),
            strict=True,
        )

    def messages(self) -> tuple[Message, ...]:
        """Return all distinct reasons and notes."""
        found = dict.fromkeys(value for name in SAID for value in self._columns[name] if value is not None)
        return tuple(found)

    def column(self, name: str) -> Column:
        """Return a column as it is stored: layers outside are -1, numbers that are missing NaN."""
        return self._columns[name]

    @property
    def values(self) -> np.ma.MaskedArray[Any, Any]:
        """The values; what was not measured is masked."""
        return np.ma.masked_invalid(self._columns["value"])

    @property
    def expected(self) -> np.ma.MaskedArray[Any, Any]:
        """The expectations under reordering; masked if unknown."""
        return np.ma.masked_invalid(self._columns["expected"])

    def distinct(self, name: str) -> tuple[Any, ...]:
        """Return the distinct values of a column, in the order of their first row."""
        return tuple(dict.fromkeys(self._plain(name)))

    def where(self, **wanted: object) -> MeasureTable:
        """Return the rows whose columns have these values; a tuple stands for any of its members.

        Examples
        --------
        >>> MeasureTable.of_rows([]).where(measure="pearson", layer_a=(0, 1))
        MeasureTable(0 rows, 0 measured)
        """
        keep = np.ones(len(self), dtype=np.bool_)
        for name, value in wanted.items():
            members = value if isinstance(value, tuple) else (value,)
            column = self._columns[name]
            stored = [NO_LAYER if name in LAYERS and member is None else member for member in members]
            keep &= np.logical_or.reduce([column == member for member in stored]).astype(np.bool_)
        return MeasureTable({name: column[keep] for name, column in self._columns.items()})

    def taken(self, rows: Sequence[int]) -> MeasureTable:
        """Return the rows at these places, in this order."""
        at = np.asarray(rows, dtype=np.intp)
        return MeasureTable({name: column[at] for name, column in self._columns.items()})

    def matrix(
        self, *, measure: str, role: str, model_a: str, model_b: str, view: str = "whole"
    ) -> LayerMatrix:
        """Return a measure over the layers of two models, or of one model with itself.

        Pairs that only exist the other way round are used if the measure is symmetric.
        """
        chosen = self.where(measure=measure, role=role, view=view)
        straight = chosen.where(model_a=model_a, model_b=model_b)
        turned = chosen.where(model_a=model_b, model_b=model_a)
        use_turned = MEASURES[measure].symmetric
        rows = (straight.column("layer_a"), *((turned.column("layer_b"),) if use_turned else ()))
        columns = (straight.column("layer_b"), *((turned.column("layer_a"),) if use_turned else ()))
        layers_a, at_a = np.unique(np.concatenate(rows), return_inverse=True)
        layers_b, at_b = np.unique(np.concatenate(columns), return_inverse=True)
        filled = []
        for name in ("value", "expected"):
            cells = np.full((len(layers_a), len(layers_b)), np.nan)
            parts = [straight.column(name), *([turned.column(name)] if use_turned else [])]
            # What was measured in the requested direction wins: it is written last.
            flat = np.concatenate(parts)[::-1]
            cells[at_a[::-1], at_b[::-1]] = flat
            filled.append(np.ma.masked_invalid(cells))
        return LayerMatrix(
            values=filled[0], expected=filled[1], layers_a=_layers(layers_a), layers_b=_layers(layers_b)
        )

    def model_matrix(
        self, *, measure: str, role: str, layer: int | Mapping[str, int] | None, view: str = "whole"
    ) -> tuple[tuple[str, ...], np.ma.MaskedArray[Any, Any]]:
        """Return names of models and a measure over all pairs of them, each at one layer.

        A model with itself is masked: it was not measured. So is the reverse of an asymmetric measure.
        """
        chosen = self.where(measure=measure, role=role, view=view)
        names = tuple(dict.fromkeys([*chosen.distinct("model_a"), *chosen.distinct("model_b")]))
        place = {name: at for at, name in enumerate(names)}
        cells = np.full((len(names), len(names)), np.nan)
        for row in chosen:
            wanted = [
                layer[name] if isinstance(layer, Mapping) else layer for name in (row.model_a, row.model_b)
            ]
            if [row.layer_a, row.layer_b] != wanted or row.value is None or row.model_a == row.model_b:
                continue
            cells[place[row.model_a], place[row.model_b]] = row.value
            if MEASURES[measure].symmetric:
                cells[place[row.model_b], place[row.model_a]] = row.value
        return names, np.ma.masked_invalid(cells)

    def _plain(self, name: str) -> list[Any]:
        values: list[Any] = self._columns[name].tolist()
        if name in LAYERS:
            return [None if value == NO_LAYER else value for value in values]
        if name in FLOATS:
            return [None if value != value else value for value in values]
        return values


def _layers(stored: npt.NDArray[np.int64]) -> tuple[int | None, ...]:
    return tuple(None if layer == NO_LAYER else int(layer) for layer in stored)


def _column(name: str, values: Sequence[Any]) -> Column:
    if name in LAYERS:
        values = [NO_LAYER if value is None else value for value in values]
    elif name in FLOATS:
        values = [np.nan if value is None else value for value in values]
    column: Column = np.empty(len(values), dtype=_KINDS[name])
    column[:] = values
    return column
