"""Readers that say which bytes they need next, so that many files are read in as few passes as one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TypeAlias, TypeVar

from modelkin.source import ByteRange, Fetched, Fetcher

T = TypeVar("T")
Reads: TypeAlias = Callable[[ByteRange], bytes]
"""Gives bytes that were asked for."""
Steps: TypeAlias = Generator[list[ByteRange], Reads, T]
"""Yields the ranges of its file that it needs, gets a way to read them, and returns what it found."""


def run_together(fetcher: Fetcher, readers: Mapping[str, Steps[T]]) -> dict[str, T]:
    """Run the readers of several files side by side: one fetch for each step of all.

    Parameters
    ----------
    fetcher
        Reads the files.
    readers
        By file.
    """
    results: dict[str, T] = {}
    wanted: dict[str, list[ByteRange]] = {}

    def advance(file: str, reads: Reads | None) -> None:
        try:
            reader = readers[file]
            wanted[file] = next(reader) if reads is None else reader.send(reads)
        except StopIteration as end:
            wanted.pop(file, None)
            results[file] = end.value

    for file in readers:
        advance(file, None)
    while wanted:
        fetched = fetcher.fetch(wanted, task="reading headers")
        for file in list(wanted):
            advance(file, _reads(fetched, file))
    return results


def _reads(fetched: Fetched, file: str) -> Reads:
    return lambda item: bytes(fetched.view(file, item))
