"""Where each tensor lies: names, formats, shapes and byte offsets. Nothing here parses or reads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

from ._dtypes import DTYPES
from ._storage import ColumnStorage, Storage

MAX_RANK = 16
"""Highest rank accepted in any format. Weights have at most five axes, and numpy before version 2 cannot
make an array of more than 32."""

MAX_ELEMENTS = 1 << 56
"""Also bounds shapes with a zero in them, whose other axes say nothing about the file's size but are still
multiplied by anyone who makes an array of that shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor, as the header of its file describes it."""

    name: str
    dtype: str
    """Name of the stored format: a key of `DTYPES`, or of a quantised format such as ``Q4_K``."""
    shape: tuple[int, ...]
    file: str
    """Path inside the model; if a tensor is stored in several parts, that of the largest."""
    start: int
    """Offset of the first byte in the file, from its very beginning."""
    stop: int
    """Offset just after the last byte."""
    storage: Storage | None = field(default=None, repr=False)
    """How to read it; None for a plain run of its numbers from `start` up to `stop`."""

    @property
    def n_elements(self) -> int:
        """Number of numbers; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """Number of stored bytes."""
        return self.stop - self.start if self.storage is None else self.storage.n_bytes

    @property
    def place(self) -> tuple[str, int]:
        """Where it begins: the order of places is the order in which files are read from end to end."""
        return self.file, self.start

    @property
    def is_float(self) -> bool:
        """Whether its numbers are weights: floats, or codes that stand for floats."""
        return self.dtype not in DTYPES or DTYPES[self.dtype].kind == "float"

    @property
    def columns_first(self) -> bool:
        """Whether its bytes run along the columns, so that columns cost less than rows."""
        # Nearly all are plain, and asking for a protocol is slow.
        return self.storage is not None and isinstance(self.storage, ColumnStorage)

    @property
    def n_rows(self) -> int:
        """Length of the first axis; a scalar counts as one row."""
        return self.shape[0] if self.shape else 1

    @property
    def row_elements(self) -> int:
        """Number of elements in one row: one step along the first axis."""
        return math.prod(self.shape[1:])

    @property
    def row_bits(self) -> int:
        """Stored bits of one row; rows of packed formats need not begin on a byte."""
        if self.storage is not None:
            return -(-8 * self.storage.n_bytes // max(1, self.n_rows))
        return self.row_elements * DTYPES[self.dtype].bits


@final
class TensorIndex(Mapping[str, TensorInfo]):
    """All tensors of a model, by name in sorted order. Immutable.

    `unlisted` are names of tensors that a shard holds although the shard index does not list them;
    `more_files` hold parts of tensors whose largest part is elsewhere. Two tensors of one name are a
    `ValueError`.
    """

    __slots__ = ("_by_name", "_more_files", "_unlisted")

    def __init__(
        self, tensors: Iterable[TensorInfo], *, unlisted: Iterable[str] = (), more_files: Iterable[str] = ()
    ) -> None:
        ordered = sorted(tensors, key=lambda info: info.name)
        self._by_name = {info.name: info for info in ordered}
        self._unlisted = tuple(sorted(unlisted))
        self._more_files = tuple(more_files)
        if len(self._by_name) != len(ordered):
            raise ValueError("tensors: two have the same name")

    def __getitem__(self, name: str) -> TensorInfo:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"TensorIndex({len(self)} tensors in {len(self.files)} files, {self.n_parameters} parameters)"

    @property
    def unlisted(self) -> tuple[str, ...]:
        """Names of tensors that are in a shard but not in the shard index."""
        return self._unlisted

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that hold tensors, sorted."""
        return tuple(sorted({*self._more_files, *(info.file for info in self.values())}))

    @property
    def n_parameters(self) -> int:
        """Number of weights; codes packed in an unknown way count as packed integers."""
        return sum(info.n_elements for info in self.values())

    @property
    def n_bytes(self) -> int:
        """Stored bytes of all tensors."""
        return sum(info.n_bytes for info in self.values())

    @property
    def dtypes(self) -> Mapping[str, int]:
        """Number of parameters in each stored format, the most frequent first."""
        counted: Counter[str] = Counter()
        for info in self.values():
            counted[info.dtype] += info.n_elements
        return MappingProxyType(dict(counted.most_common()))
