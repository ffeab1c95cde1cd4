"""Messages in JSON: the English sentence for people, beside it the code and the values for programs.

A field ``reason`` becomes ``reason`` (the sentence), ``reason_code`` and, if it has any, ``reason_values``;
a list ``flags`` becomes ``flags`` (sentences) and ``flags_codes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from modelkin.message import Message, Value, say

from .language import ENGLISH


def companions(name: str, value: object) -> dict[str, object]:
    """Return what is written beside the sentences of a field: codes and values; nothing for other fields."""
    if isinstance(value, Message):
        values = {"values": _values(value)} if value.values else {}
        return {f"{name}_code": value.code, **{f"{name}_{key}": item for key, item in values.items()}}
    if isinstance(value, tuple) and value and all(isinstance(item, Message) for item in value):
        return {f"{name}_codes": [_object(item) for item in value]}
    return {}


def companion_names(name: str) -> tuple[str, ...]:
    """Return the keys that `companions` may add to a field."""
    return f"{name}_code", f"{name}_values", f"{name}_codes"


def read_message(text: str, code: object, values: object) -> Message:
    """Return the message behind a sentence; a sentence without a code that is known here is quoted."""
    found = _message({"code": code, "values": values if isinstance(values, Mapping) else {}})
    return found if found is not None else say("quoted", text=text)


def read_messages(texts: Iterable[str], codes: object) -> tuple[Message, ...]:
    """Return the messages behind a list of sentences."""
    listed = list(texts)
    objects = codes if isinstance(codes, list) and len(codes) == len(listed) else [None] * len(listed)
    found = [_message(item) for item in objects]
    return tuple(
        item if item is not None else say("quoted", text=text)
        for item, text in zip(found, listed, strict=True)
    )


def _object(message: Message) -> dict[str, object]:
    return {"code": message.code, **({"values": _values(message)} if message.values else {})}


def _values(message: Message) -> dict[str, object]:
    return {name: _written(value) for name, value in message.values}


def _written(value: Value) -> object:
    if isinstance(value, Message):
        return _object(value)
    return [_written(item) for item in value] if isinstance(value, tuple) else value


def _message(value: object) -> Message | None:
    """Return a message, or None where it is none of ours: another version may know more of them."""
    if not isinstance(value, dict) or not isinstance(code := value.get("code"), str):
        return None
    values = value.get("values", {})
    if not isinstance(values, dict):
        return None
    made = Message(code, tuple(sorted((str(name), _read(item)) for name, item in values.items())))
    try:
        ENGLISH.tell(made)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        return None
    return made


def _read(value: object) -> Value:
    match value:
        case dict():
            return _message(value) or say("quoted", text=str(value))
        case list():
            return tuple(_read(item) for item in value)
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)
