"""Two configs: every field with its meaning, and what names and shapes of the tensors say beside them."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.describe import ConfigComparison
from modelkin.describe.key_scan import DimensionCheck, ExpertCensus, KeyScan
from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Table, table
from modelkin.document.numbers import runs_text

_LONGEST = 40
_MOST_MISSING = 100


def configs_view(found: ConfigComparison, *, only_different: bool = False) -> tuple[Block, ...]:
    """Return a comparison of configs as blocks.

    Parameters
    ----------
    found
        What was found.
    only_different
        Leave out the fields that are equal.
    """
    return tuple(_blocks(found, only_different=only_different))


def _blocks(found: ConfigComparison, *, only_different: bool) -> Iterator[Block]:
    counts = ", ".join(f"{count} {status}" for status, count in found.counts.items())
    yield Paragraph(f"{counts} (fields of bookkeeping are not counted)", "strong")
    for group in dict.fromkeys(field.group for field in found.fields):
        rows = [
            (field.name, _value(field.candidate), _value(field.base), field.status, str(field.meaning or ""))
            for field in found.fields
            if field.group == group and not (only_different and field.status == "equal")
        ]
        if rows:
            titles = ("field", "candidate", "base", "", "what it is")
            yield Section(title=group.capitalize(), blocks=(table(titles, rows),))
    if found.keys is not None:
        yield Section(title="Names of tensors", blocks=(_keys(*found.keys),))
    if found.experts is not None and any(side.layers or side.declared for side in found.experts):
        yield Section(title="Experts, counted", blocks=(_experts(*found.experts),))
    if found.dimensions is not None:
        rows = [
            (side, *row)
            for side, checks in zip(("candidate", "base"), found.dimensions, strict=True)
            for row in _dimensions(checks)
        ]
        titles = ("", "size", "config", "stored", "")
        yield Section(title="Sizes, config against tensors", blocks=(table(titles, rows, numeric=(2, 3)),))
    if found.notes:
        yield Bullets(tuple(map(str, found.notes)))
    yield Paragraph(
        "Equal fields are a choice of the makers, and no sign of where weights come from.", "note"
    )


def _value(text: str | None) -> str:
    if text is None:
        return "-"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _keys(candidate: KeyScan, base: KeyScan) -> Table:
    sides = (candidate, base)
    rows = (
        ("tensors", *(f"{side.tensors:,}" for side in sides)),
        ("layers, by their numbers", *(_numbers(side) for side in sides)),
        ("numbers left out", *(runs_text(side.missing[:_MOST_MISSING]) or "-" for side in sides)),
        ("layers, as the config says", *(_count(side.declared) for side in sides)),
        ("layers beyond these (tensors)", *(_pairs(side.beyond) for side in sides)),
        ("telling words (tensors)", *(_pairs(side.words) for side in sides)),
    )
    return table(("", "candidate", "base"), rows)


def _numbers(side: KeyScan) -> str:
    return "-" if side.first_layer is None else f"{side.layers}, from {side.first_layer} to {side.last_layer}"


def _pairs(counts: object) -> str:
    assert isinstance(counts, dict)
    return ", ".join(f"{name} ({count:,})" for name, count in counts.items()) or "-"


def _experts(candidate: ExpertCensus, base: ExpertCensus) -> Table:
    sides = (candidate, base)
    rows = (
        ("layers with experts", *(_count(side.layers) for side in sides)),
        ("first of them", *(_count(side.first_layer) for side in sides)),
        ("fewest in a layer", *(_count(side.fewest) for side in sides)),
        ("most in a layer", *(_count(side.most) for side in sides)),
        ("as the config says", *(_count(side.declared) for side in sides)),
        ("shared experts", *("yes" if side.shared else "no" for side in sides)),
    )
    return table(("", "candidate", "base"), rows, numeric=(1, 2))


def _dimensions(checks: tuple[DimensionCheck, ...]) -> Iterator[tuple[str, str, str, str]]:
    words = {True: "agree", False: "DISAGREE", None: "not known"}
    for item in checks:
        yield item.name, _count(item.config), _count(item.stored), words[item.agrees]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
