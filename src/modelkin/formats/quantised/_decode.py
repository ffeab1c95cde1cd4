"""From an index of stored tensors to an index of weights: which schemes are used, and what is left over."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from modelkin.formats.interface import Request, Weights
from modelkin.message import Message, say
from modelkin.tensors import TensorIndex, TensorInfo
from modelkin.untrusted import quoted

from . import _bitsandbytes, _compressed, _fp4, _hqq, _scaled
from ._declared import awq_problem, find_awq, find_gptq, find_mlx, gptq_problem, mlx_problem
from ._scheme import FoundWeight, ReadSmall, SchemeInput, Settings, read_settings, small_reader

_Find = Callable[[SchemeInput], Iterator[FoundWeight]]

# Their tensors show by name and shape what they are, with or without a config.
_ALWAYS: Final[tuple[_Find, ...]] = (
    _bitsandbytes.find,
    _compressed.find,
    _fp4.find,
    _scaled.find,
    _hqq.find,
)
# These need the config: names and shapes leave open how many bits a code has.
_DECLARED: Final = {
    "gptq": (gptq_problem, find_gptq),
    "awq": (awq_problem, find_awq),
    "mlx": (mlx_problem, find_mlx),
}
_SELF_TOLD: Final = frozenset(
    {"bitsandbytes", "compressed-tensors", "fp8", "fbgemm_fp8", "modelopt", "modelopt_fp4", "mxfp4", "hqq"}
)
_AUTO_ROUND: Final = {"auto_gptq": "gptq", "auto_awq": "awq"}
_KNOWN: Final = tuple(sorted({*_DECLARED, *_SELF_TOLD}))
_ACTIVATIONS: Final = re.compile(r"\.(?:input|output|[qkv])_(?:scale|scale_ub|zero_point|global_scale)\Z")
MOST_LEFT_OUT: Final = 0.25
"""Unusable codes as a share of what can be read: beyond this the model counts as not read."""
_N_LISTED: Final = 4
_MOST_AROUND: Final = 3
_CODES: Final = frozenset({*_scaled.FP8, "I8", "U8", "I32", "U32"})
_PACKED_ENDINGS: Final = (".qweight", ".weight_packed")


def has_codes(index: TensorIndex) -> bool:
    """Say whether any tensor may hold codes; if none does, there is nothing to put together."""
    return any(info.dtype in _CODES and len(info.shape) >= 2 for info in index.values())


def decode_index(
    index: TensorIndex, config: Mapping[str, object] | None, read_small: ReadSmall
) -> tuple[TensorIndex, tuple[str, ...], tuple[Message, ...]]:
    """Put quantised tensors together.

    Returns the weights under the names they have when nothing is quantised, without the tensors they are made
    of; the names of tensors that cannot be used; and what a reader should know. If nothing is quantised, the
    index is the given one.

    The contents of ``config.json`` name the scheme. `read_small` reads small tensors by name, all with one
    fetch: it is called once or twice, and only where a scheme keeps shapes in tensors. Raises `FormatError`
    if parts of weights contradict each other or are missing, for much of the model. An unknown scheme is not
    an error: its tensors stay as they are, and a note says so.
    """
    settings = _by_layout(read_settings(config))
    checkpoint = SchemeInput(index=index, settings=settings, read_small=read_small)
    finders, notes = _finders(checkpoint)
    found = _found(checkpoint, finders)
    used = {name for one in found.values() for name in one.uses}
    rest = [info for name, info in index.items() if name not in used]
    if not notes:
        _check_rest(checkpoint, rest)
    left_out = _left_out(checkpoint, found)
    rest = [info for info in rest if info.name not in left_out]
    if not found and not left_out:
        return index, (), tuple(notes)
    kept = [info for info in rest if not _ACTIVATIONS.search(info.name)]
    names = {info.name for info in kept}
    decoded = TensorIndex(
        [*kept, *(one.info for one in found.values())],
        unlisted=[name for name in index.unlisted if name in names],
        more_files=index.files,
    )
    told = _told(found.values(), len(rest) - len(kept)) if found else []
    return decoded, tuple(sorted(left_out)), (*told, *_told_unread(checkpoint, left_out), *notes)


def _found(checkpoint: SchemeInput, finders: Iterable[_Find]) -> dict[str, FoundWeight]:
    """Look for weights; what is there twice is left out, as it is unclear which one is meant."""
    found: dict[str, FoundWeight] = {}
    twice: list[FoundWeight] = []
    for find in finders:
        for one in find(checkpoint):
            if one.info.name in found:
                twice.append(one)
            found.setdefault(one.info.name, one)
    for one in twice:
        first = found.pop(one.info.name, one)
        for parts in (first, one):
            checkpoint.refuse(checkpoint.index[parts.uses[0]], say("problem.quant-two-ways"))
    for name in [name for name in found if name in checkpoint.index and name not in found[name].uses]:
        codes = checkpoint.index[found.pop(name).uses[0]]
        checkpoint.refuse(codes, say("problem.quant-both", name=quoted(name)))
        # If no config says that weights are quantised, all loaders take the plain one.
        if checkpoint.settings.method is not None:
            checkpoint.refuse(checkpoint.index[name], say("problem.quant-is-both"))
    return found


def _left_out(checkpoint: SchemeInput, found: Mapping[str, FoundWeight]) -> set[str]:
    """Return the names of tensors that cannot be used, or refuse a model with too many."""
    index = checkpoint.index
    used = {name for one in found.values() for name in one.uses}
    left_out: set[str] = set()
    for one in checkpoint.unread:
        pair = (one.info, one.codes) if one.codes is not None else (one.info,)
        left_out |= {
            info.name for info in pair if info.name not in used and (info is one.info or not info.is_float)
        }
    # A weight that is stored as plain numbers needs no codes.
    needed = {
        name for name in left_out if not _is_plain(index, f"{name.rpartition('.')[0]}.weight", left_out)
    }
    modules = {name.rpartition(".")[0] for name in left_out if "." in name}
    gone = used | left_out
    readable = sum(one.info.n_bytes for one in found.values()) + sum(
        info.n_bytes
        for name, info in index.items()
        if info.is_float and name not in gone and modules.isdisjoint(_around(name))
    )
    missing = sum(index[name].n_bytes for name in needed if len(index[name].shape) >= 2)
    if checkpoint.unread and (missing > MOST_LEFT_OUT * readable or not readable):
        raise checkpoint.unread[0].error
    return left_out


def _is_plain(index: TensorIndex, name: str, left_out: set[str]) -> bool:
    return name in index and index[name].is_float and name not in left_out


def _around(name: str) -> Iterator[str]:
    """Yield the modules that a part may belong to: the nearest names around it."""
    for _ in range(_MOST_AROUND):
        name = name.rpartition(".")[0]
        yield name


def _finders(checkpoint: SchemeInput) -> tuple[list[_Find], list[Message]]:
    """Return what looks for weights, and notes about what cannot be decoded."""
    method = checkpoint.settings.method
    packed = next((name for name in checkpoint.index if name.endswith(".qweight")), None)
    if method in _DECLARED:
        problem_of, find = _DECLARED[method]
        problem = problem_of(checkpoint)
        if problem is None:
            # Otherwise tensors of these names would be mistaken for something else.
            return [find], []
        return [], [say("format.not-decoded", method=method, problem=problem)]
    if method is not None and method not in _SELF_TOLD:
        return [], [say("format.method-unknown", method=quoted(method), known=_KNOWN)]
    notes = [say("format.packed-unexplained", name=quoted(packed))] if packed is not None else []
    return list(_ALWAYS), notes


def _by_layout(settings: Settings) -> Settings:
    """Return the settings under the name of the layout, if a method uses that of another."""
    if settings.method not in ("auto-round", "intel/auto-round"):
        return settings
    layout = settings.word("packing_format").removeprefix("auto_round:")
    return Settings(method=_AUTO_ROUND.get(layout, settings.method), values=settings.values)


def _check_rest(checkpoint: SchemeInput, rest: Iterable[TensorInfo]) -> None:
    """Leave out codes without scales, if the config says that weights are quantised."""
    noted = {info.name for one in checkpoint.unread for info in (one.info, one.codes) if info is not None}
    if checkpoint.settings.method is None:
        return
    for info in rest:
        if (
            len(info.shape) >= 2
            and info.dtype in _CODES
            and info.name.endswith((".weight", *_PACKED_ENDINGS))
            and info.name not in noted
        ):
            checkpoint.refuse(info, say("problem.quant-no-scales", dtype=info.dtype))


def _told(found: Iterable[FoundWeight], n_dropped: int) -> list[Message]:
    counted = Counter(one.info.dtype for one in found)
    kinds = tuple(f"{count} {label}" for label, count in counted.most_common())
    notes = [say("format.put-together", kinds=kinds)]
    return [*notes, say("format.activations", n=n_dropped)] if n_dropped else notes


def _told_unread(checkpoint: SchemeInput, left_out: set[str]) -> list[Message]:
    if not left_out:
        return []
    first = checkpoint.unread[0]
    return [
        say(
            "format.junk-tensors",
            n=len(left_out),
            names=tuple(quoted(name) for name in sorted(left_out)[:_N_LISTED]),
            problem=first.error.said,
        )
    ]


def put_together(weights: Weights, request: Request) -> Weights:
    """Turn codes and scales into weights; the config is read only if some tensor may need it."""
    if not has_codes(weights.index):
        return weights
    config = weights.config or request.config
    index, left_out, notes = decode_index(weights.index, config, small_reader(request.fetcher, weights.index))
    return replace(
        weights, index=index, left_out=(*weights.left_out, *left_out), notes=(*weights.notes, *notes)
    )
