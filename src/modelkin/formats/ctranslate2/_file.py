"""``model.bin`` of CTranslate2: variables one after another, each behind its name and shape, then aliases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.formats._forward import MAX_AXES, MAX_TENSORS, Forward
from modelkin.source import ByteRange
from modelkin.tensors import DTYPES
from modelkin.untrusted import quoted

VERSIONS = range(1, 8)
"""Version 6 is written since 2023; one more is let in, since versions have only added to the format."""

_TYPES = ("F32", "I8", "I16", "I32", "F16", "BF16")
_BY_SIZE = {4: "F32", 2: "I16", 1: "I8"}
"""Before version 4 a file gave the size of an item in place of its type."""
_MAX_ALIASES = MAX_TENSORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One variable of a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    place: ByteRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a file holds, without its numbers."""

    version: int
    spec: str
    """Which layout of names: ``WhisperSpec``; empty in files of version 1."""
    revision: int
    variables: Mapping[str, Variable]
    aliases: Mapping[str, str]
    """Names of variables that were found equal to others, with these."""
    settings: Mapping[str, int]
    """Values of the integers without axes."""


def read_contents(reader: Forward) -> Contents:
    """Walk through a file.

    Raises
    ------
    FormatError
        It is cut short, says things twice, or is no such file.
    """
    version = reader.number("I", "the version")
    if version not in VERSIONS:
        raise UnsupportedFormat(
            reader.file,
            f"expected a model of CTranslate2 of version {VERSIONS[0]} to {VERSIONS[-1]}, got {version}",
            hint="Other files end in .bin too: PyTorch's, whisper.cpp's, llama2.c's.",
        )
    spec = _text(reader, "the specification") if version >= 2 else ""
    revision = reader.number("I", "the revision") if version >= 2 else 1
    count = _counted(reader, MAX_TENSORS, "variables")
    variables: dict[str, Variable] = {}
    settings: dict[str, int] = {}
    for _ in range(count):
        start = reader.position
        variable = _variable(reader, version, start)
        if variable.name in variables or variable.name in settings:
            raise HeaderError(reader.file, f"variable {quoted(variable.name)} is there twice")
        if variable.shape == () and variable.dtype in ("I8", "I16", "I32"):
            settings[variable.name] = _setting(reader, variable)
        else:
            variables[variable.name] = variable
            reader.skip(variable.place.length, f"variable {quoted(variable.name)}")
    aliases = _aliases(reader, variables) if version >= 3 else {}
    if reader.left:
        raise HeaderError(
            reader.file, f"expected the end after all variables, got {reader.left:,} more bytes"
        )
    return Contents(
        version=version,
        spec=spec,
        revision=revision,
        variables=variables,
        aliases=aliases,
        settings=settings,
    )


def _variable(reader: Forward, version: int, start: int) -> Variable:
    name = _text(reader, "a variable")
    what = f"variable {quoted(name)}"
    n_axes = reader.number("B", what)
    if n_axes > MAX_AXES:
        raise HeaderError(reader.file, f"{what}: expected at most {MAX_AXES} axes, got {n_axes}")
    shape = reader.numbers(f"{n_axes}I", what)
    kind, count = reader.numbers("BI", what)
    if version >= 4:
        dtype, n_bytes = (_TYPES[kind] if kind < len(_TYPES) else ""), count
    else:
        dtype, n_bytes = _BY_SIZE.get(kind, ""), count * kind
    if not dtype:
        raise UnsupportedFormat(reader.file, f"{what}: type {kind} is not known")
    if n_bytes != (expected := DTYPES[dtype].n_bytes(math.prod(shape))):
        raise HeaderError(reader.file, f"{what}: expected {expected} bytes for {shape}, got {n_bytes}")
    reader.seen(name, start)
    if n_bytes > reader.left:
        reader.skip(n_bytes, what)
    return Variable(
        name=name, dtype=dtype, shape=shape, place=ByteRange(reader.position, reader.position + n_bytes)
    )


def _setting(reader: Forward, variable: Variable) -> int:
    form = {"I8": "b", "I16": "h", "I32": "i"}[variable.dtype]
    return reader.number(form, f"variable {quoted(variable.name)}")


def _aliases(reader: Forward, variables: Mapping[str, Variable]) -> dict[str, str]:
    found: dict[str, str] = {}
    for _ in range(_counted(reader, _MAX_ALIASES, "aliases")):
        alias, name = _text(reader, "an alias"), _text(reader, "an alias")
        if alias in variables or alias in found:
            raise HeaderError(reader.file, f"alias {quoted(alias)} is there twice")
        found[alias] = name
    return found


def _counted(reader: Forward, most: int, what: str) -> int:
    count = reader.number("I", f"the number of {what}")
    if count > most:
        raise HeaderError(reader.file, f"expected at most {most:,} {what}, got {count:,}")
    return count


def _text(reader: Forward, what: str) -> str:
    """Read a text with its length before it and a zero behind it."""
    length = reader.number("H", what)
    if not length:
        raise HeaderError(reader.file, f"{what}: expected a name, got nothing")
    text = reader.text(length - 1, what)
    if reader.take(1, what) != b"\0":
        raise HeaderError(reader.file, f"{what}: {quoted(text)} does not end with a zero")
    return text
