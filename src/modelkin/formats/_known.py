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
    self_describing: bool = False
    """Whether its files hold what ``config.json`` says, which then counts more than a file lying nearby."""

    fills_in: bool = False
    """Whether its files say some of what ``config.json`` does, for where there is none."""

    def load(self) -> Format:
        """Import its code."""
        return cast(Format, import_module(f"{__package__}.{self.module}").FORMAT)


KNOWN: Sequence[KnownFormat] = (
    KnownFormat(
        name="safetensors",
        title="safetensors",
        endings=(".safetensors", ".safetensors.index.json"),
        module="_safetensors",
    ),
    KnownFormat(name="onnx", title="ONNX", endings=(".onnx",), module="_onnx", fills_in=True),
)
"""In the order of preference where a repository offers several."""

UNREAD = {
    ".h5": "Keras and TensorFlow",
    ".msgpack": "Flax",
    ".ckpt": "training checkpoints",
    ".npz": "numpy archives",
}
"""Endings of weights that cannot be read, with what they are."""


def by_name(name: str, head: bytes | None = None) -> KnownFormat | None:
    """Return the format of a file by its ending; among several of one ending by its first bytes."""
    fitting = [known for known in KNOWN if name.endswith(known.endings)]
    if len(fitting) <= 1 or head is None:
        return fitting[0] if fitting else None
    sure = [known for known in fitting if known.magic and head.startswith(known.magic)]
    return next(iter([*sure, *(known for known in fitting if not known.magic)]), None)
