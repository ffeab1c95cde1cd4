"""Where the rows of a Hugging Face tensor lie in a GGUF file, when the converter has moved them.

An order answers one question: which row of which stored tensor is line i? Formulas, not tables: nothing here
grows with the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]


class Order(Protocol):
    """A map from lines to stored rows. Immutable."""

    def places(self, lines: Numbers) -> tuple[Numbers, Numbers]:
        """Return the number of the stored tensor and the row in it, for each line."""
        ...


@dataclass(frozen=True, slots=True)
class Straight:
    """Line after line, as stored."""

    def places(self, lines: Numbers) -> tuple[Numbers, Numbers]:
        """Return the lines themselves."""
        return np.zeros_like(lines), lines


@dataclass(frozen=True, slots=True)
class RopeRows:
    """Rows of queries or keys that were put in pairs.

    A head turns dimension i together with i + half. llama.cpp wants the two beside each other, so its
    converter writes 0, half, 1, half + 1, and so on.
    """

    head_dim: int

    def places(self, lines: Numbers) -> tuple[Numbers, Numbers]:
        """Find the place in the pairs."""
        half = self.head_dim // 2
        head, inside = np.divmod(lines, self.head_dim)
        side, pair = np.divmod(inside, half)
        return np.zeros_like(lines), head * self.head_dim + 2 * pair + side


@dataclass(frozen=True, slots=True)
class Groups:
    """Queries, keys and values that stand together for each group of heads, and were sorted by kind.

    Parameters
    ----------
    sizes
        Rows of one group, by kind.
    parts
        Which stored tensor holds each kind.
    firsts
        Its first row in there.
    head_dims
        Of a kind whose rows were put in pairs as `RopeRows` says; 0 elsewhere.
    """

    sizes: tuple[int, ...]
    parts: tuple[int, ...]
    firsts: tuple[int, ...]
    head_dims: tuple[int, ...]

    def places(self, lines: Numbers) -> tuple[Numbers, Numbers]:
        """Find group and kind, then the place among all rows of the kind."""
        ends = np.cumsum(self.sizes)
        group, inside = np.divmod(lines, int(ends[-1]))
        kind = np.searchsorted(ends, inside, side="right")
        sizes = np.array(self.sizes, np.int64)
        rows = group * sizes[kind] + inside - (ends - sizes)[kind]
        for number, head_dim in enumerate(self.head_dims):
            if head_dim:
                mine = kind == number
                rows[mine] = RopeRows(head_dim).places(rows[mine])[1]
        return np.array(self.parts, np.int64)[kind], rows + np.array(self.firsts, np.int64)[kind]
