"""Figures of tokens, of an argument, and of vectors that nobody trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from modelkin.casework.catalogue import centring, claim, synthetic
from modelkin.casework.catalogue import tokens as draw
from modelkin.casework.studies.bench import Bench, NotDone, said_cells
from modelkin.casework.studies.reading import AliasPair
from modelkin.casework.studies.spec import Drawing
from modelkin.figures import Animation, Figure
from modelkin.message import Phrase, phrase, say

from . import _plot as plot


class TokensFigure(plot.Viewed, tag="tokens"):
    """Tokens that two models share: their embedding rows, and their ids."""

    pair: AliasPair

    def row_similarity(self, bench: Bench) -> Figure:
        """Cosines of embedding rows of shared tokens, next to wrong pairings."""
        a, b = self.pair
        rows = self.rows(bench)
        permuted = self.rows(bench, "-permuted.csv")
        return draw.row_similarity(
            [int(row[f"{a}_id"]) for row in rows],
            [float(row["cosine"]) for row in rows],
            [float(row["cosine"]) for row in permuted if row["cosine"]],
            names=(bench.name(a), bench.name(b)),
        )

    def vocabulary_mapping(self, bench: Bench) -> Figure:
        """Ids of shared tokens in both vocabularies, and what one has alone."""
        a, b = self.pair
        document = self.document(bench)
        rows = self.rows(bench, "-ids.csv")
        if not rows:
            raise NotDone(say("study.no-shared-token"))
        level = document["background"]["of_smaller"]
        own = {item["name"]: item["only_candidate"] for item in document["classes"] if item["only_candidate"]}
        high = document["high_ids"]["classes"] if document["high_ids"] else {}
        none: dict[str, int] = {phrase("catalogue.none"): 0}
        return draw.vocabulary_mapping(
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

    VIEWS: ClassVar[Mapping[str, plot.FigureView]] = {
        "row-similarity": plot.FigureView(row_similarity, reads="embeddings"),
        "vocabulary-mapping": plot.FigureView(vocabulary_mapping, reads="tokenizers"),
    }


class ClaimedEvidence(Drawing, tag="claimed-evidence"):
    """Cosines of an argument, next to what each is by chance."""

    READS: ClassVar[str] = "claim"
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
            claims.append(claim.Claim(label=labels.get(key, key), served=served, **item))
        return claim.claimed_evidence(
            claims,
            difference=document["claim"]["difference"],
            expected_difference=document["same_arithmetic_on_expectations"]["difference"],
            sigmas=document["claim"]["d"],
        )


class CentringView(Drawing, tag="centring"):
    """Two vectors in space, before or after their means are subtracted, or in between."""

    READS: ClassVar[str] = "centring"
    view: Literal["before", "after", "animation"]
    steps: Annotated[int, Meta(ge=2, le=200)] = 45
    """Frames of the animation."""

    def make(self, bench: Bench) -> Figure | Animation:
        document = self.document(bench)
        a, b = document["a"], document["b"]
        if self.view == "animation":
            return centring.centring_animation(
                a, b, steps=self.steps, turn=max(2, round(self.steps * 20 / 45))
            )
        return centring.centring_before(a, b) if self.view == "before" else centring.centring_after(a, b)


class SyntheticView(Drawing, tag="synthetic-cosines"):
    """Cosines of normal vectors over means, sigmas and dimensions."""

    READS: ClassVar[str] = "synthetic-cosines"

    def make(self, bench: Bench) -> Figure:
        names = ("mean_1", "mean_2", "sigma", "dimension", "cosine", "spread", "positive_1", "positive_2")
        return synthetic.synthetic_cosines(
            [synthetic.CosineCell(**{name: row[name] for name in names}) for row in self.records(bench)]
        )
