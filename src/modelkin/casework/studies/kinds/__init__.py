"""Kinds of experiments, by name."""

from collections.abc import Mapping

from ._claim import KIND as CLAIM
from ._drawn import CENTRING, RANDOM, SYNTHETIC
from ._embeddings import KIND as EMBEDDINGS
from ._facts import CONFIGS, RAW_BYTES, TOKENIZERS
from ._kind import Kind
from ._looks import CHANGES, PROJECTION
from ._measures import KIND as MEASURES
from ._routers import KIND as ROUTERS
from ._shuffle import KIND as SHUFFLE
from ._vectors import KIND as VECTORS

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        MEASURES,
        VECTORS,
        SHUFFLE,
        CLAIM,
        RANDOM,
        ROUTERS,
        EMBEDDINGS,
        CONFIGS,
        TOKENIZERS,
        RAW_BYTES,
        CHANGES,
        PROJECTION,
        SYNTHETIC,
        CENTRING,
    )
}

__all__ = ["KINDS", "Kind"]
