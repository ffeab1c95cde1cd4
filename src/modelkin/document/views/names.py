"""Short names of the models of a comparison: full references appear once in a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from modelkin.comparison import Comparison
from modelkin.message import Message, Value
from modelkin.untrusted import short_names


def with_short_names(result: Comparison, names: Mapping[str, str] | None = None) -> Comparison:
    """Return a record with the shortest distinct model names, or those in `names`; for display only."""
    refs = [result.candidate.ref, result.base.ref]
    refs += [item.pair[1] for item in result.controls]
    unique = list(dict.fromkeys(refs))
    short = dict(zip(unique, short_names(unique), strict=True)) | dict(names or {})
    if all(name == ref for ref, name in short.items()):
        return result
    verdict, direction = result.verdict, result.relation.direction

    def told(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(_renamed(message, short) for message in messages)

    return replace(
        result,
        candidate=replace(result.candidate, ref=short[result.candidate.ref]),
        base=replace(result.base, ref=short[result.base.ref]),
        verdict=replace(
            verdict,
            headline=_renamed(verdict.headline, short),
            summary=_renamed(verdict.summary, short),
            limitations=told(verdict.limitations),
        ),
        relation=replace(
            result.relation,
            direction=replace(
                direction,
                parent=short.get(direction.parent, direction.parent) if direction.parent else None,
                reasons=told(direction.reasons),
            ),
        ),
        controls=tuple(
            replace(item, pair=(short.get(item.pair[0], item.pair[0]), short[item.pair[1]]))
            for item in result.controls
        ),
        flags=told(result.flags),
        strong_flags=told(result.strong_flags),
    )


def _renamed(message: Message, short: Mapping[str, str]) -> Message:
    return Message(message.code, tuple((name, _value(value, short)) for name, value in message.values))


def _value(value: Value, short: Mapping[str, str]) -> Value:
    match value:
        case str():
            return short.get(value, value)
        case Message():
            return _renamed(value, short)
        case tuple():
            return tuple(_value(item, short) for item in value)
        case _:
            return value
