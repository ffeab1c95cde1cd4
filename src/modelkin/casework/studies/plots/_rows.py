"""Figures of tables with one row per layer, and of saved vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from modelkin.casework.catalogue import rows as draw
from modelkin.casework.catalogue import vectors as space
from modelkin.casework.studies.bench import Bench, NotDone
from modelkin.casework.studies.saved import Floats, load_vectors
from modelkin.figures import Figure
from modelkin.message import say

from . import _plot as plot


class RowsFigure(plot.OfModels, tag="rows"):
    """Tables with one row per layer: statistics of models, shuffles, changes, matched routers."""

    number_format: Literal["BF16", "FP16"] = "BF16"

    def by(self, bench: Bench, column: str = "") -> dict[str, draw.Columns]:
        """Return the columns of the table, by the values of one of them; of the role, if it has roles."""
        rows = [row for row in self.rows(bench) if row.get("role", self.role) == self.role]
        chosen = self.models or bench.study.models
        values = chosen if column == "model" else dict.fromkeys(row.get(column, "") for row in rows)
        parts = {value: [row for row in rows if row.get(column, "") == value] for value in values}
        names = bench.name if column == "model" else plot.role_name
        found = {names(value): plot.columns(part) for value, part in parts.items() if part}
        if not found:
            raise NotDone(say("study.no-role-vectors"))
        return dict(found)

    def pair(self, bench: Bench) -> tuple[str, str]:
        """Return the names of the models that the experiment compared."""
        a, b = self.document(bench)["pair"]
        return bench.name(a), bench.name(b)

    def vector_statistics(self, bench: Bench) -> Figure:
        """Mean, deviation and range of vectors by layer, for each model."""
        what, styles = plot.role_name(self.role), plot.model_styles(bench)
        return draw.vector_statistics(self.by(bench, "model"), what=what, styles=styles)

    def scale_and_pattern(self, bench: Bench) -> Figure:
        """Length of gains by layer, how much of it is one scale, and what rounding destroys of it."""
        what, styles, stored = plot.role_name(self.role), plot.model_styles(bench), self.number_format
        found = self.by(bench, "model")
        return draw.scale_and_pattern(found, what=what, number_format=stored, styles=styles)

    def shuffle_summary(self, bench: Bench) -> Figure:
        """Cosines before and after reordering, and correlations, by layer."""
        n = int(self.rows(bench)[0]["n"])
        return draw.shuffle_summary(self.by(bench, "category"), names=self.pair(bench), n=n)

    def changed_values(self, bench: Bench) -> Figure:
        """Shares and sizes of changes by layer, in steps of the number format."""
        (rows,) = self.by(bench).values()
        shares = (None if share is None else 100 * share for share in rows["changed_share"])
        rows = {**rows, "percent": tuple(shares)}
        return draw.changed_values(rows, names=self.pair(bench), what=plot.role_name(self.role))

    def router_matches(self, bench: Bench) -> Figure:
        """Best matches of router rows by layer, next to those on reordered dimensions."""
        (rows,), draws = self.by(bench).values(), self.document(bench)["draws"]
        return draw.router_matches(rows, names=self.pair(bench), repeats=draws)

    VIEWS: ClassVar[Mapping[str, plot.FigureView]] = {
        "vector-statistics": plot.FigureView(vector_statistics, uses=("roles", "models"), reads="vectors"),
        "scale-and-pattern": plot.FigureView(
            scale_and_pattern, uses=("roles", "models", "number_format"), reads="precision"
        ),
        "shuffle-summary": plot.FigureView(shuffle_summary, reads="shuffle"),
        "changed-values": plot.FigureView(changed_values, uses=("roles",), reads="changes"),
        "router-matches": plot.FigureView(router_matches, reads="routers"),
    }


class VectorsFigure(plot.OfModels, tag="vectors"):
    """Saved vectors of models: as surfaces, as paths through space, as distributions."""

    dimensions: Annotated[int, Meta(ge=2, le=4096)] = 100
    """How many are drawn."""
    every: Annotated[int, Meta(ge=1, le=999)] = 3
    """Draw each layer of so many."""

    def matrices(self, bench: Bench, role: str) -> dict[str, Floats]:
        """Return the vectors of each model, layer by layer."""
        saved = load_vectors(bench, self.data)
        chosen = self.models or bench.study.models
        return {bench.name(alias): saved[alias, role].values for alias in chosen if (alias, role) in saved}

    def one_width(self, bench: Bench) -> dict[str, Floats]:
        """Return the vectors of models of one width, which is that of the first."""
        found = self.matrices(bench, self.role)
        if not found:
            raise NotDone(say("study.no-vectors-of", name=plot.role_name(self.role)))
        width = next(iter(found.values())).shape[1]
        return {name: values for name, values in found.items() if values.shape[1] == width}

    def surfaces(self, bench: Bench) -> Figure:
        """Values over layers and dimensions, a surface for each model."""
        found = self.one_width(bench)
        most = min(self.dimensions, next(iter(found.values())).shape[1])
        return space.surfaces(found, what=plot.role_name(self.role), dimensions=most)

    def trajectories(self, bench: Bench) -> Figure:
        """Layers of all models in the space of their principal components."""
        found = self.one_width(bench)
        depth = min(len(values) for values in found.values())  # that of the shallowest
        if depth * len(found) < 4:
            raise NotDone(say("study.few-vectors"))
        even = {name: values[:depth] for name, values in found.items()}
        return space.trajectories(even, what=plot.role_name(self.role), styles=plot.model_styles(bench))

    def ridges(self, bench: Bench) -> Figure:
        """Distributions of values by layer, for roles and models."""
        kinds = {
            plot.role_name(role): found
            for role in self.roles or ("attention_norm", "mlp_norm")
            if (found := self.matrices(bench, role))
        }
        if not kinds:
            raise NotDone(say("study.no-vectors"))
        return space.ridges(kinds, every=self.every, styles=plot.model_styles(bench))

    VIEWS: ClassVar[Mapping[str, plot.FigureView]] = {
        "surfaces": plot.FigureView(surfaces, uses=("roles", "models", "dimensions"), reads="vectors"),
        "trajectories": plot.FigureView(trajectories, uses=("roles", "models"), reads="vectors"),
        "ridges": plot.FigureView(ridges, uses=("roles", "models", "every"), reads="vectors"),
    }
