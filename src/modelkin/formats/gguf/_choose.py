"""Which of many GGUF files of one model is read: the most precise one, and never a part of something else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from modelkin.source import FileInfo

SUFFIX = ".gguf"
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
_ASIDE = re.compile(r"(^|[-_./])(mmproj|imatrix|vocab-only|ggml-vocab|lora|adapter)", re.IGNORECASE)
_RANKED = (
    *("F32", "BF16", "F16", "Q8_0", "MXFP4", "NVFP4", "Q6_K", "Q5_K", "Q5_1", "Q5_0", "Q4_K", "Q4_1"),
    *("IQ4_NL", "IQ4_XS", "Q4_0", "IQ4", "Q4", "Q3_K", "IQ3", "Q3", "Q2_K", "IQ2", "Q2", "TQ2", "TQ1"),
    *("IQ1", "Q1"),
)
_SIZES = {"XL": 0, "L": 1, "M": 2, "": 3, "S": 4, "XS": 5, "XXS": 6}
_TYPE = re.compile(
    r"(?<![A-Z0-9])(?:UD[-_])?(?:I1[-_])?(FP32|FP16|F32|F16|BF16|MXFP4|NVFP4|I?Q\d(?:_[K01]|_NL)?|TQ\d)"
    r"(?:[-_](XXS|XS|XL|S|M|L))?(?![A-Z0-9])",
    re.IGNORECASE,
)


def choose(files: Mapping[str, FileInfo]) -> str | None:
    """Return the file to begin with: of those highest up, the most precise; of a set its first part."""
    whole = candidates(files)
    if not whole:
        return None
    top = min(name.count("/") for name in whole)
    return min(
        (name for name in whole if name.count("/") == top),
        key=lambda name: (*precision(name), -files[name].size, name),
    )


def candidates(files: Iterable[str]) -> list[str]:
    """Return the files that hold a whole model, or its first part."""
    return [
        name
        for name in sorted(files)
        if name.endswith(SUFFIX) and not _ASIDE.search(name) and part_number(name) in (None, 1)
    ]


def precision(name: str) -> tuple[int, int]:
    """Return the place of a file among others by the type in its name: small is precise."""
    found = _TYPE.findall(name.rpartition("/")[2].removesuffix(SUFFIX))
    if not found:
        return len(_RANKED), 0
    kind, size = (text.upper() for text in found[-1])
    kind = kind.replace("FP32", "F32").replace("FP16", "F16")
    rank = next((number for number, known in enumerate(_RANKED) if kind == known), None)
    if rank is None:
        rank = next((number for number, known in enumerate(_RANKED) if kind.startswith(known)), len(_RANKED))
    if kind == "IQ4" and size == "XS":
        return _RANKED.index("IQ4_XS"), 0
    return rank, _SIZES[size]


def part_number(name: str) -> int | None:
    """Return which part of a set a file is, or None when it is a file of its own."""
    found = _PART.fullmatch(name)
    return None if found is None else int(found[2])


def parts_of(name: str) -> list[str] | None:
    """Return the names of all parts of the set that a file belongs to, by its name."""
    found = _PART.fullmatch(name)
    if found is None:
        return None
    count = int(found[3])
    return [f"{found[1]}-{number:05d}-of-{found[3]}{SUFFIX}" for number in range(1, count + 1)]
