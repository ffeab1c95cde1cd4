"""Heads that were reordered, mixed or pruned: each is searched for among all heads of the other layer.

What a head computes is the product of its output and value matrices. It does not change when the value
dimensions inside the head are mixed, and it belongs to the head whatever its number. Heads are matched on one
half of the residual dimensions, and the order of the other half is tested. The gain in front of the values is
part of the product; if no heads are found with it, gains may be new, and values are tried by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from modelkin.architecture import Role
from modelkin.comparison.alignment import match_units
from modelkin.message import say
from modelkin.tensors import Array

from ._gains import acting_gain, gain_before, gain_slices
from ._interface import Findings, Method, Pair, Part, Planned, Probe, Side
from ._result import HEADS_ALIKE, Evidence, Tested
from ._sketch import RowSource, rows_part, source_of
from .axis import unit_evidence
from .beginnings import BEGUN_ALIKE
from .blocks import UnitChoice, unit_block
from .unit_matching import FOUND_COSINE, in_order

MOST_DIMENSIONS = 192
"""Half of them match heads and half test the match, 96 each. Bytes grow with them."""
HEADS_FOUND = 0.5
"""Share of the heads that must be found: for relatives, after any training, all are."""
_SAME_HEAD = 0.9
"""Cosine from which a head is the same and not just alike. In the same coordinates, heads that do the same
work look alike: students of hidden states, which have no head in common with their teacher, have up to three
of four above 0.5, and reach 0.79 after four times the teacher's training; light fine-tunes stay above
0.94."""

_WAYS = 2
"""With gains and without: each p-value is corrected for both, tried or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heads:
    value: RowSource
    output: RowSource
    width: int
    """Of the values of a head."""
    n_heads: int
    n_groups: int


@final
class HeadMatching(Method):
    """Ask whether heads found on one half of the dimensions are the same on the other half."""

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan values and outputs of each pair of layers."""
        for layer, facing in pair.layer_pairs:
            mine, theirs = _heads(pair.candidate, layer), _heads(pair.base, facing)
            if mine is None or theirs is None:
                yield self.skip(say("outputs-by-heads"), layers=(layer,))
            else:
                yield self._probe(pair, (layer, facing), mine, theirs)

    def _probe(self, pair: Pair, layers: tuple[int, int], mine: _Heads, theirs: _Heads) -> Probe[Findings]:
        width = pair.base.architecture.sizes["residual"]
        n = min(MOST_DIMENSIONS, width)
        rng = np.random.default_rng([pair.seed, 31])
        first, order = int(rng.integers(0, width - n + 1)), rng.permutation(n)
        seen, kept = np.sort(order[: n // 2]), np.sort(order[n // 2 :])

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            has_gains = max(len(candidate), len(base)) > 2
            for gained in (True, False) if has_gains else (False,):
                products = (
                    _products(candidate, mine, first, n, gained=gained),
                    _products(base, theirs, first, n, gained=gained),
                )
                made = self._judged(pair, layers, products, seen, kept)
                if isinstance(made, Tested):
                    break
            return Findings(evidence=(made,))

        return Probe(
            candidate=_parts(pair.candidate, mine, first, n),
            base=_parts(pair.base, theirs, first, n),
            evaluate=evaluate,
        )

    def _judged(
        self, pair: Pair, layers: tuple[int, int], products: tuple[Array, Array], seen: Array, kept: Array
    ) -> Evidence:
        """Match heads by their products among seen dimensions; judge them by those with held-out ones."""
        if (self.card.component, layers[0]) in pair.begun_alike:
            return self.skip(BEGUN_ALIKE, layers=(layers[0],))
        inner = [heads[:, seen][:, :, seen].reshape(len(heads), -1) for heads in products]
        match = match_units(inner[0], inner[1], seed=pair.seed)
        if not match.usable.any():
            return self.skip(say("heads-zero"), layers=(layers[0],))
        places = match.places[match.usable]
        paired = products[0][match.usable], products[1][places]
        outer = [heads[:, kept][:, :, kept] for heads in paired]
        cosines = np.array([_cosine(a, b) for a, b in zip(*outer, strict=True)])
        found, same = (float(np.mean(cosines > level)) for level in (FOUND_COSINE, _SAME_HEAD))
        if found < HEADS_FOUND:
            return self.skip(say("heads-found", share=found), layers=(layers[0],))
        # Described by seen dimensions only: renumbering the held-out ones moves rows and nothing else.
        rows = [heads[:, kept][:, :, seen].transpose(1, 0, 2).reshape(len(kept), -1) for heads in paired]
        test = unit_evidence(
            self,
            (rows[0], rows[1]),
            seed=pair.seed,
            layers=(layers[0],),
            base_layers=(layers[1],),
            role=Role.ATTENTION_OUTPUT.value,
            details={"heads": len(places), "heads_found": found, "cells": pair.n_layer_pairs},
            chosen_from=_WAYS * pair.n_layer_pairs,
            reordered=not in_order(places),
        )
        return test.flagged(HEADS_ALIKE) if isinstance(test, Tested) and same < HEADS_FOUND else test


def _heads(side: Side, layer: int) -> _Heads | None:
    value = source_of(side, Role.ATTENTION_VALUE, "v_dim", layer)
    output = source_of(side, Role.ATTENTION_OUTPUT, "v_dim", layer)
    width, residual = side.architecture.sizes.get("v_dim"), side.architecture.sizes.get("residual")
    if value is None or output is None or not width:
        return None
    n_heads, n_groups = output.n_units // width, value.n_units // width
    if not n_groups or n_heads % n_groups or value.n_features != residual or output.n_features != residual:
        return None
    return _Heads(value=value, output=output, width=width, n_heads=n_heads, n_groups=n_groups)


def _parts(side: Side, heads: _Heads, first: int, n: int) -> tuple[Part, ...]:
    """Plan all values, the rows of the output that write into the chosen dimensions, and the gain, if any."""
    block = unit_block(
        heads.output.entry,
        side.index[heads.output.entry.tensor],
        space="residual",
        choice=UnitChoice(first_unit=first, n_units=n),
    )
    gain = gain_before(side.architecture, heads.value.entry)
    output = Part(slices=(block.slice,), reduce=lambda arrays: np.ascontiguousarray(block.matrix(arrays[0])))
    acting = Part(slices=gain_slices(gain), reduce=lambda arrays: acting_gain(arrays[0], side.architecture))
    values = rows_part(side, heads.value, with_gain=False)
    return (values, output) if gain is None else (values, output, acting)


def _products(arrays: Sequence[Array], heads: _Heads, first: int, n: int, *, gained: bool) -> Array:
    """Return for each head its product over the chosen dimensions (heads x written x read)."""
    value, gains = arrays[0][:, first : first + n], arrays[2:] if gained else ()
    for gain in gains:
        value = value * gain[first : first + n]
    value = value.reshape(heads.n_groups, heads.width, n)
    output = arrays[1].reshape(n, heads.n_heads, heads.width).transpose(1, 0, 2)
    spread = np.repeat(value, heads.n_heads // heads.n_groups, axis=0)
    return np.nan_to_num(np.asarray(output @ spread, dtype=np.float32), posinf=0.0, neginf=0.0)


def _cosine(a: Array, b: Array) -> float:
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.vdot(a, b)) / norm if norm > 0 else 0.0
