"""What a caller may set, as small frozen dataclasses: the only place for defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from modelkin.message import Refusal, say

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}B"] = _UNITS[_letter] = 1000**_power
    _UNITS[f"{_letter}IB"] = 1024**_power


def parse_size(text: str) -> int:
    """Read a size such as ``64MB`` (powers of 1000), ``64MiB`` (powers of 1024) or ``4096``."""
    cleaned = text.strip().replace("_", "")
    digits = cleaned.rstrip("KMGTIBkmgtib ")
    unit = cleaned[len(digits) :].strip().upper()
    try:
        factor = _UNITS[unit]
        value = float(digits)
    except (KeyError, ValueError):
        raise Refusal(say("problem.size-form", got=repr(text))) from None
    if not 0 <= value < 2**60:
        raise Refusal(say("problem.size-range", got=repr(text)))
    return int(value * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How bytes are fetched, stored and bounded."""

    token: str | bool | None = field(default=None, repr=False)
    """Hub token. None uses the one `huggingface_hub` finds, False sends none."""
    endpoint: str | None = None
    """Hub address. None uses `huggingface_hub`'s (``HF_ENDPOINT``)."""
    offline: bool | None = None
    """Send nothing and use what is stored. None follows `huggingface_hub` (``HF_HUB_OFFLINE``)."""
    byte_budget: int | None = None
    """Most bytes that may be read from a model, checked before a request is sent. None means no limit."""
    use_store: bool = True
    """Keep fetched ranges on disk and look there first."""
    store_dir: Path | None = None
    """Folder of the range store. None means ``modelkin`` in `huggingface_hub`'s assets cache."""
    store_limit: int = 10 * GIB
    """Size at which the least recently used ranges are dropped."""
    connections: int = 32
    """Requests in flight. On an emulated Hub with 40 ms latency, 32 read scattered tensors 14 to 18 % faster
    than 16, and 64 hardly faster than 32 (docs/benchmarks.md)."""
    head_bytes: int = 128 * KIB
    """First read of a tensor file. 97 % of headers on the Hub are below 100 kB (huggingface_hub)."""
    max_gap: int = 256 * KIB
    """Ranges this close may be read as one: at 100 MB/s shared by 16 busy connections a request of 40 ms
    costs as much as 250 kB."""
    max_waste: float = 0.05
    """Share of unneeded bytes that joining ranges may add, over a whole plan."""
    piece_bytes: int = 8 * MIB
    """Longest single request; larger ranges are split so that connections share them."""
    retries: int = 4
    """Further attempts after a failure that may be transient."""
    connect_timeout: float = 10.0
    """Seconds to wait for a connection."""
    stall_timeout: float = 20.0
    """Seconds without a single byte after which a request is given up."""
    min_rate: int = 64 * KIB
    """Bytes per second below which a request counts as too slow, after `stall_timeout` of grace."""
    max_wait: float = 120.0
    """Longest pause that a server may ask for (``Retry-After``) before we give up."""

    def __post_init__(self) -> None:
        for name in ("store_limit", "max_gap"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("connections", "head_bytes", "piece_bytes", "min_rate"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("connect_timeout", "stall_timeout", "max_wait"):
            if not 0 < getattr(self, name) < 86_400:
                raise ValueError(f"{name} must be between 0 and a day of seconds, got {getattr(self, name)}")
        if not 0 <= self.max_waste <= 10:
            raise ValueError(f"max_waste must be between 0 and 10, got {self.max_waste}")
        if not 0 <= self.retries <= 20:
            raise ValueError(f"retries must be between 0 and 20, got {self.retries}")
        if self.byte_budget is not None and self.byte_budget < 0:
            raise ValueError(f"byte_budget must not be negative, got {self.byte_budget}")


Depth = Literal["quick", "standard", "deep", "full"]

READING: dict[Depth, tuple[int, int]] = {
    "quick": (1_000_000, 0),
    "standard": (20_000_000, 4),
    "deep": (1_000_000_000, 10_000),
    "full": (1_000_000_000, 10_000),
}
"""Depth -> (bytes of a model that may be read, layers looked at). Sampled rows get what headers, gains and
the beginning of the tokenizer leave over.

Up to ``standard``, parts with the same number are compared: a disguise or a changed depth ends in *no
evidence*. ``deep`` also works out which parts correspond (docs/disguises.md). ``full`` does the same, and
reads every value of the tensors that both models have, from end to end and in bounded memory: the bytes given
here are only those of its deep stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """How two models are compared."""

    depth: Depth = "standard"
    """How much may be read, and whether to look for moved, reordered or rotated parts (``deep``, ``full``).

    A ceiling: reading stops once the verdict is decided."""
    seed: int = 0
    """Chooses samples and permutations. Two runs with the same seed read the same bytes and say the same."""
    fetch: FetchOptions = field(default_factory=FetchOptions)

    def __post_init__(self) -> None:
        if self.depth not in READING:
            raise ValueError(f"depth must be one of {', '.join(READING)}, got {self.depth!r}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be between 0 and 2**32, got {self.seed}")
