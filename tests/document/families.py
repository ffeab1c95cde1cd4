"""Families of codes: what may be filled into a computed code, taken from where the words are defined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from modelkin.architecture import Role
from modelkin.comparison.alignment.residual import FrameKind
from modelkin.comparison.methods import load_cards
from modelkin.comparison.relation.lattice import Levels
from modelkin.comparison.relation.shapes import WIDTHS
from modelkin.comparison.verdict import Conclusion
from modelkin.comparison.verdict.result import Reading
from modelkin.comparison.verdict.words import _REMEDIES, EXPLAINED
from modelkin.describe.config_fields import known_fields
from modelkin.describe.measures import MEASURES
from modelkin.describe.measures.stack import Fault
from modelkin.lineage.cards.licences import known_licences
from modelkin.lineage.merge_result import MergeMethod
from modelkin.lineage.reordered import SHOWN_BY
from modelkin.reference.catalogue import load_reference_cards
from modelkin.tokenizer.relation import VocabularyRelation

SIDES = ("candidate", "base")
COMPONENTS = (*{role.component for role in Role}, "residual", "unknown")
"""What tensors are for, and two that are not part of a model: the stream, and the unknown."""
KINDS = (
    *("copy", "precision-copy", "quantised-copy", "sparse-copy", "low-rank", "noise", "fine-tune", "unknown"),
    *("moe-upcycling", "depth-change", "width-change", "parts-replaced", "vocabulary-change"),
)
QUIET = ("zeros-alone", "beginning-alone")
"""Readings of comparisons that find nothing: their headline names no share."""
MARKED = tuple(f"layers-found-again-{form}" for form in ("own-layers", "ranked"))
"""A reading together with what it rests on."""


@dataclass(frozen=True, slots=True)
class Family:
    """Codes of one pattern."""

    members: Iterable[str]
    names: tuple[str, ...] = ()
    """The values that are said with them; a member may leave some out."""
    whole: bool = False
    """Whether the texts of the pattern are these and no others."""


FAMILIES: dict[str, tuple[Family, ...]] = {
    "side.{}": (Family(SIDES),),
    "conclusion.{}": (Family([item.value for item in Conclusion], whole=True),),
    "catalogue.{}-norm": (Family(("input", "post-attention")),),
    "component.{}": (Family(COMPONENTS, whole=True),),
    "claims.{}": (Family(("parent", "merge", "adapter"), ("name",)),),
    "relation.{}": (Family(KINDS),),
    "licence.{}": (Family(set().union(*known_licences().values()), whole=True),),
    "frame.{}": (Family((*get_args(FrameKind), "none"), whole=True),),
    "width.{}": (Family(WIDTHS, whole=True),),
    "role.{}": (Family((*(role.value for role in Role), "unknown"), whole=True),),
    "levels.{}": (Family(get_args(Levels), whole=True),),
    "found.{}": (Family(("copy", "precision-copy"), ("n",)),),
    "cannot.{}": (Family(("copy", "precision-copy")),),
    "limitation.{}": (
        Family(
            (
                *("ancestor", "seed", "frozen", "wrongdoing", "sampled", "distillation", "nothing"),
                *("retrained", "few_layers", "not_undone", "other_shapes", "own_layers", "ranked"),
            )
        ),
    ),
    "headline.{}": (
        Family((*(item.value for item in Conclusion if item is not Conclusion.SHARED_PARTIAL), *QUIET)),
        Family([item for item in get_args(Reading) if item not in QUIET], ("amount", "parts")),
        Family(MARKED, ("amount", "parts")),
    ),
    "reading.{}": (Family([str(item) for item in EXPLAINED], whole=True),),
    "summary.{}": (
        Family([str(item) for item in EXPLAINED if item not in QUIET], ("pair", "parts", "rest")),
        Family(MARKED, ("pair", "parts")),
        Family((*_REMEDIES.values(), "remedy-none")),
    ),
    "methods.{}.claim": (Family(load_cards(), whole=True),),
    "methods.{}.needs": (Family(load_cards(), whole=True),),
    "methods.{}.defeated_by": (Family(load_cards(), whole=True),),
    "reference.{}.{}": (Family(load_reference_cards()),),
    "field.{}": (Family({field.name for field in known_fields().values()}, whole=True),),
    "measures.{}.title": (Family(MEASURES, whole=True),),
    "which-norm.{}": (Family(("input", "post-attention"), whole=True),),
    "measures.{}.meaning": (Family(MEASURES, whole=True),),
    "measures.{}.cannot_say": (Family(MEASURES, whole=True),),
    "fault.{}": (Family([str(fault.name).lower() for fault in Fault]),),
    "baseline-{}": (Family(("shuffle", "random"), ("m", "n")),),
    "baseline-word.{}": (Family(("independent", "derived"), whole=True),),
    "merge-method-{}": (Family(get_args(MergeMethod), whole=True),),
    "merge-space-{}": (Family(tuple(SHOWN_BY), whole=True),),
    "tokens-{}": (Family([item.value.replace(" ", "-") for item in VocabularyRelation]),),
    # Codes of other files of data: nulls of cards, what a measure says where it has no number.
    "{}": (
        Family({card.null.code for card in load_cards().values()}),
        Family({measure.undefined for measure in MEASURES.values()}),
    ),
}
