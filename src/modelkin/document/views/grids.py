"""Any part of the record as plain tables: what other packages add later is shown without new code here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from modelkin.document.blocks import Table, table
from modelkin.document.language import Language
from modelkin.message import Message

from .words import config_value, name_text, told_value

_SIDES = ("candidate", "base")


def grids(
    value: object, language: Language, *, title: str = "", first: str = "label.what"
) -> Iterator[Table]:
    """Yield the tables of a mapping, however deep it is.

    Values of a mapping become rows; pairs and mappings of candidate and base get one column each; a list of
    records becomes a separate table. `first` is the title of the first column. Names from a config, under
    ``label.field``, are shown as they are.
    """
    if isinstance(value, Mapping):
        yield from _of_mapping(value, language, title, first)
    elif isinstance(value, list | tuple) and value:
        yield from _of_list(value, language, title)


def _of_mapping(found: Mapping[str, object], language: Language, title: str, first: str) -> Iterator[Table]:
    as_it_is = first == "label.field"
    single: list[tuple[str, ...]] = []
    paired: list[tuple[str, ...]] = []
    deeper: list[tuple[str, object]] = []
    for name, value in found.items():
        shown = name if as_it_is else name_text(name, language)
        pair = _pair(value, sides_only=not as_it_is)
        if pair is not None:
            paired.append(
                (
                    shown,
                    *(config_value(item, language) if as_it_is else _cell(item, language) for item in pair),
                )
            )
        elif _is_cell(value):
            single.append((shown, _cell(value, language)))
        else:
            deeper.append((shown, value))
    what = language.say(first)
    if single:
        yield table((what, language.say("label.value")), single, title=title)
    if paired:
        yield table((what, *(language.say(f"side.{side}") for side in _SIDES)), paired, title=title)
    for name, value in deeper:
        yield from grids(value, language, title=f"{title}: {name}" if title else name, first=first)


def _of_list(found: Sequence[object], language: Language, title: str) -> Iterator[Table]:
    records = [item for item in found if isinstance(item, Mapping)]
    if len(records) == len(found):
        names = list(dict.fromkeys(str(name) for record in records for name in record))
        yield table(
            (name_text(name, language) for name in names),
            ([_cell(record.get(name), language) for name in names] for record in records),
            title=title,
        )
        return
    lists = [list(item) if isinstance(item, list | tuple) else [item] for item in found]
    width = max(len(item) for item in lists)
    yield table(
        (str(number + 1) for number in range(width)),
        ([_cell(cell, language) for cell in item + [None] * (width - len(item))] for item in lists),
        title=title,
    )


def _pair(value: object, *, sides_only: bool) -> tuple[object, object] | None:
    """Return the candidate's and the base's value, if it is such a pair; for a config, any two values are."""
    if isinstance(value, Mapping) and set(value) == set(_SIDES):
        pair: tuple[object, object] = (value["candidate"], value["base"])
    elif not sides_only and isinstance(value, list | tuple) and len(value) == 2:
        pair = (value[0], value[1])
    else:
        return None
    return pair if all(_is_cell(item) for item in pair) else None


def _is_cell(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_cell(item) and not isinstance(item, list | tuple) for item in value)
    return value is None or isinstance(value, str | int | float | Message)


def _cell(value: object, language: Language) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item, language) for item in value) or "-"
    if isinstance(value, Mapping):
        return "; ".join(
            f"{name_text(str(name), language)} {_cell(item, language)}" for name, item in value.items()
        )
    assert value is None or isinstance(value, str | int | float | Message)
    return told_value(value, language)
