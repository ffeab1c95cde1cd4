"""Figures of several pairs of models."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import ClassVar

from modelkin.casework.catalogue import pairs as draw
from modelkin.casework.catalogue.parts import Curve, measure_name
from modelkin.casework.studies.bench import Bench, NotDone
from modelkin.casework.studies.reading import COSINE, AliasPair, Layers, MeasureName
from modelkin.describe.measures import find_measure
from modelkin.figures import Figure, known
from modelkin.message import say

from . import _plot as plot


class PairsFigure(plot.OfModels, tag="pairs"):
    """Several pairs of models: measures by layer, their distributions, layers against layers."""

    pairs: plot.PairList = ()
    pair: AliasPair | None = None
    """The pair that is highlighted."""
    measure: MeasureName = COSINE
    layers: Layers | None = None
    """All of the data, if nothing is said."""

    def read(self, bench: Bench) -> list[AliasPair]:
        """Return the pairs of which both models could be read."""
        found = [pair for pair in self.pairs if not set(pair) & set(bench.missing)]
        if not found:
            raise NotDone(say("study.no-pair"))
        return found

    def strangers(self, bench: Bench) -> dict[str, Curve]:
        """Return one curve per pair of models that are not known relatives."""
        table = self.table(bench)
        layers = self.layers.numbers if self.layers else known(table.distinct("layer_a"))
        found = {
            bench.names(a, b): item
            for a, b in combinations(self.present(bench), 2)
            if not bench.study.known_relatives(a, b)
            and (item := plot.curve(table, self.role, a, b, self.measure).over(layers)).known
        }
        if not found:
            raise NotDone(say("study.no-pair-layers"))
        return found

    def layer_range(self, bench: Bench) -> Figure:
        """Measures by layer of all pairs that are not known relatives, with their range."""
        found, main = self.strangers(bench), bench.names(*self.pair) if self.pair else None
        return draw.layer_range(found, measure=self.measure, highlight=main if main in found else None)

    def pair_matrices(self, bench: Bench) -> Figure:
        """All layers against all layers, for several pairs."""
        table, measure = self.table(bench), self.measure
        found = {
            bench.names(*pair): plot.filled(plot.grid_of(bench, table, self.role, pair, measure).values)
            for pair in self.read(bench)
        }
        return draw.pair_matrices(found, measure=measure_name(measure))

    def distribution_by_type(self, bench: Bench) -> Figure:
        """Measures of pairs over layers, a distribution for each role."""
        table, kinds, reasons = self.table(bench), {}, {}
        for role in self.roles or table.distinct("role"):
            kind = plot.role_name(role)
            kinds[kind] = {
                bench.names(*pair): plot.best_view(table, role, *pair, self.measure) for pair in self.pairs
            }
            part = table.where(measure=find_measure(self.measure).name)
            reasons[kind] = plot.reason(part, role)
        if not any(item.known for found in kinds.values() for item in found.values()):
            raise NotDone(say("study.nothing-measured"))
        return draw.distribution_by_type(kinds, measure=self.measure, reasons=reasons)

    def input_minus_post(self, bench: Bench) -> Figure:
        """Input norm minus post-attention norm: statistics of models and correlations of pairs, by layer."""
        table, role = self.table(bench), self.role
        tensors = [row for row in self.rows(bench, "-tensors.csv") if row["role"] == role]
        pearson = {bench.names(a, b): plot.curve(table, role, a, b, "pearson") for a, b in self.read(bench)}
        models = dict.fromkeys(row["model"] for row in tensors)
        parts = {
            bench.name(alias): plot.columns([row for row in tensors if row["model"] == alias])
            for alias in models
        }
        means, stds = (
            {name: Curve(layers=part["layer"], values=part[key]) for name, part in parts.items()}
            for key in ("mean", "std")
        )
        n = max((int(row["n"]) for row in tensors), default=0)
        every = {layer for item in (*pearson.values(), *means.values()) for layer in item.layers}
        layers = sorted(int(layer or 0) for layer in every)
        over = [{k: item.over(layers) for k, item in found.items()} for found in (means, stds, pearson)]
        return draw.input_minus_post(*over, n=n, styles=plot.model_styles(bench))

    VIEWS: ClassVar[Mapping[str, plot.FigureView]] = {
        "layer-range": plot.FigureView(layer_range, uses=("roles", "models", "measure", "layers", "pair")),
        "pair-matrices": plot.FigureView(pair_matrices, ("pairs",), ("roles", "measure")),
        "distribution-by-type": plot.FigureView(distribution_by_type, ("pairs",), ("roles", "measure")),
        "input-minus-post": plot.FigureView(input_minus_post, ("pairs",), ("roles",)),
    }
