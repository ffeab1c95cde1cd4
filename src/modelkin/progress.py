"""Progress as an interface. The library reports; only the command line draws."""

from __future__ import annotations

from typing import Protocol

from modelkin.message import Message


class Progress(Protocol):
    """Told what long work is under way and how far it is. Called from several threads."""

    def start(self, task: str, total: int | None) -> None:
        """Begin a task of `total` bytes, or of unknown size."""

    def advance(self, amount: int) -> None:
        """Say that `amount` more bytes are done."""

    def note(self, message: Message | str) -> None:
        """Say which step begins: something a person may want to know now."""


class Silent:
    """The default: says nothing."""

    def start(self, task: str, total: int | None) -> None:
        """Ignore."""

    def advance(self, amount: int) -> None:
        """Ignore."""

    def note(self, message: Message | str) -> None:
        """Ignore."""
