"""What baselines are made from: the vectors of one role, and which of them face each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from modelkin.describe.measures import (
    Baseline,
    LayerMatrix,
    LayerPairing,
    Measure,
    Pairs,
    Stack,
    distribution,
    measured,
)

from ._gather import Shelf
from ._items import Layer
from ._options import MatrixOptions
from ._selection import RoleChoice

Masked = np.ma.MaskedArray[Any, Any]
TokenStacks = tuple[Stack, Stack, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the baselines of one role are made from."""

    choice: RoleChoice
    shelves: Mapping[str, Shelf]
    measures: tuple[Measure, ...]
    options: MatrixOptions
    pairs: Callable[[RoleChoice, str, str, Sequence[LayerPairing] | None], list[tuple[Layer, Layer]]]
    tokens: Mapping[tuple[str, str], TokenStacks | str]

    def row(
        self,
        baseline: str,
        measure: Measure,
        scope: str,
        values: Masked | None,
        *,
        observed: float | None = None,
        reason: str = "nothing could be measured",
        note: str = "",
    ) -> Baseline:
        """Sum up numbers to one baseline."""
        null = None if values is None else distribution(values)
        return Baseline(
            baseline=baseline,
            measure=measure.name,
            role=self.choice.label,
            scope=scope,
            observed=observed,
            null=null,
            reason=reason if null is None else None,
            note=note,
        )

    def joint(self, a: str, b: str, pairings: Sequence[LayerPairing] | None = None) -> Joint | str:
        """Return the vectors of two models and their pairs, of the shape that most pairs have."""
        shelves = self.shelves[a], self.shelves[b]
        if pairings is None:
            # Where the table pairs layers in several ways, baselines go with the first.
            pairings = [next((item for item in self.options.pairs if (item == "within") == (a == b)), "same")]
        found: dict[object, list[tuple[Layer, Layer]]] = {}
        for mine, theirs in self.pairs(self.choice, a, b, pairings):
            places = shelves[0].places.get(mine), shelves[1].places.get(theirs)
            if places[0] is not None and places[1] is not None and places[0][0] == places[1][0]:
                found.setdefault(places[0][0], []).append((mine, theirs))
        if not found:
            return "no two tensors of equal shape face each other"
        shape, layers = max(found.items(), key=lambda item: len(item[1]))
        stacks = [shelf.stacks[shape] for shelf in shelves]  # type: ignore[index]
        rows = [[shelf.places[pair[side]][1] for pair in layers] for side, shelf in enumerate(shelves)]
        return Joint(a=stacks[0], b=stacks[1], pairs=Pairs.of(*rows), layers=tuple(layers))

    def model_pairs(self) -> Iterator[tuple[str, str, Joint | str]]:
        """Yield all pairs of models with what they have in common, as the table pairs their layers."""
        only_within = set(self.options.pairs) == {"within"}
        for a, b in combinations_with_replacement(self.shelves, 2):
            if (a == b) == only_within:
                yield a, b, self.joint(a, b)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """Vectors of two models and which face each other."""

    a: Stack
    b: Stack
    pairs: Pairs
    layers: tuple[tuple[Layer, Layer], ...]

    def values(self, measure: Measure) -> Masked:
        """Measure all pairs."""
        return measured(measure, self.a, self.b, self.pairs).values

    def matrix(self, measure: Measure) -> LayerMatrix:
        """Measure all pairs, as a matrix of layers; other cells are masked."""
        found = self.values(measure).filled(np.nan)
        rows = sorted({mine for mine, _ in self.layers if mine is not None})
        columns = sorted({theirs for _, theirs in self.layers if theirs is not None})
        at = {layer: k for k, layer in enumerate(rows)}, {layer: k for k, layer in enumerate(columns)}
        cells = np.full((len(rows), len(columns)), np.nan)
        for (mine, theirs), value in zip(self.layers, found, strict=True):
            if mine is not None and theirs is not None:
                cells[at[0][mine], at[1][theirs]] = value
        values = np.ma.masked_invalid(cells)
        return LayerMatrix(values=values, expected=values, layers_a=tuple(rows), layers_b=tuple(columns))


def mean_of(values: Masked) -> float | None:
    """Return the mean of what was measured; None if nothing was."""
    return float(values.mean()) if values.count() else None
