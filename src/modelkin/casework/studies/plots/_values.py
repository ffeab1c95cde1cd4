"""Figures of single values: tokens, vectors in space, drawn numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from modelkin.casework import catalogue
from modelkin.casework.studies.bench import Bench, NotDone
from modelkin.casework.studies.reading import AliasPair
from modelkin.casework.studies.saved import Floats, load_vectors
from modelkin.casework.studies.spec import Drawing
from modelkin.figures import Animation, Figure
from modelkin.message import phrase, say

from . import _plot as plot


class RowSimilarity(Drawing, tag="row-similarity"):
    """Cosines of embedding rows of shared tokens, next to wrong pairings."""

    pair: AliasPair

    def make(self, bench: Bench) -> Figure:
        a, b = self.pair
        rows = self.rows(bench)
        permuted = self.rows(bench, "-permuted.csv")
        return catalogue.row_similarity(
            [int(row[f"{a}_id"]) for row in rows],
            [float(row["cosine"]) for row in rows],
            [float(row["cosine"]) for row in permuted if row["cosine"]],
            names=(bench.name(a), bench.name(b)),
        )


class VocabularyMapping(Drawing, tag="vocabulary-mapping"):
    """Ids of shared tokens in both vocabularies, and what one has alone."""

    pair: AliasPair

    def make(self, bench: Bench) -> Figure:
        a, b = self.pair
        document = self.document(bench)
        rows = self.rows(bench, "-ids.csv")
        if not rows:
            raise NotDone(say("study.no-shared-token"))
        level = document["background"]["of_smaller"]
        own = {item["name"]: item["only_candidate"] for item in document["classes"] if item["only_candidate"]}
        high = document["high_ids"]["classes"] if document["high_ids"] else {}
        none: dict[str, int] = {phrase("catalogue.none"): 0}
        return catalogue.vocabulary_mapping(
            ([int(row[f"id_{a}"]) for row in rows], [int(row[f"id_{b}"]) for row in rows]),
            names=(bench.name(a), bench.name(b)),
            own=own or none,
            high=high or none,
            background={
                phrase("catalogue.lowest"): level["low"],
                phrase("catalogue.highest"): level["high"],
            },
            overlap=document["tokens"]["of_smaller"],
            seed=bench.seed,
        )


class CentringView(Drawing, tag="centring"):
    """Two vectors in space, before or after their means are subtracted, or in between."""

    view: Literal["before", "after", "animation"]
    steps: Annotated[int, Meta(ge=2, le=200)] = 45
    """Frames of the animation."""

    def make(self, bench: Bench) -> Figure | Animation:
        document = self.document(bench)
        a, b = document["a"], document["b"]
        if self.view == "animation":
            return catalogue.centring_animation(
                a, b, steps=self.steps, turn=max(2, round(self.steps * 20 / 45))
            )
        return catalogue.centring_before(a, b) if self.view == "before" else catalogue.centring_after(a, b)


class OfVectors(plot.OfModels):
    """A figure of saved vectors."""

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


class Surfaces(OfVectors, tag="surfaces"):
    """Values over layers and dimensions, a surface for each model."""

    dimensions: Annotated[int, Meta(ge=2, le=4096)] = 100
    """How many are drawn."""

    def make(self, bench: Bench) -> Figure:
        found = self.one_width(bench)
        width = next(iter(found.values())).shape[1]
        return catalogue.surfaces(
            found, what=plot.role_name(self.role), dimensions=min(self.dimensions, width)
        )


class Trajectories(OfVectors, tag="trajectories"):
    """Layers of all models in the space of their principal components."""

    def make(self, bench: Bench) -> Figure:
        """Draw it, all models down to the depth of the shallowest."""
        found = self.one_width(bench)
        depth = min(len(values) for values in found.values())
        if depth * len(found) < 4:
            raise NotDone(say("study.few-vectors"))
        even = {name: values[:depth] for name, values in found.items()}
        return catalogue.trajectories(even, what=plot.role_name(self.role), styles=plot.model_styles(bench))


class RidgesDrawing(OfVectors, tag="ridges"):
    """Distributions of values by layer, for roles and models."""

    every: Annotated[int, Meta(ge=1, le=999)] = 3
    """Draw each layer of so many."""

    def make(self, bench: Bench) -> Figure:
        kinds = {
            plot.role_name(role): found
            for role in self.roles or ("attention_norm", "mlp_norm")
            if (found := self.matrices(bench, role))
        }
        if not kinds:
            raise NotDone(say("study.no-vectors"))
        return catalogue.ridges(kinds, every=self.every, styles=plot.model_styles(bench))


class SyntheticView(Drawing, tag="synthetic-cosines"):
    """Cosines of normal vectors over means, sigmas and dimensions."""

    def make(self, bench: Bench) -> Figure:
        names = ("mean_1", "mean_2", "sigma", "dimension", "cosine", "spread", "positive_1", "positive_2")
        return catalogue.synthetic_cosines(
            [catalogue.CosineCell(**{name: row[name] for name in names}) for row in self.records(bench)]
        )


PLOTS: tuple[type[Drawing], ...] = (
    *(RowSimilarity, VocabularyMapping, CentringView, Surfaces, Trajectories, RidgesDrawing),
    *(SyntheticView,),
)
