"""The atlas of a registry: families, trees, merges, and what cards say next to what the weights show."""

from .declarations import AboutModel, read_about
from .index import AtlasIndex
from .layout import graph_layout
from .making import AtlasOptions, make_atlas
from .result import (
    ATLAS_SCHEMA,
    Atlas,
    AtlasClaim,
    AtlasEdge,
    AtlasMerge,
    AtlasPair,
    LicenceStep,
    UnnamedOrigin,
    model_key,
    pair_key,
)
