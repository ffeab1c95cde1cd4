"""Which part of one model faces which part of the other."""

from modelkin.comparison.alignment.layers import LayerMap, layer_map, likely_pairs
from modelkin.comparison.alignment.residual import Frame, find_frame
from modelkin.comparison.alignment.units import UnitMatch, agreement, match_units

__all__ = [
    "Frame",
    "LayerMap",
    "UnitMatch",
    "agreement",
    "find_frame",
    "layer_map",
    "likely_pairs",
    "match_units",
]
