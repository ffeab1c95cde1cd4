"""``REPORT.md``: the whole record of a comparison as a document. Every number in it is in the JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Evidence
from modelkin.comparison.verdict import ComponentVerdict, Conclusion
from modelkin.untrusted import visible

from ._alignment import (
    FRAME_COLUMNS,
    about_controls,
    frame_rows,
    layer_rows,
    ranked_text,
    reordered_lines,
    silent_maps,
    was_looked_for,
)
from ._evidence import evidence_row
from ._grids import grids
from ._rows import (
    command_text,
    effect_place,
    glossary,
    lineage_lines,
    map_place,
    method_lines,
    model_rows,
    reading_rows,
    remarks_text,
)
from ._sentences import sentence_text
from ._words import (
    layers_text,
    limitations_of,
    limits_text,
    not_examined,
    reason_text,
    relation_text,
    summary_of,
    tested_components,
    told_value,
)
from .language import ENGLISH, Language
from .numbers import (
    bound_text,
    effect_text,
    limit_text,
    p_text,
    runs_text,
    value_text,
    z_text,
)

_SPECIAL = re.compile(r"([\\`*\[\]<>|#~&!$])|(?<![A-Za-z0-9])(_)|(_)(?![A-Za-z0-9])")
_LIST_MARK = re.compile(r"^[-+]|(?<=^\d)[.)]")


def report_markdown(result: Comparison, language: Language = ENGLISH) -> str:
    """Write the report, from the question to how to repeat it."""
    return _Document(result, language).text()


class _Document:
    """One report in one language."""

    def __init__(self, result: Comparison, language: Language) -> None:
        self.result = result
        self.language = language
        self.say = language.say

    def text(self) -> str:
        """Put the parts together."""
        names = {"candidate": self.result.candidate.ref, "base": self.result.base.ref}
        parts = [
            ["# " + _text(self.say("title.question", **names))],
            self._verdict(),
            [self._title("limits"), _list(limitations_of(self.result, self.language))],
            self._flags(),
            self._components(),
            self._relation(),
            self._alignment(),
            self._layers(),
            self._controls(),
            self._models(),
            self._lineage(),
            self._evidence(),
            self._missing(),
            self._reading(),
            self._repeat(),
            self._glossary(),
        ]
        return "\n\n".join(block for part in parts for block in part if block) + "\n"

    def _title(self, key: str, *, level: int = 2) -> str:
        return f"{'#' * level} {self.say(f'title.{key}')}"

    def _labels(self, *keys: str) -> tuple[str, ...]:
        return tuple(self.say(f"label.{key}") for key in keys)

    # -- the answer ------------------------------------------------------------------------------------

    def _verdict(self) -> Iterator[str]:
        verdict, say = self.result.verdict, self.say
        name = verdict.conclusion.value
        yield self._title("verdict")
        ranked = ranked_text(self.result, self.language)
        headline = say("text.ranked_headline") if ranked else say(f"headline.{name}")
        yield f"**{headline}.** {_text(summary_of(self.result, self.language))}"
        yield _text(say("text.ranked_meaning") if ranked else say(f"meaning.{name}"))
        rows = [("conclusion", f"`{name}`")]
        if verdict.log10_p is not None:
            chance = ranked or f"{say(f'strength.{name}')}; {say('text.corrected')}"
            rows.append(("strength", f"{p_text(verdict.log10_p)}: {chance}"))
        if verdict.related and verdict.log10_p_extrapolated is not None:
            rows.append(("extrapolated", say("text.p_about", p=bound_text(verdict.log10_p_extrapolated))))
        if verdict.effect is not None:
            rows.append(("effect", _text(effect_place(self.result, self.language))))
        limits = limits_text(self.result, self.language)
        if limits:
            rows.append(("detectable", _text(say("text.power", limits=limits))))
        rows.append(
            (
                "decided",
                _text(
                    say("text.at_stage", stage=verdict.stage, rule=told_value(verdict.rule, self.language))
                ),
            )
        )
        yield _table(("", ""), [(f"**{say(f'label.{key}')}**", value) for key, value in rows])

    def _flags(self) -> Iterator[str]:
        if self.result.flags:
            yield self._title("flags")
            yield self.say("text.about_flags")
            yield _list(sentence_text(flag, self.language) for flag in self.result.flags)

    def _components(self) -> Iterator[str]:
        rows = [
            (
                _text(self.language.word("component", name)),
                self.say(f"short.{item.conclusion.value}"),
                effect_text(item.effect) if item.effect else "-",
                self._component_p(name, item),
                str(item.n_tests),
                layers_text(name, item, self.result, self.language),
                limit_text(item.detection_limit) if item.detection_limit is not None else "-",
            )
            for name, item in tested_components(self.result)
        ]
        yield self._title("components")
        if not rows:
            yield self.say("text.no_component")
            return
        titles = ("component", "verdict", "effect", "p_at_most", "tests", "layers", "found_from")
        yield _table(self._labels(*titles), rows)
        yield self.say("text.about_components")

    def _component_p(self, name: str, item: ComponentVerdict) -> str:
        bound = bound_text(item.log10_p) if item.log10_p is not None else "-"
        ranked = ranked_text(self.result, self.language, name)
        return bound if ranked is None else f"{bound} ({_text(ranked)})"

    def _relation(self) -> Iterator[str]:
        relation, alignment = self.result.relation, self.result.alignment
        yield self._title("relation")
        reasons = (sentence_text(reason, self.language) for reason in relation.direction.reasons)
        sentences = (relation_text(self.result, self.language), *reasons)
        yield " ".join(_sentence(_text(sentence)) for sentence in sentences)
        yield from self._grids(relation.details)
        paired = [("residual_paired", alignment.residual), ("units_paired", alignment.units)]
        rows = [(self.say(f"label.{key}"), _text(self.language.word("pairing", how))) for key, how in paired]
        yield _table(self._labels("what", "value"), rows)

    def _alignment(self) -> Iterator[str]:
        """Show what faces what, where that was looked for."""
        if not was_looked_for(self.result):
            return
        yield self._title("alignment", level=3)
        if layers := layer_rows(self.result, self.language):
            yield _table(self._labels("candidate_layers", "base_layers", "effect"), layers)
            yield self.say("text.about_alignment")
        found = [*reordered_lines(self.result, self.language), *silent_maps(self.result, self.language)]
        yield _list(found)
        if tried := frame_rows(self.result, self.language):
            yield self._title("frames", level=3)
            titles = [self.language.word("detail", key) for key in FRAME_COLUMNS]
            yield _table(titles, [[_text(cell) for cell in row] for row in tried])
            yield self.say("text.about_frames")

    def _layers(self) -> Iterator[str]:
        """Show how surely layers face each other, for each map in which some stand out."""
        for item in self.result.alignment.maps:
            if not item.path:
                continue
            title = f"{self.say('title.maps')}: {self.language.word('component', item.component)}"
            yield f"### {_text(f'{title} ({map_place(item, self.language)})')}"
            scores = dict(zip(item.candidate_layers, item.scores, strict=True))
            column = {layer: number for number, layer in enumerate(item.base_layers)}
            rows = []
            for mine, theirs in item.path:
                score = scores[mine][column[theirs]] if mine in scores and theirs in column else None
                rows.append((str(mine), str(theirs), f"{score:.1f}" if score is not None else "-"))
            yield _table((*self._labels("candidate_layer", "base_layer"), "z"), rows)

    def _controls(self) -> Iterator[str]:
        yield self._title("controls")
        if not self.result.controls:
            yield self.say("text.no_control")
            return
        rows = [
            (
                _text(item.pair[1]),
                _text(item.pair[0]),
                self.say(f"short.{Conclusion(item.conclusion).value}") if item.conclusion else "-",
                effect_text(item.effect) if item.effect else "-",
                bound_text(item.log10_p) if item.log10_p is not None else "-",
                self.say("word.yes")
                if item.usable
                else f"**{self.say('word.no')}**: {_text(reason_text(item.reason, self.language))}",
            )
            for item in self.result.controls
        ]
        titles = ("control", "compared_with", "verdict", "effect", "p_at_most", "serves")
        yield _table(self._labels(*titles), rows)
        yield about_controls(self.result, self.language)

    # -- what it rests on ------------------------------------------------------------------------------

    def _models(self) -> Iterator[str]:
        mine, theirs = self.result.candidate, self.result.base
        yield self._title("models")
        pairs = zip(model_rows(mine, self.language), model_rows(theirs, self.language), strict=True)
        sides = (self.say("side.candidate"), self.say("side.base"))
        yield _table(("", *sides), [(name, _text(left), _text(right)) for (name, left), (_, right) in pairs])
        yield self._title("tokenizers", level=3)
        yield from self._grids(self.result.tokenizer)
        yield self._title("config", level=3)
        yield from self._grids(self.result.config, first="label.field")
        if not self.result.config:
            yield self.say("text.no_config")

    def _lineage(self) -> Iterator[str]:
        declared = self.result.claims
        yield self._title("lineage")
        yield self.say("text.lineage_claim" if declared else "text.no_lineage")
        for side, said in lineage_lines(declared, self.language):
            yield f"**{_text(side)}**"
            yield _list(said)

    def _evidence(self) -> Iterator[str]:
        yield self._title("evidence")
        if not self.result.evidence:
            yield self.say("text.no_evidence")
            return
        titles = (
            *("method", "component", "role", "layers", "units", "features", "z", "effect", "p_at_most"),
            *("extrapolated", "matched", "found_from", "remarks"),
        )
        yield _table(self._labels(*titles), [self._evidence_row(test) for test in self.result.evidence])
        yield self.say("text.about_evidence")
        yield self._title("nulls", level=3)
        yield "\n".join(f"- {_text(line)}" for line in method_lines(self.result, self.language))

    def _evidence_row(self, found: Evidence) -> tuple[str, ...]:
        test = evidence_row(found)
        return (
            _text(test.method),
            _text(self.language.word("component", test.component)),
            _text(test.role or "-"),
            runs_text(test.layers) or "-",
            _value(test.n),
            _value(test.n_features),
            z_text(test.z) if test.z is not None else "-",
            effect_text(test.effect) if test.effect else "-",
            bound_text(test.log10_p) if test.log10_p is not None else "-",
            bound_text(test.log10_p_extrapolated) if test.log10_p_extrapolated is not None else "-",
            _value(test.n_matched),
            limit_text(test.detection_limit) if test.detection_limit is not None else "-",
            _text(remarks_text(found, self.language)) or "-",
        )

    def _missing(self) -> Iterator[str]:
        yield self._title("missing")
        yield _list(not_examined(self.result, self.language)) or self.say("text.nothing_missing")
        depth = self.result.environment.depth
        yield _text(self.say("text.stopped", stage=self.result.verdict.stage, depth=depth))

    def _reading(self) -> Iterator[str]:
        yield self._title("reading")
        rows = [(name, value) for name, value in reading_rows(self.result, self.language)]
        yield _table((self.say("label.of_both"), ""), [(_text(name), value) for name, value in rows])
        yield self.say("text.in_json")

    # -- how to repeat it ------------------------------------------------------------------------------

    def _repeat(self) -> Iterator[str]:
        environment = self.result.environment
        yield self._title("repeat")
        yield f"```console\n$ {command_text(self.result)}\n```"
        methods = ", ".join(f"{name} {version}" for name, version in environment.methods.items())
        versions = {
            "version": environment.modelkin,
            "rule": told_value(environment.rule, self.language),
            "methods": methods,
        }
        yield _text(self.say("text.versions", **versions))
        yield self.say("text.same_bytes")

    def _glossary(self) -> Iterator[str]:
        yield self._title("glossary")
        yield _table(("", ""), [(f"**{word}**", meaning) for word, meaning in glossary(self.language)])

    def _grids(
        self, value: Mapping[str, object] | list[object], *, first: str = "label.what"
    ) -> Iterator[str]:
        for grid in grids(value, self.language, first=first):
            if grid.title:
                yield f"**{_text(grid.title)}**"
            titles = [_text(title) for title in grid.columns]
            yield _table(titles, [[_text(cell) for cell in row] for row in grid.rows])


# -- Markdown ------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """Show a text as it is: nothing in it is markup, and nothing in it ends a cell or a line."""
    return _SPECIAL.sub(r"\\\g<0>", visible(text))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _value(value: str | float | bool | None) -> str:
    return _text(value_text(value))


def _list(lines: Iterable[str]) -> str:
    return "\n".join("- " + _LIST_MARK.sub(r"\\\g<0>", _text(line)) for line in lines)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
