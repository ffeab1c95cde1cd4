"""One file a method: what to read of two models, and what it says about a common origin."""

from modelkin.evidence._catalogue import METHODS, all_methods, load_method
from modelkin.evidence._equality import EqualityCount, count_equal, equal_after_rounding, ulp_distance
from modelkin.evidence._interface import Method, MethodCard, Pair, Plan, Side, Stage, Task
from modelkin.evidence._result import Effect, Evidence, Status

__all__ = [
    "METHODS",
    "Effect",
    "EqualityCount",
    "Evidence",
    "Method",
    "MethodCard",
    "Pair",
    "Plan",
    "Side",
    "Stage",
    "Status",
    "Task",
    "all_methods",
    "count_equal",
    "equal_after_rounding",
    "load_method",
    "ulp_distance",
]
