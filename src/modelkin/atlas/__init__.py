"""The atlas of a registry: families, trees, merges, and what cards say next to what the weights show."""

from .declarations import AboutModel, Declaration, read_about
from .index import AtlasIndex
from .layout import graph_layout
from .making import AtlasOptions, make_atlas
from .result import (
    ATLAS_SCHEMA,
    Atlas,
    AtlasClaim,
    AtlasEdge,
    AtlasFamily,
    AtlasMerge,
    AtlasModel,
    AtlasPair,
    LicenceStep,
    UnnamedOrigin,
    model_key,
    pair_key,
)

__all__ = [
    "ATLAS_SCHEMA",
    "AboutModel",
    "Atlas",
    "AtlasClaim",
    "AtlasEdge",
    "AtlasFamily",
    "AtlasIndex",
    "AtlasMerge",
    "AtlasModel",
    "AtlasOptions",
    "AtlasPair",
    "Declaration",
    "LicenceStep",
    "UnnamedOrigin",
    "graph_layout",
    "make_atlas",
    "model_key",
    "pair_key",
    "read_about",
]
