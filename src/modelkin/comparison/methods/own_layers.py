"""When every axis was renumbered: coordinates from the units themselves, controls from the models themselves.

With residual stream, units and heads all reordered or rotated, no order is left whose chance could be
computed. What is left is agreement of units in coordinates learned from other layers, contrasted with layers
of the same two models that do not face each other: evidence that is calibrated on the pair's own layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import final

import numpy as np

from modelkin.comparison.alignment import (
    LEVELS,
    REPEATED,
    ContrastOfLayers,
    Facing,
    Frame,
    LearnedMap,
    Learner,
    PairedLayers,
    agreeing,
    contrast_in,
    contrasts_of_folds,
    facing_layers_of,
    layer_distances,
    layer_path,
    learner_of_units,
    map_of_keys,
    permutation_of_gains,
    same_numbers,
)
from modelkin.message import Message, say
from modelkin.stats import binomial_limit, log10_binomial_tail
from modelkin.tensors import Array

from ._interface import Findings, Method, Pair, Planned, Probe
from ._layer_choice import TOO_FEW_LAYERS, ChosenLayers, SidePlan, SideUnits, choose_layers
from ._result import Contrast, Effect, Mismatched, Where
from .tied import TIED

_WAYS = 9
"""Sets of coordinates that may be tried: tokens; units in two divisions of layers, begun by invariants or by
gains; keys in two divisions, with both signs. The p-value of a layer is corrected for all of them, and for
the levels of agreement, tried or not."""
_LOWEST = -12.0
"""No log10 p below this is reported: an assumption that was tried on thousands of pairs of unrelated models
does not support more."""
_FLOOR = 0.2
"""Agreement, as a share of what could agree, from which no other coordinates are tried."""
_STANDS_OUT = 1.0
"""Deviations by which two layers must be closer to each other than to others to count as facing."""


@final
class OwnLayers(Method):
    """Ask whether units agree in layers that face each other more than in layers that do not."""

    def problem(self, pair: Pair) -> Message | None:
        """Say why the residual streams cannot be the same up to a rotation."""
        for side in pair.sides:
            if not side.architecture.is_known:
                return say("unknown-architecture", model=side.name)
        n, m = pair.widths
        return say("hidden-sizes", n=n, m=m) if n is None or m is None else None

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan as many whole layers, or as large parts of them, as the bytes allow."""
        chosen = choose_layers(pair)
        if isinstance(chosen, Message):
            return [chosen]
        sides = [
            SidePlan(side=side, layers=layers, heads=heads, keys=keys, how=chosen.how)
            for side, layers, heads, keys in zip(
                pair.sides, chosen.layers, chosen.heads, chosen.keys, strict=True
            )
        ]

        def evaluate(candidate: list[Array], base: list[Array]) -> Findings:
            both = sides[0].units(candidate), sides[1].units(base)
            return self._judged(pair, both, chosen)

        return [
            Probe(
                candidate=tuple(sides[0].parts()),
                base=tuple(sides[1].parts()),
                evaluate=evaluate,
            )
        ]

    def _judged(self, pair: Pair, both: tuple[SideUnits, SideUnits], chosen: ChosenLayers) -> Findings:
        if not any(chosen.layers):
            heads = tuple(self._heads(pair, both, chosen.pairs, (), 1, pair.frame_kind))
            return Findings(evidence=heads or (self.skip(say("own-layers-untaught")),))
        facing, searched = _facing(both, chosen), chosen.search
        pair = _with_sign(pair, both, facing)
        found = self._searched(pair, both, facing)
        if isinstance(found, Message):
            return Findings(evidence=(self.skip(found),))
        if not searched and chosen.how.share == 1.0 and not any(_enough(item) for item in found):
            for moved in _moved(pair, *both):
                again = self._searched(pair, both, moved) if moved != facing else found
                if not isinstance(again, Message) and any(_enough(item) for item in again):
                    facing, found, searched = moved, again, True
                    break
        if searched and any(_enough(item) for item in found):
            more = _completed(both, facing, _matrix_of(pair, found))
            again = self._searched(pair, both, more) if more != facing else found
            if not isinstance(again, Message) and any(_enough(item) for item in again):
                facing, found = more, again
        cells = len(both[0].units) * len(both[1].units) if searched else 1
        frames = _frames(pair, found)
        frame = frames[0].kind if frames else pair.frame_kind
        kinds = {item.layer: (item.component, item.role) for item in chosen.layers[0]}
        evidence = []
        for item in found:
            for at in item.facing:
                component, role = kinds[facing[at.pair][0]]
                where = Where(component=component, role=role, frame=frame)
                made = self._contrast(item, at, where, facing, cells)
                evidence.append(replace(made, same_numbers=_same_numbers(both, facing, at.pair)))
        evidence += self._heads(pair, both, facing, found, cells, frame)
        return Findings(evidence=tuple(evidence), frames=frames)

    def _searched(
        self, pair: Pair, both: tuple[SideUnits, SideUnits], facing: Sequence[tuple[int, int]]
    ) -> list[ContrastOfLayers] | Message:
        """Return what was found in the best coordinates, or why there is nothing."""
        if len(facing) < 2:
            return TOO_FEW_LAYERS
        if any(both[0].tied.get(i) and both[1].tied.get(j) for i, j in facing):
            return TIED
        layers = facing_layers_of(
            [both[0].units[i] for i, _ in facing],
            [both[1].units[j] for _, j in facing],
            [j for _, j in facing],
        )
        if len(layers.distinct) < 2:
            return say("own-layers-repeated")
        attempts = self._attempts(pair, layers, both, facing)
        best = max(attempts, key=_strength, default=None)
        return say("own-layers-untaught") if best is None else best

    def _attempts(
        self,
        pair: Pair,
        layers: PairedLayers,
        both: tuple[SideUnits, SideUnits],
        facing: Sequence[tuple[int, int]],
    ) -> list[list[ContrastOfLayers]]:
        """Try coordinates until units agree in some: those from tokens first, then those from units.

        Keys are the last: they need heads of rotary attention, and units do not.
        """
        found: list[list[ContrastOfLayers]] = []
        if pair.frame is not None and pair.frame.kind != "identity":
            given = contrast_in(layers, _matrix(pair.frame), range(len(layers.same)), enough=_enough)
            found += [[given]] if given is not None else []
        if any(_enough(item) for group in found for item in group):
            return found
        for learn in _learners(pair, layers, both, facing):
            made = contrasts_of_folds(layers, learn=learn, enough=_enough)
            found += made
            if any(_enough(item) for group in made for item in group):
                break
        return found

    def _contrast(
        self,
        found: ContrastOfLayers,
        item: Facing,
        where: Where,
        facing: Sequence[tuple[int, int]],
        cells: int,
    ) -> Contrast:
        count, could = item.count, item.could_agree
        tail = log10_binomial_tail(count.n, count.agreeing, found.limit)
        low = 1.0 - binomial_limit(count.n, count.n - count.agreeing, log10_error=math.log10(0.005))
        high = binomial_limit(count.n, count.agreeing, log10_error=math.log10(0.005))
        layer, other = facing[item.pair]
        return Contrast(
            **self.heading(**(where | {"layers": (layer,), "base_layers": (other,)})),
            statistic=count.share,
            log10_p=min(0.0, max(_LOWEST, tail + math.log10(_WAYS * len(LEVELS) * cells))),
            effect=Effect(
                value=min(1.0, count.share / could), low=min(1.0, low / could), high=min(1.0, high / could)
            ),
            n=count.n,
            n_matched=count.agreeing,
            mismatched=Mismatched(n_pairs=found.n_mismatched, largest=found.largest.share, limit=found.limit),
            could_agree=could,
            details={} if found.closer_than is None else {"closer_than": found.closer_than},
        )

    def _heads(
        self,
        pair: Pair,
        both: tuple[SideUnits, SideUnits],
        facing: Sequence[tuple[int, int]],
        found: Sequence[ContrastOfLayers],
        cells: int,
        frame: str,
    ) -> Iterator[Contrast]:
        """Compare heads, which no coordinates were learned from: in the coordinates of units, if these agree.

        Attention may have been copied without the MLPs: then also in those of tokens, gains and keys. These
        are all there is if no layer has a known MLP, so that nothing was `found`.
        """
        held = [(i, j) for i, j in facing if i in both[0].heads and j in both[1].heads]
        if len(held) < 2:
            return
        layers = facing_layers_of(
            [both[0].heads[i] for i, _ in held], [both[1].heads[j] for _, j in held], [j for _, j in held]
        )
        ways: list[tuple[str, Array | None]] = [(frame, _matrix_of(pair, found))] if found else []
        if not any(_enough(item) for item in found):
            ways += [(pair.frame_kind, _matrix(pair.frame))] if pair.frame_kind != "identity" else []
            start = permutation_of_gains(both[0].gains, both[1].gains)
            ways += [("permutation", start)] if start is not None else []
        made = [
            (kind, [given])
            for kind, matrix in ways
            if (given := contrast_in(layers, matrix, range(len(held)), enough=_enough)) is not None
        ]
        if not any(_enough(item) for item in (*found, *(group[0] for _, group in made))):
            by_keys = contrasts_of_folds(layers, learn=_learner_of_keys(pair, both, held), enough=_enough)
            made += [("rotation", group) for group in by_keys]
        if not made:
            return
        kind, best = max(made, key=lambda item: _strength(item[1]))
        where = Where(component="attention", role="attention_output", frame=kind)
        for contrast in best:
            for item in contrast.facing:
                yield self._contrast(contrast, item, where, held, cells)


def _enough(item: ContrastOfLayers) -> bool:
    """Say whether these coordinates are right: units of half of the layers agree in them."""
    agree = [
        face.count.share > item.limit and face.count.share / face.could_agree > _FLOOR for face in item.facing
    ]
    return 2 * sum(agree) >= len(agree)


def _strength(found: Sequence[ContrastOfLayers]) -> tuple[bool, float]:
    """Sort key of attempts: right coordinates first, then by how much agrees in them."""
    return any(_enough(item) for item in found), max(item.mean_share for item in found)


def _learners(
    pair: Pair,
    layers: PairedLayers,
    both: tuple[SideUnits, SideUnits],
    facing: Sequence[tuple[int, int]],
) -> Iterator[Learner]:
    """Yield what may learn coordinates, each prepared only if those before it taught none."""
    yield learner_of_units(layers)
    start = permutation_of_gains(both[0].gains, both[1].gains)
    if start is not None:
        yield learner_of_units(layers, start=start)
    yield _learner_of_keys(pair, both, facing)


def _learner_of_keys(
    pair: Pair, both: tuple[SideUnits, SideUnits], facing: Sequence[tuple[int, int]]
) -> Learner:
    width = pair.candidate.architecture.sizes.get("qk_dim", 0)

    def learn(fold: Sequence[int]) -> LearnedMap | None:
        held = [facing[at] for at in fold if facing[at][0] in both[0].keys and facing[at][1] in both[1].keys]
        if not held:
            return None
        mine, theirs = ([side.keys[each[at]] for each in held] for at, side in enumerate(both))
        return map_of_keys(mine, theirs, head_width=width, seed=pair.seed)

    return learn


def _with_sign(pair: Pair, both: tuple[SideUnits, SideUnits], facing: Sequence[tuple[int, int]]) -> Pair:
    """Settle the sign of a map that leaves it open: with the right one, more units of facing layers agree."""
    if pair.frame is None or not pair.frame.sign_open:
        return pair
    signed = pair.frame, pair.frame.reversed()
    counts = [
        sum(agreeing(both[0].units[i], both[1].units[j], matrix=_matrix(frame)).agreeing for i, j in facing)
        for frame in signed
    ]
    return replace(pair, frame=signed[int(np.argmax(counts))])


def _matrix(frame: Frame | None) -> Array | None:
    """Return a map as a matrix; None for the original coordinates."""
    return None if frame is None or frame.kind == "identity" else frame.as_matrix()


def _same_numbers(
    both: tuple[SideUnits, SideUnits], facing: Sequence[tuple[int, int]], at: int
) -> float | None:
    """Return the share of units with the numbers of a facing unit; None if other layers have them too."""
    layer, other = facing[at]
    units = both[0].units[layer]
    elsewhere = [
        same_numbers(units, held) or 0.0 for number, held in both[1].units.items() if number != other
    ]
    found = same_numbers(units, both[1].units[other])
    return None if found is None or any(share >= found for share in elsewhere) else found


def _matrix_of(pair: Pair, found: Sequence[ContrastOfLayers]) -> Array | None:
    """Return the coordinates in which most units agree."""
    best = max(found, key=lambda item: item.mean_share)
    return best.learned.matrix if best.learned is not None else _matrix(pair.frame)


def _frames(pair: Pair, found: Sequence[ContrastOfLayers]) -> tuple[Frame, ...]:
    """Return the coordinates in which most units agree, if they were learned or their sign settled here."""
    best = max(found, key=lambda item: item.mean_share)
    if best.learned is not None:
        return (best.learned.as_frame(),)
    if pair.frame is not None and pair.frame.sign_open:
        return (replace(pair.frame, sign_open=False),)
    return ()


# -- which layers face each other ----------------------------------------------------------------------


def _facing(both: tuple[SideUnits, SideUnits], chosen: ChosenLayers) -> tuple[tuple[int, int], ...]:
    """Return the layers that are assumed to face each other: by number, or by their invariants."""
    proposed = _proposed(*both) if chosen.search else ()
    if len({j for _, j in proposed}) < 2:
        proposed = chosen.pairs
    return tuple((i, j) for i, j in proposed if i in both[0].units and j in both[1].units)


def _proposed(mine: SideUnits, theirs: SideUnits) -> tuple[tuple[int, int], ...]:
    here, there, close = _closeness(mine, theirs)
    # In thirds of a deviation: the path counts a jump as two.
    path = layer_path(np.maximum(0.0, 3.0 * close), threshold=3.0 * _STANDS_OUT)
    return tuple((here[at], there[to]) for at, to in enumerate(path) if to is not None)


def _moved(pair: Pair, mine: SideUnits, theirs: SideUnits) -> Iterator[tuple[tuple[int, int], ...]]:
    """Propose layers that face each other whatever their numbers: as many layers may have changed places.

    In given coordinates by the agreement of their units, otherwise by invariants.
    """
    if pair.frame is not None and pair.frame.kind != "identity":
        found = _completed((mine, theirs), (), _matrix(pair.frame))
        if len({j for _, j in found}) > 1:
            yield found
    here, there, close = _closeness(mine, theirs)
    best, back = np.argmax(close, axis=1), np.argmax(close, axis=0)
    places = [at for at, to in enumerate(best) if back[to] == at and close[at, to] > _STANDS_OUT]
    if 2 * len(places) >= len(here) and len(places) > 1:
        yield tuple((here[at], there[best[at]]) for at in places)


def _closeness(mine: SideUnits, theirs: SideUnits) -> tuple[list[int], list[int], Array]:
    """Return the layers of both models, and by how many deviations each two are closer than most."""
    here, there = sorted(mine.units), sorted(theirs.units)
    distance = layer_distances([mine.units[i] for i in here], [theirs.units[j] for j in there])
    middle = float(np.median(distance))
    scale = 1.4826 * float(np.median(np.abs(distance - middle))) or 1.0
    return here, there, np.asarray((middle - distance) / scale, dtype=np.float32)


def _completed(
    both: tuple[SideUnits, SideUnits], facing: Sequence[tuple[int, int]], matrix: Array | None
) -> tuple[tuple[int, int], ...]:
    """Find partners of layers that face none yet, or the wrong one, in the coordinates found."""
    known = dict(facing)
    for layer, units in both[0].units.items():
        shares = {other: agreeing(units, held, matrix=matrix).share for other, held in both[1].units.items()}
        best = max(shares, key=lambda other: shares[other])
        if shares[best] > REPEATED:
            known[layer] = best
    return tuple(sorted(known.items()))
