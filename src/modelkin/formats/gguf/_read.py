"""Opens GGUF files: headers read from the beginning on, parts of a set joined, tensors under known names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from modelkin.errors import HeaderError, NotFound
from modelkin.formats._interface import Request, Weights, taken_of_several
from modelkin.message import Message, say
from modelkin.source import ByteRange, Fetcher, FileInfo
from modelkin.tensors import TensorIndex
from modelkin.untrusted import quoted

from ._architectures import architecture_of, unknown_architecture
from ._choose import candidates, choose, parts_of
from ._config import config_of
from ._header import MAX_HEADER_BYTES, GgufHeader, parse_header
from ._tensors import TensorTable
from ._tokenizer import TokenizerFiles

_MIB = 1 << 20
STEPS = (1 * _MIB, 4 * _MIB, 10 * _MIB, 32 * _MIB, 96 * _MIB, MAX_HEADER_BYTES)
"""How far a header is read until it is complete: small vocabularies end in the first, nearly all others in
the second and third."""
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


def _headers(fetcher: Fetcher, entry: str) -> list[GgufHeader]:
    parts = parts_of(entry)
    if parts is None:
        header = read_header(fetcher, entry)
        count = header.metadata.whole("split.count") or 0
        if count > 1:
            raise HeaderError(
                entry,
                f"expected a whole model, got part {header.metadata.whole('split.no') or 0} of {count}",
                hint="Give all parts their names again: name-00001-of-00003.gguf.",
            )
        return [header]
    if not 0 < len(parts) <= MAX_PARTS or entry not in parts:
        raise HeaderError(entry, f"expected a part of at most {MAX_PARTS}, got a name that says otherwise")
    if absent := [part for part in parts if fetcher.source.find(part) is None]:
        raise HeaderError(
            entry,
            f"{len(absent)} of {len(parts)} parts are missing, {quoted(absent[0])} first",
            hint="The model is incomplete; fetch the missing files, or check the revision.",
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
                f"expected part {number} of {len(headers)}, got a header of part {stated} of {count}",
            )
    expected = headers[0].metadata.whole("split.tensors.count")
    found = sum(len(header.tensors) for header in headers)
    if expected is not None and expected != found:
        raise HeaderError(headers[0].file, f"expected {expected} tensors in all parts, got {found}")


def read_header(fetcher: Fetcher, name: str) -> GgufHeader:
    """Read the header of one file, as little of the file as it takes."""
    info = fetcher.source.find(name)
    if info is None:
        raise NotFound(f"{fetcher.source.location.ref}/{name}", "no such file in this model")
    data = bytearray()
    for step in STEPS:
        wanted = ByteRange(len(data), min(step, info.size))
        if wanted.length:
            data += fetcher.fetch({name: [wanted]}, task="reading headers").view(name, wanted)
        header = parse_header(bytes(data), file=name, file_size=info.size)
        if header is not None:
            return header
    raise HeaderError(name, f"expected a header of at most {MAX_HEADER_BYTES} bytes, got more")


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
