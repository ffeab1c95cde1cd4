"""Model cards: every claim of one, checked against the weights; the licences of proven parents."""

from .checking import check_card, parent_status
from .licences import known_licences, left_out
from .result import CHECK_SCHEMA, CardCheck, CheckedClaim
from .statements import from_scratch, is_hub_id

__all__ = [
    "CHECK_SCHEMA",
    "CardCheck",
    "CheckedClaim",
    "check_card",
    "from_scratch",
    "is_hub_id",
    "known_licences",
    "left_out",
    "parent_status",
]
