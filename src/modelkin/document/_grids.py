"""Any part of the record as plain tables: what other layers add later is shown without new code here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modelkin.message import Message

from ._json import plain
from ._words import name_text, told_value
from .language import Language

_SIDES = ("candidate", "base")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of texts."""

    title: str
    """Empty for the table of the part itself."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def grids(value: object, language: Language, *, title: str = "", first: str = "label.what") -> Iterator[Grid]:
    """Yield the tables of a mapping, however deep it is.

    Values of a mapping become rows; pairs and mappings of candidate and base get one column each; a list of
    records becomes a table of its own.

    Parameters
    ----------
    value
        Whatever `to_json` can write.
    language
        Of titles and of values that are sentences.
    title
        What the tables are about.
    first
        Title of the first column. Below ``label.field`` stand names from a config, shown as they are.
    """
    document = plain(_told(value, language))
    if isinstance(document, Mapping):
        yield from _of_mapping(document, language, title, first)
    elif isinstance(document, list) and document:
        yield from _of_list(document, language, title)


def _told(value: object, language: Language) -> object:
    """Replace messages by what they say."""
    match value:
        case Message():
            return language.tell(value)
        case Mapping():
            return {name: _told(item, language) for name, item in value.items()}
        case _:
            return value


def _of_mapping(document: Mapping[str, object], language: Language, title: str, first: str) -> Iterator[Grid]:
    single: list[tuple[str, ...]] = []
    paired: list[tuple[str, ...]] = []
    deeper: list[tuple[str, object]] = []
    for name, value in document.items():
        shown = name if first == "label.field" else name_text(name, language)
        pair = _pair(value, sides_only=first != "label.field")
        if pair is not None:
            # A value of a config is shown as it is: it is nobody's sentence.
            cell = str if first == "label.field" else lambda item: _cell(item, language)
            paired.append((shown, *(cell(item) for item in pair)))
        elif _is_cell(value):
            single.append((shown, _cell(value, language)))
        else:
            deeper.append((shown, value))
    what = language.say(first)
    if single:
        yield Grid(title=title, columns=(what, language.say("label.value")), rows=tuple(single))
    if paired:
        sides = tuple(language.say(f"side.{side}") for side in _SIDES)
        yield Grid(title=title, columns=(what, *sides), rows=tuple(paired))
    for name, value in deeper:
        yield from grids(value, language, title=f"{title}: {name}" if title else name, first=first)


def _of_list(document: list[object], language: Language, title: str) -> Iterator[Grid]:
    records = [item for item in document if isinstance(item, Mapping)]
    if len(records) == len(document):
        names = list(dict.fromkeys(name for record in records for name in record))
        yield Grid(
            title=title,
            columns=tuple(name_text(str(name), language) for name in names),
            rows=tuple(tuple(_cell(record.get(name), language) for name in names) for record in records),
        )
        return
    lists = [item if isinstance(item, list) else [item] for item in document]
    width = max(len(item) for item in lists)
    yield Grid(
        title=title,
        columns=tuple(str(number + 1) for number in range(width)),
        rows=tuple(
            tuple(_cell(cell, language) for cell in item + [None] * (width - len(item))) for item in lists
        ),
    )


def _pair(value: object, *, sides_only: bool) -> tuple[object, object] | None:
    """Return the candidate's and the base's value, if it is such a pair; of a config, any two are."""
    if isinstance(value, Mapping) and set(value) == set(_SIDES):
        pair: tuple[object, object] = (value["candidate"], value["base"])
    elif not sides_only and isinstance(value, list) and len(value) == 2:
        pair = (value[0], value[1])
    else:
        return None
    return pair if all(_is_cell(item) for item in pair) else None


def _is_cell(value: object) -> bool:
    if isinstance(value, list):
        return all(item is None or isinstance(item, str | int | float) for item in value)
    return value is None or isinstance(value, str | int | float)


def _cell(value: object, language: Language) -> str:
    if isinstance(value, list):
        return ", ".join(_cell(item, language) for item in value) or "-"
    if isinstance(value, Mapping):
        return "; ".join(
            f"{name_text(str(name), language)} {_cell(item, language)}" for name, item in value.items()
        )
    assert value is None or isinstance(value, str | int | float)
    return told_value(value, language)
