"""Was a model trained from scratch? Only a common origin with an earlier model says that it was not.

A common origin alone does not tell which of two models came first. The statement of a base stays true however
many models were made from it, so facts about the order are looked for before anything is contradicted. And
two models that only began with the same random numbers were both trained from scratch; subtracting them does
not tell what was done.

A card that names what its model was made from hides nothing: there the words may be about that model, or
about a part that was added, and no sentence is read well enough to accuse it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelkin.comparison import Comparison
from modelkin.errors import ModelkinError
from modelkin.lineage.kept_rows import kept_rows
from modelkin.lineage.tree_facts import agreed_parent, facts_of
from modelkin.lineage.tree_samples import read_sample
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.options import CompareOptions

from .result import ClaimStatus
from .statements import read_card

_MINE, _THEIRS = "candidate", "other"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Other:
    """Another model, and what comparing it showed."""

    model: Model
    found: Comparison
    declared: bool = False
    """Whether the card that makes the statement names it as an origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchStatus:
    """What the weights say about the statement, and the comparison that decided."""

    status: ClaimStatus
    reason: Message
    found: Comparison | None = None


def scratch_status(
    model: Model, others: Sequence[Other], options: CompareOptions, *, names_origin: bool
) -> ScratchStatus:
    """Say what comparisons mean for a statement that a model was trained from scratch.

    Parameters
    ----------
    model, others, options
        The model that makes it, those it was compared with, and how.
    names_origin
        Whether its card names what it was made from: then nothing contradicts the statement.
    """
    related = [other for other in others if other.found.verdict.related]
    judged = [_beside(other) if names_origin else _judged(model, other, options) for other in related]
    for code in ("check-scratch-declared", "check-scratch-related", "check-scratch-unless"):
        for item in judged:
            if item.reason.code == code:
                return item
    if judged:
        return judged[0]
    n = sum(other.found.verdict.related is False for other in others)
    if others and not n:
        return ScratchStatus(status="untestable", reason=say("check-not-testable"), found=others[0].found)
    reason = say("check-scratch-none", n=n) if others else say("check-scratch-alone")
    return ScratchStatus(status="untestable", reason=reason)


def _beside(other: Other) -> ScratchStatus:
    """Say what a common origin with one model means if the card names an origin."""
    code = "check-scratch-declared" if other.declared else "check-scratch-beside"
    return ScratchStatus(status="untestable", reason=say(code, name=other.found.base.ref), found=other.found)


def _judged(model: Model, other: Other, options: CompareOptions) -> ScratchStatus:
    """Say what a common origin with one model means."""
    name, found = other.found.base.ref, other.found
    if found.relation.kind == "unknown":
        reason = say("check-scratch-begun", name=name)
        return ScratchStatus(status="untestable", reason=reason, found=found)
    first, why = _came_first(model, other.model, options)
    if first == _MINE:
        reason = say("check-scratch-later", name=name, why=why)
        return ScratchStatus(status="untestable", reason=reason, found=found)
    if first == _THEIRS:
        reason = say("check-scratch-related", name=name, why=why)
    else:
        reason = say("check-scratch-unless", name=name)
    return ScratchStatus(status="contradicted", reason=reason, found=found)


def _came_first(model: Model, other: Model, options: CompareOptions) -> tuple[str | None, Message | None]:
    """Return which of two relatives came first, and the fact that says so: by its card, or by the weights."""
    if model.location.ref in read_card(other).parents:
        return _MINE, say("check-scratch-named")
    try:
        mine = read_sample(_MINE, model, options.depth, options.seed)
        theirs = read_sample(_THEIRS, other, options.depth, options.seed)
    except ModelkinError:
        return None, None
    kept = {(a.name, b.name): kept_rows(a, b) for a, b in ((mine, theirs), (theirs, mine))}
    facts = facts_of(mine, theirs, {}, kept)
    first = agreed_parent(facts)
    return first, None if first is None else facts[0].reason
