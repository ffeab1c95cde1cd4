"""Progress as an interface. The library reports; only the command line draws."""

from __future__ import annotations

from typing import Protocol

from modelkin.message import Message


class Progress(Protocol):
    """Told which long tasks are running and how far they are. Called from several threads."""

    def start(self, task: Message, total: int | None) -> None:
        """Start reading `total` more bytes, or an unknown number. Several reads may be running."""

    def advance(self, amount: int) -> None:
        """Report that `amount` more bytes have been read."""

    def note(self, message: Message) -> None:
        """Report which step begins: something a person may want to know now."""

    def count(self, done: int, total: int, message: Message | None = None) -> None:
        """Report how many parts of the current step are done, or of the one that the message names."""


class Silent:
    """The default: says nothing."""

    def start(self, task: Message, total: int | None) -> None:
        """Ignore."""

    def advance(self, amount: int) -> None:
        """Ignore."""

    def note(self, message: Message) -> None:
        """Ignore."""

    def count(self, done: int, total: int, message: Message | None = None) -> None:
        """Ignore."""
