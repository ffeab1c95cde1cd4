"""From an ONNX file, or an encoder and its decoder, to tensors under the names of transformers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from modelkin.errors import HeaderError
from modelkin.formats.interface import Request, Weights, taken_of_several
from modelkin.message import Message, say
from modelkin.source import FileInfo, Source
from modelkin.tensors import DTYPES, Storage, TensorIndex, TensorInfo
from modelkin.untrusted import name_problem, quoted

from ._graph import Graph
from ._guess import config_of, guess_names
from ._names import Naming, builder_name, name_weights, packed_slices, without_wrapper
from ._weights import Weight, find_uses
from .parse import parse
from .storage import StoredLines, arranged, scaled, some_lines
from .stored import External
from .wire import Window, Wire

ENDING = ".onnx"
_STEMS = ("model", "encoder_model", "decoder_model_merged", "decoder_model", "decoder_with_past_model")
_STEM = re.compile(rf"({'|'.join(sorted(_STEMS, key=len, reverse=True))})(?:[_.\-](.+))?")
_VARIANTS = (
    *("", "fp32", "fp16", "bf16", "o1", "o2", "o3", "o4"),
    *("int8", "quantized", "uint8", "q8", "q4", "q4f16", "bnb4"),
)
_N_LISTED = 4
_DECODERS = ("decoder_model_merged", "decoder_model", "decoder_with_past_model")


def partner(name: str, files: Iterable[str]) -> str | None:
    """Return the decoder that belongs to an encoder, in the same variant, or None."""
    folder, base = posixpath.split(name)
    if _parts(base)[0] != "encoder_model":
        return None
    beside = {posixpath.basename(other): other for other in files if posixpath.dirname(other) == folder}
    ending = base.removeprefix("encoder_model")
    return next(
        (beside[f"{decoder}{ending}"] for decoder in _DECODERS if f"{decoder}{ending}" in beside), None
    )


def others(name: str, files: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return the other exported files of a listing."""
    return sorted(other for other in files if other.endswith(ENDING) and other not in {name, *taken})


def _parts(base: str) -> tuple[str, str]:
    found = _STEM.fullmatch(base.removesuffix(ENDING))
    return (found[1], (found[2] or "").lower()) if found else ("", base.lower())


def _rank(name: str) -> tuple[int, int, int, str]:
    stem, variant = _parts(posixpath.basename(name))
    stem_rank = _STEMS.index(stem) if stem else len(_STEMS)
    variant_rank = _VARIANTS.index(variant) if variant in _VARIANTS else len(_VARIANTS)
    return stem_rank, variant_rank, name.count("/"), name


_CODE_NAMES = {"I8": "INT8", "U8": "UINT8", "I16": "INT16", "U16": "UINT16", "I32": "INT32"}
_CODE_NAMES |= {"I4": "INT4", "U4": "UINT4", "I2": "INT2", "U2": "UINT2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _GraphFile:
    """One file, read."""

    tensors: tuple[TensorInfo, ...]
    left_out: tuple[str, ...]
    notes: tuple[Message, ...]
    config: Mapping[str, object]


@final
class OnnxFormat:
    """One file, an encoder with its decoder, and whatever files they keep their data in."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Choose the most precise of the whole models."""
        return min((name for name in files if name.endswith(ENDING)), key=_rank, default=None)

    def read(self, request: Request) -> Weights:
        """Read one file; an encoder is read together with its decoder."""
        files = request.fetcher.source.files()
        second = partner(request.entry, files)
        parts = [_read_file(request, request.entry)]
        notes: list[Message] = []
        if second is not None:
            parts.append(_read_file(request, second))
            parts[0] = _placed(parts[0], parts[1])
            notes.append(say("format.two-graphs", encoder=request.entry, decoder=second))
        unread = others(request.entry, files, [second] if second else [])
        notes += taken_of_several(request.entry, unread)
        tensors = [info for part in parts for info in part.tensors]
        return Weights(
            format="onnx",
            # The graph decides what is done with its data, even where all of these are in another file.
            index=TensorIndex(
                _distinct(tensors, request.entry), more_files=[request.entry, *([second] if second else [])]
            ),
            config=_joined_config(parts),
            left_out=tuple(item for part in parts for item in part.left_out),
            notes=(*notes, *dict.fromkeys(note for part in parts for note in part.notes)),
        )


FORMAT = OnnxFormat()


def _joined_config(parts: Sequence[_GraphFile]) -> dict[str, object] | None:
    if len(parts) == 1:
        return dict(parts[0].config) or None
    heads = {
        f"{stack}_attention_heads": part.config["num_attention_heads"]
        for stack, part in zip(("encoder", "decoder"), parts, strict=True)
        if "num_attention_heads" in part.config
    }
    return dict(heads) or None


def _read_file(request: Request, name: str) -> _GraphFile:
    graph, used = open_graph(request, name).alive()
    naming = _with_guesses(graph, name_weights(graph, find_uses(graph), used))
    names = [item.name for item in naming.weights if item.how != "none"]
    wrapper = without_wrapper(names)
    tensors: list[TensorInfo] = []
    for item in naming.weights:
        plain = item.name.removeprefix(wrapper) if item.how != "none" else item.name
        tensors += _infos(builder_name(plain), item.weight, request.config)
    return _GraphFile(
        tensors=tuple(_distinct(tensors, name)),
        left_out=tuple(map(quoted, (*naming.unused, *graph.sparse))),
        notes=(*graph.notes, *_not_read(graph, naming), *_notes(naming, wrapper)),
        config=config_of(graph, naming.weights),
    )


def _with_guesses(graph: Graph, naming: Naming) -> Naming:
    """Propose names where no matrix has one."""
    matrices = [item for item in naming.weights if len(item.weight.shape) == 2]
    if not matrices or any(item.how != "none" for item in matrices):
        return naming
    names = guess_names(graph, naming.weights)
    weights = tuple(
        replace(item, name=names[item.weight.stored.name], how="guess")
        if item.weight.stored.name in names
        else item
        for item in naming.weights
    )
    return replace(naming, weights=weights)


def open_graph(request: Request, name: str) -> Graph:
    """Read the graph of one file, and none of its numbers."""
    info = _file(request.fetcher.source, name)
    window = Window(request.fetcher, info, head_bytes=request.head_bytes)
    return parse(Wire(window), External(request.fetcher.source, name))


def _file(source: Source, name: str) -> FileInfo:
    info = source.need(name)
    if not info.size:
        raise HeaderError(name, say("problem.empty-file"), hint=say("hint.fetch-again"))
    return info


def _not_read(graph: Graph, naming: Naming) -> Iterator[Message]:
    for code, names in (("format.unused-weights", naming.unused), ("format.sparse-weights", graph.sparse)):
        if names:
            yield say(code, n=len(names), names=tuple(map(quoted, names[:_N_LISTED])))


def _notes(naming: Naming, wrapper: str) -> Iterator[Message]:
    recovered = sum(item.how in ("bias", "module") for item in naming.weights)
    unnamed = sum(item.how == "none" for item in naming.weights)
    guessed = sum(item.how == "guess" for item in naming.weights)
    coded = sum(item.weight.is_coded for item in naming.weights)
    if recovered:
        yield say("format.names-recovered", n=recovered)
    if wrapper:
        yield say("format.wrapper-names", prefix=quoted(wrapper))
    if coded:
        yield say("format.graph-codes", n=coded)
    if guessed:
        yield say("format.names-guessed", n=guessed)
    if naming.n_tables:
        yield say("format.unnamed-tables", n=naming.n_tables)
    if unnamed:
        yield say("format.names-empty", n=unnamed)


def _infos(name: str, weight: Weight, config: Mapping[str, object] | None) -> Iterator[TensorInfo]:
    info = _info(name, weight)
    cuttable = len(info.shape) == 2 or (len(info.shape) == 1 and info.storage is None)
    slices = packed_slices(name, info.n_rows, config) if cuttable and info.dtype != "F4" else ()
    if not slices:
        yield info
        return
    for item in slices:
        yield _sliced(info, item.name, item.start, item.stop)


def _info(name: str, weight: Weight) -> TensorInfo:
    stored = weight.stored
    storage: Storage | None = None
    dtype = stored.dtype
    if weight.blocks is not None:
        storage, dtype = weight.blocks, f"INT{weight.blocks.bits}-G{weight.blocks.block}"
    elif weight.is_coded or dtype not in DTYPES:
        storage = scaled(
            StoredLines(stored=stored, turned=weight.turned),
            scale=weight.scale,
            zero=weight.zero,
            block=weight.block,
            rounded=weight.rounded,
        )
        dtype = _CODE_NAMES.get(dtype, f"{dtype}-SCALED")
    elif weight.turned or stored.varints:
        storage = arranged(StoredLines(stored=stored, turned=weight.turned))
    return TensorInfo(
        name=name,
        dtype=dtype,
        shape=weight.shape,
        file=stored.file,
        start=stored.start,
        stop=stored.stop,
        storage=storage,
    )


def _sliced(info: TensorInfo, name: str, start: int, stop: int) -> TensorInfo:
    """Return some rows of a matrix, or some elements of a vector, as a tensor of its own."""
    shape = (stop - start, *info.shape[1:])
    if info.storage is None:
        row = (info.stop - info.start) // info.n_rows
        first, last = info.start + start * row, info.start + stop * row
        return replace(info, name=name, shape=shape, start=first, stop=last)
    part = some_lines(info.storage, start, stop, info.n_rows)
    return replace(info, name=name, shape=shape, storage=part)


def _placed(encoder: _GraphFile, decoder: _GraphFile) -> _GraphFile:
    """Put an encoder that was exported by itself next to its decoder, with the prefix that it lost."""
    prefix = next(
        (
            info.name[: info.name.index("decoder.")] + "encoder."
            for info in decoder.tensors
            if info.name.startswith(("model.decoder.", "decoder."))
        ),
        None,
    )
    if prefix is None or any(info.name.startswith(prefix) for info in encoder.tensors):
        return encoder
    tensors = tuple(replace(info, name=f"{prefix}{info.name}") for info in encoder.tensors)
    return replace(encoder, tensors=tensors)


def _distinct(tensors: Iterable[TensorInfo], where: str) -> Iterator[TensorInfo]:
    seen: set[str] = set()
    for info in tensors:
        if problem := name_problem(info.name):
            raise HeaderError(where, say("problem.tensor-name", name=quoted(info.name), problem=problem))
        if info.name in seen:
            raise HeaderError(where, say("problem.two-weights", name=quoted(info.name)))
        seen.add(info.name)
        yield info
