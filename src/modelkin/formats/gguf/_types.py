"""The number types of GGUF: how many numbers a block holds, and how many bytes it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class GgmlType:
    """One number type. Rows are runs of whole blocks; a block never spans two rows."""

    number: int
    """As written in the file."""
    name: str
    block: int
    """Numbers in one block."""
    block_bytes: int
    plain: str | None = None
    """The same type among those of `modelkin.tensors.DTYPES`; None for blocks of codes with scales."""

    def row_bytes(self, width: int) -> int:
        """Return the bytes of a row of `width` numbers, a multiple of the block."""
        return width // self.block * self.block_bytes


def _table() -> Mapping[int, GgmlType]:
    plain = [
        (0, "F32", 4),
        (1, "F16", 2),
        (24, "I8", 1),
        (25, "I16", 2),
        (26, "I32", 4),
        (27, "I64", 8),
        (28, "F64", 8),
        (30, "BF16", 2),
    ]
    coded = [
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
        (8, "Q8_0", 32, 34),
        (10, "Q2_K", 256, 84),
        (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144),
        (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74),
        (18, "IQ3_XXS", 256, 98),
        (19, "IQ1_S", 256, 50),
        (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110),
        (22, "IQ2_S", 256, 82),
        (23, "IQ4_XS", 256, 136),
        (29, "IQ1_M", 256, 56),
        (34, "TQ1_0", 256, 54),
        (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36),
    ]
    types = {
        number: GgmlType(number=number, name=name, block=1, block_bytes=size, plain=name)
        for number, name, size in plain
    }
    types |= {
        number: GgmlType(number=number, name=name, block=block, block_bytes=size)
        for number, name, block, size in coded
    }
    return MappingProxyType(types)


TYPES: Mapping[int, GgmlType] = _table()
"""Every type that can be read, by its number."""

UNREAD: Mapping[int, str] = MappingProxyType(
    {
        4: "Q4_2",
        5: "Q4_3",
        9: "Q8_1",
        15: "Q8_K",
        31: "Q4_0_4_4",
        32: "Q4_0_4_8",
        33: "Q4_0_8_8",
        36: "IQ4_NL_4_4",
        37: "IQ4_NL_4_8",
        38: "IQ4_NL_8_8",
        41: "Q1_0",
    }
)
"""Types that have a name and no reader: dropped from the format, not meant for files, or too new."""
