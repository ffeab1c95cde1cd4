"""Plain sameness of two models: published digests, stored bits, values after rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from modelkin.comparison.methods import (
    EqualityCount,
    code_step,
    count_equal,
    equal_after_rounding,
    share_within,
)
from modelkin.comparison.names import names_apart, shared_names
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import Rehearsal
from modelkin.comparison.verdict import Conclusion, Identity, Verdict
from modelkin.message import say
from modelkin.model import Model
from modelkin.tensors import TensorInfo, TensorSlice, line_elements, sample_blocks

CopyKind: TypeAlias = Literal["copy", "precision-copy", "quantised-copy"]
_COARSER: Final[tuple[CopyKind, ...]] = ("copy", "precision-copy", "quantised-copy")
_Digests: TypeAlias = Mapping[str, str]
"""By file."""
NEARLY_ALL = 0.95
"""Share of all weights that a copy has to have."""
ONE_SCALE = ("INT8", "UINT8")
"""Codes that can have one scale for a whole tensor."""
WALK_ELEMENTS = 1 << 20
"""Values compared at once when formats differ: a few megabytes on each side."""
SAMPLED_LINES = 32
"""Neighbouring lines of each quantised tensor that are compared with the other model's."""
WITHIN_A_STEP = 0.95
"""Share of weights that must be within a step of their codes. Rounding leaves none outside, GPTQ on strongly
correlated inputs one in a hundred."""


def published_identity(pair: ModelPair) -> Identity | None:
    """Compare the digests that sources publish, before any tensor byte is read.

    Equal files are not enough: a graph, the scale of an adapter or a config decides what numbers they become.
    So every tensor must come from the same places of equal files in the same way.
    """
    mine, theirs = (published_digests(model) for model in pair.models)
    if (
        not mine
        or not theirs
        or sorted(mine.values()) != sorted(theirs.values())
        or _something_left_out(pair)
    ):
        return None
    if not _same_adapter(*pair.models) or not same_places(*pair.models, digests=(mine, theirs)):
        return None
    return Identity(all_files_equal=True, how=say("published-digest"))


def full_identity(pair: ModelPair, equality: EqualityCount) -> Identity | None:
    """Compare every value, if no sample differs and reading everything is cheap or was requested."""
    if equality.n_equal < equality.n_compared or pair.equal is False:
        return None
    if _something_left_out(pair) or not same_layout(*pair.models):
        return None
    if not pair.equal and not (_may_walk(pair) and same_bits(*pair.models)):
        return None
    return Identity(all_files_equal=True, how=say("every-value"))


def _something_left_out(pair: ModelPair) -> bool:
    """Say whether a model has tensors that were not examined: it is unknown what these hold.

    They may be in separate files, so that equal digests of all others say nothing about them.
    """
    return any(model.weights.left_out for model in pair.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryValue:
    """What a walk over all tensors of the same name and shape found."""

    n_tensors: int
    count: EqualityCount
    identical: bool
    """Whether both models are the same tensors, bit by bit."""
    apart: tuple[str, ...] = ()
    """Names that are of a multi-token-prediction layer in one model only: not compared."""


def compare_every_value(pair: ModelPair, rehearsal: Rehearsal | None = None) -> EveryValue | None:
    """Compare every value of the tensors that both models have; None if the byte allowance is too small.

    In a rehearsal these tensors are recorded and nothing is read.
    """
    mine, theirs = (model.index for model in pair.models)
    names = shared_names(*pair.models)
    apart = names_apart(*pair.models)
    if rehearsal is not None:
        whole = [TensorSlice.whole(name) for name in names]
        rehearsal.note(whole, whole)
        return None
    if not _may_walk(pair):
        return None
    alike = [name for name in names if _stored_alike(mine[name], theirs[name])]
    other = [name for name in names if not _stored_alike(mine[name], theirs[name])]
    count = _equal_bits(pair, alike)
    exact = count.n_equal == count.n_compared
    for name in other:
        count += _equal_values(pair, name)
    identical = exact and not other and same_layout(*pair.models) and not _something_left_out(pair)
    # Bits may be equal where one config calls a layer what the other does not: the files are still the same.
    identical = identical and (not apart or same_bits(*pair.models))
    return EveryValue(n_tensors=len(names), count=count, identical=identical, apart=apart)


def _stored_alike(one: TensorInfo, other: TensorInfo) -> bool:
    return one.dtype == other.dtype and one.storage is None and other.storage is None


def _equal_bits(pair: ModelPair, names: Sequence[str]) -> EqualityCount:
    """Walk over plain tensors of one format in step: as one stream, if both have them in the same order."""
    orders = [_in_files(model, names) for model in pair.models]
    walks = [orders[0]] if orders[0] == orders[1] else [[name] for name in names]
    n_compared = n_equal = 0
    for walk in walks:
        chunks = [model.raw_chunks(walk) for model in pair.models]
        for left, right in zip(*chunks, strict=True):
            n_compared += left.values.size
            n_equal += int(np.count_nonzero(left.values == right.values))
    return EqualityCount(n_compared, n_equal, n_equal)


def _in_files(model: Model, names: Sequence[str]) -> list[str]:
    found = sorted((model.index[name] for name in names), key=lambda info: (info.file, info.start, info.name))
    return [info.name for info in found]


def _equal_values(pair: ModelPair, name: str) -> EqualityCount:
    """Compare the numbers of a tensor that is stored in two ways."""
    info = pair.candidate.index[name]
    dtypes = info.dtype, pair.base.index[name].dtype
    count = EqualityCount()
    for start in range(0, info.n_elements, WALK_ELEMENTS):
        block = TensorSlice.blocks(name, [(start, min(start + WALK_ELEMENTS, info.n_elements))])
        left, right = (model.read([block])[0] for model in pair.models)
        count += count_equal([left], [right], dtypes=dtypes)
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWalk:
    """What a walk over all values says about a copy; neither is known if there was no walk."""

    kind: CopyKind | None = None
    differs: str | None = None
    """The first tensor with a value that differs by more than its format explains; the walk ended there."""


def copy_of_relative(pair: ModelPair, verdict: Verdict) -> CopyWalk:
    """Walk over relatives that may be copies: for others it is not worth the bytes."""
    if not verdict.related or verdict.conclusion is Conclusion.IDENTICAL or not _may_walk(pair):
        return CopyWalk()
    return _walk_over(*pair.models)


def _may_walk(pair: ModelPair) -> bool:
    """Say whether both models may be read from beginning to end, which costs nothing if they are local.

    Twice at most: for equal bits, and then for what rounding and codes explain.
    """
    if pair.options.depth != "full" and any(model.fetcher.source.remote for model in pair.models):
        return False
    budget = pair.options.fetch.byte_budget
    return budget is None or all(
        model.fetcher.source.budget.spent + 2 * model.index.n_bytes <= budget for model in pair.models
    )


def walks_at_most(pair: ModelPair, side: int, *, copies: bool = True) -> int:
    """Return how many bytes of a model are read from end to end at most: for equal bits, and for `copies`.

    What is compared at full depth anyway is planned elsewhere and does not count here.
    """
    if published_identity(pair) is not None or not _may_walk(pair):
        return 0
    index = pair.models[side].index
    identity = pair.options.depth in ("standard", "deep") and same_layout(*pair.models)
    walks = int(identity) + int(copies and bool(common_tensors(*pair.models)))
    infos = list(index.values())
    stored = any(info.storage is not None for info in infos)
    # Numbers that come from several places are read in pieces with small gaps between them.
    once = sum(info.n_bytes for info in infos) * (2 if stored else 1)
    largest = sum(info.n_bytes for info in infos if info.dtype in ONE_SCALE) if copies else 0
    return walks * once + largest


def published_digests(model: Model) -> dict[str, str] | None:
    """Return the digests of all files with weights, as the source publishes them; None if one has none."""
    files = model.fetcher.source.files()
    digests = {name: files[name].sha256 if name in files else None for name in model.index.files}
    found = {name: digest for name, digest in digests.items() if digest}
    return found if found and len(found) == len(digests) else None


def same_places(candidate: Model, base: Model, *, digests: tuple[_Digests, _Digests]) -> bool:
    """Say whether both models make the same tensors from the same places of files with equal digests."""
    mine, theirs = candidate.index, base.index
    return mine.keys() == theirs.keys() and all(
        _same_tensor(info, theirs[name], digests) for name, info in mine.items()
    )


def _same_tensor(mine: TensorInfo, theirs: TensorInfo, digests: tuple[_Digests, _Digests]) -> bool:
    if mine.storage is not None or theirs.storage is not None:
        return _made_alike(mine, theirs, digests)
    places = [(info.dtype, info.shape, info.start, info.stop) for info in (mine, theirs)]
    return places[0] == places[1] and digests[0].get(mine.file) == digests[1].get(theirs.file)


def _made_alike(mine: object, theirs: object, digests: tuple[_Digests, _Digests]) -> bool:
    """Compare two descriptions of how numbers are made, down to the files, which count by their digests."""
    if type(mine) is not type(theirs):
        return False
    if is_dataclass(mine):
        return all(
            digests[0].get(left) == digests[1].get(right)
            if item.name == "file"
            else _made_alike(left, right, digests)
            for item in fields(mine)
            for left, right in [(getattr(mine, item.name), getattr(theirs, item.name))]
        )
    if isinstance(mine, np.ndarray):
        return np.array_equal(mine, np.asarray(theirs))
    if isinstance(mine, tuple | list) and isinstance(theirs, tuple | list):
        return len(mine) == len(theirs) and all(
            _made_alike(left, right, digests) for left, right in zip(mine, theirs, strict=True)
        )
    return mine == theirs


def _same_adapter(candidate: Model, base: Model) -> bool:
    """Compare what two adapters do with their matrices; the base they name is only a claim."""
    mine, theirs = (
        None if model.weights.adapter is None else model.weights.adapter.config for model in (candidate, base)
    )
    if mine is None or theirs is None:
        return mine is theirs
    return replace(mine, base=None, base_revision=None) == replace(theirs, base=None, base_revision=None)


def same_layout(candidate: Model, base: Model) -> bool:
    """Say whether both models have the same tensors in the same formats and shapes."""
    mine, theirs = candidate.index, base.index
    return mine.keys() == theirs.keys() and all(
        (info.shape, info.dtype) == (theirs[name].shape, theirs[name].dtype) for name, info in mine.items()
    )


def same_bits(candidate: Model, base: Model) -> bool:
    """Walk over both models in step and compare stored bits, in bounded memory, until one differs.

    In the order of the candidate's files, so that these can be checked against their published digests.
    """
    for name in sorted(candidate.index, key=lambda name: candidate.index[name].place):
        info = candidate.index[name]
        if (info.storage is None) != (base.index[name].storage is None):
            return False  # numbers may still be equal after rounding
        mine, theirs = candidate.raw_chunks([name]), base.raw_chunks([name])
        for left, right in zip(mine, theirs, strict=True):
            if not (left.values == right.values).all():
                return False
    return True


def kind_of_copy(candidate: Model, base: Model) -> CopyKind | None:
    """Say in which form one model holds the weights of the other: unchanged, rounded, or quantised.

    Every value of the tensors that both have is compared, in bounded memory, until one differs by more than
    its format explains. These tensors must be nearly all of both models: exporters leave out poolers and
    tables of positions. Weights that are codes in one model must lie within one step of what the other holds,
    in a sample of every tensor: quantisers that compensate their errors go further than half a step. Changes
    smaller than a step are not seen.
    """
    return _walk_over(candidate, base).kind


def _walk_over(candidate: Model, base: Model) -> CopyWalk:
    kinds: set[CopyKind] = set()
    for name in sorted(common_tensors(candidate, base), key=lambda name: candidate.index[name].place):
        kind = _kind_of_tensor(candidate, base, candidate.index[name])
        if kind is None:
            return CopyWalk(differs=name)
        kinds.add(kind)
    return CopyWalk(kind=max(kinds, key=_COARSER.index, default=None))


def common_tensors(candidate: Model, base: Model) -> tuple[str, ...]:
    """Return the tensors that both models have, if they are nearly all of both; otherwise none."""
    mine, theirs = candidate.index, base.index
    names = shared_names(candidate, base)
    count = sum(mine[name].n_elements for name in names)
    return names if count >= NEARLY_ALL * max(mine.n_parameters, theirs.n_parameters) else ()


def _kind_of_tensor(candidate: Model, base: Model, info: TensorInfo) -> CopyKind | None:
    other = base.index[info.name]
    kind: CopyKind = "copy" if _as_fine(info.dtype, other.dtype) else "precision-copy"
    for start in range(0, info.n_elements, WALK_ELEMENTS):
        block = TensorSlice.blocks(info.name, [(start, min(start + WALK_ELEMENTS, info.n_elements))])
        left, right = candidate.read([block])[0], base.read([block])[0]
        if np.array_equal(left, right, equal_nan=left.dtype.kind == "f"):
            continue
        if not equal_after_rounding(left, right, dtypes=(info.dtype, other.dtype)):
            break
        kind = "precision-copy"
    else:
        return kind
    steps = sum(code_step(one.dtype) or 0.0 for one in (info, other))
    return "quantised-copy" if steps and _within_steps(candidate, base, info, steps) else None


def _as_fine(one: str, other: str) -> bool:
    """Say whether two formats have the same steps: codes with a sign and without are one precision."""
    return one == other or (code_step(one) is not None and code_step(one) == code_step(other))


def _within_steps(candidate: Model, base: Model, info: TensorInfo, steps: float) -> bool:
    width = line_elements(info.shape)
    wanted = sample_blocks(info, n_blocks=1, block_elements=SAMPLED_LINES * width, seed=0)
    left, right = candidate.read([wanted])[0], base.read([wanted])[0]
    # Such codes may have one scale for all lines, set by the largest number of all.
    coded = [model for model in (candidate, base) if model.index[info.name].dtype in ONE_SCALE]
    largest = max((_largest(model, info.name) for model in coded), default=None)
    share = share_within(left.reshape(-1, width), right.reshape(-1, width), steps=steps, largest=largest)
    return share >= WITHIN_A_STEP


def _largest(model: Model, name: str) -> float:
    return max(float(np.abs(chunk.values).max(initial=0.0)) for chunk in model.chunks([name]))
