"""How results are told: on the terminal and as JSON. Nothing is computed here."""

from modelkin.report._json import plain, schema, to_json
from modelkin.report._terminal import count_text, inspection_view, plan_view, size_text, store_view

__all__ = [
    "count_text",
    "inspection_view",
    "plain",
    "plan_view",
    "schema",
    "size_text",
    "store_view",
    "to_json",
]
