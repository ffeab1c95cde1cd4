"""What is said when the parts of a quantised tensor contradict each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from modelkin.errors import HeaderError
from modelkin.tensors import TensorInfo
from modelkin.untrusted import quoted

_HINT = "The file is damaged, or was written by a version that packs otherwise; convert it to plain weights."
_MOST_AXES = 4


def fail(info: TensorInfo, problem: str, *, hint: str = _HINT) -> NoReturn:
    """Refuse a tensor.

    Raises
    ------
    HeaderError
        Always: with the file, the tensor and the problem.
    """
    raise HeaderError(info.file, f"tensor {quoted(info.name)}: {problem}", hint=hint)


def part(index: Mapping[str, TensorInfo], of: TensorInfo, name: str) -> TensorInfo:
    """Return a tensor that another cannot be read without."""
    found = index.get(name)
    if found is None:
        fail(of, f"cannot be read without {quoted(name)}, which is missing")
    return found


def expect_dtype(info: TensorInfo, *dtypes: str) -> None:
    """Refuse a tensor that is stored in another format than the scheme demands."""
    if info.dtype not in dtypes:
        fail(info, f"expected {' or '.join(dtypes)}, got {info.dtype}")
    if info.storage is not None:
        fail(info, "is not a plain run of its numbers")


def expect_shape(info: TensorInfo, *shapes: tuple[int, ...]) -> None:
    """Refuse a tensor of another shape than its neighbours demand."""
    if info.shape not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in dict.fromkeys(shapes))
        fail(info, f"expected the shape {wanted}, got {list(info.shape)}")


def expect_stack(info: TensorInfo) -> tuple[int, ...]:
    """Refuse a tensor that is no matrix or stack of matrices, or has an empty axis; return its shape."""
    if not 2 <= len(info.shape) <= _MOST_AXES or 0 in info.shape:
        fail(info, f"expected a matrix, got the shape {list(info.shape)}")
    return info.shape


def expect_matrix(info: TensorInfo) -> tuple[int, int]:
    """Refuse a tensor that is no matrix, or has an empty axis; return its shape."""
    shape = expect_stack(info)
    if len(shape) != 2:
        fail(info, f"expected one matrix, got the shape {list(shape)}")
    return shape[0], shape[1]


FLOATS = ("F16", "BF16", "F32")
"""Formats of scales."""
