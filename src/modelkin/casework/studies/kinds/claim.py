"""``claim``: an argument from cosines to many sigmas, computed as it was made, and its refutation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

import numpy as np
from msgspec import field

from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import (
    NORM,
    AliasPair,
    Controls,
    LayerNumber,
    Layers,
    Roles,
    SavedVectors,
)
from modelkin.casework.studies.saved import AllSaved, load_vectors, optional
from modelkin.casework.studies.spec import Experiment
from modelkin.describe.measures import MEASURES, Pairs, Stack, measured
from modelkin.message import Message, phrase, say


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine:
    """One cosine with its decomposition."""

    a: str
    layer_a: int
    b: str
    layer_b: int
    cosine: float | None
    expected: float | None
    pearson: float | None


class Argument(Experiment, tag="claim"):
    """An argument from cosines to sigmas, and the same arithmetic where nothing is related."""

    vectors: SavedVectors = field(name="from")
    pair: AliasPair
    layers: Layers
    controls: Controls = Controls()
    roles: Roles = NORM
    """The first is taken."""
    zero: LayerNumber = 0
    """The layer that the others are compared with within each model."""

    def run(self, bench: Bench) -> None:
        """Compute the argument, then the same arithmetic on what no relation could change, and controls."""
        saved, role = load_vectors(bench, self.vectors), self.roles[0]
        a, b = self.pair
        layers = self._layers(bench, saved)
        zero = {
            name: _cosines(saved, role, [(name, self.zero, name, layer) for layer in layers])
            for name in (a, b)
        }
        among = {
            name: _cosines(saved, role, [(name, i, name, j) for i, j in combinations(layers, 2)])
            for name in (a, b)
        }
        cross = _cross(saved, a, b, role, layers)
        others = {
            bench.names(name, control): _control(saved, name, control, role, layers)
            for control in self.controls
            for name in (a, b)
        }
        claim = sigmas(_values(zero[b], "cosine"), _values(cross, "cosine"))
        shuffled = sigmas(_values(zero[b], "expected"), _values(cross, "expected"))
        fair = sigmas(_values(among[b], "cosine"), _values(cross, "cosine"))
        groups = {
            phrase("study.zero-with-others", model=bench.name(a), layer=self.zero): zero[a],
            phrase("study.zero-with-others", model=bench.name(b), layer=self.zero): zero[b],
            bench.names(a, b): cross,
            phrase("study.other-layers", model=bench.name(a)): among[a],
            phrase("study.other-layers", model=bench.name(b)): among[b],
            **{key: item for key, item in others.items() if not isinstance(item, Message)},
        }
        for key, item in others.items():
            if isinstance(item, Message):
                bench.leave(say("study.control", name=key), item)
        bench.folder.json(
            bench.data("-cosines.json"),
            {key: [asdict(item) for item in items] for key, items in groups.items()},
        )
        bench.document(
            {
                "pair": self.pair,
                "layers": layers,
                "zero": self.zero,
                "groups": {key: _means(items) for key, items in groups.items()},
                "baseline": list(groups)[:2],
                "evidence": list(groups)[2],
                "claim": claim,
                "same_arithmetic_on_expectations": shuffled,
                "without_layer_zero": fair,
                "controls": {
                    key: item
                    if isinstance(item, Message)
                    else sigmas(_values(zero[b], "cosine"), _values(item, "cosine"))
                    for key, item in others.items()
                },
            },
            tables=[shown("claim", [_row(key, items) for key, items in groups.items()])],
            said=self._said(bench, claim, shuffled, fair, cross),
        )

    def _layers(self, bench: Bench, saved: AllSaved) -> tuple[int, ...]:
        role = self.roles[0]
        for name in self.pair:
            if (name, role) not in saved:
                raise NotDone(say("study.no-vectors-of", name=name))
        one, other = (saved[name, role] for name in self.pair)
        if one.n != other.n:
            raise NotDone(say("study.lengths-of-pair"))
        common = set(one.layers) & set(other.layers)
        gone = [layer for layer in (self.zero, *self.layers.numbers) if layer not in common]
        if gone:
            bench.leave(
                say("study.layers", layers=", ".join(map(str, gone))), say("study.layers-not-in-both")
            )
        layers = tuple(layer for layer in self.layers.numbers if layer in common)
        if len(layers) < 2 or self.zero not in common:
            raise NotDone(say("study.argument-layers"))
        return layers

    def _said(
        self,
        bench: Bench,
        claim: Mapping[str, float | None],
        shuffled: Mapping[str, float | None],
        fair: Mapping[str, float | None],
        cross: Sequence[Cosine],
    ) -> list[dict[str, object]]:
        a, b = (bench.name(name) for name in self.pair)
        parts = {name: claim[name] for name in ("d", "difference", "baseline", "evidence")}
        told = [
            said("claim_made", a=a, b=b, zero=self.zero, **parts),
            said("claim_no_p", n=len(cross)),
            said("claim_expected", d=shuffled["d"], difference=shuffled["difference"]),
            said("claim_fair", zero=self.zero, baseline=fair["baseline"], evidence=fair["evidence"]),
        ]
        if (pearson := _means(cross)["pearson"]) is not None:
            told.append(said("claim_left", pearson=pearson))
        return told


def _cosines(saved: AllSaved, role: str, pairs: Sequence[tuple[str, int, str, int]]) -> list[Cosine]:
    one = np.stack([saved[a, role].at((i,))[0] for a, i, _, _ in pairs])
    other = np.stack([saved[b, role].at((j,))[0] for _, _, b, j in pairs])
    mine, theirs, facing = Stack(one), Stack(other), Pairs.diagonal(len(pairs))
    cosine = measured(MEASURES["cosine"], mine, theirs, facing, expect=True)
    pearson = measured(MEASURES["pearson"], mine, theirs, facing)
    return [
        Cosine(
            a=a,
            layer_a=i,
            b=b,
            layer_b=j,
            cosine=optional(cosine.values[k]),
            expected=optional(cosine.expected[k]),
            pearson=optional(pearson.values[k]),
        )
        for k, (a, i, b, j) in enumerate(pairs)
    ]


def _cross(saved: AllSaved, a: str, b: str, role: str, layers: Sequence[int]) -> list[Cosine]:
    return _cosines(saved, role, [(a, layer, b, layer) for layer in layers])


def _control(
    saved: AllSaved, name: str, control: str, role: str, layers: Sequence[int]
) -> list[Cosine] | Message:
    if (control, role) not in saved:
        return say("study.control-unread")
    if saved[control, role].n != saved[name, role].n:
        return say("study.control-length")
    common = [layer for layer in layers if layer in saved[control, role].layers]
    return _cross(saved, name, control, role, common) if common else say("study.control-layers")


def _values(items: Sequence[Cosine], name: str) -> list[float]:
    return [value for item in items if (value := getattr(item, name)) is not None]


def sigmas(baseline: Sequence[float], evidence: Sequence[float]) -> dict[str, float | None]:
    """Compute the arithmetic of the claim: a difference of means over the root of the mean variance.

    That is Cohen's d, an effect size of a few chosen values. It is not a z score, and no p-value follows.

    Examples
    --------
    >>> round(sigmas([0.375810, 0.375664, 0.377255, 0.379035], [0.981094, 0.991792, 0.991429, 0.991635])["d"])
    182
    """
    if not baseline or not evidence:
        return dict.fromkeys(("baseline", "baseline_sd", "evidence", "evidence_sd", "difference", "d"))
    low, high = np.array(baseline), np.array(evidence)
    pooled = math.sqrt((low.var() + high.var()) / 2)
    difference = float(high.mean() - low.mean())
    return {
        "baseline": float(low.mean()),
        "baseline_sd": float(low.std()),
        "evidence": float(high.mean()),
        "evidence_sd": float(high.std()),
        "difference": difference,
        "d": difference / pooled if pooled > 0 else None,
    }


def _means(items: Sequence[Cosine]) -> dict[str, float | None]:
    return {name: _mean(_values(items, name)) for name in ("cosine", "expected", "pearson")}


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _row(what: str, items: Sequence[Cosine]) -> dict[str, object]:
    found = _means(items)
    cosine, expected = found["cosine"], found["expected"]
    return {
        "what": what,
        "cosine": cosine,
        "expected": expected,
        "excess": None if cosine is None or expected is None else cosine - expected,
        "pearson": found["pearson"],
        "pairs": len(items),
    }
