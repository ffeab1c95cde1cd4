"""What is said alongside the verdict: which parts faced each other, and what kind of kinship it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from modelkin.comparison.adapters import is_on
from modelkin.comparison.deep import DeepResult
from modelkin.comparison.extent import parameters_by_component
from modelkin.comparison.identity import CopyWalk
from modelkin.comparison.methods import Agreement, Contrast, EqualityCount, Evidence, Skipped, Tested
from modelkin.comparison.record import AlignmentSummary, Direction, FrameRecord, Relation
from modelkin.comparison.relation import (
    BARE,
    Deltas,
    RelationFinding,
    TensorChange,
    findings_of_values,
    kind_of_values,
    lost_in,
    shape_findings,
)
from modelkin.comparison.subtracted import subtracted
from modelkin.comparison.tokens import Tokens
from modelkin.comparison.verdict import Conclusion, Verdict
from modelkin.message import Message, say
from modelkin.model import Model

_TOKEN_TABLES = ("embedding", "head")
"""Components whose rows belong to tokens."""


def alignment_summary(
    candidate: Model,
    base: Model,
    verdict: Verdict,
    evidence: Sequence[Evidence],
    deep: DeepResult | None,
) -> AlignmentSummary:
    """Say which layers, coordinates and units were paired."""
    mine, theirs = candidate.architecture, base.architecture
    made = any(not isinstance(test, Skipped) for test in evidence)
    ranked = any(not item.is_exact for item in verdict.components.values())  # whatever the numbers of units
    paired = _agreeing(verdict, evidence) if ranked else ()
    paired = (deep.layer_pairs if deep else ()) or paired or _equal_numbers(mine.layers, theirs.layers)
    layers = tuple((layer, facing, _best_effect(evidence, layer, facing)) for layer, facing in paired)
    residual = "identity" if made else "none"
    if deep is not None and deep.frame != "none":
        residual = deep.frame
    elif deep is not None and deep.frames and ranked:
        residual = deep.frames[0].kind  # agreement is measured in the coordinates that were tried first
    reordered = ranked or any(isinstance(test, Tested) and test.reordered for test in evidence)
    searched = ranked or bool(deep and deep.frame != "none")
    return AlignmentSummary(
        layers=layers,
        residual=residual,
        units="reordered" if reordered else "identity" if made else "none",
        unpaired=(
            *_unpaired(paired, mine.layers, theirs.layers, searched=searched),
            *_of_layers("layer-mtp", "candidate", mine.mtp_layers),
            *_of_layers("layer-mtp", "base", theirs.mtp_layers),
        ),
        frames=tuple(
            FrameRecord(
                kind=frame.kind,
                learned_from=frame.learned_from,
                n_rows=frame.n_rows,
                fit=frame.fit,
                chance=frame.chance,
            )
            for frame in (deep.frames if deep else ())
        ),
        maps=deep.maps if deep else (),
    )


def in_another_order(
    candidate: Model, base: Model, alignment: AlignmentSummary, deltas: Deltas
) -> tuple[dict[str, tuple[int, ...]], bool]:
    """Name the components that hold the same numbers in another order, and say whether nothing else differs.

    Each comes with the layers that were compared, if these are not all of the candidate's. Nothing but an
    order was undone: signs, factors and rotations change numbers. Both models have as many parameters of each
    component, so that one is not a selection of the other.
    """
    if alignment.residual not in ("identity", "permutation"):
        return {}, False
    if parameters_by_component(candidate) != parameters_by_component(base):
        return {}, False
    other = {item.component for item in deltas.changes if item.what != "equal" or item.refitted}
    # Constants, which have no cosine, are equal in strangers, too.
    equal = [item for item in deltas.changes if item.component not in other and item.cosine is not None]
    same = {name: _compared_in(candidate, name, equal) for name in sorted({item.component for item in equal})}
    if not any(item.reordered for item in equal):
        return {}, False
    return same, not other and not any(same.values())


def _compared_in(candidate: Model, component: str, changes: Sequence[TensorChange]) -> tuple[int, ...]:
    """Return the layers in which a component was compared; empty if these are all that have it."""
    seen = {item.layer for item in changes if item.component == component and item.layer is not None}
    held = {
        entry.layer
        for entry in candidate.architecture.tensors
        if entry.component == component and entry.layer is not None
    }
    return tuple(sorted(seen)) if held - seen else ()


def relation_of(
    candidate: Model,
    base: Model,
    verdict: Verdict,
    alignment: AlignmentSummary,
    count: EqualityCount,
    *,
    walk: CopyWalk,
    counted: Collection[str] = (),
    deltas: Deltas,
    tokens: Tokens,
) -> Relation:
    """Say what kind of kinship it is, as far as shapes, equality and differences show.

    What a `walk` over all values found to differ, or a count of them (`counted`, by tensor), is no copy,
    however equal the samples are.
    """
    copy = walk.kind
    details: dict[str, float | int | str] = {
        "values_compared": count.n_compared,
        "values_equal": count.n_equal,
        "values_equal_after_rounding": count.n_equal_after_rounding,
        "values_within_1_ulp": count.n_within_1_ulp,
        "values_within_16_ulps": count.n_within_16_ulps,
        "values_with_known_ulps": count.n_ulps_known,
    }
    unknown = Direction(parent=None, reasons=(say("both-sides"),))
    if verdict.conclusion is Conclusion.IDENTICAL:
        return Relation(kind="copy", details=details, direction=unknown)
    if not verdict.related:
        return Relation(kind="unknown", details=details, direction=unknown)
    if adapted := _adapted(candidate, base):
        return _low_rank(*adapted, details)
    in_one_only = len(candidate.index.keys() ^ base.index.keys()) if copy is not None else 0
    if copy is not None:
        details |= {"tensors_in_one_only": in_one_only}
    layers = [(layer, facing) for layer, facing, _ in alignment.layers]
    shapes = shape_findings(
        candidate.architecture, base.architecture, verdict, layers, tokens, deltas.changes
    )
    bare = bool(shapes) and shapes[0].kind in BARE
    values = copy or ("unknown" if bare else kind_of_values(deltas.changes))
    moved = _faced_elsewhere(candidate, layers, shapes)
    elsewhere = _differ_elsewhere(values, walk, counted, deltas.changes, moved)
    tables = [] if elsewhere else _not_subtracted(values, walk, candidate, base, deltas.changes)
    # An order that fits every number of the layers is that of a copy, whatever the tokens are.
    if elsewhere or (tables and not _was_undone(deltas.changes)):
        values = "unknown"
    told = findings_of_values(values, deltas.changes, deltas.common_direction, deltas.turn)
    told += [*elsewhere, *tables]
    taken = subtracted(deltas.changes, candidate.architecture) if copy is None and deltas.changes else None
    if taken is not None:
        details |= {"layers_subtracted": taken.layers, "layers": taken.of_layers}
    if copy in ("copy", "precision-copy"):
        told.insert(0, _copied(copy, count))
    kind = values if copy or not shapes else _KINDS.get(shapes[0].kind, shapes[0].kind)
    return Relation(
        kind=kind,
        details=details,
        direction=_direction(kind, candidate, base, deltas) or unknown,
        findings=(*shapes, *told),
        not_subtracted=deltas.skipped,
        subtracted=taken,
        in_one_only=in_one_only,
    )


def _faced_elsewhere(
    candidate: Model, layers: Iterable[tuple[int, int]], shapes: Sequence[RelationFinding]
) -> set[str]:
    """Return the tensors that do not face those of their name: of moved layers, or of tokens that moved."""
    moved = {layer for layer, facing in layers if layer != facing}
    tables = _TOKEN_TABLES if any(item.kind == "vocabulary-reordered" for item in shapes) else ()
    return {
        entry.tensor
        for entry in candidate.architecture.tensors
        if entry.layer in moved or entry.component in tables
    }


def _differ_elsewhere(
    kind: str,
    walk: CopyWalk,
    counted: Collection[str],
    changes: Sequence[TensorChange],
    moved: Collection[str],
) -> list[RelationFinding]:
    """Return that values outside of the samples differ, if the samples alone would make it a copy.

    Where an order, factors or a rotation were undone, stored values differ by that alone, and so they do in
    tensors that face one of another name, or their own in another order (`moved`).
    """
    if walk.kind is not None or kind not in ("copy", "precision-copy"):
        return []
    if _was_undone(changes):
        return []
    # Counted values may also differ by rounding; the walk takes that into account.
    differing = {walk.differs, *counted} if kind == "copy" else {walk.differs}
    explained = {*moved, *(item.tensor for item in changes if item.what != "equal")}
    names = sorted(name for name in differing if name is not None and name not in explained)
    if not names:
        return []
    numbers: dict[str, float | int | str] = {
        "tensors": len(changes),
        "differing": len(names),
        "tensor": names[0],
    }
    return [
        RelationFinding(
            kind="differs-elsewhere",
            what=say("found.differs-elsewhere", n=len(changes), tensor=names[0]),
            numbers=numbers,
            cannot_tell=say("cannot.differs-elsewhere"),
        )
    ]


def _was_undone(changes: Sequence[TensorChange]) -> bool:
    """Say whether an order, factors, mixtures within heads or a rotation were undone."""
    return any(item.reordered or item.what in ("rescaled", "mixed", "turned") for item in changes)


def _not_subtracted(
    kind: str, walk: CopyWalk, candidate: Model, base: Model, changes: Sequence[TensorChange]
) -> list[RelationFinding]:
    """Return the token tables of both models that were not subtracted, if all else makes a copy."""
    if walk.kind is not None or kind not in ("copy", "precision-copy"):
        return []
    held = [{entry.component for entry in model.architecture.tensors} for model in (candidate, base)]
    read = {item.component for item in changes}
    names = [name for name in _TOKEN_TABLES if name in held[0] & held[1] and name not in read]
    if not names:
        return []
    parts = tuple(say(f"component.{name}") for name in names)
    return [
        RelationFinding(
            kind="tables-not-subtracted",
            what=say("found.tables-not-subtracted", n=len(changes), parts=parts),
            numbers={"tensors": len(changes), "components": ", ".join(names)},
            cannot_tell=say("cannot.tables-not-subtracted"),
        )
    ]


def _copied(kind: str, count: EqualityCount) -> RelationFinding:
    """Say that values are equal, if that was counted and nothing had to be subtracted."""
    if kind == "copy":
        equal = count.n_equal
        what = say("found.copy-counted", n=count.n_compared, equal=equal)
    else:
        equal = count.n_equal_after_rounding
        what = say("found.precision-copy-counted", n=count.n_compared, equal=equal)
    return RelationFinding(
        kind=kind,
        what=what,
        numbers={"values": count.n_compared, "equal": equal},
        cannot_tell=say(f"cannot.{kind}"),
    )


_KINDS = {
    "layers-replaced": "parts-replaced",
    "vocabulary-extended": "vocabulary-change",
    "vocabulary-cut": "vocabulary-change",
    "vocabulary-reordered": "vocabulary-change",
    "layers-unlike": "unknown",
    "tables-unlike": "unknown",
    **dict.fromkeys(BARE, "unknown"),
}
"""Finding -> kind, where their names differ."""


def _direction(kind: str, candidate: Model, base: Model, deltas: Deltas) -> Direction | None:
    """Say which came first if one of two copies lost something that cannot be recovered from it."""
    side = lost_in(deltas.changes)
    if side is None or kind not in ("quantised-copy", "sparse-copy"):
        return None
    lost = "levels" if kind == "quantised-copy" else "zeros"
    if side == "candidate":
        return Direction(parent=base.location.ref, reasons=(say(f"lost-{lost}"),))
    return Direction(parent=candidate.location.ref, reasons=(say(f"lost-{lost}-base"),))


def _adapted(candidate: Model, base: Model) -> tuple[Model, Model] | None:
    """Return which of two models is an adapter on the other: (adapter, base)."""
    for adapter, other in ((candidate, base), (base, candidate)):
        if is_on(adapter, other) and adapter.weights.adapter and adapter.weights.adapter.ranks:
            return adapter, other
    return None


def _low_rank(adapter: Model, base: Model, details: dict[str, float | int | str]) -> Relation:
    record = adapter.weights.adapter
    assert record is not None
    details |= {"rank": max(record.ranks), "lowest_rank": min(record.ranks)}
    details |= {"tensors_updated": record.n_updated, "tensors_replaced": record.n_replaced}
    direction = Direction(parent=base.location.ref, reasons=(say("put-on-here"),))
    return Relation(kind="low-rank", details=details, direction=direction)


def _equal_numbers(mine: Sequence[int], theirs: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple((layer, layer) for layer in sorted(set(mine) & set(theirs)))


def _agreeing(verdict: Verdict, evidence: Iterable[Evidence]) -> tuple[tuple[int, int], ...]:
    """Return the layers that agree in a component whose verdict rests on controls or mismatched layers."""
    found = {
        (layer, facing)
        for test in evidence
        if isinstance(test, Agreement | Contrast) and not verdict.components[test.component].is_exact
        for layer, facing in zip(test.layers, test.base_layers or test.layers, strict=False)
        if layer in verdict.components[test.component].layers
    }
    return tuple(sorted(found))


def _unpaired(
    paired: Iterable[tuple[int, int]], mine: Sequence[int], theirs: Sequence[int], *, searched: bool
) -> tuple[Message, ...]:
    held = list(paired)
    here, there = {layer for layer, _ in held}, {layer for _, layer in held}
    code = "layer-not-found" if searched else "layer-no-number"
    return (
        *_of_layers(code, "candidate", (layer for layer in mine if layer not in here)),
        *_of_layers(code, "base", (layer for layer in theirs if layer not in there)),
    )


def _of_layers(code: str, side: str, layers: Iterable[int]) -> tuple[Message, ...]:
    return tuple(say(code, side=say(f"side.{side}"), n=layer) for layer in layers)


def _best_effect(evidence: Iterable[Evidence], layer: int, facing: int) -> float | None:
    """Return the strongest effect that was found between two layers, or None if they were not tested."""
    values = [
        test.effect.value
        for test in evidence
        if isinstance(test, Tested | Contrast) and test.layers == (layer,)
        if (test.base_layers or test.layers) == (facing,)
    ]
    return max(values, key=abs, default=None)
