"""Tests, p-values and their combination. Pure arrays: nothing here knows about models."""

from ._assignment import best_pairing
from ._axis import AxisOptions, axis_test
from ._binomial import binomial_limit, log10_binomial_tail
from ._combine import bonferroni, joint_z, log10_conformal
from ._cross import CrossScores, cross_scores, cross_z
from ._decomposition import cosine_decomposition, limit_cosine, positive_share
from ._guards import is_sorted
from ._multisets import log10_same_numbers
from ._power import DetectionLimit, detection_limit, needed_z
from ._result import AxisTest, NotTestable
from ._swap import SwapTest, log10_sign_bound, swap_test
from ._tails import log10_normal_tail, normal_quantile
from ._traces import trace_test
from ._units import MIN_UNITS, finite_or_zero, joint_features, of_length_one, root_mean_square, row_norms
from .matching import log10_increasing_bound, longest_increasing

__all__ = [
    "MIN_UNITS",
    "AxisOptions",
    "AxisTest",
    "CrossScores",
    "DetectionLimit",
    "NotTestable",
    "SwapTest",
    "axis_test",
    "best_pairing",
    "binomial_limit",
    "bonferroni",
    "cosine_decomposition",
    "cross_scores",
    "cross_z",
    "detection_limit",
    "finite_or_zero",
    "is_sorted",
    "joint_features",
    "joint_z",
    "limit_cosine",
    "log10_binomial_tail",
    "log10_conformal",
    "log10_increasing_bound",
    "log10_normal_tail",
    "log10_same_numbers",
    "log10_sign_bound",
    "longest_increasing",
    "needed_z",
    "normal_quantile",
    "of_length_one",
    "positive_share",
    "root_mean_square",
    "row_norms",
    "swap_test",
    "trace_test",
]
