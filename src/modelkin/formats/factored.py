"""Matrices that are stored as two factors, as compression by singular values leaves them.

Nothing in a file says so: two matrices lie where one is expected, and their shapes fit. Whether one *is*
expected there only an architecture can say, so pairs are proposed here and accepted by `modelkin.model`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from modelkin.tensors import Array, LinePlan, LineRuns, SlicePlan, TensorIndex, TensorInfo, View

from .adapters.storage import gathered, lines_of, whole_of

_LEFT: Final[Mapping[frozenset[str], str | None]] = {
    frozenset({"0", "1"}): "1",
    frozenset({"u", "v"}): "u",
    frozenset({"u", "vt"}): "u",
    frozenset({"u", "vh"}): "u",
    frozenset({"alinear", "blinear"}): "alinear",
    frozenset({"left", "right"}): "left",
    frozenset({"a", "b"}): None,
}
"""What compressors call two factors, and which of them stands left where shapes do not say: modules in a row
are numbered as they are applied, and U stands before V. A and B are used both ways."""
_SIBLING: Final = re.compile(r"(?P<stem>.*[^.])_(?P<word>[abuv]|vt|vh)(?P<rest>_proj)?", re.IGNORECASE)
"""FactorPair that are modules of their own: ``q_u_proj`` and ``q_v_proj``, ``fc1_a`` and ``fc1_b``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorPair:
    """Two tensors that may be one matrix: the product of `left` (rows, rank) and `right` (rank, columns)."""

    name: str
    """Name of the product."""
    left: TensorInfo
    right: TensorInfo
    bias: TensorInfo | None = None
    """What is added after both; None if there is none, or if it has the product's name already."""

    @property
    def rank(self) -> int:
        """Length of the axis between them."""
        return self.right.shape[0]

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the stored tensors."""
        bias = () if self.bias is None else (self.bias.name,)
        return self.left.name, self.right.name, *bias

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """The product, and its bias if it has one."""
        left, right = self.left, self.right
        product = replace(
            left,
            name=self.name,
            dtype=f"{left.dtype} factors",
            shape=(left.shape[0], right.shape[1]),
            storage=Product(left=left, right=right),
        )
        if self.bias is None:
            return (product,)
        return product, replace(self.bias, name=f"{self.name.removesuffix('weight')}bias")


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A matrix that is multiplied when it is read."""

    left: TensorInfo
    right: TensorInfo

    @property
    def n_bytes(self) -> int:
        """Stored bytes of both factors."""
        return self.left.n_bytes + self.right.n_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the lines of the left factor, and all of the right one."""
        left, right = lines_of(self.left, runs), whole_of(self.right)
        return LinePlan(ranges=gathered((left, right)), build=partial(self._build, left, right))

    def _build(self, left: SlicePlan, right: SlicePlan, view: View) -> Array:
        rank, width = self.right.shape
        rows = np.ascontiguousarray(left.assemble(view), np.float32).reshape(-1, rank)
        product: Array = rows @ np.ascontiguousarray(right.assemble(view), np.float32).reshape(rank, width)
        return product


@dataclass(frozen=True, slots=True, kw_only=True)
class _Below:
    """Two matrices below one name, by the words that tell them apart."""

    name: str
    parts: Mapping[str, TensorInfo]
    biases: Mapping[str, TensorInfo]

    @property
    def words(self) -> frozenset[str]:
        return frozenset(self.parts)

    def fits(self, left: str) -> bool:
        """Say whether shapes allow this order, with a rank that a product of two factors can have."""
        (right,) = self.words - {left}
        rows, inner = self.parts[left].shape
        rank, columns = self.parts[right].shape
        return inner == rank <= min(rows, columns)

    def ordered(self, left: str) -> FactorPair | None:
        """Return the factors in this order; None if something is added between them."""
        (right,) = self.words - {left}
        made = FactorPair(name=self.name, left=self.parts[left], right=self.parts[right])
        if not self.biases:
            return made
        # Outputs are rows of the left factor, or columns of the right one where inputs come first.
        outputs = {left: self.parts[left].shape[0], right: self.parts[right].shape[1]}
        ((word, bias), *more) = self.biases.items()
        if more or bias.shape != (outputs[word],) or (word == right and outputs[word] == made.rank):
            return None
        return replace(made, bias=bias)


def find_factors(index: TensorIndex) -> list[FactorPair]:
    """Return the pairs of tensors that may be factors of one matrix, by names and shapes.

    Square factors fit in both orders. Then the order is that of the same words elsewhere in the checkpoint,
    if shapes decide it there; else words that are only used one way decide. Pairs whose order stays open are
    left out.
    """
    pairs = list(_pairs(index))
    seen: dict[frozenset[str], set[str]] = defaultdict(set)
    for pair in pairs:
        possible = [word for word in pair.words if pair.fits(word)]
        if len(possible) == 1:
            seen[pair.words].update(possible)
    found = []
    for pair in pairs:
        possible = [word for word in pair.words if pair.fits(word)]
        if len(possible) == 2:
            known = seen[pair.words] or {_LEFT[pair.words]} - {None}
            possible = [word for word in known if word is not None] if len(known) == 1 else []
        made = pair.ordered(possible[0]) if possible else None
        if made is not None:
            found.append(made)
    return found


def multiplied(index: TensorIndex, found: Iterable[FactorPair]) -> TensorIndex:
    """Return the tensors with products in place of their factors."""
    found = list(found)
    used = {name for factors in found for name in factors.parts}
    made = [info for factors in found for info in factors.tensors]
    rest = [info for name, info in index.items() if name not in used]
    unlisted = [name for name in index.unlisted if name not in used]
    return TensorIndex([*rest, *made], unlisted=unlisted, more_files=index.files)


def _pairs(index: TensorIndex) -> Iterator[_Below]:
    """Yield what has exactly two matrices, called as factors are, and nothing else but a bias."""
    below: dict[str, dict[tuple[str, str], TensorInfo]] = defaultdict(dict)
    for name, info in index.items():
        for module, word, part in _places(name):
            below[module][word.lower(), part] = info
    for module, parts in below.items():
        matrices = {word: info for (word, part), info in parts.items() if part != "bias"}
        biases = {word: info for (word, part), info in parts.items() if part == "bias"}
        whole = f"{module}.weight"
        if (
            frozenset(matrices) in _LEFT
            and len(parts) == 2 + len(biases)
            and biases.keys() <= matrices.keys()
            and all(info.is_float and len(info.shape) == 2 for info in matrices.values())
            and whole not in index
            and not (biases and f"{module}.bias" in index)
        ):
            yield _Below(name=whole, parts=matrices, biases=biases)


def _places(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield the modules that a tensor may be a factor of, with its word there and its part."""
    if "lora" in name.lower():
        return  # an update of a matrix, not a matrix
    path, _, part = name.rpartition(".")
    if part not in ("weight", "bias"):
        path, part = name, "weight"
    module, _, word = path.rpartition(".")
    if module:
        yield module, word, part
    if sibling := _SIBLING.fullmatch(path):
        yield sibling["stem"] + (sibling["rest"] or ""), sibling["word"], part
