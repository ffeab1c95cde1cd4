"""Model cards: every claim of one, checked against the weights; the licences of proven parents."""

from .checking import check_card, parent_status
from .descents import is_hub_id
from .licences import left_out
from .result import CHECK_SCHEMA, CardCheck, CheckedClaim

__all__ = [
    "CHECK_SCHEMA",
    "CardCheck",
    "CheckedClaim",
    "check_card",
    "is_hub_id",
    "left_out",
    "parent_status",
]
