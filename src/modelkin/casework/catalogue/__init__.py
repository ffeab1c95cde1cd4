"""The figures themselves, by theme: each a function from saved numbers to a description."""

from ._bars import (
    Claim,
    Measured,
    arm_comparison,
    claimed_evidence,
    group_means,
    layer_pairs,
    measure_comparison,
    type_summary,
)
from ._centring import centring_after, centring_animation, centring_before
from ._changes import changed_values
from ._controls import ControlCurves, layer_range, with_controls
from ._curves import (
    ShuffleCurves,
    VectorStatistics,
    expected_cosine,
    input_minus_post,
    layer_curves,
    matched_rows,
    norm_cosines,
    shuffle_spread,
    shuffle_summary,
    vector_statistics,
)
from ._distributions import distribution_by_type, ridges, row_similarity
from ._intuition import intuition
from ._matrices import confusion, cosine_and_pearson, model_matrix, pair_matrices
from ._overviews import comprehensive, experiments_summary, layer_decay, proof
from ._spaces import Projection, principal_components, surfaces, trajectories
from ._synthetic import CosineCell, expected_cosine_of_normals, synthetic_cosines
from ._vocabulary import vocabulary_mapping

__all__ = [
    "Claim",
    "ControlCurves",
    "CosineCell",
    "Measured",
    "Projection",
    "ShuffleCurves",
    "VectorStatistics",
    "arm_comparison",
    "centring_after",
    "centring_animation",
    "centring_before",
    "changed_values",
    "claimed_evidence",
    "comprehensive",
    "confusion",
    "cosine_and_pearson",
    "distribution_by_type",
    "expected_cosine",
    "expected_cosine_of_normals",
    "experiments_summary",
    "group_means",
    "input_minus_post",
    "intuition",
    "layer_curves",
    "layer_decay",
    "layer_pairs",
    "layer_range",
    "matched_rows",
    "measure_comparison",
    "model_matrix",
    "norm_cosines",
    "pair_matrices",
    "principal_components",
    "proof",
    "ridges",
    "row_similarity",
    "shuffle_spread",
    "shuffle_summary",
    "surfaces",
    "synthetic_cosines",
    "trajectories",
    "type_summary",
    "vector_statistics",
    "vocabulary_mapping",
    "with_controls",
]
