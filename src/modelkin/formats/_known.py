"""Which formats there are, by the endings and first bytes of their files. Nothing here reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from ._interface import Format


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFormat:
    """How a format is recognised, and where its code is."""

    name: str
    title: str
    endings: tuple[str, ...]
    module: str
    """Below this package; it has a `FORMAT`."""
    magic: tuple[bytes, ...] = ()
    """What its files begin with; none when anything can stand there."""
    unmarked: bool = False
    """Whether its files can begin with anything, so that its code has to say if they make sense."""
    self_describing: bool = False
    """Whether its files hold what ``config.json`` says, which then counts more than a file lying nearby."""

    def load(self) -> Format:
        """Import its code."""
        return cast(Format, import_module(f"{__package__}.{self.module}").FORMAT)

    def recognises(self, head: bytes) -> bool:
        """Ask the code of a format without a mark whether a file that begins so can be one."""
        return bool(import_module(f"{__package__}.{self.module}").recognises(head))


KNOWN: Sequence[KnownFormat] = (
    KnownFormat(
        name="safetensors",
        title="safetensors",
        endings=(".safetensors", ".safetensors.index.json"),
        module="_safetensors",
    ),
    KnownFormat(
        name="ctranslate2",
        title="CTranslate2",
        endings=(".bin",),
        module="_ctranslate2",
        magic=tuple(bytes((version, 0, 0, 0)) for version in range(1, 8)),
        self_describing=True,
    ),
    KnownFormat(
        name="ggml",
        title="ggml (Whisper)",
        endings=(".bin",),
        module="_ggml",
        magic=(b"lmgg",),
        self_describing=True,
    ),
    KnownFormat(
        name="llama2.c",
        title="llama2.c",
        endings=(".bin",),
        module="_llama2c",
        unmarked=True,
        self_describing=True,
    ),
)
"""In the order of preference where a repository offers several."""

UNREAD = {
    ".h5": "Keras and TensorFlow",
    ".msgpack": "Flax",
    ".ckpt": "training checkpoints",
    ".npz": "numpy archives",
}
"""Endings of weights that cannot be read, with what they are."""


def fitting(name: str | None) -> list[KnownFormat]:
    """Return the formats whose files end so."""
    return [known for known in KNOWN if name and name.endswith(known.endings)]


def by_head(name: str, head: bytes) -> KnownFormat | None:
    """Return the format of a file by its first bytes, among those of its ending; None if none knows them."""
    possible = fitting(name)
    sure = [known for known in possible if known.magic and head.startswith(known.magic)]
    return next(
        iter(sure or (known for known in possible if known.unmarked and known.recognises(head))), None
    )
