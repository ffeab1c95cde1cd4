"""The index of a model in several files: which tensor is in which, and whether that is true."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from modelkin.errors import IndexFileError
from modelkin.message import Message, say
from modelkin.tensors import TensorIndex, TensorInfo
from modelkin.untrusted import Scanner, name_problem, plain, plain_path_problem, quoted

MAX_INDEX_BYTES = 100_000_000
"""As for headers; the largest public index files are about 20 MB."""

MAX_LISTED_TENSORS = 1_000_000
"""Five times as many as the largest public models have."""

MAX_SHARDS = 10_000

# Writers note a total size and little else.
_MAX_METADATA_BYTES = 1 << 17
_MAX_TOP_KEYS = 64
_N_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardIndex:
    """What an index file says."""

    weight_map: Mapping[str, str]
    """Name of each tensor -> path inside the model of the file that holds it."""
    metadata: Mapping[str, object]
    """Whatever the writer put there; not checked against anything."""
    more_files: tuple[str, ...] = ()
    """Files of tensors with unprintable names. Loaders read all of a file that is named."""

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the shards inside the model, sorted."""
        return tuple(sorted({*self.weight_map.values(), *self.more_files}))


def parse_shard_index(data: bytes, *, file: str, endings: tuple[str, ...] = (".safetensors",)) -> ShardIndex:
    """Read an index file. Paths of shards are relative to its folder, and end in one of `endings`.

    Raises `IndexFileError` if it is not an index, lists a tensor twice, or names a file that it must not.
    """

    def error(problem: Message) -> IndexFileError:
        return IndexFileError(plain(file), problem)

    if len(data) > MAX_INDEX_BYTES:
        raise error(say("problem.index-long", n=len(data), most=MAX_INDEX_BYTES))
    if data.startswith(b"version https://git-lfs"):
        raise IndexFileError(
            plain(file),
            say("problem.lfs-pointer"),
            hint=say("hint.lfs"),
        )
    scanner = Scanner(data, error=error)
    weight_map: dict[str, str] | None = None
    more_files: tuple[str, ...] = ()
    metadata: object = None
    for key in scanner.members(say("part.index"), limit=_MAX_TOP_KEYS):
        match key:
            case "weight_map":
                weight_map, more_files = _read_weight_map(
                    scanner, folder=posixpath.dirname(file), endings=endings
                )
            case "metadata":
                metadata = scanner.value("metadata", max_bytes=_MAX_METADATA_BYTES)
            case _:
                # Some writers add keys of their own; they change nothing.
                scanner.value(say("part.value-of", key=quoted(key)), max_bytes=_MAX_METADATA_BYTES)
    scanner.finish(padding=b" \t\r\n")
    if not weight_map:
        raise error(say("problem.index-map"))
    if metadata is not None and not isinstance(metadata, dict):
        raise error(say("problem.index-metadata"))
    return ShardIndex(
        weight_map=MappingProxyType(weight_map),
        metadata=MappingProxyType(metadata or {}),
        more_files=more_files,
    )


def join_shards(index: ShardIndex, shards: Mapping[str, Iterable[TensorInfo]], *, file: str) -> TensorIndex:
    """Check the index against the tensors of its shards, and make one index of them.

    Tensors that a shard holds but the index does not list are kept, as loaders do, and named in
    `TensorIndex.unlisted`. Wrong entries are no reason to refuse a model that everybody loads, unless all are
    wrong; `untrue_entries` lists them. Shards that the index does not name are ignored. Raises
    `IndexFileError` if a shard is missing, no tensor is in its shard, or a tensor is in two shards.
    """
    missing = [shard for shard in index.files if shard not in shards]
    if missing:
        raise IndexFileError(
            plain(file),
            say("problem.shards-missing-some", n=len(missing), m=len(index.files), names=_some(missing)),
            hint=say("hint.incomplete"),
        )
    found: dict[str, TensorInfo] = {}
    shard_of: dict[str, str] = {}
    for shard in index.files:
        for info in shards[shard]:
            if info.name in found:
                raise IndexFileError(
                    plain(file),
                    say(
                        "problem.index-two-shards",
                        name=quoted(info.name),
                        first=quoted(shard_of[info.name]),
                        second=quoted(shard),
                    ),
                )
            found[info.name] = info
            shard_of[info.name] = shard
    if all(shard_of.get(name) != shard for name, shard in index.weight_map.items()):
        name, shard = next(iter(index.weight_map.items()))
        untrue = say("problem.index-not-there", name=quoted(name), shard=quoted(shard))
        if name in shard_of:
            other = quoted(shard_of[name])
            untrue = say("problem.index-elsewhere", name=quoted(name), shard=quoted(shard), other=other)
        raise IndexFileError(
            plain(file),
            untrue,
            hint=say("hint.other-index"),
        )
    return TensorIndex(found.values(), unlisted=found.keys() - index.weight_map.keys())


def untrue_entries(index: ShardIndex, joined: TensorIndex) -> tuple[Message, ...]:
    """Say which entries of an index are wrong: loaders take the files it names, with all that is in them."""
    wrong = [
        name for name, shard in index.weight_map.items() if name not in joined or joined[name].file != shard
    ]
    if not wrong:
        return ()
    return (say("format.index-untrue", n=len(wrong), names=tuple(map(quoted, wrong[:_N_SHOWN]))),)


def _read_weight_map(
    scanner: Scanner, *, folder: str, endings: tuple[str, ...]
) -> tuple[dict[str, str], tuple[str, ...]]:
    # One check and one string per shard: an index has thousands of tensors for each.
    paths: dict[str, str] = {}
    result: dict[str, str] = {}
    odd: dict[str, str] = {}
    problem: Message | None = None
    for name in scanner.members("weight_map", limit=MAX_LISTED_TENSORS):
        wrong = name_problem(name)
        shard = scanner.string(say("part.file-of-tensor", name=quoted(name)))
        if shard not in paths:
            if unsafe := plain_path_problem(shard, endings=endings):
                scanner.fail(say("problem.index-shard-path", shard=quoted(shard), problem=unsafe))
            if len(paths) >= MAX_SHARDS:
                scanner.fail(say("problem.index-files", most=MAX_SHARDS))
            paths[shard] = posixpath.join(folder, shard)
        if wrong is not None:
            problem = problem or say("problem.tensor-name", name=quoted(name), problem=wrong)
        (result if wrong is None else odd)[name] = paths[shard]
    if problem and not result:
        scanner.fail(problem)
    return result, tuple(sorted(set(odd.values())))


def _some(names: list[str]) -> str:
    shown = ", ".join(map(quoted, names[:_N_SHOWN]))
    return shown if len(names) <= _N_SHOWN else f"{shown} and {len(names) - _N_SHOWN} more"
