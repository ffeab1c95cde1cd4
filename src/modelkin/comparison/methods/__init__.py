"""One file per method: what to read of two models, and what it says about a common origin."""

from modelkin.comparison.methods._frame_rows import COPY_UNITS, frame_rows, key_matrices, untouched_layers
from modelkin.comparison.methods._gains import acting_gain
from modelkin.comparison.methods._head_claims import head_views, told_heads
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
from modelkin.comparison.methods._layer_choice import whole_layers_fit
from modelkin.comparison.methods._result import (
    CLAIMED,
    EQUAL_VALUES,
    FEW_ORDERS,
    HEADS_ALIKE,
    LOG10_ALPHA,
    ORDERED,
    SINGLE_LAYER,
    Agreement,
    Contrast,
    Effect,
    Evidence,
    Likeness,
    Mismatched,
    Rank,
    Skipped,
    Status,
    Tested,
)
from modelkin.comparison.methods._sketch import RowSource, mlp_reader, rows_part, source_of
from modelkin.comparison.methods._token_rows import near_rows
from modelkin.comparison.methods.beginnings import BEGINNING_FLAGS
from modelkin.comparison.methods.catalogue import load_cards, load_method
from modelkin.comparison.methods.equality import (
    EqualityCount,
    code_step,
    count_equal,
    equal_after_rounding,
    share_within,
)

__all__ = [
    "BEGINNING_FLAGS",
    "CLAIMED",
    "COPY_UNITS",
    "EQUAL_VALUES",
    "FEW_ORDERS",
    "HEADS_ALIKE",
    "LOG10_ALPHA",
    "ORDERED",
    "SINGLE_LAYER",
    "Agreement",
    "Contrast",
    "Effect",
    "EqualityCount",
    "Evidence",
    "Factors",
    "Findings",
    "Likeness",
    "MethodCard",
    "Mismatched",
    "Pair",
    "Part",
    "Probe",
    "Rank",
    "RowSource",
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
    "head_views",
    "key_matrices",
    "load_cards",
    "load_method",
    "mlp_reader",
    "near_rows",
    "rows_part",
    "share_within",
    "source_of",
    "told_heads",
    "untouched_layers",
    "whole_layers_fit",
]
