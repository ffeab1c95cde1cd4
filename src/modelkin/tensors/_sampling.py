"""Seeded samples of a tensor: which blocks or rows, decided before any byte of data is read.

The positions are part of a result's meaning, so they are defined here rather than left to a library's random
generator, and can be computed again in any language:

* Draw number c is the eight-byte BLAKE2b digest, read as a little-endian number u, of the UTF-8 text
  ``modelkin-sample-1|<seed>|<a>x<b>x...|<kind>|<c>|<key>``, where ``a``, ``b`` ... are the tensor's axes,
  `kind` is ``blocks:<block_elements>``, ``rows`` or ``run:<n_rows>``, and `key` is the tensor's name unless
  another was given.
* Draw c out of m is ``u * m >> 64``.
* k out of n without repetition is the start of a shuffle: with places 0 ... n-1 holding their own numbers,
  for c = 0 ... k-1 exchange place c with place ``c + (draw c out of n - c)``; the sample is what then stands
  at the first k places, sorted. So a smaller sample is part of a larger one.
"""

from __future__ import annotations

from hashlib import blake2b

from ._index import TensorInfo
from .slices import TensorSlice


def sample_blocks(
    info: TensorInfo, *, n_blocks: int, block_elements: int, seed: int, key: str | None = None
) -> TensorSlice:
    """Choose equally long blocks of elements, at random but always the same ones.

    Blocks begin at multiples of their length, so they are disjoint; a shorter remainder at the tensor's end
    is never chosen. A tensor without that many blocks is taken whole. The result is flat either way.

    Parameters
    ----------
    info
        The tensor; only its name and shape decide.
    n_blocks
        Number of blocks, at least 1.
    block_elements
        Elements per block, at least 1.
    seed
        Any whole number from 0 on.
    key
        Used in place of the tensor's name, so that two tensors of one shape but different names are sampled
        at the same places.
    """
    _at_least(1, n_blocks=n_blocks, block_elements=block_elements)
    available = info.n_elements // block_elements
    if available <= n_blocks:
        return TensorSlice.blocks(info.name, [(0, info.n_elements)])
    draws = _SampleDraws(info, kind=f"blocks:{block_elements}", seed=seed, key=key)
    return TensorSlice.blocks(
        info.name,
        [(i * block_elements, (i + 1) * block_elements) for i in draws.distinct(n_blocks, out_of=available)],
    )


def sample_rows(
    info: TensorInfo, *, n_rows: int, seed: int, key: str | None = None, contiguous: bool = False
) -> TensorSlice:
    """Choose rows, at random but always the same ones, in ascending order.

    A tensor without that many rows is taken whole.

    Parameters
    ----------
    info
        The tensor; only its name and shape decide.
    n_rows
        Number of rows, at least 1.
    seed
        Any whole number from 0 on.
    key
        Used in place of the tensor's name, as in `sample_blocks`.
    contiguous
        Take one run of neighbouring rows: one range, and one round trip, instead of many.
    """
    _at_least(1, n_rows=n_rows)
    if info.n_rows <= n_rows:
        return TensorSlice.rows(info.name, 0, info.n_rows)
    if contiguous:
        start = _SampleDraws(info, kind=f"run:{n_rows}", seed=seed, key=key).draw(
            0, out_of=info.n_rows - n_rows + 1
        )
        return TensorSlice.rows(info.name, start, start + n_rows)
    draws = _SampleDraws(info, kind="rows", seed=seed, key=key)
    return TensorSlice.scattered(info.name, draws.distinct(n_rows, out_of=info.n_rows))


class _SampleDraws:
    """The numbered draws of one sample."""

    def __init__(self, info: TensorInfo, *, kind: str, seed: int, key: str | None) -> None:
        _at_least(0, seed=seed)
        shape = "x".join(map(str, info.shape))
        self._before = f"modelkin-sample-1|{seed}|{shape}|{kind}|"
        # The key comes last: it alone may hold the separator.
        self._after = f"|{info.name if key is None else key}"

    def draw(self, counter: int, *, out_of: int) -> int:
        text = f"{self._before}{counter}{self._after}"
        digest = blake2b(text.encode("utf-8"), digest_size=8).digest()
        return int.from_bytes(digest, "little") * out_of >> 64

    def distinct(self, count: int, *, out_of: int) -> list[int]:
        # Only places that were exchanged are kept, so the cost is that of the sample, not of the tensor.
        moved: dict[int, int] = {}
        chosen: list[int] = []
        for counter in range(count):
            other = counter + self.draw(counter, out_of=out_of - counter)
            chosen.append(moved.get(other, other))
            moved[other] = moved.get(counter, counter)
        return sorted(chosen)


def _at_least(smallest: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < smallest:
            raise ValueError(f"{name}: expected a whole number from {smallest} on, got {number}")
