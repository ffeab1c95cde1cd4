"""Which formats there are, which of them a model's files are in, and the one place that calls a reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import cast

from modelkin.errors import ConfigError, FormatError, NotFound, UnsupportedFormat
from modelkin.message import Message, say
from modelkin.source import ByteRange, Fetcher, FileInfo
from modelkin.untrusted import quoted

from ._choice import followed, is_safetensors, left_unread, named_by_config, slices_of_tensors, takes_torch
from .interface import Format, Request, Weights, taken_of_several


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFormat:
    """How a format is recognised, and where its code is."""

    name: str
    title: str
    endings: tuple[str, ...]
    module: str
    """Below this package; it has a `FORMAT`."""
    magic: tuple[bytes, ...] = ()
    """What its files begin with; empty if that can be anything."""
    unmarked: bool = False
    """Whether its files can begin with anything, so that its code must judge whether they make sense."""
    self_describing: bool = False
    """Whether its files hold what ``config.json`` says, and then take precedence over one next to them."""
    may_describe: bool = False
    """Whether some of its files say some of it, which counts if there is no ``config.json``."""

    def load(self) -> Format:
        """Import its code."""
        return cast(Format, import_module(f"{__package__}.{self.module}").FORMAT)

    def recognises(self, head: bytes) -> bool:
        """Ask the code of a format without a magic number whether a file with this beginning can be one."""
        return bool(import_module(f"{__package__}.{self.module}").recognises(head))


_TORCH_NUMBER = 0x1950A86A20F9469CFC6C.to_bytes(10, "little")

KNOWN: Sequence[KnownFormat] = (
    KnownFormat(
        name="safetensors",
        title="safetensors",
        endings=(".safetensors", ".safetensors.index.json"),
        module="safetensors",
    ),
    KnownFormat(
        name="pytorch",
        title="PyTorch",
        endings=(".bin", ".pt", ".pth", ".ckpt", ".bin.index.json"),
        module="torch",
        magic=(
            b"PK\x03\x04",
            # The number that begins the older layout, in a pickle of protocol 2 or 3, and of 4 or 5.
            *(bytes([0x80, version, 0x8A, 10]) + _TORCH_NUMBER for version in (2, 3)),
            *(bytes([0x80, version, 0x95, 13, *[0] * 7, 0x8A, 10]) + _TORCH_NUMBER[:3] for version in (4, 5)),
        ),
        may_describe=True,
    ),
    KnownFormat(
        name="gguf", title="GGUF", endings=(".gguf",), module="gguf", magic=(b"GGUF",), self_describing=True
    ),
    KnownFormat(name="onnx", title="ONNX", endings=(".onnx",), module="onnx", may_describe=True),
    KnownFormat(
        name="ctranslate2",
        title="CTranslate2",
        endings=(".bin",),
        module="ctranslate2",
        magic=tuple(bytes((version, 0, 0, 0)) for version in range(1, 8)),
        self_describing=True,
    ),
    KnownFormat(
        name="ggml",
        title="ggml (Whisper)",
        endings=(".bin",),
        module="ggml",
        magic=(b"lmgg",),
        self_describing=True,
    ),
    KnownFormat(
        name="llama2.c",
        title="llama2.c",
        endings=(".bin",),
        module="llama2c",
        unmarked=True,
        self_describing=True,
    ),
)
"""In order of preference, for repositories that offer several."""

UNREAD = {
    ".h5": "Keras and TensorFlow",
    ".msgpack": "Flax",
    ".npz": "numpy archives",
}
"""Suffixes of weight files that cannot be read, with what they are."""


def fitting(name: str | None) -> list[KnownFormat]:
    """Return the formats whose files have this suffix."""
    return [known for known in KNOWN if name and name.endswith(known.endings)]


def by_head(name: str, head: bytes) -> KnownFormat | None:
    """Return the format of a file by its first bytes, among those with its suffix; None if none fits."""
    possible = fitting(name)
    sure = [known for known in possible if known.magic and head.startswith(known.magic)]
    return next(
        iter(sure or (known for known in possible if known.unmarked and known.recognises(head))), None
    )


_HEAD_BYTES = 64
_N_LISTED = 4
_READABLE = say("hint.readable", names=tuple(known.title for known in KNOWN))


def read_weights(
    fetcher: Fetcher,
    *,
    head_bytes: int,
    name: str | None = None,
    read_config: Callable[[], Mapping[str, object] | None] = lambda: None,
    ignored: tuple[str, ...] = (),
) -> Weights:
    """Find the files with weights and read their headers.

    `name` is the weight file or shard index to open; by default it is found. `head_bytes` is the first read
    of each remote file; a longer header costs one more. `read_config` reads ``config.json``, which says how
    some weights are quantised, and is called only where it is needed. Names that begin with one of `ignored`
    are ignored. Raises `NotFound` if there are no weights in a format that can be read, and `FormatError` if
    a file breaks the rules of its format.
    """

    def read(known: KnownFormat, entry: str, *, alone: bool = False) -> Weights:
        return known.load().read(
            Request(fetcher=fetcher, entry=entry, head_bytes=head_bytes, alone=alone, read_config=read_config)
        )

    if name:
        return read(_format_of(fetcher, name), name)
    files = fetcher.source.files()
    if ignored:
        files = {file: info for file, info in files.items() if not file.startswith(ignored)}
    known, entry = _looked_for(fetcher, files)
    notes: list[Message] = []
    odd = fetcher.source.odd_names
    try:
        weights = read(known, entry)
        several = left_unread(files, {entry, *weights.index.files}) or odd
        named = _named(files, odd, read_config) if several else None
    except FormatError:
        # What the config names is what loaders take: they may never look at this file.
        named = _named(files, odd, read_config)
        if not isinstance(named, str) or named == entry:
            raise
    if odd:
        names = tuple(map(quoted, odd[:_N_LISTED]))
        notes.append(say("format.odd-files", n=len(odd), names=names))
    if isinstance(named, str) and named != entry:
        notes.append(followed(named, entry))
        weights, entry = read(_format_of(fetcher, named), named, alone=True), named
    elif isinstance(named, Message):
        notes.append(named)
    unread = left_unread(files, {entry, *weights.index.files})
    if weights.format == "safetensors":
        notes += taken_of_several(entry, unread)
    elif weights.format == "pytorch":  # which names those of its own format
        notes += taken_of_several(entry, [name for name in unread if is_safetensors(name)])
    return replace(weights, notes=(*notes, *weights.notes)) if notes else weights


def _named(
    files: Mapping[str, FileInfo],
    odd_names: Collection[str],
    read_config: Callable[[], Mapping[str, object] | None],
) -> str | Message | None:
    """Return what the config says about where the weights are; an unreadable one says nothing."""
    if "config.json" not in files:
        return None
    try:
        return named_by_config(read_config(), files, odd_names)
    except ConfigError:
        return None


def describes_itself(name: str | None) -> bool:
    """Say whether a weight file holds its own config, so that one next to it does not count."""
    possible = fitting(name)
    return bool(possible) and all(known.self_describing for known in possible)


def may_describe_itself(name: str) -> bool:
    """Say whether a weight file may hold its own config: several formats share a suffix."""
    return any(known.self_describing or known.may_describe for known in fitting(name))


def chosen_file(files: Mapping[str, FileInfo]) -> str | None:
    """Return the weight file that is read if none is named; None if there is none."""
    found = _chosen(files)
    return None if found is None else found[1]


def _chosen(files: Mapping[str, FileInfo]) -> tuple[KnownFormat, str] | None:
    first = [known for known in KNOWN if known.name == "pytorch"] if takes_torch(files) else []
    for known in (*first, *KNOWN):
        if any(name.endswith(known.endings) for name in files) and (entry := known.load().choose(files)):
            return known, entry
    return None


def _looked_for(fetcher: Fetcher, files: Mapping[str, FileInfo]) -> tuple[KnownFormat, str]:
    part = None if fetcher.source.remote else slices_of_tensors(files)
    if part is not None:
        raise UnsupportedFormat(
            part,
            say("problem.slices"),
            hint=say("hint.name-file"),
        )
    if (found := _chosen(files)) is not None:
        known, entry = found
        # Formats share suffixes: whoever chose the file, its first bytes say what it is.
        return _recognised(fetcher, entry) or known, entry
    where = fetcher.source.location.ref
    unread = sorted(name for name in files if name.endswith(tuple(UNREAD)))
    if unread:
        kinds = sorted({kind for ending, kind in UNREAD.items() if any(n.endswith(ending) for n in unread)})
        raise NotFound(
            where,
            say("problem.no-readable-weights", kinds=", ".join(kinds), first=quoted(unread[0])),
            hint=say("hint.other-branch", readable=_READABLE),
        )
    raise NotFound(where, say("problem.no-weights"), hint=say("hint.weights"))


def _format_of(fetcher: Fetcher, name: str) -> KnownFormat:
    possible = fitting(name)
    if not possible:
        raise UnsupportedFormat(name, say("problem.not-weights"), hint=_READABLE)
    return _recognised(fetcher, name) or possible[0]


def _recognised(fetcher: Fetcher, name: str) -> KnownFormat | None:
    """Return the format that the first bytes show, where the suffix leaves it open."""
    return by_head(name, _head(fetcher, name)) if len(fitting(name)) > 1 else None


def _head(fetcher: Fetcher, name: str) -> bytes:
    wanted = ByteRange(0, min(_HEAD_BYTES, fetcher.source.need(name).size))
    return bytes(fetcher.fetch({name: [wanted]}, task=say("step-headers")).view(name, wanted))
