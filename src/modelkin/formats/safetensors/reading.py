"""Weights in safetensors: which files hold them, and what their headers say; one pass of reading for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from modelkin.errors import HeaderError, IndexFileError
from modelkin.formats._interface import Request, Weights
from modelkin.formats.quantised import put_together
from modelkin.formats.shards import MAX_INDEX_BYTES, join_shards, parse_shard_index
from modelkin.source import ByteRange, Fetched, Fetcher, FileInfo
from modelkin.tensors import TensorIndex, TensorInfo
from modelkin.untrusted import quoted

from .header import PREFIX_BYTES, SafetensorsHeader, header_length, parse_header

MAX_ALL_HEADERS = 256_000_000
"""Of all shards together. The largest public model (163 shards) has about 12 MB; all are held at once."""
SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
_PREFERRED = ("model.safetensors", "model.fp32.safetensors", "model.fp16.safetensors")


@final
class SafetensorsFormat:
    """One file, or shards with an index."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Choose as loaders do: the plain names first, then whatever is unambiguous."""
        for choice in (_PREFERRED[0], f"model{INDEX_SUFFIX}"):
            if choice in files:
                return choice
        indexes = [name for name in files if name.endswith(INDEX_SUFFIX)]
        weights = [name for name in files if name.endswith(SUFFIX)]
        top = [name for name in indexes if "/" not in name] or [name for name in weights if "/" not in name]
        candidates = top or indexes or weights
        return min(candidates, key=lambda name: (name not in _PREFERRED, name.count("/"), name), default=None)

    def read(self, request: Request) -> Weights:
        """Read the headers of all shards, and put quantised tensors together."""
        index = read_index(request.fetcher, request.entry, head_bytes=request.head_bytes)
        return put_together(Weights(format="safetensors", index=index), request)


FORMAT = SafetensorsFormat()


def read_index(fetcher: Fetcher, name: str, *, head_bytes: int) -> TensorIndex:
    """Read the headers of a file or of all shards of an index, at once where the source has a listing.

    Parameters
    ----------
    fetcher
        Reads the model's files.
    name
        The weight file or shard index to open.
    head_bytes
        First read of each file; a longer header costs one more.

    Raises
    ------
    NotFound
        There is no such file.
    FormatError
        A header or the shard index breaks the rules.
    """
    if not fetcher.source.remote:
        head_bytes = PREFIX_BYTES  # a disk answers at once: first the length of the header, then just that
    files = fetcher.source.files()
    if not name.endswith(INDEX_SUFFIX):
        whole = _unindexed(files, name)
        headers = _headers(fetcher, whole, _heads(fetcher, whole, head_bytes), head_bytes)
        return _joined(headers, fetcher.source.location.ref)
    info = fetcher.source.need(name)
    if info.size > MAX_INDEX_BYTES:
        raise IndexFileError(name, f"has {info.size} bytes, more than {MAX_INDEX_BYTES}")
    # The shards of a listing are almost surely those of the index: their headers are read along with it.
    guess = _neighbours(files, name)
    fetched = _heads(fetcher, guess, head_bytes, more={name: [ByteRange(0, info.size)]})
    index = parse_shard_index(bytes(fetched.view(name, ByteRange(0, info.size))), file=name)
    if absent := [
        shard for shard in index.files if shard not in guess and fetcher.source.find(shard) is None
    ]:
        raise IndexFileError(
            name,
            f"{len(absent)} of {len(index.files)} shards are missing, {quoted(absent[0])} first",
            hint="The model is incomplete; fetch the missing files, or check the revision.",
        )
    headers = _headers(fetcher, [shard for shard in index.files if shard in guess], fetched, head_bytes)
    late = [shard for shard in index.files if shard not in guess]
    headers |= _headers(fetcher, late, _heads(fetcher, late, head_bytes), head_bytes)
    return join_shards(index, {shard: header.tensors for shard, header in headers.items()}, file=name)


def _unindexed(files: Mapping[str, FileInfo], name: str) -> list[str]:
    """Return a file with the other parts of its set: shards are sometimes published without their index."""
    stem, middle, rest = name.rpartition("-of-")
    if not middle:
        return [name]
    series = stem.rpartition("-")[0]
    return [other for other in files if other.startswith(f"{series}-") and other.endswith(f"-of-{rest}")]


def _neighbours(files: Mapping[str, FileInfo], index_name: str) -> list[str]:
    """Return the files of the index's folder that are named as its shards usually are."""
    stem = index_name.removesuffix(INDEX_SUFFIX)
    return [name for name in files if name.startswith(f"{stem}-") and name.endswith(SUFFIX)]


def _heads(
    fetcher: Fetcher,
    names: Iterable[str],
    head_bytes: int,
    *,
    more: Mapping[str, list[ByteRange]] | None = None,
) -> Fetched:
    wanted = {name: [ByteRange(0, min(head_bytes, fetcher.source.need(name).size))] for name in names}
    return fetcher.fetch({**(more or {}), **wanted}, task="reading headers")


def _headers(
    fetcher: Fetcher, names: Iterable[str], fetched: Fetched, head_bytes: int
) -> dict[str, SafetensorsHeader]:
    """Parse the headers whose beginnings were fetched; fetch the rest of the long ones, all together."""
    lengths: dict[str, int] = {}
    for name in names:
        size = fetcher.source.need(name).size
        prefix = bytes(fetched.view(name, ByteRange(0, min(PREFIX_BYTES, size, head_bytes))))
        lengths[name] = header_length(prefix, file=name, file_size=size)
    if (total := sum(lengths.values())) > MAX_ALL_HEADERS:
        problem = f"the headers of {len(lengths)} files have {total:,} bytes together"
        raise HeaderError(fetcher.source.location.ref, f"{problem}, more than {MAX_ALL_HEADERS:,}")
    long = {name: [ByteRange(0, length)] for name, length in lengths.items() if length > head_bytes}
    longer = fetcher.fetch(long, task="reading long headers") if long else fetched
    headers: dict[str, SafetensorsHeader] = {}
    for name, length in lengths.items():
        data = (longer if name in long else fetched).view(name, ByteRange(0, length))
        headers[name] = parse_header(bytes(data), file=name, file_size=fetcher.source.need(name).size)
    return headers


def _joined(headers: Mapping[str, SafetensorsHeader], where: str) -> TensorIndex:
    tensors: dict[str, TensorInfo] = {}
    for header in headers.values():
        for info in header.tensors:
            if info.name in tensors:
                raise IndexFileError(where, f"tensor {quoted(info.name)} is in two files")
            tensors[info.name] = info
    return TensorIndex(tensors.values())
