"""Torch files as weights: which file to take, its shards, and the usual names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, final

from modelkin.errors import HeaderError, IndexFileError, UnsupportedFormat
from modelkin.formats._choice import is_torch_weights
from modelkin.formats.interface import Request, Weights, taken_of_several
from modelkin.formats.quantised import put_together
from modelkin.formats.shards import MAX_INDEX_BYTES, join_shards, parse_shard_index, untrue_entries
from modelkin.formats.whisper_names import is_openai_whisper, whisper_config, whisper_name
from modelkin.message import Message, say
from modelkin.source import Fetcher, FileInfo
from modelkin.tensors import DTYPES, TensorIndex, TensorInfo
from modelkin.untrusted import plain, quoted

from ._contents import Steps, contents_of, locate, run_together
from ._state import StateDict, find_state, usual_names
from .layout import place_tensor
from .values import Holder

INDEX_SUFFIX = ".bin.index.json"
ENDINGS: Final = (".bin", ".pt", ".pth", ".ckpt")
_FILES_AT_ONCE = 32
_N_SHOWN = 3

_PREFERRED: Final = (
    "pytorch_model.bin",
    f"pytorch_model{INDEX_SUFFIX}",
    "diffusion_pytorch_model.bin",
    *("pytorch_model.pt", "pytorch_model.pth", "model.pt", "model.pth", "consolidated.00.pth"),
)
_SLICES: Final = re.compile(r"(.*)consolidated\.([0-9]+)\.pth")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchFile:
    """One file, read."""

    tensors: tuple[TensorInfo, ...] = field(repr=False)
    """Under the names of the file."""
    state: StateDict = field(repr=False)
    left_out: tuple[str, ...]
    """Tensors with unprintable names, or in number formats that are not read."""
    notes: tuple[Message, ...]


@final
class TorchFormat:
    """Zip archives and the older layout, in one file or in shards with an index."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Choose as loaders do; leave out what is named like an optimizer or an argument file."""
        for name in _PREFERRED:
            if name in files:
                return name
        fitting = [name for name in files if name.endswith(INDEX_SUFFIX) or is_torch_weights(name)]
        return min(
            fitting, key=lambda name: (name.count("/"), not name.endswith(INDEX_SUFFIX), name), default=None
        )

    def read(self, request: Request) -> Weights:
        """Read the pickles of all shards, and where their storages lie."""
        fetcher, entry = request.fetcher, request.entry
        _check_whole(fetcher, entry)
        if entry.endswith(INDEX_SUFFIX):
            return self._sharded(request)
        opened = _open(fetcher, [entry], request.head_bytes)[entry]
        notes = [*_other_files(self, fetcher, entry), *opened.notes]
        state = opened.state
        names, more = usual_names(state)
        notes += more
        config = None
        if is_openai_whisper(names.values()):
            names = {key: whisper_name(name) for key, name in names.items()}
            notes.append(say("format.whisper-names"))
            config = _whisper_config(state)
        index = TensorIndex(_renamed(opened.tensors, names, entry))
        weights = Weights(
            format="pytorch", index=index, config=config, left_out=opened.left_out, notes=tuple(notes)
        )
        return put_together(weights, request)

    def _sharded(self, request: Request) -> Weights:
        fetcher, entry = request.fetcher, request.entry
        data = fetcher.read_file(entry, limit=MAX_INDEX_BYTES)
        if data is None:
            raise IndexFileError(plain(entry), say("problem.torch-index", most=MAX_INDEX_BYTES))
        index = parse_shard_index(data, file=entry, endings=ENDINGS)
        absent = [shard for shard in index.files if fetcher.source.find(shard) is None]
        if absent:
            raise IndexFileError(
                plain(entry),
                say("problem.shards-missing", n=len(absent), m=len(index.files), first=quoted(absent[0])),
                hint=say("hint.incomplete"),
            )
        opened: dict[str, TorchFile] = {}
        for first in range(0, len(index.files), _FILES_AT_ONCE):
            some = index.files[first : first + _FILES_AT_ONCE]
            opened |= _open(fetcher, some, request.head_bytes, is_part=True)
        joined = join_shards(index, {file: found.tensors for file, found in opened.items()}, file=entry)
        refs = {name: ref for found in opened.values() for name, ref in found.state.tensors.items()}
        names, notes = usual_names(StateDict(tensors=refs, beside=MappingProxyType({})))
        tensors = _renamed(tuple(joined.values()), names, entry)
        told = dict.fromkeys(note for found in opened.values() for note in found.notes)
        told |= dict.fromkeys(untrue_entries(index, joined))
        left_out = tuple(name for found in opened.values() for name in found.left_out)
        weights = Weights(
            format="pytorch", index=TensorIndex(tensors), left_out=left_out, notes=(*told, *notes)
        )
        return put_together(weights, request)


FORMAT = TorchFormat()


def _open(
    fetcher: Fetcher, names: list[str] | tuple[str, ...], head_bytes: int, *, is_part: bool = False
) -> dict[str, TorchFile]:
    readers = {name: _opened(fetcher, name, head_bytes, is_part=is_part) for name in names}
    return run_together(fetcher, readers)


def _opened(fetcher: Fetcher, name: str, head_bytes: int, *, is_part: bool) -> Steps[TorchFile]:
    info = fetcher.source.need(name)
    contents = yield from contents_of(
        name, size=info.size, head_bytes=head_bytes, check=not fetcher.source.remote
    )
    state = find_state(contents.top, file=name, is_part=is_part)
    readable = {key: ref for key, ref in state.tensors.items() if ref.dtype in DTYPES}
    places = yield from locate(contents, dict.fromkeys(ref.storage.key for ref in readable.values()))
    tensors = tuple(
        place_tensor(key, ref, file=name, place=places[ref.storage.key]) for key, ref in readable.items()
    )
    notes = list(state.notes)
    if unread := sorted({ref.dtype for ref in state.tensors.values()} - DTYPES.keys()):
        count = len(state.tensors) - len(readable)
        notes.append(say("format.unread-types", n=count, m=len(state.tensors), types=tuple(unread)))
    if contents.archive is not None and contents.archive.is_script:
        notes.append(say("format.torchscript"))
    if contents.unknown:
        some = tuple(map(str, contents.unknown[:_N_SHOWN]))
        notes.append(say("format.pickle-names", n=len(contents.unknown), names=some))
    if not tensors and not is_part:
        raise UnsupportedFormat(
            plain(name), say("problem.torch-none-read"), hint=say("sentences", said=tuple(notes))
        )
    left_out = (*state.left_out, *(quoted(key) for key in state.tensors if key not in readable))
    return TorchFile(tensors=tensors, state=state, left_out=left_out, notes=tuple(notes))


def _renamed(tensors: tuple[TensorInfo, ...], names: Mapping[str, str], file: str) -> list[TensorInfo]:
    renamed: dict[str, TensorInfo] = {}
    for info in tensors:
        name = names[info.name]
        if name in renamed:
            raise HeaderError(plain(file), say("problem.two-tensors", name=quoted(name)))
        renamed[name] = replace(info, name=name)
    return list(renamed.values())


def _whisper_config(state: StateDict) -> dict[str, object] | None:
    dims = state.beside.get("dims")
    if isinstance(dims, Holder):
        dims = dims.attributes
    if not isinstance(dims, dict):
        return None
    return whisper_config({key: value for key, value in dims.items() if isinstance(key, str)})


def _check_whole(fetcher: Fetcher, entry: str) -> None:
    """Refuse a single one of several files that hold slices of every tensor."""
    part = _SLICES.fullmatch(entry)
    if part is None:
        return
    others = [name for name in fetcher.source.files() if (m := _SLICES.fullmatch(name)) and m[1] == part[1]]
    if len(others) > 1:
        raise UnsupportedFormat(
            plain(entry),
            say("problem.torch-slices", n=len(others)),
            hint=say("hint.as-transformers"),
        )


def _other_files(form: TorchFormat, fetcher: Fetcher, entry: str) -> tuple[Message, ...]:
    files = fetcher.source.files()
    others = [name for name in files if name != entry and is_torch_weights(name)]
    return taken_of_several(entry, sorted(others)) if form.choose(files) == entry else ()
