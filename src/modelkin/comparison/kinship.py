"""What is said beside the verdict: which parts faced each other, and what kind of kinship it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from modelkin.comparison.adapters import is_on
from modelkin.comparison.deep import DeepResult
from modelkin.comparison.identity import CopyKind
from modelkin.comparison.methods import Agreement, EqualityCount, Evidence, Skipped, Tested
from modelkin.comparison.record import AlignmentSummary, Direction, FrameRecord, Relation
from modelkin.comparison.verdict import Conclusion, Verdict
from modelkin.message import Message, say
from modelkin.model import Model


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
    ranked = any(item.calibrated for item in verdict.components.values())  # whatever the numbers of units
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


def relation_of(
    candidate: Model,
    base: Model,
    verdict: Verdict,
    alignment: AlignmentSummary,
    count: EqualityCount,
    *,
    copy: CopyKind | None,
) -> Relation:
    """Say what kind of kinship it is, as far as shapes and equality tell."""
    details: dict[str, float | int | str] = {
        "values_compared": count.n_compared,
        "values_equal": count.n_equal,
        "values_equal_after_rounding": count.n_equal_after_rounding,
        "values_within_1_ulp": count.n_within_1_ulp,
        "values_within_16_ulps": count.n_within_16_ulps,
        "values_with_known_ulps": count.n_ulps_known,
    }
    kind = "unknown"
    if verdict.conclusion is Conclusion.IDENTICAL:
        kind = "copy"
    elif verdict.related and (adapted := _adapted(candidate, base)):
        return _low_rank(*adapted, details)
    elif verdict.related and copy is not None:
        kind = copy
        details |= {"tensors_in_one_only": len(candidate.index.keys() ^ base.index.keys())}
    elif verdict.related:
        kind = _changed_shape(candidate, base, alignment)
    direction = Direction(parent=None, reasons=(say("both-sides"),))
    return Relation(kind=kind, details=details, direction=direction)


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


def _changed_shape(candidate: Model, base: Model, alignment: AlignmentSummary) -> str:
    mine, theirs = candidate.architecture, base.architecture
    sizes = mine.sizes, theirs.sizes
    if bool(sizes[0].get("experts")) != bool(sizes[1].get("experts")):
        return "moe-upcycling"
    if mine.n_layers != theirs.n_layers or any(layer != facing for layer, facing, _ in alignment.layers):
        return "depth-change"
    if any(_differ(*sizes, name) for name in ("residual", "mlp", "heads")):
        return "width-change"
    return "vocabulary-change" if _differ(*sizes, "vocab") else "unknown"


def _differ(mine: Mapping[str, int], theirs: Mapping[str, int], name: str) -> bool:
    """Say whether a size differs; one that is not known does not."""
    return name in mine and name in theirs and mine[name] != theirs[name]


def _equal_numbers(mine: Sequence[int], theirs: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple((layer, layer) for layer in sorted(set(mine) & set(theirs)))


def _agreeing(verdict: Verdict, evidence: Iterable[Evidence]) -> tuple[tuple[int, int], ...]:
    """Return the layers in which a component agrees that was measured on controls."""
    return tuple(
        (layer, facing)
        for test in evidence
        if isinstance(test, Agreement) and (found := verdict.components.get(test.component)) is not None
        for layer, facing in zip(test.layers, test.base_layers or test.layers, strict=False)
        if found.calibrated and layer in found.layers
    )


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
        if isinstance(test, Tested) and test.layers == (layer,)
        if (test.base_layers or test.layers) == (facing,)
    ]
    return max(values, key=abs, default=None)
