"""What every file format provides: tensors under well-known names, whatever the file calls them."""

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
    """The opened weights of a model: only headers have been read."""

    format: str
    """Name of the format: ``safetensors``, ``gguf``."""
    index: TensorIndex
    """Tensors under the names of their Hugging Face counterparts where the format uses others."""
    config: Mapping[str, object] | None = None
    """What ``config.json`` would say, if the weight file says it."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Small files embedded in the weight file, under their usual names: ``tokenizer.json``."""
    left_out: tuple[str, ...] = ()
    """Tensors of the files that cannot be used; a note says why."""
    notes: tuple[Message, ...] = ()
    """What a reader should know: which of several files was taken, what was undone or guessed."""
    adapter: AdapterRecord | None = None
    """For an adapter: what it was applied to, and what it changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be opened."""

    fetcher: Fetcher
    entry: str
    """The file to begin with."""
    head_bytes: int
    """First read of a remote file."""
    alone: bool = False
    """Whether only that file is meant, even if it is named like one of several."""
    read_config: Callable[[], Mapping[str, object] | None] = field(default=lambda: None, repr=False)
    """Reads ``config.json``, which costs a request: only formats that need it call this."""

    @property
    def config(self) -> Mapping[str, object] | None:
        """Contents of ``config.json``, or None if there is none."""
        return self.read_config()


def taken_of_several(file: str, others: Sequence[str]) -> tuple[Message, ...]:
    """Say which other files of a format there are; nothing if there are none."""
    if not others:
        return ()
    listed, more = tuple(map(plain, others[:_N_LISTED])), len(others) - _N_LISTED
    if more > 0:
        return (say("format.taken-more", file=plain(file), others=listed, n=more),)
    return (say("format.taken", file=plain(file), others=listed),)


class Format(Protocol):
    """One file format. Implementations live in a module of their own, imported when needed."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Return the file of a listing to start from, or None if none is of this format."""
        ...

    def read(self, request: Request) -> Weights:
        """Read the headers. The `FormatError` says whether a file is malformed, hostile, or not readable."""
        ...
