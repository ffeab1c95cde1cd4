"""Strangers in coordinates that they share: token tables, gains or keys are common, everything else is drawn.

Methods that look for units, heads and experts search only where coordinates are the same or can be learned.
Models that share nothing teach none; here they are taught, and what is found in them must be nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from tests.comparison.disguises import disguised
from tests.comparison.expectations import DEEP
from tests.scale.lifelike import Grown
from tests.scale.record import Kept, record
from tests.scale.surveyed import methods_of

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import MemorySource

Models = tuple[Checkpoint, Checkpoint]
SIZES: Mapping[int, Grown] = {
    256: Grown(width=256, layers=3, units=512, heads=8, kv_heads=4, vocab=1_000),
    1_024: Grown(width=1_024, layers=4, units=1_408, heads=16, kv_heads=4, vocab=4_000),
    4_096: Grown(width=4_096, layers=3, units=1_024, heads=32, kv_heads=8, vocab=5_000),
}
MIXED: Mapping[int, Grown] = {
    256: Grown(width=256, layers=2, units=64, heads=8, kv_heads=4, vocab=1_000, experts=16),
    1_024: Grown(width=1_024, layers=2, units=64, heads=16, kv_heads=4, vocab=2_000, experts=64),
    4_096: Grown(width=4_096, layers=2, units=256, heads=32, kv_heads=8, vocab=2_000, experts=16),
}
_DRAWN = frozenset({"mlp", "experts", "router", "attention", "residual"})
_DIRECTIONS, _SIZE = 24, 1.5
"""Directions that units of both models read, and how large they are beside the rest: over half of a row."""
SMALLEST = -6.0
"""log10 p below which one test of what was drawn would be an accusation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What two strangers have in common, and what is tried because of it."""

    make: Callable[[Checkpoint, Checkpoint], Models]
    how: str
    tried: Mapping[str, frozenset[str]]
    """By method, the reasons to have found nothing that are right; none if it has to give a result."""
    mixture: bool = False
    drawn: frozenset[str] = _DRAWN


def _with_tables(candidate: Checkpoint, base: Checkpoint) -> Checkpoint:
    return derive.copy_parts(candidate, base, parts=["embeddings", "head"])


def _with_keys(candidate: Checkpoint, base: Checkpoint) -> Checkpoint:
    return candidate.with_tensors(
        {name: rows for name, rows in base.tensors.items() if "k_proj" in name or "input_layernorm" in name}
    )


def with_directions(model: Checkpoint, *, seed: int) -> Checkpoint:
    """Let all units read a few directions, the same in every model, each as much as it likes."""
    width = int(model.config["hidden_size"])
    sizes = np.arange(1, _DIRECTIONS + 1, dtype=np.float32)[:, None] ** np.float32(-0.7)
    basis = np.random.default_rng(77).standard_normal((_DIRECTIONS, width), dtype=np.float32) * sizes
    rng = np.random.default_rng([seed, 78])
    return model.with_tensors(
        {
            name: rows
            + np.float32(_SIZE * rows.std() / 2)
            * (rng.standard_normal((len(rows), _DIRECTIONS), dtype=np.float32) @ basis)
            for name, rows in model.tensors.items()
            if "gate_proj" in name or "up_proj" in name
        }
    )


def _fewer(model: Checkpoint) -> Checkpoint:
    return derive.prune_mlp_units(model, n_kept=int(model.config["intermediate_size"]) * 7 // 10)


_NOT_FOUND = {"mlp-matching": frozenset({"units-found"}), "head-matching": frozenset({"heads-found"})}
_CONTRASTED: Mapping[str, frozenset[str]] = {"own-layers": frozenset()}
KINDS: Mapping[str, Common] = {
    "tokens": Common(
        make=lambda one, two: (_with_tables(one, two), two),
        how="the base's token tables",
        tried=_NOT_FOUND,
    ),
    "tokens, fewer units": Common(
        make=lambda one, two: (_fewer(_with_tables(one, two)), two),
        how="the base's token tables, and seven tenths as many units",
        tried={**_NOT_FOUND, "mlp-order": frozenset()},
    ),
    "tokens and directions": Common(
        make=lambda one, two: (
            with_directions(_with_tables(one, two), seed=1),
            with_directions(two, seed=2),
        ),
        how="the base's token tables, and directions that all units read",
        tried=_NOT_FOUND,
    ),
    "tokens, experts": Common(
        make=lambda one, two: (_with_tables(one, two), two),
        how="the base's token tables; mixtures of experts",
        tried={
            **_NOT_FOUND,
            "router-matching": frozenset({"units-found"}),
            "expert-map": frozenset(),
        },
        mixture=True,
    ),
    "tokens, turned": Common(
        make=lambda one, two: (disguised(_with_tables(one, two), "rotation-and-gains"), two),
        how="the base's token tables, all of it turned by one rotation",
        tried=_CONTRASTED,
    ),
    "tokens and directions, reordered": Common(
        make=lambda one, two: (
            disguised(with_directions(_with_tables(one, two), seed=1), "residual-permutation"),
            with_directions(two, seed=2),
        ),
        how="the base's token tables, and directions that all units read; dimensions in another order",
        tried=_CONTRASTED,
    ),
    "gains, reordered": Common(
        make=lambda one, two: (
            disguised(derive.copy_parts(one, two, parts=["norms"]), "residual-permutation"),
            two,
        ),
        how="the base's norm gains, all dimensions in another order",
        tried=_CONTRASTED,
    ),
    "keys, reordered": Common(
        make=lambda one, two: (disguised(_with_keys(one, two), "residual-permutation"), two),
        how="the base's keys, all dimensions in another order",
        tried=_CONTRASTED,
        drawn=_DRAWN - {"attention"},
    ),
}
"""By name."""


def compared(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    """Compare two models at deep depth."""
    return mk.compare(
        candidate=MemorySource(candidate.files("BF16"), name="candidate"),
        base=MemorySource(base.files("BF16"), name="base"),
        options=DEEP,
    )


def measure(kind: str, width: int, *, keep: bool = True) -> Kept:
    """Compare two of these strangers, and keep what came out; what is wrong with it is among the problems."""
    began, common = time.process_time(), KINDS[kind]
    size = (MIXED if common.mixture else SIZES)[width]
    models = common.make(size.drawn(seed=2), size.drawn(seed=1))
    result = compared(*models)
    of_drawn = methods_of(item for item in result.evidence if item.component in common.drawn)
    found: Kept = {
        "name": f"{kind}, {width:,}",
        "kind": kind,
        "how": common.how,
        "width": width,
        "conclusion": result.verdict.conclusion.value,
        "frames": sorted({item.kind for item in result.alignment.frames}),
        "problems": _problems(common, result, of_drawn),
        "methods": of_drawn,
        "cpu_seconds": time.process_time() - began,
    }
    return record("coordinates", **found) if keep else found


def _problems(common: Common, result: mk.Comparison, methods: Mapping[str, Kept]) -> list[str]:
    parts = result.verdict.components
    found = [
        f"{name} was drawn and accused"
        for name in sorted(common.drawn & {*parts})
        if parts[name].conclusion.related
    ]
    found += [
        f"{name} has a p of 10^{each['smallest']}"
        for name, each in methods.items()
        if each["smallest"] is not None and each["smallest"] < SMALLEST
    ]
    for name, reasons in common.tried.items():
        made = methods.get(name, {"results": 0, "skipped": []})
        if not made["results"] and (not reasons or not reasons & {*made["skipped"]}):
            found.append(f"{name} was not tried: {made['skipped']}")
    return found
