"""Tests, p-values and their combination. Pure arrays: it has never heard of a model."""

from ._assignment import best_pairing
from ._axis import AxisOptions, axis_test, order_test
from ._combine import bonferroni, cauchy, fisher, holm, stouffer
from ._conformal import log10_conformal
from ._cross import cross_z
from ._decomposition import (
    CosineDecomposition,
    CosineDecompositions,
    cosine_decomposition,
    cosine_decompositions,
)
from ._guards import is_sorted
from ._increasing import log10_increasing_bound, longest_increasing
from ._power import DetectionLimit, detection_limit, detection_limit_of, expected_z, needed_z
from ._result import Alternative, AxisTest, Flag, Interval, NotTestable, OrderTest, ShiftGuard
from ._sequential import StagePlan, e_value_p, log10_e_value
from ._tails import log10_chi2_tail, log10_factorial, log10_normal_tail, normal_quantile
from ._units import MIN_UNITS, JointFeatures, joint_features

__all__ = [
    "MIN_UNITS",
    "Alternative",
    "AxisOptions",
    "AxisTest",
    "CosineDecomposition",
    "CosineDecompositions",
    "DetectionLimit",
    "Flag",
    "Interval",
    "JointFeatures",
    "NotTestable",
    "OrderTest",
    "ShiftGuard",
    "StagePlan",
    "axis_test",
    "best_pairing",
    "bonferroni",
    "cauchy",
    "cosine_decomposition",
    "cosine_decompositions",
    "cross_z",
    "detection_limit",
    "detection_limit_of",
    "e_value_p",
    "expected_z",
    "fisher",
    "holm",
    "is_sorted",
    "joint_features",
    "log10_chi2_tail",
    "log10_conformal",
    "log10_e_value",
    "log10_factorial",
    "log10_increasing_bound",
    "log10_normal_tail",
    "longest_increasing",
    "needed_z",
    "normal_quantile",
    "order_test",
    "stouffer",
]
