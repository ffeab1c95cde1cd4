"""Two configs: every field with its meaning, and what names and shapes of the tensors add."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from modelkin.describe import ConfigComparison
from modelkin.describe.key_scan import DimensionCheck, ExpertCensus, KeyScan
from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Table, table
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import digits_text, runs_text

_LONGEST = 40
_MOST_MISSING = 100


def configs_view(
    found: ConfigComparison, language: Language = ENGLISH, *, only_different: bool = False
) -> tuple[Block, ...]:
    """Return a comparison of configs as blocks, with all fields or without those that are equal."""
    return tuple(_blocks(found, language, only_different=only_different))


def _blocks(found: ConfigComparison, language: Language, *, only_different: bool) -> Iterator[Block]:
    say = language.of("configs")
    status = {name: language.word("config_status", name) for name in found.counts}
    counts = ", ".join(f"{count} {status[name]}" for name, count in found.counts.items())
    yield Paragraph(say("counted", counts=counts), "strong")
    for group in dict.fromkeys(field.group for field in found.fields):
        rows = [
            (
                field.name,
                _value(field.candidate),
                _value(field.base),
                language.word("config_status", field.status),
                language.told(field.meaning),
            )
            for field in found.fields
            if field.group == group and not (only_different and field.status == "equal")
        ]
        if rows:
            titles = [say(key) for key in ("field", "candidate", "base", "", "what_it_is")]
            title = language.word("config_group", group)
            yield Section(title=title[:1].upper() + title[1:], blocks=(table(titles, rows),))
    if found.keys is not None:
        yield Section(title=say("names"), blocks=(_keys(*found.keys, say),))
    if found.experts is not None and any(side.layers or side.declared for side in found.experts):
        yield Section(title=say("experts"), blocks=(_experts(*found.experts, say),))
    if found.dimensions is not None:
        rows = [
            (say(side), *row)
            for side, checks in zip(("candidate", "base"), found.dimensions, strict=True)
            for row in _dimensions(checks, say)
        ]
        titles = [say(key) for key in ("", "size", "config", "stored", "")]
        yield Section(title=say("sizes"), blocks=(table(titles, rows, numeric=(2, 3)),))
    if found.notes:
        yield Bullets(tuple(map(language.tell, found.notes)))
    yield Paragraph(say("no_sign"), "note")


def _value(text: str | None) -> str:
    if text is None:
        return "-"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _keys(candidate: KeyScan, base: KeyScan, say: Callable[..., str]) -> Table:
    sides = (candidate, base)
    rows = (
        (say("tensors"), *(f"{side.tensors:,}" for side in sides)),
        (say("numbered"), *(_numbers(side, say) for side in sides)),
        (say("left_out"), *(runs_text(side.missing[:_MOST_MISSING]) or "-" for side in sides)),
        (say("declared_layers"), *(digits_text(side.declared) for side in sides)),
        (say("beyond"), *(_pairs(side.beyond) for side in sides)),
        (say("words"), *(_pairs(side.words) for side in sides)),
    )
    return table([say(key) for key in ("", "candidate", "base")], rows)


def _numbers(side: KeyScan, say: Callable[..., str]) -> str:
    if side.first_layer is None:
        return "-"
    return say("from_to", n=str(side.layers), first=str(side.first_layer), last=str(side.last_layer))


def _pairs(counts: object) -> str:
    assert isinstance(counts, dict)
    return ", ".join(f"{name} ({count:,})" for name, count in counts.items()) or "-"


def _experts(candidate: ExpertCensus, base: ExpertCensus, say: Callable[..., str]) -> Table:
    sides = (candidate, base)
    rows = (
        (say("expert_layers"), *(digits_text(side.layers) for side in sides)),
        (say("first_of_them"), *(digits_text(side.first_layer) for side in sides)),
        (say("fewest"), *(digits_text(side.fewest) for side in sides)),
        (say("most"), *(digits_text(side.most) for side in sides)),
        (say("declared"), *(digits_text(side.declared) for side in sides)),
        (say("shared_experts"), *(say("yes" if side.shared else "no") for side in sides)),
    )
    return table([say(key) for key in ("", "candidate", "base")], rows, numeric=(1, 2))


def _dimensions(
    checks: tuple[DimensionCheck, ...], say: Callable[..., str]
) -> Iterator[tuple[str, str, str, str]]:
    words = {True: say("agree"), False: say("disagree"), None: say("not_known")}
    for item in checks:
        yield item.name, digits_text(item.config), digits_text(item.stored), words[item.agrees]
