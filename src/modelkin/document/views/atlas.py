"""An atlas: the whole registry on one page, and one page per family, model and pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from modelkin.atlas import (
    Atlas,
    AtlasClaim,
    AtlasEdge,
    AtlasIndex,
    AtlasMerge,
    AtlasPair,
    LicenceStep,
    UnnamedOrigin,
    model_key,
    pair_key,
)
from modelkin.document.blocks import (
    Block,
    Bullets,
    Cell,
    Chip,
    Facts,
    FamilyMap,
    Heading,
    Inline,
    LayerFigures,
    Link,
    Linked,
    Marked,
    Named,
    PageOnly,
    Paragraph,
    Runs,
    Section,
    Strong,
    Table,
    Text,
    Tone,
    table,
)
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import count_text, p_text

from .comparison import verdict_card

_MOST_ROWS = 200
"""Of a table on the first page: more is for programs, and in the JSON."""
_MOST_MEMBERS = 2_000
"""Of the page of a family: a megabyte."""
_TONES: dict[str, Tone] = {"supported": "shared", "contradicted": "none", "untestable": "open"}


def model_file(ref: str) -> str:
    """Return the page of a model, from the root of an atlas."""
    return f"models/{model_key(ref)}.html"


def family_file(number: int) -> str:
    """Return the page of a family."""
    return f"families/{number}.html"


def pair_file(first: str, second: str) -> str:
    """Return the page of a pair."""
    return f"pairs/{pair_key(first, second)}.html"


def atlas_view(index: AtlasIndex, language: Language = ENGLISH, *, page: bool = False) -> tuple[Block, ...]:
    """Return an atlas as blocks; a page has the map, and links."""
    return tuple(_AtlasPages(index, language, up="", links=page).whole())


def family_view(index: AtlasIndex, number: int, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the page of a family."""
    return tuple(_AtlasPages(index, language, up="../", links=True).family(number))


def model_view(index: AtlasIndex, ref: str, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the page of a model."""
    return tuple(_AtlasPages(index, language, up="../", links=True).model(ref))


def pair_view(index: AtlasIndex, pair: AtlasPair, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the page of a pair, with the verdict on its weights if they were compared."""
    return tuple(_AtlasPages(index, language, up="../", links=True).pair(pair))


def short_place(atlas: Atlas) -> str:
    """Return the name of a registry, without its path."""
    return atlas.registry.rstrip("/").rpartition("/")[2] or atlas.registry


class _AtlasPages:
    def __init__(self, index: AtlasIndex, language: Language, *, up: str, links: bool) -> None:
        self.index, self.atlas, self.language = index, index.atlas, language
        self.up, self.links = up, links

    def said(self, key: str, **values: object) -> str:
        return self.language.say(f"atlas.{key}", **{name: str(value) for name, value in values.items()})

    def named(self, key: str, **names: str) -> Named:
        return Named(self.said(key, **names), tuple(names.values()))

    def to(self, ref: str) -> Inline:
        """Name a model, with a link if there are pages."""
        name = self.name(ref)
        return Linked(name, self.up + model_file(ref)) if self.links else name

    def name(self, ref: str) -> str:
        """Return what a model is called."""
        return self.atlas.models[ref].shown

    def titles(self, *keys: str) -> list[str]:
        return [self.said(key) for key in keys]

    # -- the whole -------------------------------------------------------------------------------------

    def whole(self) -> Iterator[Block]:
        atlas = self.atlas
        joined = sum(len(family.members) for family in atlas.families)
        yield Heading(self.named("question", registry=short_place(atlas)), 1)
        yield Paragraph(
            self.said(
                "counts",
                models=f"{len(atlas.models):,}",
                families=f"{len(atlas.families):,}",
                joined=f"{joined:,}",
                alone=f"{len(atlas.models) - joined:,}",
            ),
            "strong",
        )
        if not atlas.models:
            yield Paragraph(Marked(self.said("empty")))
            yield from self._about()
            return
        yield PageOnly(blocks=(Section(title=self.said("map"), blocks=(FamilyMap(self.index),), key="map"),))
        yield self._section("contradicted", self._claims_table(atlas.contradicted), has=atlas.contradicted)
        yield self._section("unnamed", self._unnamed_table(atlas.unnamed), has=atlas.unnamed)
        if atlas.n_undated:
            yield Paragraph(self.said("undated", n=f"{atlas.n_undated:,}"), "note")
        yield self._section("licences", self._licence_table(atlas.licences), has=atlas.licences)
        yield self._section("merges", self._merge_table(atlas.merges), has=atlas.merges)
        if atlas.families:
            yield Section(title=self.said("families"), blocks=tuple(self._families()), key="families")
        without = [model for model in atlas.models.values() if model.reason is not None]
        if without:
            rows = [(self.to(model.ref), self.language.told(model.reason)) for model in without]
            listed = self._table(self.titles("model", "reason"), rows)
            yield Section(title=self.said("without"), blocks=tuple(listed), key="without", closed=True)
        unread = [model for model in atlas.models.values() if model.declared.reason is not None]
        if 0 < len(unread) < len(atlas.models):
            yield Paragraph(self.said("unread", n=f"{len(unread):,}", all=f"{len(atlas.models):,}"), "note")
        yield from self._about()

    def _nothing(self, key: str) -> str:
        """Say that there is nothing, or that nothing was checked: unread is not the same as clean."""
        atlas = self.atlas
        if key == "merges":
            looked = not atlas.families or any(family.grown for family in atlas.families)
            return self.said("merges-none" if looked else "merges-unread")
        if all(model.declared.reason is not None for model in atlas.models.values()):
            return self.said(f"{key}-unread")
        if key == "contradicted" and atlas.claims_depth not in ("deep", "full"):
            return self.said("contradicted-shallow")
        return self.said(f"{key}-none")

    def _about(self) -> Iterator[Block]:
        atlas = self.atlas
        limits = Bullets(tuple(self.language.tell(item) for item in atlas.limitations))
        yield Section(title=self.said("limits"), blocks=(limits,), key="limits")
        if atlas.notes:
            notes = Bullets(tuple(self.language.tell(note) for note in atlas.notes))
            yield Section(title=self.said("remarks"), blocks=(notes,), key="remarks")
        yield Paragraph(
            Marked(
                self.said(
                    "counts-tested",
                    found=f"{atlas.n_found:,}",
                    pairs=f"{atlas.n_pairs:,}",
                    tested=f"{atlas.n_tested:,}",
                    size=f"{atlas.log10_size:.0f}",
                    threshold=f"{atlas.threshold:.0f}",
                )
            ),
            "note",
        )

    def _section(self, key: str, blocks: Iterable[Block], *, has: Sequence[object]) -> Section:
        inside: tuple[Block, ...] = (Paragraph(self._nothing(key)),)
        if has:
            lead = f"{key}-lead"
            first = (Paragraph(self.said(lead)),) if f"atlas.{lead}" in self.language.texts else ()
            inside = (*first, *blocks)
        return Section(title=self.said(key), blocks=inside, key=key)

    def _table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Text | Cell]],
        numeric: tuple[int, ...] = (),
        most: int = _MOST_ROWS,
    ) -> Iterator[Block]:
        made = table(columns, rows[:most], numeric=numeric)
        yield Table(columns=made.columns, rows=made.rows, numeric=made.numeric, sortable=self.links)
        if len(rows) > most:
            yield Paragraph(self.said("more", n=f"{len(rows) - most:,}"), "note")

    def _families(self) -> Iterator[Block]:
        rows: list[tuple[Text | Cell, ...]] = []
        for number, family in enumerate(self.atlas.families):
            kinds = {self.atlas.models[ref].architecture or "?" for ref in family.members}
            called = self.name(family.name)
            name: Inline = Linked(called, family_file(number)) if self.links else called
            rows.append(
                (
                    name,
                    ", ".join(sorted(kinds)),
                    Cell(text=f"{len(family.members):,}", sort=float(len(family.members))),
                )
            )
        yield from self._table(self.titles("family-of", "architecture", "members"), rows, numeric=(2,))

    def _claims_table(self, claims: Sequence[AtlasClaim]) -> Iterator[Block]:
        rows = [
            (
                self.to(claim.child),
                claim.named if claim.parent is None else self.to(claim.parent),
                Chip(self.language.word("claim_status", claim.status), _TONES[claim.status]),
                self.language.tell(claim.reason),
            )
            for claim in claims
        ]
        yield from self._table(self.titles("model", "named", "status", "reason"), rows)

    def _unnamed_table(self, items: Sequence[UnnamedOrigin]) -> Iterator[Block]:
        rows = []
        for item in items:
            earlier: list[Inline] = []
            for ref, day in zip(item.earlier, item.earlier_dates, strict=True):
                earlier += [*([", "] if earlier else []), self.to(ref), " ", Runs(f"({day})")]
            rows.append(
                (self.to(item.child), Runs(item.date), tuple(earlier), self.language.tell(item.reason))
            )
        yield from self._table(self.titles("model", "date", "earlier", "reason"), rows)

    def _licence_table(self, steps: Sequence[LicenceStep]) -> Iterator[Block]:
        rows = [
            (
                self.to(step.child),
                step.child_licence,
                self.to(step.parent),
                step.parent_licence,
                ", ".join(self.language.word("licence", word) for word in step.missing),
            )
            for step in steps
        ]
        yield from self._table(self.titles("child", "licence", "parent", "parent-licence", "left-out"), rows)

    def _merge_table(self, merges: Sequence[AtlasMerge]) -> Iterator[Block]:
        rows = []
        for merge in merges:
            parts: list[Inline] = []
            for ref, weight in zip(merge.parents, merge.weights, strict=True):
                parts += [*([", "] if parts else []), self.to(ref), f" {weight:.2f}"]
            rows.append((self.to(merge.model), tuple(parts)))
        yield from self._table(self.titles("model", "parts"), rows)

    # -- a family --------------------------------------------------------------------------------------

    def family(self, number: int) -> Iterator[Block]:
        family = self.atlas.families[number]
        yield Heading(self.named("family", name=self.name(family.name)), 1)
        yield Paragraph(
            self.said("family-count", n=f"{len(family.members):,}", pairs=f"{family.n_pairs:,}"), "strong"
        )
        yield Paragraph(self.said("grown-yes" if family.grown else "grown-no"), "note")
        if family.notes:
            yield Bullets(tuple(self.language.tell(note) for note in family.notes))
        rows: list[tuple[Text | Cell, ...]] = []
        for ref in family.members:
            model = self.atlas.models[ref]
            rows.append(
                (
                    self.to(ref),
                    model.architecture or "?",
                    _size(model.parameters),
                    Runs(model.declared.date or "-"),
                    model.declared.licence or "-",
                    Cell(text=f"{model.n_relatives:,}", sort=float(model.n_relatives)),
                )
            )
        titles = self.titles("model", "architecture", "parameters", "date", "licence", "relatives")
        listed = tuple(self._table(titles, rows, numeric=(2, 5), most=_MOST_MEMBERS))
        yield Section(title=self.said("members-title"), blocks=listed, key="members")
        inside = set(family.members)
        edges = [edge for edge in self.atlas.edges if edge.first in inside]
        drawn = tuple(self._edges(edges, most=_MOST_MEMBERS))
        yield Section(title=self.said("edges"), blocks=drawn, key="edges")
        yield from self._about()

    def _edges(self, edges: Sequence[AtlasEdge], most: int = _MOST_ROWS) -> Iterator[Block]:
        rows = []
        for edge in edges:
            weight = "" if edge.weight is None else f" {edge.weight:.2f}"
            kind = Linked(
                self.said(f"kind-{edge.kind}") + weight, self.up + pair_file(edge.first, edge.second)
            )
            rows.append(
                (
                    self.to(edge.first),
                    self.to(edge.second),
                    kind,
                    self._direction(edge),
                    self.language.tell(edge.reason),
                )
            )
        yield from self._table(self.titles("model", "other", "kind", "direction", "reason"), rows, most=most)

    def _direction(self, edge: AtlasEdge) -> str:
        if edge.parent is None:
            return self.language.say("tree.unknown")
        child = edge.first if edge.parent == edge.second else edge.second
        return f"{self.name(edge.parent)} → {self.name(child)}"

    # -- a model ---------------------------------------------------------------------------------------

    def model(self, ref: str) -> Iterator[Block]:
        model, index = self.atlas.models[ref], self.index
        yield Heading(model.shown, 1)
        if model.family is not None:
            family = self.atlas.families[model.family]
            yield Paragraph(
                (
                    Strong(self.said("relatives-count", n=f"{model.n_relatives:,}")),
                    " ",
                    Linked(
                        self.said("family", name=self.name(family.name)), self.up + family_file(model.family)
                    ),
                )
            )
        elif model.reason is not None:
            yield Paragraph((Strong(self.said("without")), f": {self.language.tell(model.reason)}"))
        else:
            yield Paragraph(self.said("no-relatives"), "strong")
        yield Facts(rows=tuple(self._facts(ref)))
        if claims := index.claims(ref):
            yield Section(title=self.said("claims"), blocks=tuple(self._claims_table(claims)), key="claims")
        if (unnamed := index.unnamed(ref)) is not None:
            yield self._section("unnamed", self._unnamed_table([unnamed]), has=[unnamed])
        if steps := index.licences(ref):
            yield self._section("licences", self._licence_table(steps), has=steps)
        if merges := index.merges(ref):
            yield self._section("merges", self._merge_table(merges), has=merges)
        if edges := index.edges(ref):
            yield Section(title=self.said("edges"), blocks=tuple(self._edges(edges)), key="edges")
        if pairs := index.relatives(ref):
            listed = tuple(self._relatives(ref, pairs))
            yield Section(title=self.said("relatives-title"), blocks=listed, key="relatives")
        yield from self._about()

    def _facts(self, ref: str) -> Iterator[tuple[str, Text]]:
        model = self.atlas.models[ref]
        declared = model.declared
        if model.shown != ref:
            yield self.said("reference"), ref
        if model.architecture is not None:
            yield self.said("architecture"), model.architecture
        if model.layers is not None or model.hidden_size is not None:
            shape = {
                "layers": model.layers,
                "width": model.hidden_size,
                "vocab": model.vocab_size,
            }
            shown = {key: "?" if value is None else f"{value:,}" for key, value in shape.items()}
            yield self.said("shape"), self.said("shape-text", **shown)
        if model.parameters:
            yield self.said("parameters"), count_text(model.parameters)
        if model.revision:
            yield self.said("revision"), model.revision
        yield self.said("added"), model.added
        if declared.reason is not None:
            yield self.said("card-not-read"), self.language.tell(declared.reason)
        else:
            yield self.said("declared"), ", ".join(declared.parents) or "-"
            yield self.said("licence"), declared.licence or "-"
        if declared.saved_from is not None:
            yield self.said("saved"), declared.saved_from
        yield self.said("date"), Runs(declared.date or "-")

    def _relatives(self, ref: str, pairs: Sequence[AtlasPair]) -> Iterator[Block]:
        rows: list[tuple[Text | Cell, ...]] = []
        for pair in pairs:
            other = pair.second if pair.first == ref else pair.first
            rows.append(
                (
                    self.to(other),
                    Marked(p_text(pair.log10_p))
                    if pair.found and pair.log10_p is not None
                    else self.said("proposed")
                    if pair.log10_p is not None
                    else "-",
                    "-" if pair.likeness is None else f"{pair.likeness:.2f}",
                    "-" if pair.token_gram is None else f"{pair.token_gram:.2f}",
                    Linked(self._weights(pair), self.up + pair_file(pair.first, pair.second)),
                )
            )
        titles = self.titles("model", "p", "likeness", "gram", "compared")
        yield from self._table(titles, rows, numeric=(2, 3))
        yield Paragraph(self.said("pair-likeness-note"), "note")

    def _weights(self, pair: AtlasPair) -> str:
        if pair.conclusion is None:
            return self.said("not-compared")
        return f"{self.language.word('short', pair.conclusion)} ({pair.depth})"

    # -- a pair ----------------------------------------------------------------------------------------

    def pair(self, pair: AtlasPair) -> Iterator[Block]:
        yield Heading(self.named("pair", first=self.name(pair.first), second=self.name(pair.second)), 1)
        # Pairs that the first pass listed without a finding have similar tokens.
        state = "pair-found" if pair.found else "pair-open" if pair.log10_p is None else "pair-proposed"
        yield Paragraph(self.said(state), "strong")
        facts: list[tuple[str, Text]] = [
            (self.said("model"), self.to(pair.first)),
            (self.said("model"), self.to(pair.second)),
        ]
        if pair.log10_p is not None and pair.found:
            facts.append((self.said("p"), Marked(p_text(pair.log10_p))))
        if pair.likeness is not None:
            facts.append((self.said("likeness"), f"{pair.likeness:.2f}"))
        if pair.token_gram is not None:
            facts.append((self.said("gram"), f"{pair.token_gram:.2f}"))
        yield Facts(rows=tuple(facts))
        yield Paragraph(self.said("pair-likeness-note"), "note")
        key = {pair.first, pair.second}
        if claims := [item for item in self.index.claims(pair.first) if {item.child, item.parent} == key]:
            yield Section(title=self.said("claims"), blocks=tuple(self._claims_table(claims)), key="claims")
        if edges := [item for item in self.index.edges(pair.first) if {item.first, item.second} == key]:
            yield Section(title=self.said("edges"), blocks=tuple(self._edges(edges)), key="edges")
        yield Section(title=self.said("pair-weights"), blocks=tuple(self._compared(pair)), key="weights")
        yield from self._about()

    def _compared(self, pair: AtlasPair) -> Iterator[Block]:
        if pair.comparison is None:
            told = self.said("pair-none") if pair.reason is None else self.language.tell(pair.reason)
            yield Paragraph(self._weights(pair) if pair.conclusion is not None else told)
            return
        yield verdict_card(pair.comparison, self.language)
        yield PageOnly(blocks=(LayerFigures(pair.comparison),))
        yield Link(f"{pair_key(pair.first, pair.second)}/report.html", self.said("pair-report"))


def _size(parameters: int | None) -> Text | Cell:
    return "-" if not parameters else Cell(text=count_text(parameters), sort=float(parameters))
