"""One file a method: what to read of two models, and what it says about a common origin."""

from modelkin.comparison.methods._frame_rows import frame_rows, untouched_layers
from modelkin.comparison.methods._gains import acting_gain
from modelkin.comparison.methods._interface import (
    Factors,
    Findings,
    MethodCard,
    Pair,
    Part,
    Probe,
    Side,
    Stage,
)
from modelkin.comparison.methods._result import (
    Agreement,
    Effect,
    Evidence,
    Likeness,
    Rank,
    Skipped,
    Status,
    Tested,
)
from modelkin.comparison.methods.catalogue import load_cards, load_method
from modelkin.comparison.methods.equality import (
    EqualityCount,
    code_step,
    count_equal,
    equal_after_rounding,
    share_within,
)

__all__ = [
    "Agreement",
    "Effect",
    "EqualityCount",
    "Evidence",
    "Factors",
    "Findings",
    "Likeness",
    "MethodCard",
    "Pair",
    "Part",
    "Probe",
    "Rank",
    "Side",
    "Skipped",
    "Stage",
    "Status",
    "Tested",
    "acting_gain",
    "code_step",
    "count_equal",
    "equal_after_rounding",
    "frame_rows",
    "load_cards",
    "load_method",
    "share_within",
    "untouched_layers",
]
