"""The rest of the page: evidence, controls, models, what was read, how to repeat it, words."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.comparison import Comparison, ControlResult, RangeRecord
from modelkin.comparison.methods import Evidence, Skipped
from modelkin.comparison.verdict import Conclusion
from modelkin.document._alignment import (
    FRAME_COLUMNS,
    about_controls,
    frame_rows,
    layer_rows,
    reordered_lines,
    silent_maps,
    was_looked_for,
)
from modelkin.document._evidence import evidence_row
from modelkin.document._grids import grids
from modelkin.document._rows import (
    command_text,
    glossary,
    lineage_lines,
    method_lines,
    model_rows,
    reading_rows,
    remarks_text,
)
from modelkin.document._sentences import sentence_text
from modelkin.document._words import not_examined, reason_text, relation_text, told_value
from modelkin.document.language import Language
from modelkin.document.numbers import (
    bound_text,
    effect_text,
    limit_text,
    runs_text,
    size_text,
    value_text,
    z_text,
)

from ._answer import chip
from ._tables import Cell, Row, fact_table, grid_table, number, runs, table, words
from .markup import Html, element, escaped, joined, name_of, own_text, powers

_MOST_RANGES = 300
_LONG_CONFIG = 12


def evidence_table(result: Comparison, language: Language) -> Html:
    """Show every test, and every test that was not made."""
    if not result.evidence:
        return element("p", language.say("text.no_evidence"))
    titles = (
        *("method", "component", "role", "layers", "units", "z", "effect", "p_at_most"),
        *("matched", "found_from", "remarks"),
    )
    made_first = sorted(result.evidence, key=lambda test: isinstance(test, Skipped))
    rows = [_evidence_row(test, language) for test in made_first]
    made = table(
        [language.say(f"label.{key}") for key in titles],
        rows,
        language=language,
        kind="evidence wide",
        sortable=True,
        numeric=range(4, 10),
    )
    lines = [element("li", line) for line in method_lines(result, language)]
    nulls = element("summary", language.say("text.show_nulls"))
    note = element("p", own_text(language.say("text.about_evidence")), class_="note")
    return joined([made, note, element("details", nulls, element("ul", *lines), class_="print")])


def _evidence_row(found: Evidence, language: Language) -> Row:
    test = evidence_row(found)
    effect, limit = test.effect, test.detection_limit
    where = (
        words(test.method),
        words(language.word("component", test.component)),
        words(test.role or "-"),
        Cell(shown=runs(runs_text(test.layers) or "-"), number=min(test.layers, default=None)),
    )
    if isinstance(found, Skipped):
        reason = Cell(shown=name_of(remarks_text(found, language)), kind="remarks", span=7)
        return Row(cells=(*where, reason), kind="skipped")
    units = value_text(test.n) + (f" x {value_text(test.n_features)}" if test.n_features else "")
    return Row(
        cells=(
            *where,
            number(units, test.n),
            number(z_text(test.z) if test.z is not None else "-", test.z),
            number(effect_text(effect) if effect else "-", effect.value if effect else None),
            number(powers(bound_text(test.log10_p)) if test.log10_p is not None else "-", test.log10_p),
            number(value_text(test.n_matched), test.n_matched),
            number(limit_text(limit) if limit is not None else "-", limit),
            words(remarks_text(found, language) or "-", kind="remarks"),
        ),
    )


def controls_table(result: Comparison, language: Language) -> Html:
    """Show the controls; those that cannot serve as a negative with the reason."""
    if not result.controls:
        return element("p", own_text(language.say("text.no_control")))
    titles = ("control", "compared_with", "verdict", "effect", "p_at_most", "serves")
    made = table(
        [language.say(f"label.{key}") for key in titles],
        [_control_row(item, language) for item in result.controls],
        language=language,
        kind="stack",
        numeric=(3, 4),
    )
    return joined([made, element("p", about_controls(result, language), class_="note")])


def _control_row(item: ControlResult, language: Language) -> Row:
    serves = element("span", language.say("word.yes"))
    if not item.usable:
        reason = escaped(f": {reason_text(item.reason, language)}")
        serves = element("span", element("strong", language.say("word.no")), reason)
    return Row(
        cells=(
            words(item.pair[1]),
            words(item.pair[0]),
            Cell(shown=chip(Conclusion(item.conclusion), language) if item.conclusion else escaped("-")),
            number(effect_text(item.effect) if item.effect else "-"),
            number(powers(bound_text(item.log10_p)) if item.log10_p is not None else "-"),
            Cell(shown=serves, kind="reason"),
        ),
        kind="" if item.usable else "skipped",
    )


def relation(result: Comparison, language: Language) -> Html:
    """Show what kind of relation it is, as far as known."""
    alignment = result.alignment
    reasons = [element("li", sentence_text(text, language)) for text in result.relation.direction.reasons]
    paired = [
        (language.say(f"label.{key}"), escaped(language.word("pairing", how)))
        for key, how in (("residual_paired", alignment.residual), ("units_paired", alignment.units))
    ]
    return joined(
        [
            element("p", relation_text(result, language), class_="lead"),
            element("ul", *reasons) if reasons else None,
            fact_table(paired),
            *(grid_table(grid, language) for grid in grids(result.relation.details, language)),
            *_alignment(result, language),
        ]
    )


def _alignment(result: Comparison, language: Language) -> Iterator[Html]:
    """Show what faces what, where that was looked for."""
    if not was_looked_for(result):
        return
    yield element("h3", language.say("title.alignment"))
    if layers := layer_rows(result, language):
        titles = [language.say(f"label.{key}") for key in ("candidate_layers", "base_layers", "effect")]
        rows = [
            Row(cells=(Cell(shown=runs(mine)), Cell(shown=runs(theirs)), number(effect)))
            for mine, theirs, effect in layers
        ]
        yield table(titles, rows, language=language, kind="plain", numeric=(2,))
        yield element("p", own_text(language.say("text.about_alignment")), class_="note")
    found = [*reordered_lines(result, language), *silent_maps(result, language)]
    if found:
        yield element("ul", *(element("li", name_of(line)) for line in found))
    if tried := frame_rows(result, language):
        yield element("h3", language.say("title.frames"))
        titles = [language.word("detail", key) for key in FRAME_COLUMNS]
        rows = [
            Row(cells=(words(kind), words(source), *(number(cell) for cell in rest)))
            for kind, source, *rest in tried
        ]
        yield table(titles, rows, language=language, kind="plain", numeric=(2, 3, 4))
        yield element("p", own_text(language.say("text.about_frames")), class_="note")


def models(result: Comparison, language: Language) -> Html:
    """Show both models side by side."""
    pairs = zip(model_rows(result.candidate, language), model_rows(result.base, language), strict=True)
    rows = [Row(cells=(words(name), words(left), words(right))) for (name, left), (_, right) in pairs]
    titles = ("", language.say("side.candidate"), language.say("side.base"))
    return table(titles, rows, language=language, kind="plain stack")


def tokenizers(result: Comparison, language: Language) -> Html:
    """Show what is known of the tokenizers."""
    return joined(grid_table(grid, language) for grid in grids(result.tokenizer, language))


def configurations(result: Comparison, language: Language) -> Html:
    """Show the fields in which the configurations differ."""
    if not result.config:
        return element("p", language.say("text.no_config"))
    made = joined(grid_table(grid, language) for grid in grids(result.config, language, first="label.field"))
    if len(result.config) <= _LONG_CONFIG:
        return made
    title = element("summary", language.say("text.show_config", number=str(len(result.config))))
    return element("details", title, made, class_="print")


def lineage(result: Comparison, language: Language) -> Html:
    """Show what publishers say, as a claim."""
    if not result.claims:
        return element("p", language.say("text.no_lineage"))
    parts = [element("p", language.say("text.lineage_claim"), class_="lead")]
    for side, said in lineage_lines(result.claims, language):
        parts.append(element("h4", name_of(side)))
        parts.append(element("ul", *(element("li", name_of(line)) for line in said)))
    return joined(parts)


def flags(result: Comparison, language: Language) -> Html | None:
    """Show what a person should look at more closely, if there is anything."""
    found = [element("li", sentence_text(flag, language)) for flag in result.flags]
    if not found:
        return None
    return joined([element("p", language.say("text.about_flags"), class_="note"), element("ul", *found)])


def missing(result: Comparison, language: Language) -> Html:
    """Show what was not examined, with reasons."""
    items = [element("li", line) for line in not_examined(result, language)]
    stage, depth = result.verdict.stage, result.environment.depth
    return joined(
        [
            element("ul", *items) if items else element("p", language.say("text.nothing_missing")),
            element("p", language.say("text.stopped", stage=stage, depth=depth), class_="note"),
        ]
    )


# -- the ledger ----------------------------------------------------------------------------------------


def reading(result: Comparison, language: Language) -> Html:
    """Show what was read: sums first, files and ranges on demand."""
    facts = [(name, escaped(value)) for name, value in reading_rows(result, language)]
    ranges = result.ledger.ranges
    title = element("summary", language.say("text.show_ranges", number=f"{len(ranges):,}"))
    return joined(
        [
            fact_table(facts),
            element("details", title, _files(result, language), *_ranges(ranges, language))
            if ranges
            else None,
            element("p", own_text(language.say("text.in_json")), class_="note"),
        ]
    )


def _files(result: Comparison, language: Language) -> Html:
    sums: dict[tuple[str, str], list[int]] = {}
    for entry in result.ledger.ranges:
        sums.setdefault((entry.model, entry.file), []).append(entry.n_bytes)
    rows = [
        Row(
            cells=(
                words(language.word("side", model)),
                words(file),
                number(f"{len(sizes):,}"),
                number(size_text(sum(sizes))),
            )
        )
        for (model, file), sizes in sums.items()
    ]
    titles = [language.say(f"label.{key}") for key in ("model", "file", "ranges", "bytes")]
    return table(titles, rows, language=language, kind="plain", numeric=(2, 3))


def _ranges(ranges: tuple[RangeRecord, ...], language: Language) -> Iterator[Html]:
    rows = [
        Row(
            cells=(
                words(language.word("side", entry.model)),
                words(entry.file),
                number(f"{entry.start:,}"),
                number(f"{entry.stop:,}"),
                Cell(shown=element("code", entry.sha256), kind="digest"),
            )
        )
        for entry in ranges[:_MOST_RANGES]
    ]
    titles = [language.say(f"label.{key}") for key in ("model", "file", "from", "to")]
    yield table([*titles, "SHA-256"], rows, language=language, kind="plain wide", numeric=(2, 3))
    if len(ranges) > _MOST_RANGES:
        more = language.say("text.more_ranges", number=f"{len(ranges) - _MOST_RANGES:,}")
        yield element("p", own_text(more), class_="note")


# -- how to repeat it ----------------------------------------------------------------------------------


def repeat(result: Comparison, language: Language) -> Html:
    """Show the command, and everything that fixes its result."""
    environment = result.environment
    facts = {
        "version": escaped(f"modelkin {environment.modelkin}"),
        "rule": escaped(told_value(environment.rule, language)),
        "thresholds": escaped(
            "; ".join(
                f"{language.word('threshold', name)} {value_text(value)}"
                for name, value in environment.thresholds.items()
            )
        ),
        "seed": escaped(str(environment.seed)),
        "depth": escaped(environment.depth),
        "methods": escaped(", ".join(f"{name} {number}" for name, number in environment.methods.items())),
    }
    commits = {model.ref: model.revision for model in (result.candidate, result.base)}
    commits |= {item.pair[1]: item.revision for item in result.controls}
    rows = [(language.say(f"label.{key}"), value) for key, value in facts.items()]
    pinned = [(ref, revision) for ref, revision in commits.items() if revision]
    for ref, revision in pinned:
        shown = joined([name_of(ref), " @ ", element("code", revision)])
        rows.append((language.say("label.commit"), shown))
    return joined(
        [
            element("pre", element("code", command_text(result)), tabindex=0),
            fact_table(rows),
            element("p", language.say("text.same_bytes"), class_="note"),
        ]
    )


def words_list(language: Language) -> Html:
    """Show the words of the page with their meanings."""
    items = [
        element("div", element("dt", word), element("dd", meaning)) for word, meaning in glossary(language)
    ]
    return element("dl", *items, class_="glossary")
