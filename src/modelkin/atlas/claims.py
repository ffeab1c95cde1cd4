"""Cards checked against the registry: by symmetric evidence and dates only, so that no tree accuses anybody.

A claim is contradicted only by a deep comparison of the weights that finds nothing, and only if nothing else
connects the two models. Everything short of that is untestable, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelkin.comparison import Comparison
from modelkin.lineage.cards import left_out, parent_status
from modelkin.message import Message, say
from modelkin.options import Depth

from .declarations import Declaration
from .relatives import Kin
from .result import AtlasClaim, AtlasClaimStatus, LicenceStep, UnnamedOrigin

MOST_EARLIER = 5
"""Most earlier relatives that are listed: the most similar ones."""
Weights = Callable[[str, str], Comparison | Message]
"""Compares the weights of a child with those of a parent, or says why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKin:
    """What the fingerprints say, by references."""

    pairs: Mapping[frozenset[str], Kin]
    family: Mapping[str, int]
    """Of each model that has an accepted relative."""
    revised: frozenset[str] = frozenset()
    """Models with several revisions in the registry: only the last is examined."""

    def found(self, first: str, second: str) -> bool:
        """Say whether the fingerprints show a common origin."""
        kin = self.pairs.get(frozenset((first, second)))
        return kin is not None and kin.found

    def connected(self, first: str, second: str) -> bool:
        """Say whether accepted pairs lead from one to the other."""
        return first in self.family and self.family[first] == self.family.get(second)

    def alike(self, first: str, second: str) -> bool:
        """Say whether tokens look alike, as for a copy in other coordinates."""
        kin = self.pairs.get(frozenset((first, second)))
        return kin is not None and kin.proposed


def names_of(declared: Mapping[str, Declaration]) -> dict[str, tuple[str, ...]]:
    """Return the models that each name may mean, ignoring case: one name may have several."""
    found: dict[str, tuple[str, ...]] = {}
    for ref, said in declared.items():
        for name in {(said.name or ref).casefold(), ref.casefold()}:
            found[name] = (*found.get(name, ()), ref)
    return found


def judged_claims(
    declared: Mapping[str, Declaration], kin: KnownKin, weights: Weights | None, depth: Depth | None
) -> Iterator[AtlasClaim]:
    """Check every declared parent against the weights."""
    names = names_of(declared)
    for child, said in declared.items():
        for named in said.parents:
            meant = names.get(named.casefold(), (None,))
            claims = [_claim(child, named, parent, declared, kin, weights, depth) for parent in meant]
            # If several models share a name, the best match is meant: the others accuse nobody.
            yield min(claims, key=lambda claim: _ORDER.index(claim.status))


_ORDER = ("supported", "untestable", "contradicted")


def _claim(
    child: str,
    named: str,
    parent: str | None,
    declared: Mapping[str, Declaration],
    kin: KnownKin,
    weights: Weights | None,
    depth: Depth | None,
) -> AtlasClaim:
    dates = declared[child].date, None if parent is None else declared[parent].date
    status, reason = _judged(child, parent, dates, kin, weights, depth)
    return AtlasClaim(
        child=child,
        named=named,
        parent=parent,
        status=status,
        reason=reason,
        child_date=dates[0],
        parent_date=dates[1],
    )


def _judged(
    child: str,
    parent: str | None,
    dates: tuple[str | None, str | None],
    kin: KnownKin,
    weights: Weights | None,
    depth: Depth | None,
) -> tuple[AtlasClaimStatus, Message]:
    if parent is None:
        return "untestable", say("atlas-not-here")
    if parent == child:
        return "untestable", say("atlas-itself")
    if kin.found(child, parent):
        return _dated(say("atlas-shared"), dates)
    if weights is None or depth is None:
        return "untestable", say("atlas-not-read")
    found = weights(child, parent)
    if isinstance(found, Message):
        return "untestable", found
    status, reason = parent_status(found, depth)
    if status == "supported":
        return _dated(reason, dates)
    if status == "untestable":
        return status, reason
    if kin.connected(child, parent):
        return "untestable", say("atlas-through-others")
    if kin.alike(child, parent):
        return "untestable", say("atlas-alike")
    if kin.revised & {child, parent}:
        return "untestable", say("atlas-revised")
    return "contradicted", reason


def _dated(reason: Message, dates: tuple[str | None, str | None]) -> tuple[AtlasClaimStatus, Message]:
    """Weigh dates: evidence from weights is symmetric, so a later parent leaves it open."""
    child, parent = dates
    if child is not None and parent is not None and parent > child:
        return "untestable", say("atlas-later-parent", child=child, parent=parent)
    return "supported", reason


def unnamed_origins(
    declared: Mapping[str, Declaration], kin: KnownKin
) -> tuple[tuple[UnnamedOrigin, ...], int]:
    """Find cards that name no parent although earlier models share weights; count those without a date."""
    names = names_of(declared)
    relatives: dict[str, list[tuple[float, str]]] = {}
    for pair, item in kin.pairs.items():
        if item.found:
            first, second = pair
            relatives.setdefault(first, []).append((-item.likeness, second))
            relatives.setdefault(second, []).append((-item.likeness, first))
    found, undated = [], 0
    for child, near in relatives.items():
        said = declared[child]
        if said.reason is not None or said.parents or said.saved_from is not None:
            continue  # a card that was not read, or names a parent, is not known to omit anything
        if said.date is None:
            undated += 1
            continue
        earlier = [
            (ref, day)
            for _, ref in sorted(near)
            if (day := declared[ref].date) is not None
            and day < said.date
            and not _descends(ref, child, declared, names)
        ]
        if earlier:
            shown = earlier[:MOST_EARLIER]
            found.append(
                UnnamedOrigin(
                    child=child,
                    date=said.date,
                    earlier=tuple(ref for ref, _ in shown),
                    earlier_dates=tuple(day for _, day in shown),
                    reason=say("atlas-unnamed", n=len(earlier)),
                )
            )
    return tuple(found), undated


def _descends(
    model: str, ancestor: str, declared: Mapping[str, Declaration], names: Mapping[str, tuple[str, ...]]
) -> bool:
    """Say whether a model declares another as an ancestor, directly or not; cycles end."""
    seen, stack = {model}, [model]
    while stack:
        for named in declared[stack.pop()].parents:
            meant = names.get(named.casefold(), ())
            if ancestor in meant:
                return True
            stack += [parent for parent in meant if parent not in seen]
            seen.update(meant)
    return False


def licence_steps(claims: Sequence[AtlasClaim], declared: Mapping[str, Declaration]) -> Iterator[LicenceStep]:
    """Find licences that widen from a declared parent that the weights support to its child."""
    for claim in claims:
        if claim.status != "supported" or claim.parent is None:
            continue
        mine, theirs = declared[claim.child].licence, declared[claim.parent].licence
        missing = left_out(mine, theirs) if mine and theirs else None
        if mine and theirs and missing:
            words = tuple(say(f"licence.{word}") for word in missing)
            yield LicenceStep(
                child=claim.child,
                parent=claim.parent,
                child_licence=mine,
                parent_licence=theirs,
                missing=missing,
                reason=say("check-licence-wider", words=words),
            )
