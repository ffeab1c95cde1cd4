"""What the core says: a code and its values. `modelkin.document` turns it into a sentence of a language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union

from modelkin.errors import ModelkinError

Value = Union[str, int, float, bool, None, "Message", tuple["Value", ...]]
"""Text is shown as it is (a name, a reference); a message is told in the language of the enclosing one."""


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


def told(error: ModelkinError) -> Message:
    """Return an error as a message, for a report that continues without what failed."""
    return say("error.said", where=error.where or "modelkin", problem=error.said)


class Refusal(ValueError):
    """A refused value, with the reason: raised where it is not yet known which file it came from."""

    def __init__(self, reason: Message) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.reason)
