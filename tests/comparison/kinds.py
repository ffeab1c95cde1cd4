"""What was done to a model, and what must be said about it: rows for the confusion table of kinds.

Every family is changed in every way that applies to it, and then once more rounded or renumbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
from tests.comparison.disguises import disguised, zoo_model
from tests.comparison.relation import FAMILIES, Family

from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint

After = Literal["", "bf16", "int8", "permuted", "rotated"]
AFTER: tuple[After, ...] = ("", "bf16", "int8", "permuted", "rotated")
Change = Callable[[Checkpoint], Checkpoint]
_VALUES = ("copy", "noise", "low-rank", "sparse-copy", "quantised-copy", "fine-tune")
"""Kinds that are told by subtracting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """One pair of models and what was done."""

    name: str
    change: str
    after: After
    kind: str
    """What must be said about it."""
    findings: frozenset[str] = frozenset()
    """Findings that must be among those reported."""
    make: Callable[[], Checkpoint]
    base: Callable[[], Checkpoint]


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([59, seed])


def _changes(family: Family) -> Iterator[tuple[str, Change, str, frozenset[str]]]:
    """Yield name, change, kind and findings."""

    def row(name: str, change: Change, kind: str, *findings: str) -> tuple[str, Change, str, frozenset[str]]:
        return name, change, kind, frozenset(findings)

    n = family.n_layers
    yield row("noise-1%", lambda m: derive.add_noise(m, size=0.01, rng=_rng(0)), "noise", "noise")
    yield row("noise-10%", lambda m: derive.add_noise(m, size=0.1, rng=_rng(1)), "noise", "noise")
    yield row(
        "adapter-2", partial(derive.merge_low_rank, rank=2, size=0.05, rng=_rng(2)), "low-rank", "frozen"
    )
    yield row(
        "adapter-4", partial(derive.merge_low_rank, rank=4, size=0.3, rng=_rng(3)), "low-rank", "frozen"
    )
    yield row(
        "removed-direction", lambda m: derive.remove_direction(m, rng=_rng(4)), "low-rank", "common-direction"
    )
    yield row(
        "pruned-half", lambda m: derive.prune_by_magnitude(m, fraction=0.5), "sparse-copy", "sparse-copy"
    )
    yield row("two-of-four", derive.prune_two_of_four, "sparse-copy", "sparse-two-of-four")
    yield row("int8", derive.round_to_int8, "quantised-copy", "quantised-copy")
    yield row("int4", derive.round_to_int4, "quantised-copy", "quantised-copy")
    yield row(
        "more-tokens",
        lambda m: derive.extend_vocabulary(m, n_new=40, rng=_rng(5)),
        "vocabulary-change",
        "vocabulary-extended",
    )
    yield row(
        "new-embeddings",
        lambda m: derive.renew_embeddings(m, rng=_rng(6)),
        "parts-replaced",
        "parts-replaced",
    )
    yield row(
        "removed-layer",
        lambda m: derive.reorder_layers(m, [layer for layer in range(n) if layer != 1]),
        "depth-change",
        "depth-change",
    )
    yield row(
        "doubled-layers",
        lambda m: derive.reorder_layers(m, [layer for layer in range(n) for _ in range(2)]),
        "depth-change",
        "depth-change",
    )
    yield row(
        "fewer-units",
        lambda m: derive.prune_mlp_units(m, n_kept=family.fewer_units),
        "width-change",
        "width-change",
    )
    if family.narrower is not None:
        width = family.narrower
        yield row(
            "narrower", lambda m: derive.prune_residual(m, n_kept=width), "width-change", "width-change"
        )
    if family.per_group is not None:
        heads = family.per_group
        yield row(
            "fewer-heads", lambda m: derive.prune_heads(m, per_group=heads), "width-change", "width-change"
        )
    yield row("unchanged", lambda m: m, "copy")
    if family.tuned is not None:
        tuned = family.tuned
        yield row("tuned", lambda m: zoo_model(tuned), "fine-tune", "fine-tune")
    if family.base == "base":
        yield row("tuned-longer", lambda m: zoo_model("finetune-heavy"), "fine-tune", "fine-tune")
        yield row("tuned-twice", lambda m: zoo_model("grandchild"), "fine-tune", "fine-tune")
        yield row("trained-adapter", lambda m: zoo_model("lora"), "low-rank", "low-rank", "frozen")
        yield row(
            "experts",
            lambda m: derive.upcycle(m, n_experts=4, noise=0.0, rng=_rng(7)),
            "moe-upcycling",
            "moe-upcycling",
        )
        yield row(
            "scaled-inputs", lambda m: derive.scale_inputs(m, spread=0.5, rng=_rng(8)), "copy", "rescaled"
        )


def _after(model: Checkpoint, after: After) -> Checkpoint:
    match after:
        case "bf16":
            return derive.cast(model, "BF16")
        case "int8":
            return derive.round_to_int8(model)
        case "permuted":
            return disguised(model, "units", "heads", "residual-permutation")
        case "rotated":
            return disguised(model, "rotation-and-gains")
        case _:
            return model


def _expected(
    change: str, kind: str, after: After, findings: frozenset[str]
) -> tuple[str, frozenset[str]] | None:
    """Return what must be said after a model was changed again; None if that is not a separate row."""
    if change == "unchanged":
        # Others are rows.
        return ("copy", findings) if after in ("permuted", "rotated") else None
    if after == "bf16":
        return kind, findings  # kept models are BF16: only what was done to them is rounded
    if after == "int8":
        if kind in ("copy", "sparse-copy") or change in ("int8", "int4"):
            return None  # then it is quantised first of all
        if change == "noise-1%":
            return None  # smaller than a level
        return kind, findings
    if after == "rotated":
        # Gains and factors are folded into one; what is equal but for the rotation is not called frozen.
        return kind, (findings - {"frozen", "rescaled"}) | {"turned"} if kind in _VALUES else findings
    return kind, findings


@cache
def kind_rows() -> tuple[KindRow, ...]:
    """Return all rows."""
    rows = []
    for key, family in FAMILIES.items():
        base = partial(zoo_model, family.base)
        for change, make, kind, findings in _changes(family):
            for after in AFTER:
                if after == "rotated" and key == "gpt2":
                    continue  # a layer norm subtracts a mean, which a rotation changes
                if after == "permuted" and (key == "gpt2" or kind in ("depth-change", "moe-upcycling")):
                    continue  # fused matrices are not put into order; other rows are in test_relations
                wanted = _expected(change, kind, after, findings)
                if wanted is None:
                    continue
                rows.append(
                    KindRow(
                        name=f"{key}: {change}" + (f", {after}" if after else ""),
                        change=change,
                        after=after,
                        kind=wanted[0],
                        findings=wanted[1],
                        make=partial(_made, make, base, after),
                        base=base,
                    )
                )
    return tuple(rows)


def _made(make: Change, base: Callable[[], Checkpoint], after: After) -> Checkpoint:
    return _after(make(base()), after)
