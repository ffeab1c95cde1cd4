"""The deep stage: find out which parts face each other, cheapest attempt first, and test them there.

1. All layers against all layers, with coordinates as they are: a changed depth, and whether the residual
   streams have the same coordinates at all.
2. If they have: units, heads and experts that were reordered, thinned out or copied.
3. If they have not: a map of the residual stream is learned from embeddings and output head (or from units of
   some layers) and step 1 is made again in the new coordinates, on tensors the map was not learned from.
4. If units were reordered as well, only a comparison with controls is left; see `UnitAgreement`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field, replace

import numpy as np

from modelkin.architecture import Architecture, Role
from modelkin.comparison.alignment import Frame, LayerMap, find_frame, likely_pairs
from modelkin.comparison.methods import (
    Evidence,
    FrameRows,
    Pair,
    Side,
    Skipped,
    Tested,
    acting_gain,
    frame_rows,
    load_method,
    untouched_layers,
)
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import Reading
from modelkin.comparison.tokens import Tokens
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.progress import Progress, Silent
from modelkin.tensors import Array, TensorSlice

FOUND_LOG10_P = -9.0
"""Evidence this strong settles where to look next: enough for the rule, corrected for all that is tested."""
MATCHED_LAYERS = 3
"""Pairs of layers of which whole matrices are read."""
_GOOD_FIT = 0.9
"""Strangers of one recipe reach 0.83."""
_MATCH_SHARE = 0.1
"""Part of the byte allowance up to which more layers than that are matched."""
_TOKENS_A_DIMENSION = 3
_TOKEN_SHARE = 0.19
"""Part of the byte allowance for rows of the embedding, and again for rows of the output head."""
_WELL = 0.98
"""A map that fits this well is not learned once more from other rows."""
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
    progress: Progress = field(default_factory=Silent)
    evidence: list[Evidence] = field(default_factory=list)
    maps: list[LayerMap] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    token_frame: Frame | None = None
    pair: Pair = field(init=False)
    reading: Reading = field(init=False)

    def __post_init__(self, tokens: Tokens) -> None:
        self.pair = self.models.seen(tokens, self.models.deep_bytes())
        self.reading = Reading(self.models.models, self.pair.byte_allowance)

    def run(self) -> DeepResult:
        """Make attempts until one decides."""
        self.progress.note(say("step-maps"))
        self._survey(self.pair, (*_MAPS, "residual-writers"))
        if not self._settled("identity") and self._same_coordinates():
            self._look_for_units()
        best = "identity" if self._same_coordinates() else "none"
        if not self._settled("identity"):
            best = self._best_frame(best)
        if not self._settled(best):
            self._measure_agreement()
        return self._result(best)

    def rehearse(self, *, with_units: bool) -> int:
        """Go through all steps and read nothing: `reading` then holds what they would read, at most.

        Which layers are matched depends on what is found; by relative depth is as good a guess as any, since
        all layers are of one size in nearly all models.
        """
        matched = replace(self.pair, layer_pairs=self._pairs_to_match())
        self._rehearse(self.pair, (*_MAPS, "residual-writers"))
        self._rehearse(matched, _UNIT_METHODS if with_units else ())
        for role in (Role.EMBEDDING, Role.OUTPUT_HEAD):
            wanted = _token_slices(self.pair, role)
            if wanted is not None:
                self.reading.pay(*wanted)
        rows = frame_rows(self.pair)
        if rows is not None:
            self.reading.pay(*_slices(rows))
        self._rehearse(matched, ("unit-agreement",))
        return max(self.reading.spent)

    def _rehearse(self, pair: Pair, names: Iterable[str]) -> None:
        for name in names:
            for survey in load_method(name).plan(pair).surveys:
                self.reading.pay_survey(survey)

    def _best_frame(self, best: str) -> str:
        """Try other coordinates; they are better where units of more layers are found in them."""
        most = self._n_layers_found("identity")
        for pair in self._framed_pairs():
            self._test_in(pair)
            if self._n_layers_found(pair.frame_kind) > most:
                return pair.frame_kind
        frame = self.token_frame
        if frame is not None and frame.kind != "identity" and frame.fit > _GOOD_FIT:
            # Nothing exact is left to be found there, but nothing can be missing in coordinates as they are.
            return frame.kind if best != "none" else best
        return best

    def _same_coordinates(self) -> bool:
        """Say whether directions, not only gains, agree in coordinates as they are."""
        return any(
            item.frame == "identity" and item.component != "norms" and (item.z or 0.0) > 0
            for item in _found((*self.earlier, *self.evidence))
        )

    def _settled(self, frame: str) -> bool:
        """Say whether MLPs and attention were found in all layers: then there is nothing left to look for."""
        for components in (("mlp", "experts"), ("attention",)):
            tested = {
                item.layers
                for item in self.evidence
                if isinstance(item, Tested) and item.component in components and len(item.layers) == 1
            }
            found = {item.layers for item in self._found_in(frame) if item.component in components}
            if not tested or found != tested:
                return False
        return True

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
        self._survey(replace(self.pair, layer_pairs=self._pairs_to_match()), _UNIT_METHODS)

    # -- other coordinates ----------------------------------------------------------------------------------

    def _framed_pairs(self) -> Iterable[Pair]:
        """Yield the pair in other coordinates: learned from tokens, then from units of every other layer."""
        self.progress.note(say("step-token-frame"))
        by_tokens = learn_frame(self.reading, self.pair)
        if by_tokens is not None:
            self.token_frame = by_tokens
            self.frames.append(by_tokens)
            if by_tokens.kind != "identity":
                yield replace(self.pair, frame=by_tokens)
        self.progress.note(say("step-unit-frame"))
        rows = frame_rows(self.pair)
        if rows is None or not self.reading.pay(*_slices(rows)):
            return
        learned = self.reading.read_parts(0, rows.candidate), self.reading.read_parts(1, rows.base)
        made = find_frame(
            np.concatenate(learned[0]),
            np.concatenate(learned[1]),
            learned_from=say("even-layers"),
            seed=self.pair.seed,
        )
        if isinstance(made, Frame):
            self.frames.append(made)
            if made.kind == "identity":
                return
            left = (
                self.reading.read_parts(0, rows.left_candidate),
                self.reading.read_parts(1, rows.left_base),
            )
            untouched = untouched_layers(rows.left, learned=learned, left=left)
            if untouched:
                yield replace(self.pair, frame=made, only_layers=untouched)

    def _test_in(self, pair: Pair) -> None:
        self.progress.note(say("step-framed", frame=say(f"frame.{pair.frame_kind}")))
        self._survey(pair, _MAPS)
        if pair.only_layers is None:
            self._survey(replace(pair, layer_pairs=self._pairs_to_match()), ("expert-map", "mlp-order"))

    def _measure_agreement(self) -> None:
        """Measure what needs controls to mean something."""
        if self.token_frame is not None:
            self.progress.note(say("step-agreement"))
            pair = replace(self.pair, frame=self.token_frame, layer_pairs=self._pairs_to_match())
            self._survey(pair, ("unit-agreement",))

    # -- layers ---------------------------------------------------------------------------------------------

    def _layer_pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the layers that may face each other: by the best map there is, then by guesses.

        Units or heads may have kept their places in one layer and not in the others, so layers that the map
        leaves open are paired too: by what they write, which is a hint only, else by relative depth.
        """
        pairs = dict(by_depth(self.pair.candidate.architecture, self.pair.base.architecture))
        hints = [likely_pairs(found) for found in self.maps if found.method == "residual-writers"]
        paths = [found.path for found in self.maps]
        for proposed in (hints, paths):
            best: tuple[tuple[int, int], ...] = max(proposed, key=len, default=())
            pairs.update(best)
        return tuple(sorted(pairs.items()))

    def _pairs_to_match(self) -> tuple[tuple[int, int], ...]:
        """Choose the layers of which whole matrices are read: all of them, where that is cheap."""
        pairs = self._layer_pairs()
        base = self.pair.base
        inside = {entry.tensor for entry in base.architecture.tensors if entry.layer is not None}
        held = sum(base.index[name].n_bytes for name in inside)
        cost = max(1, held // max(1, base.architecture.n_layers))
        return spread_pairs(pairs, max(MATCHED_LAYERS, int(_MATCH_SHARE * self.pair.byte_allowance) // cost))

    # -- reading --------------------------------------------------------------------------------------------

    def _survey(self, pair: Pair, names: Iterable[str]) -> None:
        for name in names:
            method = load_method(name)
            plan = method.plan(pair)
            self.evidence += plan.skipped
            n_left_out = 0
            for survey in plan.surveys:
                keep = name if name in _MAPS else ""
                if not self.reading.pay_survey(survey, keep=keep):
                    n_left_out += 1
                    continue
                found = survey.evaluate(*self.reading.read_survey(survey, keep=keep))
                self.evidence += found.evidence
                self.maps += found.maps
            if n_left_out:
                reason = say("bytes-used-up", n=n_left_out, all=len(plan.surveys))
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
        """Return the layers that were found to be of common origin, the surest base layer for each."""
        best: dict[int, Tested] = {}
        for item in self._found_in(frame):
            if item.component in ("mlp", "experts", "attention"):
                layer = item.layers[0]
                if layer not in best or item.log10_p < best[layer].log10_p:
                    best[layer] = item
        return tuple((layer, (best[layer].base_layers or best[layer].layers)[0]) for layer in sorted(best))


def learn_frame(reading: Reading, pair: Pair) -> Frame | None:
    """Learn a map of the residual stream from embeddings or output head, whichever fits better."""
    best: Frame | None = None
    for role, code in ((Role.EMBEDDING, "embedding-rows"), (Role.OUTPUT_HEAD, "head-rows")):
        wanted = _token_slices(pair, role)
        if wanted is None or not reading.pay(*wanted):
            continue
        # Handed over and not held here: `find_frame` gives rows back when it needs them no more.
        rows = [
            _token_rows(model, side, slices, role)
            for model, side, slices in zip(reading.models, (pair.candidate, pair.base), wanted, strict=True)
        ]
        made = find_frame(rows.pop(0), rows.pop(), learned_from=say(code), seed=pair.seed)
        if isinstance(made, Frame) and (best is None or made.fit > best.fit):
            best = made
        if best is not None and best.fit > _WELL:
            break
    return best


def _token_slices(pair: Pair, role: Role) -> tuple[tuple[TensorSlice, ...], tuple[TensorSlice, ...]] | None:
    """Plan rows of shared tokens on both sides, and the gain that the output head reads through."""
    sides, tokens = (pair.candidate, pair.base), pair.tokens
    entries = [side.architecture.find(role) for side in sides]
    if isinstance(tokens, Message) or entries[0] is None or entries[1] is None:
        return None
    infos = [side.index[entry.tensor] for side, entry in zip(sides, entries, strict=True) if entry]
    widths = [side.architecture.sizes.get("residual") for side in sides]
    if any(info.shape[-1] != width for info, width in zip(infos, widths, strict=True)):
        return None
    row_bytes = max(info.row_bits // 8 for info in infos)
    most = min(
        _TOKENS_A_DIMENSION * max(info.shape[-1] for info in infos),
        int(_TOKEN_SHARE * pair.byte_allowance) // max(1, row_bytes),
    )
    rows = [
        (mine, theirs)
        for mine, theirs in zip(tokens.candidate, tokens.base, strict=True)
        if mine < infos[0].n_rows and theirs < infos[1].n_rows
    ][:most]
    mine, theirs = (
        (
            TensorSlice.scattered(info.name, [row[column] for row in rows]),
            *(TensorSlice.whole(name) for name in _last_gains(side, role)),
        )
        for column, (side, info) in enumerate(zip(sides, infos, strict=True))
    )
    return mine, theirs


def _token_rows(model: Model, side: Side, slices: tuple[TensorSlice, ...], role: Role) -> Array:
    values, *gains = model.read(slices)
    rows = np.asarray(values, dtype=np.float32)
    return rows * acting_gain(gains[0], side.architecture) if gains else rows


def _last_gains(side: Side, role: Role) -> tuple[str, ...]:
    """Return the gain of the last norm, which the output head reads through."""
    norm = side.architecture.find(Role.FINAL_NORM) if role is Role.OUTPUT_HEAD else None
    return () if norm is None else (norm.tensor,)


def _slices(rows: FrameRows) -> tuple[list[TensorSlice], list[TensorSlice]]:
    sides = (*rows.candidate, *rows.left_candidate), (*rows.base, *rows.left_base)
    mine, theirs = ([item for part in parts for item in part.slices] for parts in sides)
    return mine, theirs


def agreements(models: ModelPair, tokens: Tokens) -> tuple[Evidence, ...]:
    """Measure the agreement of a pair and nothing else, as is done for controls."""
    stage = DeepStage(models, tokens)
    stage.token_frame = learn_frame(stage.reading, stage.pair)
    stage._measure_agreement()
    return tuple(item for item in stage.evidence if not isinstance(item, Skipped))


def by_depth(candidate: Architecture, base: Architecture) -> tuple[tuple[int, int], ...]:
    """Pair layers of equal relative depth."""
    mine, theirs = candidate.layers, base.layers
    if not mine or not theirs:
        return ()
    scale = (len(theirs) - 1) / max(1, len(mine) - 1)
    return tuple((layer, theirs[math.floor(number * scale + 0.5)]) for number, layer in enumerate(mine))


def spread_pairs(pairs: Sequence[tuple[int, int]], most: int) -> tuple[tuple[int, int], ...]:
    """Choose pairs of layers spread over the depth."""
    if len(pairs) <= most:
        return tuple(pairs)
    return tuple(pairs[math.floor((2 * i + 1) * len(pairs) / (2 * most))] for i in range(most))


def _found(evidence: Iterable[Evidence]) -> list[Tested]:
    """Return the tests that leave no doubt."""
    return [item for item in evidence if isinstance(item, Tested) and item.log10_p < FOUND_LOG10_P]
