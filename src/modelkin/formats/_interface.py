"""What every file format gives: tensors under well-known names, whatever the file calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from modelkin.message import Message, say
from modelkin.source import Fetcher, FileInfo
from modelkin.tensors import TensorIndex
from modelkin.untrusted import plain

if TYPE_CHECKING:
    from .adapters import AdapterRecord


_N_LISTED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of a model, opened: nothing but headers has been read."""

    format: str
    """Name of the format: ``safetensors``, ``gguf``."""
    index: TensorIndex
    """Tensors under the names of their Hugging Face counterparts where the format uses others."""
    config: Mapping[str, object] | None = None
    """What ``config.json`` would say, where the weights' own file says it."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Small files that the weights' own file holds, under their usual names: ``tokenizer.json``."""
    left_out: tuple[str, ...] = ()
    """Tensors of the files that nothing can be made of; a note says why."""
    notes: tuple[Message, ...] = ()
    """What a reader should know: which of several files was taken, what was undone or guessed."""
    adapter: AdapterRecord | None = None
    """Of an adapter: what it was put on, and what it changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be opened."""

    fetcher: Fetcher
    entry: str
    """The file to begin with."""
    head_bytes: int
    """First read of a remote file."""
    alone: bool = False
    """Whether just that file is meant, though it may be named as one of several."""
    read_config: Callable[[], Mapping[str, object] | None] = field(default=lambda: None, repr=False)
    """Reads ``config.json``, which costs a request: to be called only by formats that need it."""

    @property
    def config(self) -> Mapping[str, object] | None:
        """Contents of ``config.json``, or None when there is none."""
        return self.read_config()


def taken_of_several(file: str, others: Sequence[str]) -> tuple[Message, ...]:
    """Say which other files of a format there are; nothing when there are none."""
    if not others:
        return ()
    listed, more = tuple(map(plain, others[:_N_LISTED])), len(others) - _N_LISTED
    if more > 0:
        return (say("format.taken-more", file=plain(file), others=listed, n=more),)
    return (say("format.taken", file=plain(file), others=listed),)


class Format(Protocol):
    """One file format. Implementations live in a module of their own, imported when needed."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Return the file of a listing to begin with, or None when nothing there is of this format."""
        ...

    def read(self, request: Request) -> Weights:
        """Read the headers.

        Raises
        ------
        FormatError
            The file is malformed, hostile, or of a kind that cannot be read; the message says which.
        """
        ...
