"""The methods we know, by name; imported when they are used."""

from __future__ import annotations

import difflib
from importlib import import_module

from modelkin.errors import UsageError

from ._interface import Method

METHODS = {
    "norm-profile": "modelkin.evidence._norm_profile:NormProfile",
    "embedding-rows": "modelkin.evidence._token_rows:EmbeddingRows",
    "head-rows": "modelkin.evidence._token_rows:HeadRows",
    "mlp-units": "modelkin.evidence._mlp_units:MlpUnits",
    "value-dimensions": "modelkin.evidence._value_dimensions:ValueDimensions",
    "kv-groups": "modelkin.evidence._groups:KvGroups",
    "router-rows": "modelkin.evidence._experts:RouterRows",
    "expert-units": "modelkin.evidence._experts:ExpertUnits",
    "expert-sets": "modelkin.evidence._groups:ExpertSets",
    "adapter-units": "modelkin.evidence._adapter_units:AdapterUnits",
    "mlp-map": "modelkin.evidence._unit_map:MlpMap",
    "attention-map": "modelkin.evidence._unit_map:AttentionMap",
    "residual-writers": "modelkin.evidence._writers:ResidualWriters",
    "expert-map": "modelkin.evidence._expert_map:ExpertMap",
    "mlp-order": "modelkin.evidence._matching:MlpOrder",
    "mlp-matching": "modelkin.evidence._matching:MlpMatching",
    "router-matching": "modelkin.evidence._matching:RouterMatching",
    "head-matching": "modelkin.evidence._head_matching:HeadMatching",
    "unit-agreement": "modelkin.evidence._matching:UnitAgreement",
    "same-names": "modelkin.evidence._same_names:SameNames",
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
