"""Progress as an interface. The library reports; only the command line draws."""

from __future__ import annotations

from typing import Protocol

from modelkin.message import Message


class Progress(Protocol):
    """Told what long work is under way and how far it is. Called from several threads."""

    def start(self, task: str, total: int | None) -> None:
        """Begin to read `total` more bytes, or an unknown number. Several readings may be under way."""

    def advance(self, amount: int) -> None:
        """Say that `amount` more bytes are read."""

    def note(self, message: Message | str) -> None:
        """Say which step begins: something a person may want to know now."""

    def count(self, done: int, total: int, message: Message | None = None) -> None:
        """Say how many parts of the present step are done, or of the one that the message names."""


class Silent:
    """The default: says nothing."""

    def start(self, task: str, total: int | None) -> None:
        """Ignore."""

    def advance(self, amount: int) -> None:
        """Ignore."""

    def note(self, message: Message | str) -> None:
        """Ignore."""

    def count(self, done: int, total: int, message: Message | None = None) -> None:
        """Ignore."""
