"""Where bytes come from: references, sources, ranges, store and ledger. Knows nothing about tensors."""

from ._memory import MemorySource
from ._open import open_source, open_store
from ._overlay import OverlaySource
from .fetcher import DigestOrigin, Fetched, Fetcher
from .interface import Commit, FileInfo, Location, Source
from .ledger import FileState, LedgerTotals, ReadRecord
from .local import LocalSource
from .ranges import FREE_WASTE, BytePlan, ByteRange, merged
from .ref import ModelRef, pinned
from .store import RangeStore, StoreInfo
