"""Figures of two models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from msgspec import Meta

from modelkin.casework.catalogue import pair as draw
from modelkin.casework.catalogue.parts import Curve, Curves
from modelkin.casework.studies.bench import Bench, NotDone
from modelkin.casework.studies.reading import (
    COSINE,
    Aliases,
    AliasPair,
    DrawnVectors,
    LayerNumber,
    MeasureName,
    SavedVectors,
)
from modelkin.casework.studies.saved import Floats, both_vectors, far_apart, load_vectors
from modelkin.describe.measures import MeasureTable, find_measure
from modelkin.figures import Animation, Figure, Numbers, known
from modelkin.message import Message, say

from . import _plot as plot

V = TypeVar("V")


class _Asked(dict[str, V]):
    """Values that are made when they are asked for: a figure needs few of those there are."""

    def __init__(self, make: Callable[[str], V]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, key: str) -> V:
        value = self[key] = self.make(key)
        return value


class PairFigure(plot.Viewed, tag="pair"):
    """Two models: measures by layer, all layers against all, values of one layer."""

    VIEWS: ClassVar[Mapping[str, plot.FigureView]] = {
        "layer-curves": plot.FigureView(draw.layer_curves, uses=("roles", "measure")),
        "norm-cosines": plot.FigureView(draw.norm_cosines, uses=("roles",)),
        "with-controls": plot.FigureView(draw.with_controls, ("controls",), ("roles", "measure")),
        "comprehensive": plot.FigureView(draw.comprehensive, ("random",), ("roles",)),
        "proof": plot.FigureView(draw.proof, uses=("roles", "distance")),
        "layer-decay": plot.FigureView(draw.layer_decay, uses=("roles", "measure")),
        "intuition": plot.FigureView(draw.intuition, ("vectors",), ("roles", "layer")),
        "type-summary": plot.FigureView(draw.type_summary, uses=("roles", "measure")),
        "cosine-and-pearson": plot.FigureView(draw.cosine_and_pearson, uses=("roles",)),
    }
    pair: AliasPair
    measure: MeasureName = COSINE
    controls: Aliases = Aliases()
    random: DrawnVectors | None = None
    distance: Annotated[int, Meta(ge=1, le=999)] = 5
    """Between layers that do not face each other."""
    vectors: SavedVectors | None = None
    layer: LayerNumber | None = None
    """The one with the highest cosine, if nothing is said."""

    def make(self, bench: Bench) -> Figure | Animation:
        """Read what the view asks for."""
        table, (a, b) = self.table(bench), self.pair
        plot.need(bench, a, b)
        one_role = self.view in ("layer-decay", "intuition", "cosine-and-pearson")
        roles = [self.role] if one_role else list(self.roles or table.distinct("role"))
        kinds = {role: plot.role_name(role) for role in roles}
        found: dict[str, Curves] = _Asked(lambda name: self._curves(bench, table, name, kinds))
        mismatched = self._mismatched(bench, table, roles[0]) if self.view == "proof" else ()
        layer, vectors = self._vectors(bench, found["cosine"]) if self.vectors else (0, ((), ()))
        return self.VIEWS[self.view].draw(
            draw.TwoModels(
                names=(bench.name(a), bench.name(b)),
                measure=find_measure(self.measure).name,
                curves=found,
                cells=_Asked(lambda name: self._cells(bench, table, name)),
                controls=_Asked(lambda kind: self._controls(bench, table, kind, found, kinds)),
                random=self._random(bench),
                mismatched=mismatched,
                distance=self.distance,
                vectors=vectors,
                layer=layer,
                styles=plot.model_styles(bench) if self.view == "intuition" else None,
            )
        )

    def _curves(
        self, bench: Bench, table: MeasureTable, measure: str, kinds: Mapping[str, str]
    ) -> dict[str, Curve]:
        """Return one curve per role, over the same layers, with gaps for missing values."""
        a, b = self.pair
        if self.view == "type-summary":
            return {name: plot.best_view(table, role, a, b, measure) for role, name in kinds.items()}
        every = {name: plot.curve(table, role, a, b, measure) for role, name in kinds.items()}
        found = {name: item for name, item in every.items() if item.known}
        if not found:
            raise NotDone(say("study.not-measured-of", a=bench.name(a), b=bench.name(b)))
        layers = sorted({int(layer or 0) for item in found.values() for layer in item.layers})
        return {name: item.over(layers) for name, item in found.items()}

    def _cells(self, bench: Bench, table: MeasureTable, measure: str) -> draw.Cells:
        grid, (a, b) = plot.grid_of(bench, table, self.role, self.pair, measure), self.pair
        if min(grid.values.shape) < 2:
            raise NotDone(say("study.few-layers"))
        return draw.Cells(
            values=plot.filled(grid.values),
            expected=plot.filled(grid.expected),
            layers=(known(grid.layers_a), known(grid.layers_b)),
            n=int(table.where(role=self.role, model_a=a, model_b=b).column("n").max()),
        )

    def _controls(
        self,
        bench: Bench,
        table: MeasureTable,
        kind: str,
        found: Mapping[str, Curves],
        kinds: Mapping[str, str],
    ) -> dict[str, Numbers | Message]:
        """Return curves of each model with each control; one that is missing has its reason."""
        role = next(role for role, name in kinds.items() if name == kind)
        layers = [int(layer or 0) for layer in found[find_measure(self.measure).name][kind].layers]
        controls: dict[str, Numbers | Message] = {}
        for control in self.controls:
            for name in self.pair:
                item = plot.curve(table, role, name, control, self.measure).over(layers)
                controls[bench.names(name, control)] = (
                    bench.missing[control]
                    if control in bench.missing
                    else item.values
                    if item.known
                    else plot.reason(table, role, name, control)
                )
        return controls

    def _random(self, bench: Bench) -> dict[str, tuple[float, float]]:
        """Return random vectors with given means, and those like the pair."""
        if self.random is None:
            return {}
        rows = bench.folder.read_json(bench.earlier(self.random))["rows"]
        return {
            row["what"]: (row["cosine"], row["cosine_sd"])
            for row in rows
            if "measured" not in row or row.get("pair") == list(self.pair)
        }

    def _mismatched(self, bench: Bench, table: MeasureTable, role: str) -> Floats:
        wrong = far_apart(plot.grid_of(bench, table, role, self.pair, "cosine"), self.distance)
        if not np.isfinite(wrong).any():
            raise NotDone(say("study.no-distance", n=self.distance))
        return wrong

    def _vectors(self, bench: Bench, found: Curves) -> tuple[int, tuple[Floats, Floats]]:
        """Return a layer and its vectors.

        The layer that speaks most for a relation, unless one is requested: any other choice is less fair.
        """
        one, other, common = both_vectors(load_vectors(bench, str(self.vectors)), *self.pair, self.role)
        (cosine,) = found.values()
        pairs: Sequence[tuple[float | None, float | None]] = [*zip(cosine.layers, cosine.values, strict=True)]
        known = {
            int(at): value for at, value in pairs if at is not None and value is not None and at in common
        }
        if not known:
            raise NotDone(say("study.nothing-measured"))
        layer = self.layer if self.layer is not None else max(known, key=lambda item: known[item])
        if layer not in common:
            raise NotDone(say("study.no-layer-in-both", n=layer))
        return layer, (one.at((layer,))[0], other.at((layer,))[0])
