"""Opens GGUF files: the most precise one; headers are read from the start, parts of a set joined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import final

from modelkin.errors import HeaderError
from modelkin.formats.interface import Request, Weights, taken_of_several
from modelkin.message import Message, say
from modelkin.source import ByteRange, Fetcher, FileInfo
from modelkin.tensors import TensorIndex
from modelkin.untrusted import quoted

from .architectures import architecture_of, config_of, unknown_architecture
from .header import MAX_HEADER_BYTES, GgufHeader, parse_header
from .tensors import TensorTable
from .tokenizer import TokenizerFiles

SUFFIX = ".gguf"
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
_ASIDE = re.compile(r"(^|[-_./])(mmproj|imatrix|vocab-only|ggml-vocab|lora|adapter)", re.IGNORECASE)
_RANKED = (
    *("F32", "BF16", "F16", "Q8_0", "MXFP4", "NVFP4", "Q6_K", "Q5_K", "Q5_1", "Q5_0", "Q4_K", "Q4_1"),
    *("IQ4_NL", "IQ4_XS", "Q4_0", "IQ4", "Q4", "Q3_K", "IQ3", "Q3", "Q2_K", "IQ2", "Q2", "TQ2", "TQ1"),
    *("IQ1", "Q1"),
)
_SIZES = {"XL": 0, "L": 1, "M": 2, "": 3, "S": 4, "XS": 5, "XXS": 6}
_TYPE = re.compile(
    r"(?<![A-Z0-9])(?:UD[-_])?(?:I1[-_])?(FP32|FP16|F32|F16|BF16|MXFP4|NVFP4|I?Q\d(?:_[K01]|_NL)?|TQ\d)"
    r"(?:[-_](XXS|XS|XL|S|M|L))?(?![A-Z0-9])",
    re.IGNORECASE,
)


def choose(files: Mapping[str, FileInfo]) -> str | None:
    """Return the file to start from: the most precise of the topmost files; for a set, its first part."""
    whole = candidates(files)
    if not whole:
        return None
    top = min(name.count("/") for name in whole)
    return min(
        (name for name in whole if name.count("/") == top),
        key=lambda name: (*precision(name), -files[name].size, name),
    )


def candidates(files: Iterable[str]) -> list[str]:
    """Return the files that hold a whole model, or its first part."""
    return [
        name
        for name in sorted(files)
        if name.endswith(SUFFIX) and not _ASIDE.search(name) and part_number(name) in (None, 1)
    ]


def precision(name: str) -> tuple[int, int]:
    """Rank a file by the type in its name: a small number is precise."""
    found = _TYPE.findall(name.rpartition("/")[2].removesuffix(SUFFIX))
    if not found:
        return len(_RANKED), 0
    kind, size = (text.upper() for text in found[-1])
    kind = kind.replace("FP32", "F32").replace("FP16", "F16")
    rank = next((number for number, known in enumerate(_RANKED) if kind == known), None)
    if rank is None:
        rank = next((number for number, known in enumerate(_RANKED) if kind.startswith(known)), len(_RANKED))
    if kind == "IQ4" and size == "XS":
        return _RANKED.index("IQ4_XS"), 0
    return rank, _SIZES[size]


def part_number(name: str) -> int | None:
    """Return which part of a set a file is, or None if it stands alone."""
    found = _PART.fullmatch(name)
    return None if found is None else int(found[2])


def parts_of(name: str) -> list[str] | None:
    """Return the names of all parts of the set that a file belongs to, by its name."""
    found = _PART.fullmatch(name)
    if found is None:
        return None
    count = int(found[3])
    return [f"{found[1]}-{number:05d}-of-{found[3]}{SUFFIX}" for number in range(1, count + 1)]


_MIB = 1 << 20
STEPS = (1 * _MIB, 4 * _MIB, 10 * _MIB, 32 * _MIB, 96 * _MIB, MAX_HEADER_BYTES)
"""How far a header is read until it is complete: small vocabularies end within the first step, nearly all
others within the second or third."""
MAX_PARTS = 1024


@final
class GgufFormat:
    """One file, or a set of parts."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Choose the most precise file."""
        return choose(files)

    def read(self, request: Request) -> Weights:
        """Read the header, or those of all parts."""
        headers = _headers(request.fetcher, request.entry)
        first = headers[0]
        names = [tensor.name for header in headers for tensor in header.tensors]
        known = architecture_of(first.metadata, names)
        architecture = known or unknown_architecture(first.metadata)
        table = TensorTable(first.metadata, architecture)
        for header in headers:
            table.add(header)
        infos, notes = table.finished()
        shapes = {tensor.name: tensor.shape for header in headers for tensor in header.tensors}
        return Weights(
            format="gguf",
            index=TensorIndex(infos),
            config=config_of(first.metadata, architecture, shapes),
            files=TokenizerFiles(first.metadata),
            notes=(*_about_files(request), *_about_names(first, known=known is not None), *notes),
        )


FORMAT = GgufFormat()


def _headers(fetcher: Fetcher, entry: str) -> list[GgufHeader]:
    parts = parts_of(entry)
    if parts is None:
        header = read_header(fetcher, entry)
        count = header.metadata.whole("split.count") or 0
        if count > 1:
            raise HeaderError(
                entry,
                say("problem.gguf-one-part", number=header.metadata.whole("split.no") or 0, count=count),
                hint=say("hint.gguf-names"),
            )
        return [header]
    if not 0 < len(parts) <= MAX_PARTS or entry not in parts:
        raise HeaderError(entry, say("problem.gguf-part-name", most=MAX_PARTS))
    if absent := [part for part in parts if fetcher.source.find(part) is None]:
        raise HeaderError(
            entry,
            say("problem.parts-missing", n=len(absent), m=len(parts), first=quoted(absent[0])),
            hint=say("hint.incomplete"),
        )
    headers = [read_header(fetcher, part) for part in parts]
    _check_set(headers)
    return headers


def _check_set(headers: list[GgufHeader]) -> None:
    for number, header in enumerate(headers):
        stated = header.metadata.whole("split.no")
        count = header.metadata.whole("split.count")
        if stated != number or count != len(headers):
            raise HeaderError(
                header.file,
                say("problem.gguf-part-of", number=number, n=len(headers), stated=stated, count=count),
            )
    expected = headers[0].metadata.whole("split.tensors.count")
    found = sum(len(header.tensors) for header in headers)
    if expected is not None and expected != found:
        raise HeaderError(headers[0].file, say("problem.gguf-part-tensors", wanted=expected, got=found))


def read_header(fetcher: Fetcher, name: str) -> GgufHeader:
    """Read the header of one file, as little of the file as it takes."""
    info = fetcher.source.need(name)
    data = bytearray()
    for step in STEPS:
        wanted = ByteRange(len(data), min(step, info.size))
        if wanted.length:
            data += fetcher.fetch({name: [wanted]}, task=say("step-headers")).view(name, wanted)
        header = parse_header(bytes(data), file=name, file_size=info.size)
        if header is not None:
            return header
    raise HeaderError(name, say("problem.header-most", most=MAX_HEADER_BYTES))


def _about_files(request: Request) -> tuple[Message, ...]:
    """Say which other files of the model there are."""
    there = candidates(request.fetcher.source.files())
    first = (parts_of(request.entry) or [request.entry])[0]
    return taken_of_several(first, [name for name in there if name != first])


def _about_names(header: GgufHeader, *, known: bool) -> list[Message]:
    if known:
        return []
    stated = header.metadata.architecture
    named = say("format.gguf-architecture", name=quoted(stated))
    return [named if stated else say("format.gguf-no-architecture")]
