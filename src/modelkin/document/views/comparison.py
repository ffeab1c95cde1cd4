"""A comparison: the verdict first, always with its limits, and everything it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from modelkin.comparison import Comparison, ControlResult
from modelkin.comparison.verdict import NEVER, ComponentVerdict, Conclusion
from modelkin.document.blocks import (
    Bar,
    Block,
    Bullets,
    Card,
    Fact,
    Facts,
    Heading,
    LayerFigures,
    Literally,
    Marked,
    Named,
    PageOnly,
    Paragraph,
    Section,
    Strong,
    Table,
    Text,
    Tile,
    table,
)
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import bound_text, effect_text, limit_text, p_text

from .alignment import alignment_sections, finding_blocks, relation_section, relation_text
from .beside import beside_models, beside_sections, lineage_section, model_line, models_section
from .evidence import (
    evidence_blocks,
    missing_blocks,
    reading_blocks,
    reading_lines,
    repeat_blocks,
    test_blocks,
)
from .methods import reference_blocks
from .names import with_short_names
from .stacks import stacks
from .words import (
    basis_text,
    chip,
    effect_bar,
    effect_place,
    effect_scale,
    labels,
    layers_text,
    limits_text,
    not_examined,
    own_layers_text,
    p_texts,
    ranked_text,
    reason_text,
    share_measure,
    tested_components,
    told_value,
    tone,
)

Detail = Literal["brief", "verbose", "whole"]
"""How much is shown: the answer and what it means; also every test; or the whole record."""
_COORDINATES = "meaning.coordinates"
_MEANINGS = {
    "coordinates-only": _COORDINATES,
    "coordinates-and-heads": _COORDINATES,
    "coordinates-so-far": _COORDINATES,
    "units-found-again": "meaning.units-found-again",
    "layers-found-again": "meaning.layers-found-again",
    "single-layer": "meaning.single-layer",
}
"""Readings that mean something else than their conclusion usually does."""


def comparison_view(
    result: Comparison, language: Language = ENGLISH, *, detail: Detail = "whole"
) -> tuple[Block, ...]:
    """Return a comparison as blocks."""
    view = _ComparisonBlocks(result, language, detail)
    return tuple(view.whole() if detail == "whole" else view.brief())


def verdict_card(
    result: Comparison,
    language: Language = ENGLISH,
    *,
    detail: Detail = "brief",
    names: Mapping[str, str] | None = None,
) -> Card:
    """Return the verdict at a glance; `names` are what people call models, by reference."""
    return _ComparisonBlocks(result, language, detail, names).card()


class _ComparisonBlocks:
    def __init__(
        self,
        result: Comparison,
        language: Language,
        detail: Detail,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.whole_names = result
        self.result = with_short_names(result, names)
        self.language = language
        self.say = language.say
        self.detail = detail
        self.names = (self.result.candidate.ref, self.result.base.ref)

    def whole(self) -> Iterator[Block]:
        """Yield everything, from the question to how to repeat it."""
        question = self.say("title.question", candidate=self.names[0], base=self.names[1])
        yield Heading(Named(question, self.names), 1)
        yield self._section("verdict", self.card())
        yield self._section("limits", self._limits())
        if flags := self._flags():
            yield self._section("flags", Paragraph(self.say("text.about_flags"), "note"), flags)
        yield self._section("components", *self._components())
        yield self._layers()
        yield relation_section(self.result, self.language)
        yield self._section("controls", *self._controls())
        if self.result.reference:
            yield self._section("reference", *reference_blocks(self.result, self.language))
        yield self._section("missing", *missing_blocks(self.result, self.language))
        yield models_section(self.whole_names, self.language)
        yield self._section("repeat", *repeat_blocks(self.whole_names, self.language))
        yield self._closed("evidence", *evidence_blocks(self.result, self.language))
        yield from beside_models(self.result, self.language)
        yield lineage_section(self.result, self.language)
        yield self._closed("reading", *reading_blocks(self.result, self.language))
        yield self._closed("glossary", self._glossary())

    def brief(self) -> Iterator[Block]:
        """Yield what a person at a terminal wants to know first."""
        yield self.card()
        if flags := self._flags():
            yield Section(title=self.say("title.flags_beside"), blocks=(flags,))
        if any(tested_components(self.result)):
            yield self._section("components", *self._components())
        if told := tuple(finding_blocks(self.result, self.language, brief=True)):
            yield Section(title=self.say("title.findings"), blocks=told)
        yield from alignment_sections(self.result, self.language, brief=True)
        if self.detail == "verbose":
            yield self._section("evidence", *test_blocks(self.result, self.language))
        if self.result.controls:
            yield self._section("controls", *self._controls())
        if self.result.reference:
            yield self._section("reference", *reference_blocks(self.result, self.language))
        yield from beside_sections(self.result, self.language)
        yield self._section("limits", self._limits())
        if left_out := tuple(not_examined(self.result, self.language)):
            yield self._section("missing", Bullets(left_out))
        yield from reading_lines(self.result, self.language)

    def _section(self, key: str, *blocks: Block) -> Section:
        return Section(title=self.say(f"title.{key}"), key=key, blocks=blocks)

    def _closed(self, key: str, *blocks: Block) -> Section:
        return Section(title=self.say(f"title.{key}"), key=key, blocks=blocks, closed=True)

    # -- the answer ------------------------------------------------------------------------------------

    def card(self) -> Card:
        """Return the verdict in plain words, then its numbers."""
        verdict, whole = self.result.verdict, self.detail == "whole"
        name = verdict.conclusion.value
        basis = "meaning." + name
        if ranked_text(self.result, self.language) is not None:
            basis = "text.ranked_meaning"
        elif own_layers_text(self.result, self.language) is not None:
            basis = "text.own_layers_meaning"
        elif verdict.reading in _MEANINGS:
            basis = _MEANINGS[verdict.reading]
        return Card(
            headline=self.language.tell(verdict.headline),
            tone=tone(verdict.conclusion),
            summary=Named(self.language.tell(verdict.summary), self.names),
            meaning=self.say(basis) if whole else "",
            facts=tuple(self._facts()),
            drawing=stacks(self.result, self.language),
        )

    def _facts(self) -> Iterator[Fact]:
        verdict, result, whole = self.result.verdict, self.result, self.detail == "whole"
        if whole:
            yield self._fact("conclusion", Literally(verdict.conclusion.value))
        else:
            full = self.whole_names
            for side, model in (("candidate", full.candidate), ("base", full.base)):
                yield Fact(name=self.say(f"side.{side}"), text=model_line(model, self.language))
        for flag in result.strong_flags:
            yield self._fact("flag", Strong(self.language.tell(flag)))
        yield from self._strength()
        exact = verdict.related and verdict.basis == "exact"
        if exact and verdict.log10_p_extrapolated is not None and self.detail != "brief":
            far = self.say("text.p_about", p=bound_text(verdict.log10_p_extrapolated))
            yield self._fact("extrapolated", Marked(far))
        if verdict.effect is not None:
            yield self._fact("effect", effect_place(result, self.language), self._effect_tile())
        if verdict.related and not whole:
            yield self._fact("relation", relation_text(result, self.language))
        limits = limits_text(result, self.language)
        power = self.say("text.power", limits=limits) if limits else ""
        if power or verdict.detection_limit is not None:
            yield self._fact("detectable", power, self._limit_tile(power))
        if whole:
            rule = told_value(verdict.rule, self.language)
            yield self._fact("decided", self.say("text.at_stage", stage=verdict.stage, rule=rule))

    def _fact(self, key: str, text: Text, tile: Tile | None = None) -> Fact:
        return Fact(name=self.say(f"label.{key}"), text=text, tile=tile)

    def _strength(self) -> Iterator[Fact]:
        log10_p, label = self.result.verdict.log10_p, self.say("text.key_p")
        if log10_p is None:
            yield self._fact("strength", "", Tile(label=label, value="-", note=self.say("text.no_p")))
            return
        strength = self.say(f"strength.{self.result.verdict.conclusion.value}")
        basis = basis_text(self.result, self.language)
        corrected = f"; {self.say('text.corrected')}" if self.detail == "whole" else ""
        note = basis or f"{strength}{corrected}"
        tile = Tile(label=label, value=p_text(log10_p), note=note)
        yield self._fact("strength", Marked(f"{p_text(log10_p)}: {note}"), tile)

    def _effect_tile(self) -> Tile:
        effect, place = self.result.verdict.effect, self.result.verdict.deciding
        assert effect is not None
        interval = self.say("text.interval", level=f"{100 * effect.level:g}")
        where = f"{self.language.word('component', place)}; " if place else ""
        value, _, rest = effect_text(effect).partition(" ")
        return Tile(
            label=self.say("text.key_effect"),
            value=value,
            rest=rest,
            note=f"{where}{interval}; {effect_scale(self.result, self.language)}",
            bar=Bar(
                value=effect.value,
                low=effect.low,
                high=effect.high,
                start=_axis_start([effect.low]),
                label=effect_place(self.result, self.language),
            ),
        )

    def _limit_tile(self, power: str) -> Tile | None:
        limit = self.result.verdict.detection_limit
        if limit is None:
            return None
        if limit >= NEVER:
            return Tile(label=self.say("text.key_limit"), value="-", note=self.say("text.none_at_any_size"))
        note = power or self.say("text.power_short")
        return Tile(label=self.say("text.key_limit"), value=limit_text(limit), note=note)

    def _limits(self) -> Bullets:
        return Bullets(tuple(self.language.tell(text) for text in self.result.verdict.limitations))

    def _flags(self) -> Bullets | None:
        """Return the flags that are not on the card."""
        others = [flag for flag in self.result.flags if flag not in self.result.strong_flags]
        return Bullets(tuple(self.language.tell(flag) for flag in others)) if others else None

    # -- components ------------------------------------------------------------------------------------

    def _components(self) -> Iterator[Block]:
        tested = list(tested_components(self.result))
        names = {name for name, _ in tested}
        rest = [item for item in self.result.verdict.components.items() if item[0] not in names]
        whole = self.detail == "whole"
        if not tested:
            yield Paragraph(self.say("text.no_component"))
        else:
            start = _axis_start([item.effect.low for _, item in tested if item.effect])
            # The smallest effect that would have been found has no room on a terminal.
            keys = ("component", "verdict", "effect", "", "p_at_most", "tests", "layers")
            yield Table(
                columns=labels(self.language, *keys, *(("found_from",) if whole else ())),
                rows=tuple(self._component(name, item, start) for name, item in tested),
                numeric=frozenset({2, 4, 5, 7}),
                kind="components",
            )
        if rest and whole:
            reasons = tuple(
                (self.language.word("component", name), self._untested(item)) for name, item in rest
            )
            yield PageOnly(blocks=(Facts(rows=reasons),))
        if tested and whole:
            yield Paragraph(Marked(self.say("text.about_components")), "note")
            for name, _ in tested:
                if effect := share_measure(self.result, name, self.language):
                    component = self.language.word("component", name)
                    told = self.say("text.of_effect", effect=effect)
                    yield Paragraph(f"{component}: {told}", "note")
        if explained := p_texts(self.result, self.language):
            yield Paragraph(Marked(explained), "note")
        for name, item in tested:
            if not item.is_exact and not whole:
                basis = basis_text(self.result, self.language, name)
                effect = share_measure(self.result, name, self.language)
                told = self.say("text.of_effect", effect=effect) if effect else ""
                parts = [part for part in (basis, told) if part]
                yield Paragraph(f"* {self.language.word('component', name)}: {'; '.join(parts)}")

    def _component(self, name: str, item: ComponentVerdict, start: float) -> tuple[Text, ...]:
        label = self.language.word("component", name)
        bound = bound_text(item.log10_p) if item.log10_p is not None else "-"
        basis = basis_text(self.result, self.language, name)
        limit = limit_text(item.detection_limit) if item.detection_limit is not None else "-"
        whole = self.detail == "whole"
        return (
            label,
            chip(item.conclusion, self.language),
            Marked(effect_text(item.effect)) if item.effect else "-",
            effect_bar(item, label, start),
            bound if basis is None else f"{bound} ({basis})" if whole else f"{bound} *",
            str(item.n_tests),
            layers_text(name, item, self.result, self.language),
            *((limit,) if whole else ()),
        )

    def _untested(self, item: ComponentVerdict) -> Text:
        return chip(item.conclusion, self.language), f" {reason_text(item.reason, self.language)}"

    def _layers(self) -> PageOnly:
        return PageOnly(blocks=(self._section("layers", LayerFigures(self.result)),))

    def _controls(self) -> Iterator[Block]:
        if not self.result.controls:
            yield Paragraph(Marked(self.say("text.no_control")))
            return
        titles = ("control", "compared_with", "verdict", "effect", "p_at_most", "serves")
        rows = [self._control(item) for item in self.result.controls]
        yield table(labels(self.language, *titles), rows, numeric=(3, 4))
        if self.detail == "whole":
            ranked = any(item.basis == "rank" for item in self.result.verdict.components.values())
            key = "text.about_ranked_controls" if ranked else "text.about_controls"
            yield Paragraph(self.say(key), "note")

    def _control(self, item: ControlResult) -> tuple[Text, ...]:
        reason = reason_text(item.reason, self.language)
        return (
            item.pair[1],
            item.pair[0],
            chip(Conclusion(item.conclusion), self.language) if item.conclusion else "-",
            Marked(effect_text(item.effect)) if item.effect else "-",
            bound_text(item.log10_p) if item.log10_p is not None else "-",
            self.say("word.yes") if item.usable else (Strong(self.say("word.no")), f": {reason}"),
        )

    def _glossary(self) -> Facts:
        texts = self.language.table("glossary")
        words = [key.removesuffix(".word") for key in texts if key.endswith(".word")]
        return Facts(rows=tuple((texts[f"{key}.word"], texts[f"{key}.meaning"]) for key in words))


def _axis_start(lows: list[float]) -> float:
    """Return where the axis of bars begins: room below chance only as far as needed."""
    # A quarter leaves room for intervals around chance.
    return -1.0 if any(low < -0.25 for low in lows) else -0.25
