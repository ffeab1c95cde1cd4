"""The keys and values at the beginning of a GGUF file. Long arrays stay bytes until they are needed."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

STRING, ARRAY = 8, 9
SCALARS: Mapping[int, str] = MappingProxyType(
    {
        0: "<u1",
        1: "<i1",
        2: "<u2",
        3: "<i2",
        4: "<u4",
        5: "<i4",
        6: "<f4",
        7: "?",
        10: "<u8",
        11: "<i8",
        12: "<f8",
    }
)
"""Types of values that have a fixed length, as numpy writes them."""

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class RawArray:
    """An array of the file: its bytes, checked to hold that many values."""

    kind: int
    count: int
    data: bytes = field(repr=False)
    """Empty if the array is of no use here."""

    @property
    def is_kept(self) -> bool:
        """Whether the bytes are there."""
        return bool(self.data) or self.count == 0

    def numbers(self) -> npt.NDArray[np.generic] | None:
        """Return the values, or None if they are not numbers or were not kept."""
        if self.kind not in SCALARS or not self.is_kept:
            return None
        return np.frombuffer(self.data, SCALARS[self.kind], self.count)

    def strings(self) -> Iterator[str]:
        """Yield the strings; bytes that are not text become lone surrogates, so that none is lost."""
        if self.kind != STRING or not self.is_kept:
            return
        data, position = self.data, 0
        for _ in range(self.count):
            (length,) = _LENGTH.unpack_from(data, position)
            position += 8 + length
            yield data[position - length : position].decode("utf-8", "surrogateescape")


Value: TypeAlias = int | float | bool | str | RawArray


@final
class Metadata(Mapping[str, Value]):
    """All keys of a file. Values of the wrong type count as missing."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def architecture(self) -> str:
        """What llama.cpp calls the layout of the model; empty if the file does not say."""
        return self.text("general.architecture") or ""

    def text(self, key: str) -> str | None:
        """Return a string."""
        value = self._values.get(key)
        return value if isinstance(value, str) else None

    def whole(self, key: str) -> int | None:
        """Return a whole number."""
        value = self._values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def number(self, key: str) -> int | float | bool | None:
        """Return any single number."""
        value = self._values.get(key)
        return value if isinstance(value, int | float) else None

    def array(self, key: str) -> RawArray | None:
        """Return an array."""
        value = self._values.get(key)
        return value if isinstance(value, RawArray) else None

    def of_layer(self, key: str, layer: int | None) -> int | None:
        """Return a whole number that is stated once, or for each layer."""
        values = self.array(key)
        if values is None:
            return self.whole(key)
        numbers = values.numbers()
        if numbers is None or not np.issubdtype(numbers.dtype, np.integer):
            return None
        if layer is not None:
            return int(numbers[layer]) if 0 <= layer < numbers.size else None
        return int(numbers[0]) if numbers.size and (numbers == numbers[0]).all() else None
