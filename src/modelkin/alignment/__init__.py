"""Which part of one model faces which part of the other."""

from modelkin.alignment._layers import LayerMap, layer_map, layer_path, likely_pairs
from modelkin.alignment._residual import Frame, find_frame, polar_factor
from modelkin.alignment._tokens import TokenPairs, equal_rows, shared_tokens
from modelkin.alignment._units import UnitMatch, agreement, match_units
from modelkin.tokenizer import Vocabulary, read_vocabulary

__all__ = [
    "Frame",
    "LayerMap",
    "TokenPairs",
    "UnitMatch",
    "Vocabulary",
    "agreement",
    "equal_rows",
    "find_frame",
    "layer_map",
    "layer_path",
    "likely_pairs",
    "match_units",
    "polar_factor",
    "read_vocabulary",
    "shared_tokens",
]
