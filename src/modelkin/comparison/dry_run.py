"""A dry run: goes through the stages without reading, and records what they would read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from modelkin.comparison.controls import Memory, may_be_ranked, reference_folders
from modelkin.comparison.cost import (
    ComparisonPrice,
    ControlReading,
    about_seconds,
    bounds,
    control_bounds,
    unpaired_bytes,
)
from modelkin.comparison.deep import agreements, contrasts
from modelkin.comparison.identity import published_identity
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import Rehearsal
from modelkin.comparison.relation import deltas_at_most, wanted_deltas
from modelkin.comparison.stages import judge, new_memory
from modelkin.comparison.tokens import Tokens
from modelkin.model import Model, ModelLike, open_models, read_headers
from modelkin.options import CompareOptions
from modelkin.progress import Progress
from modelkin.source import BytePlan
from modelkin.tensors import TensorSlice

_Measure = Callable[[ModelPair, Tokens, Rehearsal], object]
Passes = Sequence[Sequence[TensorSlice]]
"""What is read of one model, one list per pass."""


def price_comparison(
    candidate: ModelLike,
    base: ModelLike,
    *,
    options: CompareOptions | None = None,
    controls: Sequence[ModelLike] = (),
    progress: Progress | None = None,
) -> ComparisonPrice:
    """Say what `compare` would request, how much of each model it reads at most, and about how long it takes.

    Headers and tokenizers are read, but no tensor.
    """
    options = options or CompareOptions()
    with open_models((candidate, base, *controls), options.fetch, progress=progress) as opened:
        read_headers(opened)
        mine, theirs, *others = opened
        pair = ModelPair(candidate=mine, base=theirs, options=options, rehearsed=True)
        memory = new_memory()
        try:
            ways = _rehearsed(pair, memory)
            differences = deltas_at_most(pair, memory.tokens(pair)) if _may_subtract(pair) else (0, 0)
            plans = _plans(pair, ways)
            beside = list(_control_readings(pair, others, memory))
            return ComparisonPrice(
                plans=plans,
                at_most=bounds(pair, ways, differences, beside),
                controls=control_bounds(others, beside),
                unpaired=unpaired_bytes(pair),
                seconds=about_seconds(pair, plans, n_controls=len(others)),
            )
        finally:
            memory.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedReading:
    """What a comparison would read of candidate and base at most."""

    stages: tuple[list[TensorSlice], list[TensorSlice]]
    differences: tuple[list[TensorSlice], list[TensorSlice]]
    """Beyond that, if they turn out to be relatives."""


def wanted_by_comparison(candidate: Model, base: Model, options: CompareOptions) -> WantedReading:
    """Return what a comparison would read of two opened models at most. No tensor is read."""
    pair = ModelPair(candidate=candidate, base=base, options=options, rehearsed=True)
    first, second = (_dearer(pair, _rehearsed(pair, new_memory()), side) for side in (0, 1))
    return WantedReading(
        stages=(first.asked[0], second.asked[1]), differences=(first.differences[0], second.differences[1])
    )


def _plans(pair: ModelPair, ways: Sequence[Rehearsal]) -> tuple[BytePlan, BytePlan]:
    def planned(side: int) -> BytePlan:
        way = _dearer(pair, ways, side)
        # Differences are read tensor by tensor.
        passes = (*way.passes[side], *([item] for item in way.differences[side]))
        return _planned(pair.models[side], passes, pair.max_waste)

    return planned(0), planned(1)


def _planned(model: Model, passes: Passes, max_waste: float) -> BytePlan:
    """Plan passes one by one, as they are read: joining across passes would overestimate the waste."""
    asked = [model.plan(slices, max_waste=max_waste) for slices in passes]
    whole = model.plan([item for slices in passes for item in slices])
    requests = dict.fromkeys(request for plan in asked for request in plan.requests)
    return replace(whole, requests=tuple(requests))


def _dearer(pair: ModelPair, ways: Sequence[Rehearsal], side: int) -> Rehearsal:
    """Return the way that costs more for one of the models."""
    model = pair.models[side]
    return max(ways, key=lambda way: model.plan([*way.asked[side], *way.differences[side]]).bytes_needed)


def _may_subtract(pair: ModelPair) -> bool:
    return pair.options.depth != "quick" and published_identity(pair) is None


def _rehearsed(pair: ModelPair, memory: Memory) -> list[Rehearsal]:
    """Go through the ways that a comparison may take: either units were reordered, or not."""
    ways = _judged(pair, memory)
    if not _may_subtract(pair):
        return ways
    tokens = memory.tokens(pair)
    return [replace(way, differences=wanted_deltas(pair, tokens, reordered=way.reordered)) for way in ways]


def _judged(pair: ModelPair, memory: Memory) -> list[Rehearsal]:
    ways = [Rehearsal(reordered=reordered) for reordered in ((False, True) if pair.is_deep else (False,))]
    for rehearsal in ways:
        judge(pair, memory, rehearsal=rehearsal)
    return ways


# -- controls ------------------------------------------------------------------------------------------


def _control_readings(pair: ModelPair, controls: Sequence[Model], memory: Memory) -> Iterator[ControlReading]:
    """Yield everything that may be read for controls: how much of it is read depends on what is found."""
    sides = [pair.of(side, control) for control in controls for side in pair.models]
    for of in sides:
        yield ControlReading(pair=of, ways=_judged(of, memory), judged=True)
    if not pair.is_deep:
        return
    among = [pair.of(first, second) for first, second in itertools.combinations(controls, 2)]
    for of in (*sides, *among):
        yield ControlReading(pair=of, ways=[_noted(contrasts, of, memory)])
    if may_be_ranked(len(controls)):
        yield from _rank_readings(pair, controls, (*sides, *among), memory)


def _rank_readings(
    pair: ModelPair, controls: Sequence[Model], pairs: Sequence[ModelPair], memory: Memory
) -> Iterator[ControlReading]:
    """Yield what ranks may need: agreements of all pairs, including the models of the package."""
    packaged = memory.references(pair.options.fetch)[: len(reference_folders())]
    helped = [pair.of(model, reference) for model in (*pair.models, *controls) for reference in packaged]
    for of in (*pairs, *helped):
        yield ControlReading(pair=of, ways=[_noted(agreements, of, memory)])
        standard = of.to_depth("standard")
        yield ControlReading(pair=standard, ways=_judged(standard, memory), judged=True)


def _noted(measure: _Measure, pair: ModelPair, memory: Memory) -> Rehearsal:
    rehearsal = Rehearsal()
    measure(pair, memory.tokens(pair), rehearsal)
    return rehearsal
