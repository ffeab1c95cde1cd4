"""The deep stage: find out which parts face each other, cheapest attempt first, and test them.

1. All layers against all layers, in the original coordinates: a changed depth, and whether the residual
   streams have the same coordinates at all.
2. If so: units, heads and experts that were reordered, pruned or copied.
3. If not: a map of the residual stream is learned from embeddings and output head (or from keys, or from
   units of some layers) and step 1 is repeated in the new coordinates, on tensors that taught it nothing.
4. If units were reordered as well, no exact test is left: layers that face each other are contrasted with
   layers that do not (`OwnLayers`) and with controls (`UnitAgreement`).
5. If nothing was found: parts that hold the same numbers in another order, known by equality (`SameRows`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace

from modelkin.comparison.alignment import Frame, LayerMap, likely_pairs
from modelkin.comparison.frames import (
    KeyFrame,
    frame_of_keys,
    frame_of_tokens,
    frame_of_units,
    rehearsed_frame,
)
from modelkin.comparison.layer_pairs import by_depth, completed, spread_pairs, with_all
from modelkin.comparison.methods import (
    BEGINNING_FLAGS,
    Contrast,
    Evidence,
    Pair,
    Side,
    Skipped,
    Tested,
    head_views,
    load_method,
    whole_layers_fit,
)
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import Kept, Reading, Rehearsal
from modelkin.comparison.tokens import Tokens
from modelkin.message import say
from modelkin.progress import Progress, Silent

FOUND_LOG10_P = -9.0
"""Evidence this strong decides where to look next: enough for the rule, corrected for everything tested."""
MATCHED_LAYERS = 3
"""Pairs of layers of which whole matrices are read."""
_GOOD_FIT = 0.9
"""Unrelated models trained by one recipe reach 0.83."""
_MATCH_SHARE = 0.1
"""Share of the byte allowance up to which more layers than that are matched."""
_OWN_LAYERS_SHARES = (0.085, 0.22)
"""Share of the byte allowance for layers that are contrasted; the second if the first is too small for two of
them."""
_KEYED_SHARE = 0.35
"""The same if keys taught the coordinates: no tokens were read then, and at 7B and 13B there is room for the
heads of two layers."""
_EQUAL_SHARE = 0.1
"""Share of the byte allowance for rows that may be equal: of a model of 7B, token tables and two layers."""
_MAPS = ("mlp-map", "attention-map")
_UNIT_METHODS = ("expert-map", "mlp-order", "mlp-matching", "router-matching", "head-matching")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepResult:
    """What alignment found."""

    evidence: tuple[Evidence, ...]
    maps: tuple[LayerMap, ...]
    frames: tuple[Frame, ...]
    """Maps of the residual stream that were tried, in order."""
    frame: str
    """Coordinates in which something was found: identity, permutation, signed-permutation, rotation, none."""
    layer_pairs: tuple[tuple[int, int], ...]
    """Layers that face each other, as far as that is known."""


@dataclass(slots=True)
class DeepStage:
    """One pair on its way through the attempts."""

    models: ModelPair
    tokens: InitVar[Tokens]
    earlier: Sequence[Evidence] = ()
    kept: InitVar[tuple[Kept, Kept] | None] = None
    """What earlier stages have read and this one may use."""
    progress: Progress = field(default_factory=Silent)
    rehearsal: Rehearsal | None = None
    evidence: list[Evidence] = field(default_factory=list)
    maps: list[LayerMap] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    token_frame: Frame | None = None
    key_frame: KeyFrame | None = None
    searched: frozenset[int] = frozenset()
    """Layers of the candidate whose units and heads were looked for in the base's."""
    pair: Pair = field(init=False)
    reading: Reading = field(init=False)

    def __post_init__(self, tokens: Tokens, kept: tuple[Kept, Kept] | None) -> None:
        self.pair = self.models.seen(tokens, self.models.deep_bytes())
        self.reading = Reading(
            self.models.models, self.pair.byte_allowance, self.rehearsal, self.models.max_waste, kept=kept
        )

    def run(self) -> DeepResult:
        """Try one attempt after another until one decides.

        In a rehearsal nothing is found, so all of them are made. Which layers are matched depends on what is
        found: a rehearsal takes the largest.
        """
        self.progress.note(say("step-maps"))
        self._probe(self.pair, _MAPS)
        self._probe(replace(self.pair, begun_alike=self._begun_alike()), ("residual-writers",))
        if not self._settled("identity") and self._same_coordinates():
            self._look_for_units()
        best = "identity" if self._same_coordinates() else "none"
        if not self._settled("identity"):
            best = self._best_frame(best)
        self._follow_gains(best)
        self.reading.forget()  # maps of all layers are needed for other coordinates, and not after this
        if not self._settled(best):
            best = self._contrast_layers(best)
            if not self._contrasted():
                self._measure_agreement()
                best = self._look_for_equal_rows(best)
        return self._result(best)

    def _best_frame(self, best: str) -> str:
        """Try other coordinates; they are better if units of more layers are found in them."""
        most = self._n_layers_found("identity")
        for pair in self._framed_pairs():
            self._test_in(pair)
            if self._n_layers_found(pair.frame_kind) > most:
                return pair.frame_kind
        frame = self.token_frame
        if frame is not None and frame.kind != "identity" and frame.fit > _GOOD_FIT:
            # Nothing exact is left to find there, but nothing is missed in the original coordinates either.
            return frame.kind if best != "none" else best
        return best

    def _same_coordinates(self) -> bool:
        """Say whether directions, not only gains, agree in the original coordinates."""
        if self.rehearsal is not None:
            return self.rehearsal.reordered
        return any(
            item.frame == "identity" and item.component != "norms" and (item.z or 0.0) > 0
            for item in _found((*self.earlier, *self.evidence))
        )

    def _settled(self, frame: str) -> bool:
        """Say whether MLPs and attention were found in all layers: then there is nothing left to look for.

        Units and heads of a large model are searched in some layers only. If they are found in all of these,
        and the other layers are known from what kept its place, other coordinates can add nothing.
        """
        groups = [self._layers_of(components, frame) for components in (("mlp", "experts"), ("attention",))]
        placed = {layers for _, found in groups for layers in found}
        searched = {(layer,) for layer in self.searched} if frame == "identity" else set()
        for tested, found in groups:
            left = tested - found
            not_searched = bool(searched & found) and not left & searched and left <= placed
            if not tested or (left and not not_searched):
                return False
        return True

    def _layers_of(
        self, components: Sequence[str], frame: str
    ) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
        """Return the single layers in which these components were tested, and where they were found."""
        tested: set[tuple[int, ...]] = {
            item.layers
            for item in self.evidence
            if isinstance(item, Tested) and item.component in components and len(item.layers) == 1
        }
        return tested, {item.layers for item in self._found_in(frame) if item.component in components}

    def _found_in(self, frame: str) -> list[Tested]:
        return [
            item
            for item in _found((*self.earlier, *self.evidence))
            if item.frame == frame and len(item.layers) == 1 and (item.z or 1.0) > 0
        ]

    def _n_layers_found(self, frame: str) -> int:
        return len({(item.component, item.layers) for item in self._found_in(frame)})

    # -- the same coordinates: units may have changed places ------------------------------------------------

    def _look_for_units(self) -> None:
        self.progress.note(say("step-units"))
        pair = replace(self.pair, layer_pairs=self._pairs_to_match(), begun_alike=self._begun_alike())
        self.searched = frozenset(layer for layer, _ in pair.layer_pairs)
        self._probe(pair, _UNIT_METHODS)

    def _begun_alike(self) -> frozenset[tuple[str, int]]:
        """Return the components and layers that show a common initialisation."""
        return frozenset(
            (item.component, layer)
            for item in (*self.earlier, *self.evidence)
            if isinstance(item, Tested) and not BEGINNING_FLAGS.isdisjoint(item.flags)
            for layer in item.layers
        )

    # -- norms along the map of layers ----------------------------------------------------------------------

    def _follow_gains(self, best: str) -> None:
        """Test the norms along the layers that were found to face each other, if numbers do not say it.

        The gains are still a fresh test. Layers were paired by the order of their units, heads or experts,
        and the null of those tests holds for any gains: strangers have a pair of layers to follow about once
        in 10^9 tests (`FOUND_LOG10_P`), whatever their gains are, and relatives have theirs because weights
        agree. That the norms were tested before, by number, is corrected for where all tests of a component
        are combined.
        """
        mine, theirs = (side.architecture.layers for side in self.pair.sides)
        if self.rehearsal is None:
            pairs = completed(self._facing_as_stored() if best == "identity" else (), mine, theirs)
        else:
            pairs = with_all(mine, theirs)  # whichever of them will be found
        if any(layer != facing for layer, facing in pairs):
            self._probe(replace(self.pair, layer_pairs=pairs), ("norm-profile",))

    def _facing_as_stored(self) -> tuple[tuple[int, int], ...]:
        """Return the layers that face each other in the original coordinates, the most certain first.

        By the cells of the map with the longest path, which are the same from either side; a path is not if
        layers appear twice. After them what was found by matching units, where nothing kept its place.
        """
        found = self._found_pairs("identity")
        maps = [item for item in self.maps if item.frame == "identity" and item.path]
        best = max(maps, key=lambda item: len(item.path), default=None)
        return (*(best.standing_out() if best is not None and found else ()), *found)

    # -- other coordinates ----------------------------------------------------------------------------------

    def _framed_pairs(self) -> Iterable[Pair]:
        """Yield the pair in other coordinates: of tokens or keys, then of units of every other layer."""
        self.learn_coordinates()
        known = self.token_frame if self.key_frame is None else self.key_frame.frame
        if known is not None:
            self.frames.append(known)
            if known.kind != "identity":
                yield replace(self.pair, frame=known)
        self.progress.note(say("step-unit-frame"))
        by_units = frame_of_units(self.reading, self.pair)
        if by_units is not None:
            self.frames.append(by_units.frame)
            if by_units.untouched:
                yield replace(self.pair, frame=by_units.frame, only_layers=by_units.untouched)
        elif self.rehearsal is not None:
            layers = frozenset(self.pair.candidate.architecture.layers)
            yield replace(self.pair, frame=self.token_frame, only_layers=layers)

    def learn_from_tokens(self) -> None:
        """Learn a map of the residual stream from rows of shared tokens."""
        self.token_frame = frame_of_tokens(self.reading, self.pair)
        if self.rehearsal is not None:
            self.token_frame = rehearsed_frame(self.pair)

    def learn_coordinates(self) -> None:
        """Learn a map of the residual stream from keys if they are needed, otherwise from tokens.

        Where all units of some layers can be read, they teach a map themselves. Of large models they cannot;
        there keys are read first: whole matrices of few layers cost less than scattered rows of tokens.
        """
        share = int(_OWN_LAYERS_SHARES[0] * self.pair.byte_allowance)
        pair = replace(self.pair, layer_pairs=self._layer_pairs())
        if not whole_layers_fit(replace(pair, byte_allowance=share)):
            self.progress.note(say("step-key-frame"))
            self.key_frame = frame_of_keys(self.reading, pair)
        if self.key_frame is None:
            self.progress.note(say("step-token-frame"))
            self.learn_from_tokens()

    def _test_in(self, pair: Pair) -> None:
        self.progress.note(say("step-framed", frame=say(f"frame.{pair.frame_kind}")))
        pair = self._probe_signed(pair)
        if pair.only_layers is None:
            self._probe(replace(pair, layer_pairs=self._pairs_to_match()), ("expert-map", "mlp-order"))

    def _probe_signed(self, pair: Pair) -> Pair:
        """Make maps of all layers; if they show that the sign of the coordinates is wrong, reverse it.

        That turns z into -z and leaves p as it is, since p counts both sides: the choice costs nothing.
        """
        before, maps = len(self.evidence), len(self.maps)
        self._probe(pair, _MAPS)
        found = _found(self.evidence[before:])
        if self.key_frame is None or pair.frame is not self.key_frame.frame or not found:
            return pair
        if 2 * sum((item.z or 0.0) < 0 for item in found) <= len(found):
            return pair
        del self.evidence[before:], self.maps[maps:]
        self.key_frame = replace(self.key_frame, frame=self.key_frame.frame.reversed())
        pair = replace(pair, frame=self.key_frame.frame)
        self._probe(pair, _MAPS)
        return pair

    def _contrast_layers(self, best: str) -> str:
        """Contrast layers that face each other with layers that do not, in learned coordinates."""
        self.progress.note(say("step-own-layers"))
        frame, layer_pairs = self.token_frame, self._layer_pairs()
        if self.key_frame is not None:
            frame = self.key_frame.frame
            # Layers whose keys taught the map are left out if there are others.
            others = tuple(both for both in layer_pairs if both not in self.key_frame.pairs)
            layer_pairs = others if len(others) > 1 else layer_pairs
        for share in _OWN_LAYERS_SHARES if self.key_frame is None else (_KEYED_SHARE,):
            wanted = int(share * self.pair.byte_allowance)
            room = min(self.reading.left, wanted)
            if self.rehearsal is not None and room < wanted:
                self.rehearsal.rooms.append(self.reading.room)
            pair = replace(self.pair, frame=frame, layer_pairs=layer_pairs, byte_allowance=room)
            if load_method("own-layers").plan(pair).probes:
                break
        self._probe_own_layers(pair)
        self.frames = [
            each for each in self.frames if not any(each.is_settled_by(other) for other in self.frames)
        ]
        found = self._contrasted()
        return found[0].frame if found and best == "none" else best

    def _probe_own_layers(self, pair: Pair) -> None:
        """Contrast layers; if configs disagree about heads, with those of either: what shows more counts."""
        tried = []
        n_tests, n_frames = len(self.evidence), len(self.frames)
        views = head_views(pair, both=True)
        for view in views:
            self._probe(view, ("own-layers",))
            tried.append((self.evidence[n_tests:], self.frames[n_frames:]))
            del self.evidence[n_tests:], self.frames[n_frames:]
        evidence, frames = max(tried, key=lambda item: len(_contrasts(item[0])))
        self.frames += frames
        self.evidence += [
            replace(item, log10_p=min(0.0, item.log10_p + math.log10(len(views))))
            if isinstance(item, Contrast)
            else item
            for item in evidence
        ]

    def _contrasted(self) -> list[Contrast]:
        return _contrasts(self.evidence)

    def _measure_agreement(self) -> None:
        """Measure what needs controls to mean something."""
        if self.token_frame is not None or self.rehearsal is not None:
            self.progress.note(say("step-agreement"))
            pair = replace(self.pair, frame=self.token_frame, layer_pairs=self._pairs_to_match())
            self._probe(pair, ("unit-agreement",))

    def _look_for_equal_rows(self, best: str) -> str:
        """Look for parts that hold the same numbers in another order, if nothing else was found."""
        if best != "none" and self.rehearsal is None:
            return best
        self.progress.note(say("step-equal-rows"))
        wanted = int(_EQUAL_SHARE * self.pair.byte_allowance)
        room = min(self.reading.left, wanted)
        if self.rehearsal is not None and room < wanted:
            self.rehearsal.rooms.append(self.reading.room)
        facing = by_depth(self.pair.candidate.architecture, self.pair.base.architecture)
        n_tests, n_frames = len(self.evidence), len(self.frames)
        self._probe(replace(self.pair, layer_pairs=facing, byte_allowance=room), ("same-rows",))
        found, learned = _found(self.evidence[n_tests:]), self.frames[n_frames:]
        del self.frames[n_frames:]
        known = [frame for frame in self.frames if frame.kind == "permutation"]
        if learned and not any(frame.has_places_of(learned[0]) for frame in known):
            self.frames.append(learned[0])
            self._test_in(replace(self.pair, frame=learned[0]))
        return next((item.frame for item in found if item.frame != "identity"), best)

    # -- layers ---------------------------------------------------------------------------------------------

    def _layer_pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the layers that may face each other: by the best map there is, then by guesses.

        Units or heads may have kept their places in one layer and not in others, so layers that the map
        leaves open are paired too: by what they write, which is only a hint, else by relative depth.
        """
        pairs = dict(by_depth(self.pair.candidate.architecture, self.pair.base.architecture))
        hints = [likely_pairs(found) for found in self.maps if found.method == "residual-writers"]
        paths = [found.path for found in self.maps]
        for proposed in (hints, paths):
            best: tuple[tuple[int, int], ...] = max(proposed, key=len, default=())
            pairs.update(best)
        return tuple(sorted(pairs.items()))

    def _pairs_to_match(self) -> tuple[tuple[int, int], ...]:
        """Choose the layers of which whole matrices are read: all of them if that is cheap."""
        pairs = self._layer_pairs()
        base = self.pair.base
        inside = {entry.tensor for entry in base.architecture.tensors if entry.layer is not None}
        held = sum(base.index[name].n_bytes for name in inside)
        cost = max(1, held // max(1, base.architecture.n_layers))
        most = max(MATCHED_LAYERS, int(_MATCH_SHARE * self.pair.byte_allowance) // cost)
        return spread_pairs(pairs, most) if self.rehearsal is None else self._heaviest(pairs, most)

    def _heaviest(self, pairs: Sequence[tuple[int, int]], most: int) -> tuple[tuple[int, int], ...]:
        """Return the pairs of layers that take the most bytes to read."""
        weights = [_layer_bytes(side) for side in (self.pair.candidate, self.pair.base)]
        return tuple(sorted(sorted(pairs, key=lambda pair: -_weight(pair, weights))[:most]))

    # -- reading --------------------------------------------------------------------------------------------

    def _probe(self, pair: Pair, names: Iterable[str]) -> None:
        for name in names:
            method = load_method(name)
            views = head_views(pair) if method.card.component == "attention" else (pair,)
            plans = [method.plan(view) for view in views]
            probes = [probe for plan in plans for probe in plan.probes]
            self.evidence += [item for plan in plans for item in plan.skipped]
            found = []
            for done, probe in enumerate(probes):
                self.progress.count(done, len(probes))
                found.append(self.reading.run(probe))
            for item in found:
                if item is not None:
                    self.evidence += item.evidence
                    self.maps += item.maps
                    self.frames += item.frames
            if None in found:
                reason = say("bytes-used-up", n=found.count(None), all=len(found))
                self.evidence.append(method.skip(reason, frame=pair.frame_kind))

    def _result(self, frame: str) -> DeepResult:
        return DeepResult(
            evidence=tuple(self.evidence),
            maps=tuple(self.maps),
            frames=tuple(self.frames),
            frame=frame,
            layer_pairs=self._found_pairs(frame),
        )

    def _found_pairs(self, frame: str) -> tuple[tuple[int, int], ...]:
        """Return the layers found to be of common origin, with the most certain base layer for each."""
        found: list[Tested | Contrast] = [*self._found_in(frame), *self._contrasted()]
        best: dict[int, Tested | Contrast] = {}
        for item in found:
            if item.component in ("mlp", "experts", "attention"):
                layer = item.layers[0]
                if layer not in best or item.log10_p < best[layer].log10_p:
                    best[layer] = item
        return tuple((layer, (best[layer].base_layers or best[layer].layers)[0]) for layer in sorted(best))


def agreements(models: ModelPair, tokens: Tokens, rehearsal: Rehearsal | None = None) -> tuple[Evidence, ...]:
    """Measure only the agreement of a pair, as for controls."""
    stage = DeepStage(models, tokens, rehearsal=rehearsal)
    stage.learn_from_tokens()
    stage._measure_agreement()
    return tuple(item for item in stage.evidence if not isinstance(item, Skipped))


def contrasts(models: ModelPair, tokens: Tokens, rehearsal: Rehearsal | None = None) -> tuple[Evidence, ...]:
    """Only contrast the layers of a pair, as for controls."""
    stage = DeepStage(models, tokens, rehearsal=rehearsal)
    stage.learn_coordinates()
    stage._contrast_layers("none")
    return tuple(stage.evidence)


def _layer_bytes(side: Side) -> dict[int, int]:
    held: dict[int, int] = {}
    for entry in side.architecture.tensors:
        if entry.layer is not None:
            held[entry.layer] = held.get(entry.layer, 0) + side.index[entry.tensor].n_bytes
    return held


def _weight(pair: tuple[int, int], weights: Sequence[Mapping[int, int]]) -> int:
    return sum(held.get(layer, 0) for layer, held in zip(pair, weights, strict=True))


def _contrasts(evidence: Iterable[Evidence]) -> list[Contrast]:
    return [item for item in evidence if isinstance(item, Contrast) and item.log10_p < FOUND_LOG10_P]


def _found(evidence: Iterable[Evidence]) -> list[Tested]:
    """Return the tests that leave no doubt."""
    return [item for item in evidence if isinstance(item, Tested) and item.log10_p < FOUND_LOG10_P]
