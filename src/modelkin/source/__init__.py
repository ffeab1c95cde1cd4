"""Where bytes come from: references, sources, ranges, the store and the ledger. Knows no tensors."""

from modelkin.source._budget import ByteBudget
from modelkin.source._fetcher import Fetched, Fetcher
from modelkin.source._interface import FileInfo, Location, Source, SourceKind
from modelkin.source._ledger import Ledger, LedgerEntry, LedgerTotals
from modelkin.source._local import LocalSource
from modelkin.source._memory import MemorySource
from modelkin.source._open import open_source, open_store
from modelkin.source._overlay import OverlaySource
from modelkin.source._plan import BytePlan
from modelkin.source._ranges import ByteRange, merged, split, subtracted, total_length
from modelkin.source._ref import ModelRef, pinned
from modelkin.source._store import RangeStore, StoreInfo, StoreKey

__all__ = [
    "ByteBudget",
    "BytePlan",
    "ByteRange",
    "Fetched",
    "Fetcher",
    "FileInfo",
    "Ledger",
    "LedgerEntry",
    "LedgerTotals",
    "LocalSource",
    "Location",
    "MemorySource",
    "ModelRef",
    "OverlaySource",
    "RangeStore",
    "Source",
    "SourceKind",
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
