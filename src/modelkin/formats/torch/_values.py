"""What a torch file's pickle can turn into: plain data, and descriptions of everything else.

Nothing here can do anything. Strings, numbers and containers are themselves; a tensor is where it lies, and
any other object no more than its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from modelkin.untrusted import plain

Value: TypeAlias = object
"""One of the classes below, or None, bool, int, float, str, bytes, tuple, list, dict of such values."""


@dataclass(frozen=True, slots=True)
class Global:
    """A name of the pickle, never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return plain(f"{self.module}.{self.name}")


@dataclass(frozen=True, slots=True)
class StorageRef:
    """A run of numbers that is stored outside the pickle."""

    key: str
    dtype: str
    """A key of `DTYPES`, or torch's name of a format not among them; ``U8`` for one without a type."""
    numel: int
    """Number of elements of that format."""


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A view of a storage."""

    storage: StorageRef
    dtype: str
    offset: int
    """In elements of `dtype`, as the strides are."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """An object that is nothing but its attributes: a namespace, a module of TorchScript."""

    kind: str
    attributes: dict[Value, Value] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """An object whose contents do not matter here: a device, a date, a numpy array."""

    kind: str


_SCALARS = (str, int, float, bytes, type(None), Global)
_MAX_KEY_PARTS = 8


def checked_key(key: Value) -> Value:
    """Return a key of a dictionary, unless comparing or hashing it could take for ever.

    Raises
    ------
    ValueError
        It is not a short key.
    """
    if isinstance(key, _SCALARS):
        return key
    parts = key if isinstance(key, tuple) and len(key) <= _MAX_KEY_PARTS else [key]
    if all(isinstance(part, _SCALARS) for part in parts):
        return key
    raise ValueError(f"expected a text or number as a dictionary's key, got {kind_of(key)}")


def kind_of(value: Value) -> str:
    """Return a short word for a value, which never shows what is inside."""
    return str(value) if isinstance(value, Global) else type(value).__name__
