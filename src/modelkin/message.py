"""What the core says: a code and its values. `modelkin.document` turns it into a sentence of a language."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union

from modelkin.errors import ModelkinError

Value = Union[str, int, float, bool, None, "Message", tuple["Value", ...]]
"""Text is shown as it is (a name, a reference); a message is told in the language of the enclosing one."""
_DEEPEST = 8
"""Nesting of messages that are read from a file; ours have three levels."""


@dataclass(frozen=True, slots=True)
class Message:
    """One thing said: the core decides what, the texts of a language decide how.

    Messages compare and hash by value, so that equal reasons are told once. Make them with `say`.
    """

    code: str
    """Key of the texts, such as ``reason.no-tokenizer``."""
    values: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        """Return the English sentence."""
        from modelkin.document import ENGLISH

        return ENGLISH.tell(self)

    def __getitem__(self, name: str) -> Value:
        return dict(self.values)[name]


def say(code: str, **values: Value) -> Message:
    """Return a message; the order in which values are given does not matter.

    Examples
    --------
    >>> say("reason.shapes", b=2, a=1) == say("reason.shapes", a=1, b=2)
    True
    """
    return Message(code, tuple(sorted(values.items())))


class Phrase(str):
    """Words that know their message: English as they stand, told again where another language is drawn."""

    __slots__ = ("said",)
    said: Message

    def __new__(cls, said: Message) -> Phrase:
        """Tell a message in English."""
        made = super().__new__(cls, str(said))
        made.said = said
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return Phrase, (self.said,)


def phrase(code: str, **values: Value) -> Phrase:
    """Say something in words, for figures: their titles, axes and names are texts with a message behind them.

    Examples
    --------
    >>> phrase("figure.chance")
    'chance'
    """
    return Phrase(say(code, **values))


def joined(messages: Iterable[Message]) -> Message:
    """Join one or more messages into a single one."""
    parts = tuple(messages)
    return say("joined", parts=parts) if len(parts) > 1 else parts[0]


def coded(message: Message) -> dict[str, object]:
    """Return the code and the values of a message as JSON can say them; `message_of` is the way back.

    Examples
    --------
    >>> coded(say("reason.shapes", a=1))
    {'code': 'reason.shapes', 'values': {'a': 1}}
    """
    values = {name: _written(value) for name, value in message.values}
    return {"code": message.code, **({"values": values} if values else {})}


def _written(value: Value) -> object:
    if isinstance(value, Message):
        return coded(value)
    return [_written(item) for item in value] if isinstance(value, tuple) else value


def message_of(value: object, depth: int = 0) -> Message | None:
    """Return what `coded` wrote, or None if it is not one of ours: another version may know more of them."""
    if depth > _DEEPEST or not isinstance(value, dict):
        return None
    code, values = value.get("code"), value.get("values", {})
    if not isinstance(code, str) or not isinstance(values, dict):
        return None
    held = {str(name): _read(item, depth + 1) for name, item in values.items()}
    made = Message(code, tuple(sorted(held.items())))
    try:
        str(made)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError):
        return None
    return made


def _read(value: object, depth: int) -> Value:
    match value:
        case dict():
            return message_of(value, depth) or _shown(value)
        case list() if depth <= _DEEPEST:
            return tuple(_read(item, depth + 1) for item in value)
        case str() | int() | float() | None:
            return value
        case _:
            return _shown(value)


def _shown(value: object) -> str:
    return ascii(value)[:60]


def told(error: ModelkinError) -> Message:
    """Return an error as a message, for a report that continues without what failed."""
    return say("error.said", where=error.place or "modelkin", problem=error.said)


_SYSTEM = {
    errno.ENOENT: "problem.os-no-file",
    errno.EACCES: "problem.os-no-permission",
    errno.EPERM: "problem.os-not-permitted",
    errno.ENOSPC: "problem.os-no-space",
    errno.EDQUOT: "problem.os-quota",
    errno.EROFS: "problem.os-read-only",
    errno.EISDIR: "problem.os-directory",
    errno.ENOTDIR: "problem.os-no-directory",
    errno.ENOTEMPTY: "problem.os-not-empty",
    errno.EEXIST: "problem.os-exists",
    errno.ENAMETOOLONG: "problem.os-long-name",
    errno.EMFILE: "problem.os-many-files",
    errno.EFBIG: "problem.os-large-file",
    errno.EIO: "problem.os-input-output",
    errno.EBUSY: "problem.os-busy",
    errno.ELOOP: "problem.os-links",
    errno.EINVAL: "problem.os-argument",
    errno.ENOMEM: "problem.os-memory",
    errno.ETIMEDOUT: "problem.os-timeout",
    errno.ECONNREFUSED: "problem.os-refused",
    errno.ECONNRESET: "problem.os-reset",
}
"""What operating systems say most often. English texts are what Linux says."""


def said_by(error: BaseException) -> Message:
    """Return what an error says: ours as their messages, those of others in their words, quoted."""
    if isinstance(error, Refusal):
        return error.reason
    if isinstance(error, ModelkinError):
        return told(error) if error.place else error.said
    if isinstance(error, OSError) and error.errno in _SYSTEM and error.strerror == os.strerror(error.errno):
        return say(_SYSTEM[error.errno])
    words = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return say("quoted", text=words)


class Refusal(ValueError):
    """A refused value, with the reason: raised where it is not yet known which file it came from."""

    def __init__(self, reason: Message) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.reason)
