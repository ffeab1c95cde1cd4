"""The figures themselves, by theme: each a function from saved numbers to a description."""

from ._centring import centring_after, centring_animation, centring_before
from ._curves import (
    ControlCurves,
    ShuffleCurves,
    VectorStatistics,
    changed_values,
    input_minus_post,
    layer_curves,
    layer_range,
    matched_rows,
    norm_cosines,
    shuffle_summary,
    vector_statistics,
    with_controls,
)
from ._distributions import distribution_by_type, ridges, row_similarity, vocabulary_mapping
from ._growth import ScaleCurves, scale_and_pattern
from ._matrices import confusion, cosine_and_pearson, model_matrix, pair_matrices
from ._overviews import comprehensive, experiments_summary, layer_decay, proof
from ._parts import COSINE
from ._spaces import principal_components, surfaces, trajectories
from .bars import (
    Claim,
    Measured,
    arm_comparison,
    claimed_evidence,
    group_means,
    intuition,
    layer_pairs,
    measure_comparison,
    type_summary,
)
from .synthetic import CLOSED_FORM, CosineCell, synthetic_cosines

__all__ = [
    "CLOSED_FORM",
    "COSINE",
    "Claim",
    "ControlCurves",
    "CosineCell",
    "Measured",
    "ScaleCurves",
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
    "scale_and_pattern",
    "shuffle_summary",
    "surfaces",
    "synthetic_cosines",
    "trajectories",
    "type_summary",
    "vector_statistics",
    "vocabulary_mapping",
    "with_controls",
]
