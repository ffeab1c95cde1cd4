"""What a kind of kinship means for a declared relation: it fits, contradicts it, or samples cannot tell.

A kind names what is usually behind the numbers. A card is contradicted only by what no honest card could
leave: each entry of the table has a doubt, which says why the kind may be something else here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from modelkin.comparison import Comparison
from modelkin.message import Message, say

from .result import ClaimStatus

_COPIES = ("copy", "precision-copy")
"""Quantised copies are left out: their levels hide what changed by less."""
_TRAINED = ("fine-tune", "low-rank")
_PLAIN = frozenset({"F64", "F32", "F16", "BF16"})
"""Formats whose numbers are not codes."""
_NO_QUANTISER = 1.5
"""Largest singular value of a change over that of random signs, in the median, above which it is no error of
quantising, on levels or not. GPTQ on strongly correlated inputs leaves 1.24 (docs/relations.md)."""

Doubt = Callable[[Comparison], Message | None]
"""Says why a kind may be something else that fits; None if it cannot be."""


def _certain(_: Comparison) -> Message | None:
    return None


def _perhaps_codes(found: Comparison) -> Message | None:
    """Doubt training: errors of quantisers with unknown codes, or that make up for errors, look like it."""
    taken = found.relation.subtracted
    if taken is None or taken.on_levels or not found.candidate.dtypes.keys() <= _PLAIN:
        return say("check-perhaps-codes")
    if found.relation.kind == "fine-tune" and (taken.structure or 0.0) < _NO_QUANTISER:
        return say("check-perhaps-codes")
    return None


def _perhaps_adapter(found: Comparison) -> Message | None:
    """Doubt training in full: adapters may have any rank, and some of low rank change every direction.

    What none of them leaves is a model all of which was changed: token tables and gains too, and matrices in
    more directions than adapters have.
    """
    taken = found.relation.subtracted
    if taken is None or not (
        taken.tables.nearly_all and taken.norms.nearly_all and taken.matrices.nearly_all
    ):
        return say("check-perhaps-adapter")
    if 2 * taken.beyond_adapters <= taken.matrices.changed:
        return say("check-few-directions", n=taken.directions or 0)
    return None


def _perhaps_elsewhere(found: Comparison) -> Message | None:
    """Doubt a copy: what was trained may be what was not read, or what only one of both has."""
    if found.relation.is_sampled_copy:
        return say("check-copy-sampled", kind=say(f"relation.{found.relation.kind}"))
    if found.relation.in_one_only:
        return say("check-copy-beside", n=found.relation.in_one_only)
    return None


def _perhaps_depth(found: Comparison) -> Message | None:
    """Doubt moved layers: neighbours are alike, and one may have been taken for another."""
    return say("check-perhaps-moved") if found.candidate.layers == found.base.layers else None


def _perhaps_order(found: Comparison) -> Message | None:
    """Doubt replaced parts: those whose units were reordered look so until orders are looked for."""
    return None if found.verdict.stage == "deep" else say("check-perhaps-moved")


def _padded(_: Comparison) -> Message | None:
    """Doubt a size: some quantisers and servers need those that divide evenly, and add zeros."""
    return say("check-perhaps-padded")


def _hidden(_: Comparison) -> Message | None:
    return say("check-levels-hide")


_SUPPORTS: Mapping[str, tuple[str, ...]] = {
    "quantized": ("quantised-copy", "precision-copy"),
    "finetune": _TRAINED,
    "adapter": ("low-rank",),
}
"""Declared relation -> kinds of kinship that support it."""
_CONTRADICTS: Mapping[str, Mapping[str, Doubt]] = {
    "quantized": {
        **dict.fromkeys(_TRAINED, _perhaps_codes),
        "depth-change": _perhaps_depth,
        "width-change": _padded,
        "moe-upcycling": _certain,
        "parts-replaced": _perhaps_order,
    },
    "finetune": {**dict.fromkeys(_COPIES, _perhaps_elsewhere), "quantised-copy": _hidden},
    "adapter": {
        "fine-tune": _perhaps_adapter,
        "depth-change": _perhaps_depth,
        "width-change": _padded,
        "moe-upcycling": _certain,
    },
}
"""Declared relation -> kinds that speak against it, each with what may be behind it nevertheless."""
_DERIVED: Mapping[str, Doubt] = {
    **dict.fromkeys(_TRAINED, _perhaps_codes),
    "depth-change": _perhaps_depth,
    "moe-upcycling": _certain,
    "width-change": _padded,
    "vocabulary-change": _padded,
    "parts-replaced": _perhaps_order,
}
"""What no licence without derivatives allows to pass on; copies in other formats are no derivatives."""
RELATIONS = tuple(_SUPPORTS)
"""Declared relations that a pair of models can show."""


def relation_status(relation: str, found: Comparison) -> tuple[ClaimStatus, Message]:
    """Say what the kind of kinship with a declared parent means for the declared relation."""
    kind = found.relation.kind
    told = say(f"relation.{kind}")
    if not found.verdict.related or kind == "unknown":
        return "untestable", say("check-kind-unknown")
    if found.relation.direction.parent == found.candidate.ref:
        return "untestable", say("check-other-way", kind=told)
    if kind in _SUPPORTS[relation]:
        return "supported", say("check-kind-fits", kind=told)
    if kind not in _CONTRADICTS[relation]:
        return "untestable", say("check-kind-beside", kind=told)
    doubt = _CONTRADICTS[relation][kind](found)
    return ("contradicted", say("check-kind-other", kind=told)) if doubt is None else ("untestable", doubt)


def derivative_status(found: Comparison) -> tuple[ClaimStatus, Message] | None:
    """Say whether a model is a derivative of its parent, whose licence allows none; None if it is not."""
    kind = found.relation.kind
    if kind not in _DERIVED:
        return None
    doubt = _DERIVED[kind](found)
    if doubt is not None:
        return "untestable", doubt
    return "contradicted", say("check-licence-derived", kind=say(f"relation.{kind}"))


def is_certain_copy(found: Comparison) -> bool:
    """Say whether every value was compared, and is that of the other model, at most rounded."""
    relation = found.relation
    return bool(found.verdict.related) and relation.kind in _COPIES and not relation.is_sampled_copy
