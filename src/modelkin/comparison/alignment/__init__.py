"""Which part of one model faces which part of the other."""

from modelkin.comparison.alignment.contrast import (
    LEVELS,
    REPEATED,
    ContrastOfLayers,
    Facing,
    Learner,
    PairedLayers,
    agreeing,
    contrast_in,
    contrasts_of_folds,
    facing_layers_of,
    learner_of_units,
)
from modelkin.comparison.alignment.coordinates import LearnedMap, permutation_of_gains
from modelkin.comparison.alignment.equal_rows import EqualRows, equal_rows
from modelkin.comparison.alignment.keys import frame_of_key_rows, map_of_keys
from modelkin.comparison.alignment.layer_units import (
    LayerUnits,
    as_units,
    joined_splits,
    layer_distances,
    same_numbers,
)
from modelkin.comparison.alignment.layers import LayerMap, layer_map, layer_path, likely_pairs
from modelkin.comparison.alignment.residual import Frame, enough_rows, find_frame, polar_factor
from modelkin.comparison.alignment.units import UnitMatch, agreement, match_units

__all__ = [
    "LEVELS",
    "REPEATED",
    "ContrastOfLayers",
    "EqualRows",
    "Facing",
    "Frame",
    "LayerMap",
    "LayerUnits",
    "LearnedMap",
    "Learner",
    "PairedLayers",
    "UnitMatch",
    "agreeing",
    "agreement",
    "as_units",
    "contrast_in",
    "contrasts_of_folds",
    "enough_rows",
    "equal_rows",
    "facing_layers_of",
    "find_frame",
    "frame_of_key_rows",
    "joined_splits",
    "layer_distances",
    "layer_map",
    "layer_path",
    "learner_of_units",
    "likely_pairs",
    "map_of_keys",
    "match_units",
    "permutation_of_gains",
    "polar_factor",
    "same_numbers",
]
