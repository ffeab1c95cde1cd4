"""Which part of one model faces which part of the other."""

from modelkin.comparison.alignment._layers import LayerMap, layer_map, layer_path, likely_pairs
from modelkin.comparison.alignment._residual import Frame, find_frame, polar_factor
from modelkin.comparison.alignment._units import UnitMatch, agreement, match_units

__all__ = [
    "Frame",
    "LayerMap",
    "UnitMatch",
    "agreement",
    "find_frame",
    "layer_map",
    "layer_path",
    "likely_pairs",
    "match_units",
    "polar_factor",
]
