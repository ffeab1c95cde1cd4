"""Where bytes come from: references, sources, ranges, the store and the ledger. Knows no tensors."""

from ._fetcher import Fetched, Fetcher
from ._interface import ByteBudget, FileInfo, Location, Source
from ._ledger import Ledger, LedgerTotals
from ._local import LocalSource
from ._memory import MemorySource
from ._open import open_source, open_store
from ._overlay import OverlaySource
from ._ranges import BytePlan, ByteRange, merged, split, subtracted, total_length
from ._ref import ModelRef, pinned
from ._store import RangeStore, StoreInfo, StoreKey

__all__ = [
    "ByteBudget",
    "BytePlan",
    "ByteRange",
    "Fetched",
    "Fetcher",
    "FileInfo",
    "Ledger",
    "LedgerTotals",
    "LocalSource",
    "Location",
    "MemorySource",
    "ModelRef",
    "OverlaySource",
    "RangeStore",
    "Source",
    "StoreInfo",
    "StoreKey",
    "merged",
    "open_source",
    "open_store",
    "pinned",
    "split",
    "subtracted",
    "total_length",
]
