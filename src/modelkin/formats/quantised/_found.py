"""What a scheme is given, and what it finds: a weight, and the tensors that it is made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from modelkin.errors import HeaderError
from modelkin.source import ByteRange, Fetcher
from modelkin.tensors import Storage, TensorIndex, TensorInfo
from modelkin.untrusted import quoted

from ._checks import fail
from ._settings import Settings

ReadSmall: TypeAlias = Callable[[Sequence[str]], Mapping[str, bytes]]
"""Reads whole tensors by name, all with one fetch."""

_NUMBER: Final = re.compile(r"[0-9]+")

MOST_SMALL: Final = 64 * 1024
"""Bytes of a tensor that is read while a model is opened."""
MOST_SMALL_TENSORS: Final = 20_000
"""Tensors that are read while a model is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A weight made of several tensors."""

    info: TensorInfo
    uses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a scheme looks at."""

    index: TensorIndex
    settings: Settings
    read_small: ReadSmall

    def small(self, infos: Iterable[TensorInfo]) -> Mapping[str, bytes]:
        """Read small tensors, all with one fetch."""
        wanted = list(infos)
        for info in wanted:
            if info.n_bytes > MOST_SMALL or info.storage is not None:
                fail(info, f"expected a small plain tensor, got {info.n_bytes:,} bytes")
        if len(wanted) > MOST_SMALL_TENSORS:
            problem = (
                f"{len(wanted):,} tensors have to be read before any weight, {quoted(wanted[0].name)} first"
            )
            raise HeaderError(wanted[0].file, f"{problem}; expected at most {MOST_SMALL_TENSORS:,}")
        return self.read_small([info.name for info in wanted]) if wanted else {}


def template(name: str) -> str:
    """Return what the names of a tensor in all layers have in common."""
    return _NUMBER.sub("#", name)


def weight(
    name: str, label: str, shape: tuple[int, ...], main: TensorInfo, storage: Storage, *uses: str
) -> Found:
    """Return a weight whose codes are in `main`."""
    info = TensorInfo(
        name=name,
        dtype=label,
        shape=shape,
        file=main.file,
        start=main.start,
        stop=main.stop,
        storage=storage,
    )
    return Found(info=info, uses=(main.name, *uses))


def small_reader(fetcher: Fetcher, index: TensorIndex) -> ReadSmall:
    """Return a way to read small plain tensors of an index."""

    def read(names: Sequence[str]) -> Mapping[str, bytes]:
        infos = [index[name] for name in names]
        wanted: dict[str, list[ByteRange]] = {}
        for info in infos:
            wanted.setdefault(info.file, []).append(ByteRange(info.start, info.stop))
        fetched = fetcher.fetch(wanted, task="reading how weights are quantised")
        return {info.name: bytes(fetched.view(info.file, ByteRange(info.start, info.stop))) for info in infos}

    return read
