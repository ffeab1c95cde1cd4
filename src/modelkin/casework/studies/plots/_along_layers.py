"""Figures along the layers of a pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from modelkin.casework import catalogue
from modelkin.casework.studies.bench import Bench, NotDone
from modelkin.casework.studies.folder import number
from modelkin.casework.studies.reading import COSINE, Aliases, Earlier, LayerNumber, MeasureName
from modelkin.casework.studies.saved import both_vectors, far_apart, load_vectors
from modelkin.casework.studies.spec import Drawing
from modelkin.describe.measures import MeasureTable, find_measure
from modelkin.figures import Figure
from modelkin.message import Message, phrase, say

from . import _plot as plot


class LayerCurves(plot.OfPair, tag="layer-curves"):
    """A measure by layer, a curve for each role."""

    measure: MeasureName = COSINE

    def make(self, bench: Bench) -> Figure:
        """Draw it with chance: the range for as many values as a role has, or what is expected by layer."""
        found = self.curves(bench, self.table(bench), self.measure)
        a, b = self.both(bench)
        title = plot.title_of(self.measure)
        alike = plot.is_correlation(self.measure)
        chance = {plot.role_name(role): plot.chance_of(item.n) for role, item in found.items()}
        lengths = {item.n for item in found.values()}
        return catalogue.layer_curves(
            next(iter(found.values())).layers,
            plot.by_role(found),
            measure=title,
            title=phrase("catalogue.pair-by-layer", measure=title, a=a, b=b),
            **({"chance": chance} if alike else {"expected": plot.by_role(found, "expected")}),
            note=phrase("catalogue.shared-dimensions") if alike and len(lengths) > 1 else "",
        )


class RouterMatches(Drawing, tag="router-matches"):
    """Best matches of router rows by layer, next to those on reordered dimensions."""

    def make(self, bench: Bench) -> Figure:
        document = self.document(bench)
        a, b = document["pair"]
        return catalogue.matched_rows(
            *(
                [row[name] for row in document["layers"]]
                for name in ("layer", "matched", "null_mean", "null_low", "null_high")
            ),
            names=(bench.name(a), bench.name(b)),
            repeats=document["draws"],
        )


class NormCosines(plot.OfPair, tag="norm-cosines"):
    """Cosines of norm gains by layer, with the spread of shuffles."""

    def make(self, bench: Bench) -> Figure:
        found = self.curves(bench, self.table(bench), "cosine")
        return catalogue.norm_cosines(
            next(iter(found.values())).layers,
            plot.by_role(found),
            plot.by_role(found, "expected"),
            names=self.both(bench),
            spread_of_shuffles=plot.by_role(found, "sd"),
        )


class WithControls(plot.OfPair, tag="with-controls"):
    """A measure of the pair by layer, next to each of the two with its controls."""

    controls: Aliases
    measure: MeasureName = COSINE

    def make(self, bench: Bench) -> Figure:
        """Draw it; a control that is missing is named with the reason."""
        table = self.table(bench)
        kinds = {}
        for role, main in self.curves(bench, table, self.measure).items():
            controls: dict[str, plot.Values | Message] = {}
            for control in self.controls:
                for name in self.pair:
                    item = plot.curve(table, role, name, control, self.measure).over(main.layers)
                    controls[bench.names(name, control)] = (
                        bench.missing[control]
                        if control in bench.missing
                        else item.values
                        if item.known
                        else _why(table, role, name, control)
                    )
            alike = plot.is_correlation(self.measure)
            kinds[plot.role_name(role)] = catalogue.ControlCurves(
                layers=tuple(float(layer) for layer in main.layers),
                main=main.values,
                controls=controls,
                expected=() if alike else main.expected,
                chance=plot.chance_of(main.n) if alike else None,
            )
        return catalogue.with_controls(
            kinds, main=bench.names(*self.pair), measure=plot.title_of(self.measure)
        )


def _why(table: MeasureTable, role: str, a: str, b: str) -> Message:
    part = table.where(role=role)
    for first, second in ((a, b), (b, a)):
        for row in part.where(model_a=first, model_b=second):
            if row.reason:
                return row.reason
    return say("catalogue.it-was-not")


class Comprehensive(plot.OfPair, tag="comprehensive"):
    """Cosines and correlations by layer, with their expectation and what random vectors have."""

    random: Earlier
    """Experiment of kind ``random-vectors``."""

    def make(self, bench: Bench) -> Figure:
        """Draw it; random vectors are those with given means and those like the pair."""
        table = self.table(bench)
        drawn = bench.folder.read_json(bench.earlier(self.random))["rows"]
        pair = bench.names(*self.pair)
        cosine = self.curves(bench, table, "cosine")
        return catalogue.comprehensive(
            next(iter(cosine.values())).layers,
            plot.by_role(cosine),
            plot.by_role(cosine, "expected"),
            plot.by_role(self.curves(bench, table, "pearson", list(cosine))),
            names=self.both(bench),
            n=min(item.n for item in cosine.values()),
            random={
                row["what"]: (row["cosine"], row["cosine_sd"])
                for row in drawn
                if "measured" not in row or row["what"].startswith(f"{pair}, ")
            },
        )


class Proof(plot.OfPair, tag="proof"):
    """Cosines, cosines about one and correlations by layer, next to layers that do not face each other."""

    distance: Annotated[int, Meta(ge=1, le=999)] = 5
    """How far these are apart."""

    def make(self, bench: Bench) -> Figure:
        table = self.table(bench)
        cosine, about_one, pearson = (
            self.curves(bench, table, name) for name in ("cosine", "cosine-about-1", "pearson")
        )
        grid = plot.grid_of(bench, table, next(iter(cosine)), self.pair, "cosine")
        mismatched = far_apart(grid, self.distance)
        if not np.isfinite(mismatched).any():
            raise NotDone(say("study.no-distance", n=self.distance))
        return catalogue.proof(
            next(iter(cosine.values())).layers,
            plot.by_role(cosine),
            plot.by_role(cosine, "expected"),
            plot.by_role(about_one),
            plot.by_role(pearson),
            mismatched,
            names=self.both(bench),
            n=min(item.n for item in cosine.values()),
            distance=self.distance,
        )


class LayerDecay(plot.OfPair, tag="layer-decay"):
    """A measure over all pairs of layers, by their distance."""

    measure: MeasureName = COSINE

    def make(self, bench: Bench) -> Figure:
        table = self.table(bench)
        grid = plot.grid_of(bench, table, self.role, self.pair, self.measure)
        facing = plot.curve(table, self.role, *self.pair, "pearson")
        if min(grid.values.shape) < 2:
            raise NotDone(say("study.few-layers"))
        return catalogue.layer_decay(
            plot.filled(grid.values),
            facing.values,
            names=self.both(bench),
            n=facing.n,
            signed=find_measure(self.measure).name != "cosine",
        )


class Intuition(plot.OfPair, tag="intuition"):
    """The values of one layer of both models, and cosine and correlation over all layers."""

    vectors: Earlier
    """Experiment that saved the vectors."""
    layer: LayerNumber | None = None
    """The one with the highest cosine, if nothing is said."""

    def make(self, bench: Bench) -> Figure:
        table = self.table(bench)
        a, b = self.pair
        plot.need(bench, a, b)
        one, other, common = both_vectors(load_vectors(bench, self.vectors), a, b, self.role)
        cosine, pearson = (plot.curve(table, self.role, a, b, name) for name in ("cosine", "pearson"))
        known = {
            layer: value
            for layer, value in zip(cosine.layers, cosine.values, strict=True)
            if value is not None and layer in common
        }
        if not known:
            raise NotDone(say("study.nothing-measured"))
        # The layer that speaks most for a relation, unless one is requested: any other choice is less fair.
        layer = self.layer if self.layer is not None else max(known, key=lambda item: known[item])
        if layer not in common:
            raise NotDone(say("study.no-layer-in-both", n=layer))
        return catalogue.intuition(
            one.at((layer,))[0],
            other.at((layer,))[0],
            names=self.both(bench),
            layer=layer,
            layers=cosine.layers,
            cosine=cosine.values,
            pearson=pearson.values,
            expected=cosine.expected,
            sample=min(50, one.n),
            styles=plot.model_styles(bench),
        )


class ChangedValues(plot.OfRoles, tag="changed-values"):
    """Shares and sizes of changes by layer, in steps of the number format."""

    def make(self, bench: Bench) -> Figure:
        rows = [row for row in self.records(bench) if row["role"] == self.role]
        if not rows:
            raise NotDone(say("study.nothing-measured"))
        a, b = self.document(bench)["pair"]
        return catalogue.changed_values(
            [row["layer"] for row in rows],
            [None if row["changed_share"] is None else 100 * row["changed_share"] for row in rows],
            [row["mean_absolute_difference"] for row in rows],
            [row["mean_ulps"] for row in rows],
            one_ulp=[row["one_ulp"] for row in rows],
            names=(bench.name(a), bench.name(b)),
            what=plot.role_name(self.role),
        )


class ShuffleSummary(Drawing, tag="shuffle-summary"):
    """Cosines before and after reordering, and correlations, by layer."""

    def make(self, bench: Bench) -> Figure:
        rows, (a, b) = self.rows(bench), self.document(bench)["pair"]
        kinds = {}
        for category in dict.fromkeys(row["category"] for row in rows):
            part = [row for row in rows if row["category"] == category]
            kinds[plot.role_name(category)] = catalogue.ShuffleCurves(
                layers=_column(part, "layer"),
                cosine=_column(part, "cosine"),
                shuffled=_column(part, "cosine_shuffled"),
                pearson=_column(part, "cosine_centered"),
                shuffled_low=_column(part, "shuffled_low"),
                shuffled_high=_column(part, "shuffled_high"),
            )
        return catalogue.shuffle_summary(kinds, names=(bench.name(a), bench.name(b)), n=int(rows[0]["n"]))


def _column(rows: list[dict[str, str]], name: str) -> plot.Values:
    return tuple(number(row[name]) for row in rows)


class VectorStatisticsDrawing(plot.OfModels, tag="vector-statistics"):
    """Mean, deviation and range of vectors by layer, for each model."""

    def make(self, bench: Bench) -> Figure:
        rows = self.rows(bench)
        models = {}
        for alias in self.models or bench.study.models:
            part = [row for row in rows if row["model"] == alias and row["role"] == self.role]
            if part:
                models[bench.name(alias)] = catalogue.VectorStatistics(
                    layers=tuple(float(row["layer"]) for row in part),
                    mean=_column(part, "mean"),
                    std=_column(part, "std"),
                    min=_column(part, "minimum"),
                    max=_column(part, "maximum"),
                )
        if not models:
            raise NotDone(say("study.no-role-vectors"))
        return catalogue.vector_statistics(
            models, what=plot.role_name(self.role), styles=plot.model_styles(bench)
        )


class ScaleAndPattern(plot.OfModels, tag="scale-and-pattern"):
    """Length of gains by layer, how much of it is one scale, and what rounding destroys of the pattern."""

    number_format: Literal["BF16", "FP16"] = "BF16"

    def make(self, bench: Bench) -> Figure:
        rows, key = self.rows(bench), self.number_format.lower()
        models = {}
        for alias in self.models or bench.study.models:
            part = [row for row in rows if row["model"] == alias and row["role"] == self.role]
            if part:
                models[bench.name(alias)] = catalogue.ScaleCurves(
                    layers=_column(part, "layer"),
                    length=_column(part, "norm"),
                    rho=_column(part, "rho"),
                    lost=_column(part, f"loss_{key}"),
                    lost_minus_one=_column(part, f"loss_{key}_minus_one"),
                    n=int(part[0]["n"]),
                )
        if not models:
            raise NotDone(say("study.no-role-vectors"))
        return catalogue.scale_and_pattern(
            models,
            what=plot.role_name(self.role),
            number_format=self.number_format,
            styles=plot.model_styles(bench),
        )


class InputMinusPost(plot.OfRoles, tag="input-minus-post"):
    """Input norm minus post-attention norm: statistics of models and correlations of pairs, by layer."""

    pairs: plot.PairList

    def make(self, bench: Bench) -> Figure:
        table, role = self.table(bench), self.role
        tensors = [row for row in self.rows(bench, "-tensors.csv") if row["role"] == role]
        pearson: dict[str, Mapping[int, float | None]] = {}
        for a, b in self.pairs:
            if a not in bench.missing and b not in bench.missing:
                item = plot.curve(table, role, a, b, "pearson")
                pearson[bench.names(a, b)] = dict(zip(item.layers, item.values, strict=True))
        statistics: dict[str, dict[str, dict[int, float | None]]] = {"mean": {}, "std": {}}
        for row in tensors:
            for name, by_model in statistics.items():
                by_model.setdefault(bench.name(row["model"]), {})[int(row["layer"])] = number(row[name])
        layers = sorted(
            {layer for by_layer in (*pearson.values(), *statistics["mean"].values()) for layer in by_layer}
        )
        n = max((int(row["n"]) for row in tensors), default=0)
        if not pearson or n < 3:
            raise NotDone(say("study.nothing-measured"))

        def over(curves: Mapping[str, Mapping[int, float | None]]) -> dict[str, list[float | None]]:
            return {name: [values.get(layer) for layer in layers] for name, values in curves.items()}

        return catalogue.input_minus_post(
            layers,
            over(statistics["mean"]),
            over(statistics["std"]),
            over(pearson),
            n=n,
            styles=plot.model_styles(bench),
        )


PLOTS: tuple[type[Drawing], ...] = (
    *(LayerCurves, RouterMatches, NormCosines, WithControls, Comprehensive, Proof, LayerDecay),
    *(Intuition, ChangedValues, ShuffleSummary, VectorStatisticsDrawing, ScaleAndPattern, InputMinusPost),
)
