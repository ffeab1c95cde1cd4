"""Figures of baselines: many pairs of models, groups, and layers within models."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from msgspec.structs import replace

from modelkin.casework import catalogue
from modelkin.casework.studies.bench import Bench, NotDone
from modelkin.casework.studies.reading import COSINE, AliasPair, Earlier, LayerNumber, Layers, MeasureName
from modelkin.casework.studies.saved import Floats, expected_cells
from modelkin.casework.studies.spec import Drawing
from modelkin.describe.measures import MeasureTable, find_measure
from modelkin.figures import Figure
from modelkin.message import phrase, say

from . import _plot as plot

Cells = dict[str, tuple[float | None, ...]]
Groups = dict[str, dict[str, float | None]]


class LayerPairBars(plot.OfModels, tag="layer-pairs"):
    """Cosines of layers within each model."""

    layer_pairs: plot.LayerPairs
    zoom: bool = False
    """Begin the axis near the values."""

    def make(self, bench: Bench) -> Figure:
        labels, values, expected = _pair_cells(bench, self, self.layer_pairs)
        return catalogue.layer_pairs(
            labels,
            values,
            expected,
            title=phrase("catalogue.layers-within", role=plot.role_name(self.role)),
            zoom=self.zoom,
            styles=plot.model_styles(bench),
        )


def _pair_cells(
    bench: Bench, options: plot.OfModels, pairs: plot.LayerPairs
) -> tuple[list[str], Cells, Cells]:
    """Return labels, cosines and expectations of pairs of layers within models."""
    table = options.table(bench)
    values, expected = {}, {}
    for alias in options.present(bench):
        cells = {
            (row.layer_a, row.layer_b): row
            for row in table.where(measure="cosine", role=options.role, model_a=alias, model_b=alias)
        }
        rows = [cells.get(pair) for pair in pairs]
        if any(row is not None and row.value is not None for row in rows):
            values[bench.name(alias)] = tuple(row.value if row else None for row in rows)
            expected[bench.name(alias)] = tuple(row.expected if row else None for row in rows)
    if not values:
        raise NotDone(say("study.no-model-layers"))
    return [phrase("catalogue.two-layers", i=i, j=j) for i, j in pairs], values, expected


class AtLayer(plot.OfModels):
    """A figure of models against models at one layer."""

    layer: LayerNumber
    measure: MeasureName = COSINE

    def cells(self, bench: Bench) -> tuple[list[str], Floats, Floats]:
        """Return aliases, values and expectations."""
        table, measure = self.table(bench), find_measure(self.measure).name
        names, cells = table.model_matrix(measure=measure, role=self.role, layer=self.layer)
        wanted = [alias for alias in self.models or bench.study.models if alias in names]
        places = [names.index(alias) for alias in wanted]
        values = plot.filled(cells)[np.ix_(places, places)]
        has = np.asarray(np.isfinite(values).any(axis=1))
        kept = [alias for alias, there in zip(wanted, has.tolist(), strict=True) if there]
        if len(kept) < 2:
            raise NotDone(say("study.no-two-at-layer", n=self.layer))
        expected = expected_cells(table, measure, self.role, kept, self.layer)
        return kept, values[np.ix_(has, has)], expected

    def groups_of(self, bench: Bench) -> tuple[Groups, Groups]:
        """Return pairs by group: within each and between them; known relatives belong to none."""
        kept, values, expected = self.cells(bench)
        order = list(bench.study.groups)
        found: Groups = {}
        chance: Groups = {}
        for (i, a), (j, b) in combinations(enumerate(kept), 2):
            groups = [group for alias in (a, b) if (group := bench.study.models[alias].group)]
            if len(groups) < 2 or bench.study.known_relatives(a, b) or not np.isfinite(values[i, j]):
                continue
            name = " x ".join(sorted(groups, key=order.index))
            found.setdefault(name, {})[bench.names(a, b)] = float(values[i, j])
            chance.setdefault(name, {})[bench.names(a, b)] = float(expected[i, j])
        if not found:
            raise NotDone(say("study.no-groups"))
        return found, chance


class ModelMatrix(AtLayer, tag="model-matrix"):
    """Models against models at one layer, known relatives marked."""

    groups: bool = False
    """Order by group."""

    def make(self, bench: Bench) -> Figure:
        kept, values, expected = self.cells(bench)
        groups = [bench.study.models[alias].group or phrase("component.other") for alias in kept]
        return catalogue.model_matrix(
            [bench.name(alias) for alias in kept],
            values,
            measure=plot.title_of(self.measure),
            title=phrase("figure.one_layer", component=plot.role_name(self.role), layer=self.layer),
            expected=expected,
            groups=groups if self.groups else None,
            related=[
                (bench.name(a), bench.name(b))
                for a, b in combinations(kept, 2)
                if bench.study.known_relatives(a, b)
            ],
        )


class GroupMeans(AtLayer, tag="group-means"):
    """Means of a measure inside groups of models and between them, at one layer."""

    def make(self, bench: Bench) -> Figure:
        return catalogue.group_means(*self.groups_of(bench), measure=plot.title_of(self.measure))


class LayerRange(plot.OfModels, tag="layer-range"):
    """A measure by layer for all pairs that are not known relatives, with their range."""

    measure: MeasureName = COSINE
    layers: Layers | None = None
    """All of the data, if nothing is said."""
    pair: AliasPair | None = None
    """The pair that is highlighted."""

    def make(self, bench: Bench) -> Figure:
        layers, curves, expected = _range_cells(bench, self, self.measure, self.layers)
        main = bench.names(*self.pair) if self.pair else None
        return catalogue.layer_range(
            layers,
            curves,
            measure=plot.title_of(self.measure),
            expected=expected,
            highlight=main if main in curves else None,
        )


def _range_cells(
    bench: Bench, options: plot.OfModels, measure: str, wanted: Layers | None
) -> tuple[list[int], dict[str, Sequence[float | None]], list[float | None]]:
    """Return layers, one curve per pair of strangers, and the mean of their expectations."""
    table = options.table(bench)
    layers = list(wanted.numbers) if wanted else plot.plain_layers(table.distinct("layer_a"))
    found = {
        bench.names(a, b): item
        for a, b in combinations(options.present(bench), 2)
        if not bench.study.known_relatives(a, b)
        and (item := plot.curve(table, options.role, a, b, measure).over(layers)).known
    }
    if not found:
        raise NotDone(say("study.no-pair-layers"))
    expected = [
        [value for value in many if value is not None]
        for many in zip(*(item.expected for item in found.values()), strict=True)
    ]
    curves: dict[str, Sequence[float | None]] = {name: item.values for name, item in found.items()}
    return layers, curves, [float(np.mean(many)) if many else None for many in expected]


class MeasureComparison(plot.OfModels, tag="measure-comparison"):
    """Cosines and correlations of pairs, of layers within models, and of drawn vectors."""

    pairs: plot.PairList
    layer: LayerNumber
    layer_pairs: plot.LayerPairs = ()
    """Of the models that are named."""
    random: Earlier | None = None
    """Experiment that drew vectors."""

    def make(self, bench: Bench) -> Figure:
        """Draw what was measured."""
        table = self.table(bench)
        panels: dict[str, dict[str, catalogue.Measured | None]] = {
            phrase("catalogue.pairs-layer", layer=self.layer): {
                bench.names(a, b): _measured(table, self.role, a, b, self.layer, self.layer)
                for a, b in self.pairs
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
            rows = bench.folder.read_json(bench.earlier(self.random))["rows"]
            panels[phrase("catalogue.normal-vectors")] = {
                row["what"]: catalogue.Measured(
                    cosine=row["cosine"], pearson=row["pearson"], expected=row["closed_form"]
                )
                for row in rows
            }
        known = {
            title: {name: item for name, item in items.items() if item is not None}
            for title, items in panels.items()
        }
        if not any(known.values()):
            raise NotDone(say("study.nothing-measured"))
        return catalogue.measure_comparison({title: items for title, items in known.items() if items})


def _measured(table: MeasureTable, role: str, a: str, b: str, i: int, j: int) -> catalogue.Measured | None:
    found = {}
    for first, second, one, other in ((a, b, i, j), (b, a, j, i)):
        for row in table.where(
            role=role, view="whole", model_a=first, model_b=second, layer_a=one, layer_b=other
        ):
            found[row.measure] = row
    if "cosine" not in found or found["cosine"].value is None:
        return None
    pearson = found.get("pearson")
    return catalogue.Measured(
        cosine=found["cosine"].value,
        pearson=pearson.value if pearson else None,
        expected=found["cosine"].expected,
    )


class ExperimentsSummary(AtLayer, tag="experiments-summary"):
    """Layers within models, models at one layer, pairs by layer, and groups, in one figure."""

    layer_pairs: plot.LayerPairs
    layers: Layers | None = None
    """All of the data, if nothing is said."""
    pair: AliasPair | None = None
    """Whose layers are shown; those of all models, if nothing is said."""

    def make(self, bench: Bench) -> Figure:
        kept, values, expected = self.cells(bench)
        few = replace(self, models=self.pair) if self.pair else self
        return catalogue.experiments_summary(
            _pair_cells(bench, few, self.layer_pairs),
            ([bench.name(alias) for alias in kept], values, expected),
            _range_cells(bench, self, self.measure, self.layers),
            self.groups_of(bench),
        )


PLOTS: tuple[type[Drawing], ...] = (
    LayerPairBars,
    ModelMatrix,
    LayerRange,
    GroupMeans,
    MeasureComparison,
    ExperimentsSummary,
)
