"""Weights in safetensors: which files hold them, and what their headers say; one pass of reading for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import final

from modelkin.errors import HeaderError, IndexFileError
from modelkin.formats._choice import is_of_adapter
from modelkin.formats.interface import Request, Weights
from modelkin.formats.quantised import put_together
from modelkin.formats.shards import MAX_INDEX_BYTES, join_shards, parse_shard_index, untrue_entries
from modelkin.message import Message, say
from modelkin.source import ByteRange, Fetched, Fetcher, FileInfo
from modelkin.tensors import TensorIndex, TensorInfo
from modelkin.untrusted import quoted

from .header import PREFIX_BYTES, SafetensorsHeader, header_length, parse_header

MAX_ALL_HEADERS = 256_000_000
"""Of all shards together. The largest public model (163 shards) has about 12 MB; all are held in memory."""
SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
MOST_GUESSED = 512
"""Neighbours of an index whose headers are read along with it. Models have up to 200 shards; in a folder with
more, nothing is guessed."""
AT_ONCE = 128
"""Files whose first bytes are held at once: 16 MiB."""
_N_LISTED = 4
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
        weights = [name for name in weights if not is_of_adapter(name)] or weights
        top = [name for name in indexes if "/" not in name] or [name for name in weights if "/" not in name]
        candidates = top or indexes or weights
        return min(candidates, key=lambda name: (name not in _PREFERRED, name.count("/"), name), default=None)

    def read(self, request: Request) -> Weights:
        """Read the headers of all shards, and put quantised tensors together."""
        index, left_out, told = read_index(
            request.fetcher, request.entry, head_bytes=request.head_bytes, alone=request.alone
        )
        notes = [say("format.odd-tensors", n=len(left_out), names=left_out[:_N_LISTED])] if left_out else []
        notes += told
        weights = Weights(format="safetensors", index=index, left_out=left_out, notes=tuple(notes))
        return put_together(weights, request)


FORMAT = SafetensorsFormat()


def read_index(
    fetcher: Fetcher, name: str, *, head_bytes: int, alone: bool = False
) -> tuple[TensorIndex, tuple[str, ...], tuple[Message, ...]]:
    """Read the headers of a file or of all shards of an index, at once where the source has a listing.

    Returns the tensors, the names of those left out because of their names, and notes. `head_bytes` is the
    first read of each file; a longer header costs one more. If `alone`, only that file is read, even if it is
    named like a part. Raises `NotFound` if there is no such file, and `FormatError` if a header or the shard
    index breaks the rules.
    """
    if not fetcher.source.remote:
        head_bytes = PREFIX_BYTES  # a disk is fast: read the length of the header first, then exactly that
    files = fetcher.source.files()
    if not name.endswith(INDEX_SUFFIX):
        whole = [name] if alone else _unindexed(files, name)
        headers = _in_groups(fetcher, whole, head_bytes, is_part=len(whole) > 1)
        return _joined(headers, fetcher.source.location.ref), _left_out(headers), ()
    info = fetcher.source.need(name)
    if info.size > MAX_INDEX_BYTES:
        raise IndexFileError(name, say("problem.index-bytes", size=info.size, most=MAX_INDEX_BYTES))
    # The shards of a listing are almost surely those of the index: their headers are read along with it.
    # If there are thousands of such names, none is read unless the index names it.
    guess = _neighbours(files, name)
    guess = guess if len(guess) <= MOST_GUESSED else []
    fetched = _heads(fetcher, guess, head_bytes, more={name: [ByteRange(0, info.size)]})
    index = parse_shard_index(bytes(fetched.view(name, ByteRange(0, info.size))), file=name)
    if absent := [
        shard for shard in index.files if shard not in guess and fetcher.source.find(shard) is None
    ]:
        raise IndexFileError(
            name,
            say("problem.shards-missing", n=len(absent), m=len(index.files), first=quoted(absent[0])),
            hint=say("hint.incomplete"),
        )
    headers = _headers(fetcher, [shard for shard in index.files if shard in guess], fetched, head_bytes)
    late = [shard for shard in index.files if shard not in headers]
    headers |= _in_groups(fetcher, late, head_bytes)
    joined = join_shards(index, {shard: header.tensors for shard, header in headers.items()}, file=name)
    return joined, _left_out(headers), untrue_entries(index, joined)


def _left_out(headers: Mapping[str, SafetensorsHeader]) -> tuple[str, ...]:
    return tuple(name for header in headers.values() for name in header.left_out)


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
    return fetcher.fetch({**(more or {}), **wanted}, task=say("step-headers"))


def _in_groups(
    fetcher: Fetcher, names: Sequence[str], head_bytes: int, *, is_part: bool = True
) -> dict[str, SafetensorsHeader]:
    """Read headers of any number of files; their bytes are released group by group."""
    headers: dict[str, SafetensorsHeader] = {}
    total = 0
    for start in range(0, len(names), AT_ONCE):
        group = names[start : start + AT_ONCE]
        fetched = _heads(fetcher, group, head_bytes)
        total += sum(_lengths(fetcher, group, fetched, head_bytes).values())
        _check_total(fetcher, len(names), total)
        headers |= _headers(fetcher, group, fetched, head_bytes, is_part=is_part)
    return headers


def _lengths(fetcher: Fetcher, names: Iterable[str], fetched: Fetched, head_bytes: int) -> dict[str, int]:
    """Return how long each header is."""
    lengths: dict[str, int] = {}
    for name in names:
        size = fetcher.source.need(name).size
        prefix = bytes(fetched.view(name, ByteRange(0, min(PREFIX_BYTES, size, head_bytes))))
        lengths[name] = header_length(prefix, file=name, file_size=size)
    return lengths


def _check_total(fetcher: Fetcher, n_files: int, total: int) -> None:
    if total > MAX_ALL_HEADERS:
        problem = say("problem.headers-long", n=n_files, total=total, most=MAX_ALL_HEADERS)
        raise HeaderError(fetcher.source.location.ref, problem)


def _headers(
    fetcher: Fetcher, names: Iterable[str], fetched: Fetched, head_bytes: int, *, is_part: bool = True
) -> dict[str, SafetensorsHeader]:
    """Parse the headers whose beginnings were fetched; fetch the rest of the long ones, all together."""
    lengths = _lengths(fetcher, names, fetched, head_bytes)
    _check_total(fetcher, len(lengths), sum(lengths.values()))
    long = {name: [ByteRange(0, length)] for name, length in lengths.items() if length > head_bytes}
    longer = fetcher.fetch(long, task=say("step-long-headers")) if long else fetched
    headers: dict[str, SafetensorsHeader] = {}
    for name, length in lengths.items():
        data = (longer if name in long else fetched).view(name, ByteRange(0, length))
        size = fetcher.source.need(name).size
        headers[name] = parse_header(bytes(data), file=name, file_size=size, is_part=is_part)
    return headers


def _joined(headers: Mapping[str, SafetensorsHeader], where: str) -> TensorIndex:
    tensors: dict[str, TensorInfo] = {}
    for header in headers.values():
        for info in header.tensors:
            if info.name in tensors:
                raise IndexFileError(where, say("problem.tensor-two-files", name=quoted(info.name)))
            tensors[info.name] = info
    return TensorIndex(tensors.values())
