"""Files of weights that are computed when they are read and never repeat: models of any size at no cost."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from .models import to_bfloat16

_Bits = npt.NDArray[np.uint16]

UNIT = 1 << 16
"""Bytes that are made at once; no two units of any files are alike."""
_POOL = 1 << 22
"""Values that units are cut from: 8 MiB, at any place, with signs and last bits from any other place."""
_DEVIATION = 0.02
_GAIN_MEAN, _GAIN_SPREAD = 0.6, 0.05
_SIGN, _LAST_BITS = 0x8000, 0x0003


@dataclass(frozen=True, kw_only=True)
class DrawnFile:
    """A safetensors file of BF16 weights: its head as given, then normal numbers.

    Tensors of one axis that are called norms hold gains around a positive mean instead, as trained ones do.
    What `VirtualFile` serves repeats every 4 MB, at the same places in every model; where layers and units
    are aligned, that would be found as a likeness.
    """

    head: bytes
    size: int
    seed: int
    phase: int = 0
    """Bytes of the model before this file."""
    touched: int = 0
    """0 for a model from scratch. Other numbers change the last two bits of every weight, each in another
    way: a light fine-tune of the model of the same seed."""

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to before `stop`."""
        stop = min(stop, self.size)
        if start < len(self.head):
            yield self.head[start : min(stop, len(self.head))]
            start = len(self.head)
        first, last = start - len(self.head), stop - len(self.head)
        for unit in range(first // UNIT, -(-last // UNIT) if last > first else 0):
            begin = unit * UNIT
            yield self._unit(unit)[max(0, first - begin) : last - begin]

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`."""
        return b"".join(self.pieces(start, stop))

    @property
    def sha256(self) -> str:
        """An identity that looks like a digest, made from the fields."""
        fields = (self.size, hashlib.sha256(self.head).hexdigest(), self.seed, self.phase, self.touched)
        return hashlib.sha256(repr(fields).encode()).hexdigest()

    def _unit(self, unit: int) -> bytes:
        key = f"{self.seed}|{self.phase}|{unit}|{self.touched}".encode()
        places = np.frombuffer(hashlib.blake2b(key, digest_size=24).digest(), np.uint64) % (_POOL - UNIT // 2)
        if self.touched:
            key = f"{self.seed}|{self.phase}|{unit}|0".encode()
            untouched = np.frombuffer(hashlib.blake2b(key, digest_size=24).digest(), np.uint64)
            places[:2] = untouched[:2] % (_POOL - UNIT // 2)
        weights, noise = _pools()
        drawn, signs, last = (int(place) for place in places)
        length = UNIT // 2
        values = weights[drawn : drawn + length] ^ (noise[signs : signs + length] & np.uint16(_SIGN))
        self._put_gains(values, unit * UNIT)
        if self.touched:
            values ^= noise[last : last + length] & np.uint16(_LAST_BITS)
        return values.tobytes()

    def _put_gains(self, values: _Bits, begin: int) -> None:
        """Turn the values of gains that lie in a unit from around zero to around their mean."""
        stops = [stop for _, stop in self._gains]
        for start, stop in self._gains[bisect_right(stops, begin) :]:
            if start >= begin + UNIT:
                return
            part = values[max(0, start - begin) // 2 : (stop - begin) // 2]
            drawn = (part.astype(np.uint32) << np.uint32(16)).view(np.float32)
            part[:] = to_bfloat16(np.float32(_GAIN_MEAN) + drawn * np.float32(_GAIN_SPREAD / _DEVIATION))

    @cached_property
    def _gains(self) -> list[tuple[int, int]]:
        header = json.loads(self.head[8:])
        found = [
            tuple(entry["data_offsets"])
            for name, entry in header.items()
            if name.endswith("norm.weight") and len(entry["shape"]) == 1
        ]
        return sorted(found)


@lru_cache(maxsize=1)
def _pools() -> tuple[_Bits, _Bits]:
    rng = np.random.default_rng(20_261_116)
    weights = to_bfloat16(rng.standard_normal(_POOL, dtype=np.float32) * np.float32(_DEVIATION))
    return weights, rng.integers(0, 1 << 16, _POOL, dtype=np.uint16)
