"""The methods we know, by name; imported when they are used."""

from __future__ import annotations

import difflib
from importlib import import_module

from modelkin.errors import UsageError

from ._interface import Method

METHODS = {
    "norm-profile": "modelkin.comparison.methods._norm_profile:NormProfile",
    "embedding-rows": "modelkin.comparison.methods._token_rows:EmbeddingRows",
    "head-rows": "modelkin.comparison.methods._token_rows:HeadRows",
    "mlp-units": "modelkin.comparison.methods._unit_rows:MlpUnits",
    "value-dimensions": "modelkin.comparison.methods._unit_rows:ValueDimensions",
    "kv-groups": "modelkin.comparison.methods._groups:KvGroups",
    "router-rows": "modelkin.comparison.methods._unit_rows:RouterRows",
    "expert-units": "modelkin.comparison.methods._unit_rows:ExpertUnits",
    "expert-sets": "modelkin.comparison.methods._groups:ExpertSets",
    "adapter-units": "modelkin.comparison.methods.adapter_units:AdapterUnits",
    "mlp-map": "modelkin.comparison.methods._unit_map:MlpMap",
    "attention-map": "modelkin.comparison.methods._unit_map:AttentionMap",
    "residual-writers": "modelkin.comparison.methods._writers:ResidualWriters",
    "expert-map": "modelkin.comparison.methods._expert_map:ExpertMap",
    "mlp-order": "modelkin.comparison.methods.unit_matching:MlpOrder",
    "mlp-matching": "modelkin.comparison.methods.unit_matching:MlpMatching",
    "router-matching": "modelkin.comparison.methods.unit_matching:RouterMatching",
    "head-matching": "modelkin.comparison.methods.head_matching:HeadMatching",
    "unit-agreement": "modelkin.comparison.methods._agreement:UnitAgreement",
    "same-names": "modelkin.comparison.methods._same_names:SameNames",
}


def load_method(name: str) -> Method:
    """Return a method, or say which name was probably meant."""
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(METHODS)}."
        raise UsageError(name, "no such method", hint=hint)
    module, _, attribute = METHODS[name].partition(":")
    method: Method = getattr(import_module(module), attribute)()
    return method


def all_methods() -> tuple[Method, ...]:
    """Return every method, in the order in which they are asked."""
    return tuple(load_method(name) for name in METHODS)
