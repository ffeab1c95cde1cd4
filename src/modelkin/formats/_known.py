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
    may_describe: bool = False
    """Whether some of its files say some of it, which counts where there is no ``config.json``."""

    def load(self) -> Format:
        """Import its code."""
        return cast(Format, import_module(f"{__package__}.{self.module}").FORMAT)

    def recognises(self, head: bytes) -> bool:
        """Ask the code of a format without a mark whether a file that begins so can be one."""
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
