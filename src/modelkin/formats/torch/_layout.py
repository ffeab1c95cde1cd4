"""From a tensor of the pickle to bytes of the file: plain where it can be, by lines where it is strided."""

from __future__ import annotations

import math
from collections.abc import Sequence

from modelkin.errors import HeaderError
from modelkin.source import ByteRange
from modelkin.tensors import MAX_ELEMENTS, TensorInfo
from modelkin.untrusted import plain, quoted

from ._contents import element_bytes, storage_bytes
from ._strided import strided
from ._values import TensorRef

_FREE_ELEMENTS = 1 << 20
"""A view may repeat the numbers of its storage up to this size, or up to the size of its storage."""


def place_tensor(name: str, tensor: TensorRef, *, file: str, place: ByteRange) -> TensorInfo:
    """Describe a tensor by the bytes of its file.

    Parameters
    ----------
    name
        What to call it.
    tensor
        As the pickle describes it.
    file
        Path of the file.
    place
        Where its storage lies.

    Raises
    ------
    HeaderError
        It goes beyond its storage, or repeats a few numbers absurdly often.
    """
    where = f"tensor {quoted(name)}"
    shape, width = tensor.shape, element_bytes(tensor.dtype)
    n_elements = math.prod(shape)
    if math.prod(filter(None, shape)) > MAX_ELEMENTS:
        raise HeaderError(plain(file), f"{where} has the absurd shape {list(shape)}")
    if not n_elements:
        return TensorInfo(
            name=name, dtype=tensor.dtype, shape=shape, file=file, start=place.start, stop=place.start
        )
    # Strides of an axis of one step are never taken; writers leave anything there.
    strides = tuple(step if size > 1 else 0 for size, step in zip(shape, tensor.strides, strict=True))
    span = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    n_stored = storage_bytes(tensor.storage)
    if (tensor.offset + span) * width > n_stored:
        raise HeaderError(
            plain(file),
            f"{where} reaches to byte {(tensor.offset + span) * width} of its storage, which has {n_stored}",
        )
    start = place.start + tensor.offset * width
    stop = start + span * width
    if _is_plain(shape, strides):
        return TensorInfo(name=name, dtype=tensor.dtype, shape=shape, file=file, start=start, stop=stop)
    if n_elements > max(_FREE_ELEMENTS, n_stored // width):
        raise HeaderError(
            plain(file), f"{where} makes {n_elements} numbers of the {n_stored // width} of its storage"
        )
    return TensorInfo(
        name=name,
        dtype=tensor.dtype,
        shape=shape,
        file=file,
        start=start,
        stop=stop,
        storage=strided(file=file, start=start, dtype=tensor.dtype, shape=shape, strides=strides),
    )


def _is_plain(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Say whether the elements lie one after another in C order."""
    expected = 1
    for size, step in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and step != expected:
            return False
        expected *= size
    return True
