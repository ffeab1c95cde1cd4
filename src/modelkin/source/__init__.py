"""Where bytes come from: references, sources, ranges, store and ledger. Knows nothing about tensors."""

from ._interface import ByteBudget, Commit, FileInfo, Location, Source
from ._ledger import FileState, Ledger, LedgerTotals
from ._memory import MemorySource
from ._open import open_source, open_store
from ._overlay import OverlaySource
from .fetcher import DigestOrigin, Fetched, Fetcher
from .local import LocalSource
from .ranges import FREE_WASTE, BytePlan, ByteRange, merged, split, subtracted, total_length
from .ref import ModelRef, pinned
from .store import RangeStore, StoreInfo, StoreKey
