"""Figures of many models at one layer, and of layers within models."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from modelkin.casework.catalogue import models as draw
from modelkin.casework.catalogue.parts import Curve, measure_name
from modelkin.casework.studies.bench import Bench, NotDone
from modelkin.casework.studies.reading import Alias, DrawnVectors, LayerNumber, LayerOf
from modelkin.casework.studies.saved import Floats, expected_cells, square
from modelkin.describe.measures import MeasureTable, find_measure
from modelkin.figures import Figure
from modelkin.message import Message, joined, phrase, say

from . import _plot as plot
from ._pairs import PairsFigure

_SIGNED = ("cosine", "mean-direction", "pearson", "excess-cosine", "spearman", "cosine-about-1")


class ModelsFigure(PairsFigure, tag="models"):
    """Models against models at one layer, and layers of models against each other."""

    layer: LayerNumber | None = None
    layers_of: LayerOf = LayerOf()
    """A layer of each model."""
    model: Alias | None = None
    """The one whose layers are compared with each other."""
    groups: bool = False
    """Order by group."""
    layer_pairs: plot.LayerPairs = ()
    zoom: bool = False
    """Begin the axis near the values."""
    random: DrawnVectors | None = None

    def within(self, bench: Bench) -> tuple[list[str], dict[str, Curve]]:
        """Return labels, and cosines with expectations of pairs of layers within models."""
        table, found = self.table(bench), {}
        for alias in self.present(bench):
            cells = {
                (row.layer_a, row.layer_b): row
                for row in table.where(measure="cosine", role=self.role, model_a=alias, model_b=alias)
            }
            rows = [cells.get(pair) for pair in self.layer_pairs]
            values = tuple(row.value if row else None for row in rows)
            expected = tuple(row.expected if row else None for row in rows)
            item = Curve(layers=(), values=values, expected=expected)
            if item.known:
                found[bench.name(alias)] = item
        if not found:
            raise NotDone(say("study.no-model-layers"))
        return [phrase("catalogue.two-layers", i=i, j=j) for i, j in self.layer_pairs], found

    def cells(self, bench: Bench) -> tuple[list[str], Floats, Floats]:
        """Return aliases, values and expectations of models at the layer."""
        table, measure, layer = self.table(bench), find_measure(self.measure).name, self.layer or 0
        names, cells = table.model_matrix(measure=measure, role=self.role, layer=layer)
        wanted = [alias for alias in self.models or bench.study.models if alias in names]
        places = [names.index(alias) for alias in wanted]
        values = plot.filled(cells)[np.ix_(places, places)]
        has = np.asarray(np.isfinite(values).any(axis=1))
        kept = [alias for alias, there in zip(wanted, has.tolist(), strict=True) if there]
        if len(kept) < 2:
            raise NotDone(say("study.no-two-at-layer", n=layer))
        expected = expected_cells(table, measure, self.role, kept, layer)
        return kept, values[np.ix_(has, has)], expected

    def square(self, bench: Bench) -> draw.Square:
        """Return models against models at the layer."""
        kept, values, expected = self.cells(bench)
        return draw.Square(names=[bench.name(alias) for alias in kept], values=values, expected=expected)

    def by_group(self, bench: Bench) -> dict[str, Curve]:
        """Return pairs by group: within each and between them; known relatives belong to none."""
        kept, values, expected = self.cells(bench)
        order = list(bench.study.groups)
        found: dict[str, list[tuple[float, float]]] = {}
        for (i, a), (j, b) in combinations(enumerate(kept), 2):
            groups = [group for alias in (a, b) if (group := bench.study.models[alias].group)]
            if len(groups) < 2 or bench.study.known_relatives(a, b) or not np.isfinite(values[i, j]):
                continue
            name = " x ".join(sorted(groups, key=order.index))
            found.setdefault(name, []).append((float(values[i, j]), float(expected[i, j])))
        if not found:
            raise NotDone(say("study.no-groups"))
        return {name: draw.group_of(pairs) for name, pairs in found.items()}

    def draw_layer_pairs(self, bench: Bench) -> Figure:
        """Cosines of layers within each model."""
        title = phrase("catalogue.layers-within", role=plot.role_name(self.role))
        styles = plot.model_styles(bench)
        return draw.layer_pairs(*self.within(bench), title=title, zoom=self.zoom, styles=styles)

    def model_matrix(self, bench: Bench) -> Figure:
        """Models against models at one layer, known relatives marked."""
        kept, _, _ = self.cells(bench)
        groups = [bench.study.models[alias].group or phrase("component.other") for alias in kept]
        related = [pair for pair in combinations(kept, 2) if bench.study.known_relatives(*pair)]
        return draw.model_matrix(
            self.square(bench),
            measure=measure_name(self.measure),
            title=phrase("figure.one_layer", component=plot.role_name(self.role), layer=self.layer),
            groups=groups if self.groups else (),
            related=[(bench.name(a), bench.name(b)) for a, b in related],
        )

    def group_means(self, bench: Bench) -> Figure:
        """Means of a measure inside groups of models and between them, at one layer."""
        return draw.group_means(self.by_group(bench), measure=measure_name(self.measure))

    def experiments_summary(self, bench: Bench) -> Figure:
        """Layers within models, models at one layer, pairs by layer, and groups, in one figure."""
        few = replace(self, models=self.pair) if self.pair else self
        return draw.experiments_summary(
            few.within(bench), self.square(bench), self.strangers(bench), self.by_group(bench)
        )

    def measure_comparison(self, bench: Bench) -> Figure:
        """Cosines and correlations of pairs, of layers within models, and of drawn vectors."""
        table, layer = self.table(bench), self.layer or 0
        panels: dict[str, dict[str, draw.CosineAndPearson | None]] = {
            phrase("catalogue.pairs-layer", layer=layer): {
                bench.names(a, b): _measured(table, self.role, a, b, layer, layer) for a, b in self.pairs
            },
            phrase("catalogue.within-models"): {
                phrase("catalogue.model-layers", model=bench.name(alias), i=i, j=j): _measured(
                    table, self.role, alias, alias, i, j
                )
                for alias in self.models
                for i, j in self.layer_pairs
            },
        }
        if self.random is not None:
            panels[phrase("catalogue.normal-vectors")] = {
                row["what"]: draw.CosineAndPearson(row["cosine"], row["pearson"], row["closed_form"])
                for row in bench.folder.read_json(bench.earlier(self.random))["rows"]
            }
        known = {
            title: {name: item for name, item in items.items() if item is not None}
            for title, items in panels.items()
        }
        if not any(known.values()):
            raise NotDone(say("study.nothing-measured"))
        return draw.measure_comparison({title: items for title, items in known.items() if items})

    def confusion(self, bench: Bench) -> Figure:
        """Models against models at a layer, or layers of one model against each other, for each role."""
        table, measure = self.table(bench), find_measure(self.measure).name
        where = self._where(bench)
        squares: dict[str, draw.Square] = {}
        refused: dict[str, Message] = {}
        for role in self.roles or table.distinct("role"):
            part = table.where(role=role, measure=measure)
            if self.model is not None:
                part = part.where(model_a=self.model, model_b=self.model)
                found = _layers(part, measure, role, self.model)
            else:
                found = self._models(bench, part, measure, role)
            if found is None:
                none = say("study.not-measured") if self.model else say("study.no-two-have", where=where)
                refused[plot.role_name(role)] = next((row.reason for row in part if row.reason), none)
            else:
                squares[plot.role_name(role)] = found
        if not squares:
            why = joined(dict.fromkeys(refused.values())) if refused else say("study.nothing-measured")
            raise NotDone(why)
        name, signed = measure_name(measure), measure in _SIGNED
        return draw.confusion(squares, measure=name, where=where, signed=signed, refused=refused)

    def _where(self, bench: Bench) -> str:
        if self.model is not None:
            plot.need(bench, self.model)
            return phrase("catalogue.within", model=bench.name(self.model))
        if self.layers_of:
            if not set(self.present(bench)) <= set(self.layers_of):
                raise NotDone(say("study.layer-of-each"))
            return ", ".join(f"{bench.name(alias)} {number}" for alias, number in self.layers_of.items())
        if self.layer is None:
            raise NotDone(say("study.needs-layer"))
        return phrase("catalogue.layer-number", layer=self.layer)

    def _models(self, bench: Bench, part: MeasureTable, measure: str, role: str) -> draw.Square | None:
        layer: int | Mapping[str, int] = self.layers_of or self.layer or 0
        wanted = self.present(bench)
        names, cells = part.model_matrix(measure=measure, role=role, layer=layer)
        if not set(wanted) <= set(names):
            return None
        places = [names.index(alias) for alias in wanted]
        values = plot.filled(cells)[np.ix_(places, places)]
        labels = [bench.name(alias) for alias in wanted]
        return _known(labels, values, expected_cells(part, measure, role, wanted, layer))

    VIEWS: ClassVar[Mapping[str, plot.FigureView]] = {
        "confusion": plot.FigureView(
            confusion, uses=("roles", "models", "measure", "layer", "layers_of", "model")
        ),
        "layer-pairs": plot.FigureView(draw_layer_pairs, ("layer_pairs",), ("roles", "models", "zoom")),
        "model-matrix": plot.FigureView(model_matrix, ("layer",), ("roles", "models", "measure", "groups")),
        "group-means": plot.FigureView(group_means, ("layer",), ("roles", "models", "measure")),
        "measure-comparison": plot.FigureView(
            measure_comparison, ("pairs", "layer"), ("roles", "models", "layer_pairs", "random")
        ),
        "experiments-summary": plot.FigureView(
            experiments_summary,
            ("layer", "layer_pairs"),
            ("roles", "models", "measure", "layers", "pair"),
        ),
    }


def _measured(table: MeasureTable, role: str, a: str, b: str, i: int, j: int) -> draw.CosineAndPearson | None:
    found = {}
    for first, second, one, other in ((a, b, i, j), (b, a, j, i)):
        for row in table.where(
            role=role, view="whole", model_a=first, model_b=second, layer_a=one, layer_b=other
        ):
            found[row.measure] = row
    if "cosine" not in found or found["cosine"].value is None:
        return None
    pearson = found.get("pearson")
    return draw.CosineAndPearson(
        found["cosine"].value, pearson.value if pearson else None, found["cosine"].expected
    )


def _layers(part: MeasureTable, measure: str, role: str, model: str) -> draw.Square | None:
    grid = part.matrix(measure=measure, role=role, model_a=model, model_b=model)
    cells, layers, chance = square(grid, measure)
    return _known(
        [phrase("catalogue.layer-number", layer=layer) for layer in layers], np.array(cells), np.array(chance)
    )


def _known(names: list[str], values: Floats, expected: Floats) -> draw.Square | None:
    """Return a square, or nothing if nothing was measured."""
    if not np.isfinite(values).any():
        return None
    return draw.Square(names=names, values=values, expected=expected if np.isfinite(expected).any() else None)
