"""Both models as stacks of layers: what is shared, what was tested without evidence, what was not tested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from modelkin.comparison import Comparison, ModelSummary, PartSizes
from modelkin.comparison.verdict import Conclusion
from modelkin.document.blocks import Floor, ModelStack, PartState, StackPart, Stacks
from modelkin.document.language import Language
from modelkin.document.numbers import runs_text

from .states import base_states, best, layer_states, outside_state

_ACROSS = ("attention", "mlp", "experts", "router", "norms")
_BELOW = ("positions", "embedding")
_TOP = ("head", "norms")
_NEGLIGIBLE = 0.005
"""Share of a model: smaller parts without a role are not drawn."""
_MUCH_LARGER = 2.2
_STATES: tuple[PartState, ...] = ("shared", "together", "not_shared", "untested")


def stacks(result: Comparison, language: Language) -> Stacks | None:
    """Draw both models; None if the parts of one of them are unknown."""
    if result.candidate.sizes is None or result.base.sizes is None:
        return None
    same = result.verdict.conclusion is Conclusion.IDENTICAL
    mine = _SideStack(result, "candidate", result.candidate, layer_states(result), language, same=same)
    theirs = _SideStack(result, "base", result.base, base_states(result), language, same=same)
    candidate, base = mine.stack(result.candidate.sizes), theirs.stack(result.base.sizes)
    if not candidate.floors or not base.floors:
        return None
    sizes = sorted((max(1, candidate.size), max(1, base.size)))
    own_scales = sizes[1] > _MUCH_LARGER * sizes[0]
    seen = {part.state for stack in (candidate, base) for floor in stack.floors for part in floor.parts}
    return Stacks(
        candidate=candidate,
        base=base,
        facing=tuple(_facing(result, candidate, base)),
        alt=_alt(candidate, base, language),
        caption=_caption(candidate, language, own_scales=own_scales),
        legend=tuple((state, _word(state, language)) for state in _STATES if state in seen),
        own_scales=own_scales,
    )


class _SideStack:
    """One model, with what is known about it."""

    def __init__(
        self,
        result: Comparison,
        side: str,
        model: ModelSummary,
        states: Mapping[str, Mapping[int, PartState]],
        language: Language,
        *,
        same: bool,
    ) -> None:
        self.result = result
        self.side = side
        self.model = model
        self.states = states
        self.language = language
        self.same = same

    def stack(self, sizes: PartSizes) -> ModelStack:
        layers = [
            self._layer(number, sizes) for number in range(max(map(len, sizes.layers.values()), default=0))
        ]
        outside = dict(sizes.outside)
        total = sum(outside.values()) + sum(map(sum, sizes.layers.values()))
        if outside.get("other", 0) < _NEGLIGIBLE * total:
            outside.pop("other", None)
        below = [self._outside((name,), outside) for name in _BELOW]
        above = [self._outside(_TOP, outside)]
        above += [self._outside((name,), outside) for name in outside if name not in (*_BELOW, *_TOP)]
        floors = tuple(floor for floor in (*below, *layers, *above) if floor.size)
        return ModelStack(side=self.language.say(f"side.{self.side}"), name=self.model.ref, floors=floors)

    def _layer(self, number: int, sizes: PartSizes) -> Floor:
        names = [*_ACROSS, *sorted(set(sizes.layers) - set(_ACROSS))]
        parts = [
            self._part(name, sizes.layers[name][number], self.states.get(name, {}).get(number, "untested"))
            for name in names
            if name in sizes.layers and sizes.layers[name][number]
        ]
        return Floor(label=str(number), parts=tuple(parts), layer=number)

    def _outside(self, names: tuple[str, ...], sizes: Mapping[str, int]) -> Floor:
        found = [name for name in names if sizes.get(name)]
        parts = tuple(self._part(name, sizes[name], outside_state(self.result, name)) for name in found)
        return Floor(label=parts[0].name if parts else "", parts=parts)

    def _part(self, component: str, size: int, state: PartState) -> StackPart:
        name = self.language.word("component", component)
        known: PartState = "shared" if self.same else state
        return StackPart(component=component, name=name, size=size, state=known)


def _facing(
    result: Comparison, candidate: ModelStack, base: ModelStack
) -> Iterator[tuple[int, int, PartState]]:
    """Yield the floors that face each other, as far as they were tested."""
    mine = {floor.layer: place for place, floor in enumerate(candidate.floors) if floor.layer is not None}
    theirs = {floor.layer: place for place, floor in enumerate(base.floors) if floor.layer is not None}
    pairs = [(mine.get(one), theirs.get(other)) for one, other, _ in result.alignment.layers]
    if result.verdict.conclusion is Conclusion.IDENTICAL:
        pairs = [(mine[layer], theirs.get(layer)) for layer in mine]
    outside = {floor.label: place for place, floor in enumerate(base.floors) if floor.layer is None}
    pairs += [
        (place, outside.get(floor.label))
        for place, floor in enumerate(candidate.floors)
        if floor.layer is None and floor.parts[0].component != "other"
    ]
    for one, other in pairs:
        if one is None or other is None:
            continue
        here, there = (
            {part.component: part.state for part in stack.floors[place].parts}
            for stack, place in ((candidate, one), (base, other))
        )
        both = tuple(max(here[name], there[name], key=_STATES.index) for name in here.keys() & there.keys())
        if both and best(both) != "untested":
            yield one, other, best(both)


def _word(state: PartState, language: Language) -> str:
    return language.say("state.not_tested" if state == "untested" else f"state.{state}")


def _caption(stack: ModelStack, language: Language, *, own_scales: bool) -> str:
    layers = [floor for floor in stack.floors if floor.layer is not None]
    names = dict.fromkeys(part.name for floor in layers for part in floor.parts)
    caption = language.say("text.about_stacks", parts=", ".join(names))
    return f"{caption} {language.say('text.own_scales')}" if own_scales else caption


def _alt(candidate: ModelStack, base: ModelStack, language: Language) -> str:
    """Say in words what is drawn."""
    told = []
    for stack in (candidate, base):
        found: dict[str, dict[PartState, list[int]]] = {}
        for floor in stack.floors:
            for part in floor.parts:
                layers = found.setdefault(part.name, {}).setdefault(part.state, [])
                layers += [floor.layer] if floor.layer is not None else []
        parts = [
            f"{name}: "
            + ", ".join(
                f"{_word(state, language)} {runs_text(states[state])}".strip()
                for state in _STATES
                if state in states
            )
            for name, states in found.items()
        ]
        told.append(f"{stack.side} {stack.name}: {'; '.join(parts)}.")
    return language.say("text.stacks_alt", stacks=" ".join(told))
