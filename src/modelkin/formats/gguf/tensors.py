"""From the tensors of a GGUF file to those of transformers: names, single experts, rows put back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from modelkin.errors import HeaderError
from modelkin.message import Message, Value, say
from modelkin.tensors import TensorInfo
from modelkin.untrusted import quoted

from ._metadata import Metadata
from .architectures import GgufArchitecture, GgufName, is_derived, take_apart, theirs
from .header import GgufHeader, GgufTensor
from .storage import BlockRows, Groups, LatentUp, Order, PickedNumbers, PickedRows, RopeRows, Straight, Turned

MAX_EXPERTS = 4096
"""The largest public models have some hundreds in a layer."""
MAX_LOGICAL = 1 << 19
"""Tensors after experts are split: the largest public model has about 100,000."""
MAX_LINE = 1 << 24
"""Numbers in a row of codes, which is decoded as a whole; the longest public ones have about 60,000."""

_QKV = ("attn_q", "attn_k", "attn_v")
_LATENT = ("attn_k_b", "attn_v_b")


class TensorTable:
    """Collects the tensors of a model under the names that transformers has for them.

    The metadata is that of the first file: head counts are in there.
    """

    def __init__(self, metadata: Metadata, architecture: GgufArchitecture) -> None:
        self._metadata = metadata
        self._architecture = architecture
        self._infos: dict[str, TensorInfo] = {}
        self._waiting: dict[str, dict[str, tuple[GgufName, GgufTensor, str]]] = {}
        self._derived: list[str] = []
        self._notes: list[Message] = []

    def add(self, header: GgufHeader) -> None:
        """Add all tensors of a file."""
        for tensor in header.tensors:
            self._add(tensor, header.file)

    def finished(self) -> tuple[list[TensorInfo], tuple[Message, ...]]:
        """Return the tensors, and what a reader should know about them."""
        for group in self._waiting.values():
            self._join(group)
        if self._derived:
            self._note("derived-tables", tensors=tuple(self._derived))
        return list(self._infos.values()), tuple(self._notes)

    def _note(self, code: str, **values: Value) -> None:
        message = say(f"format.{code}", **values)
        if message not in self._notes:
            self._notes.append(message)

    # -- one tensor ------------------------------------------------------------------------------------

    def _add(self, tensor: GgufTensor, file: str) -> None:
        name, known = take_apart(tensor.name), self._architecture
        if known.names and is_derived(name):
            if name.part not in self._derived:
                self._derived.append(name.part)
            return
        joins = _QKV if known.joined_qkv else _LATENT if "blk.{layer}.attn_kv_b" in known.names else ()
        if name.part in joins and name.layer is not None:
            key = f"{name.layer}{name.ending}"
            self._waiting.setdefault(key, {})[name.part] = (name, tensor, file)
            return
        targets = theirs(known, name)
        stored = _stored(tensor, file)
        if not targets:
            self._emit(tensor.name, tensor.shape, stored)
        elif "{expert}" in targets[0]:
            self._experts(targets, tensor, file)
        elif name.part in known.turned and name.ending == ".weight" and len(tensor.shape) == 2:
            self._turned(targets[0], stored)
        else:
            as_row = name.part in known.as_row and len(tensor.shape) == 1
            shape = (1, *tensor.shape) if as_row else tensor.shape
            self._emit(targets[0], shape, stored, order=self._order(name, tensor), shift=self._shift(name))

    def _order(self, name: GgufName, tensor: GgufTensor) -> Order | None:
        """Return how the rows of queries and keys are put back."""
        n_rows = tensor.width if len(tensor.shape) == 1 else tensor.n_rows
        if self._architecture.rope_rows and name.part in ("attn_q", "attn_k"):
            order: Order | None = self._pairs(name, n_rows)
            self._tell(order, "rows-put-back")
            return order
        if self._architecture.grouped_qkv and name.part == "attn_qkv":
            order = self._by_groups(name, n_rows)
            self._tell(order, "groups-put-back")
            return order
        return None

    def _tell(self, order: Order | None, done: str) -> None:
        self._note("rows-not-put-back" if order is None else done)

    def _pairs(self, name: GgufName, n_rows: int) -> RopeRows | None:
        heads, kv_heads = self._heads(name)
        count = heads if name.part == "attn_q" else kv_heads
        return RopeRows(n_rows // count) if count and n_rows % (2 * count) == 0 else None

    def _by_groups(self, name: GgufName, n_rows: int) -> Groups | None:
        heads, kv_heads = self._heads(name)
        if not heads or not kv_heads or heads % kv_heads or n_rows % (heads + 2 * kv_heads):
            return None
        size = n_rows // (heads + 2 * kv_heads)
        return Groups(
            sizes=(heads // kv_heads * size, size, size),
            parts=(0, 0, 0),
            firsts=(0, heads * size, (heads + kv_heads) * size),
            head_dims=(0, 0, 0),
        )

    def _heads(self, name: GgufName) -> tuple[int, int]:
        """Return the numbers of heads and of key heads of a layer; 0 if the file does not say."""
        prefix, layer = f"{self._metadata.architecture}.attention", name.layer_number
        heads = self._metadata.of_layer(f"{prefix}.head_count", layer) or 0
        kv_heads = self._metadata.of_layer(f"{prefix}.head_count_kv", layer) or heads
        return max(0, heads), max(0, kv_heads)

    def _shift(self, name: GgufName) -> float:
        if self._architecture.plus_one and name.pattern.endswith("norm") and name.ending == ".weight":
            self._note("gains-less-one")
            return -1.0
        return 0.0

    # -- many in one, one in many ----------------------------------------------------------------------

    def _experts(self, targets: Sequence[str], tensor: GgufTensor, file: str) -> None:
        """Split a stack of experts, and each expert's rows among several names."""
        count, *inner = tensor.shape
        if not inner or count > MAX_EXPERTS or inner[0] % len(targets):
            raise HeaderError(
                file,
                say(
                    "problem.gguf-stack", name=quoted(tensor.name), most=MAX_EXPERTS, shape=str(tensor.shape)
                ),
            )
        shape = (inner[0] // len(targets), *inner[1:])
        if len(targets) > 1 and len(shape) == 1:
            self._emit(tensor.name, tensor.shape, _stored(tensor, file))  # the biases of a pair in one vector
            return
        step = math.prod(shape[:-1]) * tensor.type.row_bytes(tensor.width)
        for number in range(count * len(targets)):
            expert, part = divmod(number, len(targets))
            stored = BlockRows(
                file=file,
                start=tensor.start + number * step,
                type=tensor.type,
                n_rows=math.prod(shape[:-1]),
                width=shape[-1],
            )
            self._emit(targets[part].replace("{expert}", str(expert)), shape, stored)

    def _turned(self, target: str, stored: BlockRows) -> None:
        shape = (stored.width, stored.n_rows)
        self._note("turned")
        self._put(target, shape, [stored], Turned(stored=stored))

    def _join(self, group: dict[str, tuple[GgufName, GgufTensor, str]]) -> None:
        """Join tensors that the converter has split."""
        made = self._joined_qkv(group) if self._architecture.joined_qkv else self._latent(group)
        if not made:
            for _, tensor, file in group.values():
                self._emit(tensor.name, tensor.shape, _stored(tensor, file))

    def _joined_qkv(self, group: dict[str, tuple[GgufName, GgufTensor, str]]) -> bool:
        if set(group) != set(_QKV):
            return False
        name, query, _ = group["attn_q"]
        tensors = [group[part][1] for part in _QKV]
        heads, kv_heads = self._heads(name)
        is_vector = len(query.shape) == 1
        rows = [tensor.width if is_vector else tensor.n_rows for tensor in tensors]
        if not heads or not kv_heads or heads % kv_heads or rows[0] % (2 * heads):
            return False
        size = rows[0] // heads
        alike = {len(tensor.shape) for tensor in tensors} == {len(query.shape)}
        if not alike or rows[1:] != [kv_heads * size] * 2:
            return False
        if not is_vector and {tensor.width for tensor in tensors} != {query.width}:
            return False
        order = Groups(
            sizes=(heads // kv_heads * size, size, size),
            parts=(0, 1, 2),
            firsts=(0, 0, 0),
            head_dims=(size, size, 0),
        )
        stored = [_stored(group[part][1], group[part][2]) for part in _QKV]
        target = f"{self._architecture.joined_qkv}".replace("{layer}", name.layer or "") + name.ending
        self._tell(order, "joined-qkv")
        self._picked(target, (sum(rows),) if is_vector else (sum(rows), query.width), stored, order, 0.0)
        return True

    def _latent(self, group: dict[str, tuple[GgufName, GgufTensor, str]]) -> bool:
        if set(group) != set(_LATENT):
            return False
        (name, keys, file), (_, values, other) = (group[part] for part in _LATENT)
        if len(keys.shape) != 3 or len(values.shape) != 3 or name.ending != ".weight":
            return False
        (n_heads, latent, n_keys), (same, n_values, width) = keys.shape, values.shape
        if n_heads != same or latent != width:
            return False
        (target,) = theirs(self._architecture, take_apart(f"blk.{name.layer}.attn_kv_b.weight"))
        parts = [_stored(keys, file), _stored(values, other)]
        storage = LatentUp(keys=parts[0], values=parts[1], n_heads=n_heads)
        self._note("joined-latent")
        self._put(target, (n_heads * (n_keys + n_values), latent), parts, storage)
        return True

    # -- the result ------------------------------------------------------------------------------------

    def _emit(
        self,
        name: str,
        shape: tuple[int, ...],
        stored: BlockRows,
        *,
        order: Order | None = None,
        shift: float = 0.0,
    ) -> None:
        if stored.type.plain is None or order is not None or shift:
            self._picked(name, shape, [stored], order or Straight(), shift)
        else:
            self._put(name, shape, [stored], None)

    def _picked(
        self, name: str, shape: tuple[int, ...], parts: Sequence[BlockRows], order: Order, shift: float
    ) -> None:
        n_bytes = sum(stored.n_bytes for stored in parts)
        storage: PickedRows | PickedNumbers
        if len(shape) == 1:
            storage = PickedNumbers(
                parts=tuple(parts), order=order, length=shape[0], n_bytes=n_bytes, shift=shift
            )
        else:
            storage = PickedRows(parts=tuple(parts), order=order, n_bytes=n_bytes, shift=shift)
        self._put(name, shape, parts, storage)

    def _put(
        self,
        name: str,
        shape: tuple[int, ...],
        parts: Sequence[BlockRows],
        storage: PickedRows | PickedNumbers | Turned | LatentUp | None,
    ) -> None:
        main = max(parts, key=lambda stored: stored.n_bytes)
        if name in self._infos:
            raise HeaderError(main.file, say("problem.stand-for", name=quoted(name)))
        if storage is not None and shape[-1] > MAX_LINE:
            raise HeaderError(
                main.file, say("problem.gguf-rows", name=quoted(name), most=MAX_LINE, got=str(shape[-1]))
            )
        if len(self._infos) >= MAX_LOGICAL:
            raise HeaderError(main.file, say("problem.tensors-most", most=MAX_LOGICAL))
        self._infos[name] = TensorInfo(
            name=name,
            dtype=_label(parts),
            shape=shape,
            file=main.file,
            start=main.start,
            stop=main.stop,
            storage=storage,
        )


def _stored(tensor: GgufTensor, file: str) -> BlockRows:
    return BlockRows(
        file=file, start=tensor.start, type=tensor.type, n_rows=tensor.n_rows, width=tensor.width
    )


def _label(parts: Iterable[BlockRows]) -> str:
    """Name the type of joined tensors: the widest of plain types, all names of codes."""
    types = {stored.type.name: stored.type for stored in parts}
    if all(kind.plain is not None for kind in types.values()):
        return max(types.values(), key=lambda kind: kind.block_bytes).name
    return "+".join(sorted(types))
