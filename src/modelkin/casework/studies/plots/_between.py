"""Figures that compare models, layers and kinds of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from modelkin.casework import catalogue
from modelkin.casework.studies.bench import Bench, NotDone, said_cells
from modelkin.casework.studies.reading import COSINE, Alias, LayerNumber, LayerOf, MeasureName
from modelkin.casework.studies.saved import Floats, expected_cells, square
from modelkin.casework.studies.spec import Drawing
from modelkin.describe.measures import MeasureTable, find_measure
from modelkin.figures import Chance, Figure
from modelkin.message import Message, Phrase, joined, phrase, say

from . import _plot as plot

_SIGNED = ("cosine", "mean-direction", "pearson", "excess-cosine", "spearman", "cosine-about-1")


class DistributionByType(plot.OfRoles, tag="distribution-by-type"):
    """A measure of pairs over layers, a distribution for each role."""

    pairs: plot.PairList
    measure: MeasureName = COSINE

    def make(self, bench: Bench) -> Figure:
        """Draw it; a role that was not measured is named with the reason."""
        table = self.table(bench)
        values: dict[str, dict[str, Sequence[float | None]]] = {}
        chance: dict[str, Chance] = {}
        reasons: dict[str, Message] = {}
        for role in self.roles or table.distinct("role"):
            kind = plot.role_name(role)
            found = [_best_view(table, role, *pair, self.measure) for pair in self.pairs]
            values[kind] = {
                bench.names(*pair): item.values for pair, item in zip(self.pairs, found, strict=True)
            }
            first = next((item for item in found if item.known), None)
            if first is None:
                part = table.where(role=role, measure=find_measure(self.measure).name)
                why = (row.reason for row in part if row.reason)
                reasons[kind] = next(why, say("catalogue.it-was-not"))
            elif plot.is_correlation(self.measure):
                chance[kind] = plot.chance_of(first.n)
            else:
                expected = first.mean_expected
                chance[kind] = Chance(
                    label=phrase("catalogue.expected-first"),
                    value=float("nan") if expected is None else expected,
                )
        if not chance:
            raise NotDone(say("study.nothing-measured"))
        return catalogue.distribution_by_type(
            values, measure=plot.title_of(self.measure), chance=chance, reasons=reasons
        )


def _best_view(table: MeasureTable, role: str, a: str, b: str, measure: str) -> plot.Curve:
    """Return whole tensors, or the cut ones if only these can be compared."""
    views = ("whole", *(view for view in table.where(role=role).distinct("view") if view != "whole"))
    found = [plot.curve(table, role, a, b, measure, view) for view in views]
    return next((item for item in found if item.known), found[0])


class TypeSummary(plot.OfPair, tag="type-summary"):
    """Means of a measure over layers, for each role."""

    measure: MeasureName = COSINE

    def make(self, bench: Bench) -> Figure:
        table = self.table(bench)
        plot.need(bench, *self.pair)
        found = {
            role: _best_view(table, role, *self.pair, self.measure)
            for role in self.roles or table.distinct("role")
        }
        return catalogue.type_summary(
            plot.by_role(found),
            {plot.role_name(role): item.mean_expected for role, item in found.items()},
            measure=plot.title_of(self.measure),
            names=self.both(bench),
        )


class ClaimedEvidence(Drawing, tag="claimed-evidence"):
    """Cosines of an argument, next to what each is by chance."""

    groups: bool = False
    """Layers and controls too that the argument did not name."""

    def make(self, bench: Bench) -> Figure:
        document = self.document(bench)
        base, evidence = document["baseline"], document["evidence"]
        told = said_cells(document["report"]["tables"][0])
        labels = {key: Phrase(told[i, 0]) for i, key in enumerate(document["groups"]) if (i, 0) in told}
        claims = []
        for key in document["groups"] if self.groups else [*base, evidence]:
            item = document["groups"][key]
            if item["cosine"] is None or item["expected"] is None:
                raise NotDone(say("study.nothing-measured-in", name=key))
            served: Literal["baseline", "evidence", "beside"] = (
                "baseline" if key in base else "evidence" if key == evidence else "beside"
            )
            claims.append(catalogue.Claim(label=labels.get(key, key), served=served, **item))
        return catalogue.claimed_evidence(
            claims,
            difference=document["claim"]["difference"],
            expected_difference=document["same_arithmetic_on_expectations"]["difference"],
            sigmas=document["claim"]["d"],
        )


class CosineAndPearson(plot.OfPair, tag="cosine-and-pearson"):
    """All layers against all layers: cosines and correlations."""

    def make(self, bench: Bench) -> Figure:
        table = self.table(bench)
        cosine, pearson = (
            plot.grid_of(bench, table, self.role, self.pair, name) for name in ("cosine", "pearson")
        )
        a, b = self.pair
        return catalogue.cosine_and_pearson(
            plot.filled(cosine.values),
            plot.filled(pearson.values),
            names=self.both(bench),
            n=int(table.where(role=self.role, model_a=a, model_b=b).column("n").max()),
            expected=plot.filled(cosine.expected),
            layers=(plot.plain_layers(cosine.layers_a), plot.plain_layers(cosine.layers_b)),
        )


class PairMatrices(plot.OfRoles, tag="pair-matrices"):
    """All layers against all layers, for several pairs."""

    pairs: plot.PairList
    measure: MeasureName = COSINE

    def make(self, bench: Bench) -> Figure:
        """Draw those that could be read."""
        table = self.table(bench)
        found = {
            bench.names(*pair): plot.filled(plot.grid_of(bench, table, self.role, pair, self.measure).values)
            for pair in self.pairs
            if not set(pair) & set(bench.missing)
        }
        if not found:
            raise NotDone(say("study.no-pair"))
        return catalogue.pair_matrices(found, measure=plot.title_of(self.measure))


Cells = Sequence[Sequence[float]] | Floats
Square = tuple[list[str], Cells, Cells]
"""Labels, values, expectations."""


class ConfusionView(plot.OfModels, tag="confusion"):
    """Models against models at a layer, or layers of one model against each other, for each role."""

    measure: MeasureName
    layer: LayerNumber | None = None
    layers_of: LayerOf = LayerOf()
    """A layer of each model."""
    model: Alias | None = None
    """The one whose layers are compared with each other."""

    def make(self, bench: Bench) -> Figure:
        """Draw it; a role that was not measured is named with the reason."""
        table, measure = self.table(bench), find_measure(self.measure).name
        where = self._where(bench)
        labels: list[str] = []
        matrices: dict[str, Cells] = {}
        expected: dict[str, Cells] = {}
        refused: dict[str, Message] = {}
        for role in self.roles or table.distinct("role"):
            part = table.where(role=role, measure=measure)
            if self.model is not None:
                part = part.where(model_a=self.model, model_b=self.model)
                found = _layers(part, measure, role, self.model)
            else:
                found = self._models(bench, part, measure, role)
            if found is None:
                missing = say("study.not-measured") if self.model else say("study.no-two-have", where=where)
                refused[plot.role_name(role)] = next((row.reason for row in part if row.reason), missing)
                continue
            labels, matrices[plot.role_name(role)], chance = found
            if np.isfinite(np.array(chance)).any():
                expected[plot.role_name(role)] = chance
        if not matrices:
            raise NotDone(
                joined(dict.fromkeys(refused.values())) if refused else say("study.nothing-measured")
            )
        return catalogue.confusion(
            matrices,
            labels,
            measure=plot.title_of(measure),
            where=where,
            signed=measure in _SIGNED,
            expected=expected or None,
            refused=refused,
        )

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

    def _models(self, bench: Bench, part: MeasureTable, measure: str, role: str) -> Square | None:
        layer: int | Mapping[str, int] = self.layers_of or self.layer or 0
        wanted = self.present(bench)
        names, cells = part.model_matrix(measure=measure, role=role, layer=layer)
        if not set(wanted) <= set(names):
            return None
        places = [names.index(alias) for alias in wanted]
        values = plot.filled(cells)[np.ix_(places, places)]
        if not np.isfinite(values).any():
            return None
        labels = [bench.name(alias) for alias in wanted]
        return labels, values, expected_cells(part, measure, role, wanted, layer)


def _layers(part: MeasureTable, measure: str, role: str, model: str) -> Square | None:
    grid = part.matrix(measure=measure, role=role, model_a=model, model_b=model)
    cells, layers, chance = square(grid, measure)
    return (
        ([phrase("catalogue.layer-number", layer=layer) for layer in layers], cells, chance)
        if grid.values.count()
        else None
    )


PLOTS: tuple[type[Drawing], ...] = (
    *(DistributionByType, TypeSummary, ClaimedEvidence, CosineAndPearson, PairMatrices),
    *(ConfusionView,),
)
