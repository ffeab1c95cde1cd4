"""Rows of the truth table that numpy makes from stored models, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from tests.comparison.disguises import DISGUISES, Hidden, disguised, model_type_of, zoo_model
from tests.comparison.relation import FAMILIES, Family, Layers, Model, Relation
from tests.comparison.relation import row as row_of

from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint


@cache
def arithmetic() -> tuple[Relation, ...]:
    """Return the rows that numpy makes, of copies and of fine-tunes of every family's base."""
    rows = [row for key, family in FAMILIES.items() for row in rows_of(key, family)]
    return (*rows, *_upcycling(), *_merges())


def rows_of(key: str, family: Family) -> list[Relation]:
    """Return the rows of one family. No model is made before a row is asked for its own."""
    rows = _partial_copies(key, family)
    for subject, source in (("copy", family.base), ("fine-tune", family.tuned)):
        if source is not None:
            rows += _disguises(key, family, subject, source)
            rows += _surgery(key, family, subject, source)
    return [*rows, *(_combinations(key, family, family.tuned) if family.tuned is not None else ())]


# What shows nothing, or nothing old, of the norms after a disguise: gains that are all one, or random.
_CONSTANT_GAINS = {"residual-rotation", "folded-gains"}
_RANDOM_GAINS = {"rotation-and-gains"}
_UNCLEAR_GAINS = {"inserted-gains"}


def _disguises(key: str, family: Family, subject: str, source: str) -> list[Relation]:
    def made(name: str) -> Model:
        return lambda: disguised(zoo_model(source), name)

    model_type = model_type_of(family.base)
    return [
        row_of(
            f"{key}: {name} of a {subject}",
            family,
            made(name),
            disguise.how,
            lost={"norms"} if name in _RANDOM_GAINS else (),
            unclear={"norms"} if name in _CONSTANT_GAINS | _UNCLEAR_GAINS else (),
            disguise=disguise.hides,
            same_function=subject == "copy",
        )
        for name, disguise in DISGUISES.items()
        if model_type in disguise.families
    ]


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([41, seed])


def _numbered(layers: Sequence[int]) -> Layers:
    return tuple(enumerate(layers))


def _surgery(key: str, family: Family, subject: str, source: str) -> list[Relation]:
    def row(name: str, make: Callable[[Checkpoint], Checkpoint], how: str, **truth: Any) -> Relation:
        return row_of(f"{key}: {name} of a {subject}", family, lambda: make(zoo_model(source)), how, **truth)

    n = family.n_layers
    taller = [*range(n - n // 3), *range(n // 3, n)]
    doubled = [layer for layer in range(n) for _ in range(2)]
    shorter = [layer for layer in range(n) if layer != 1]
    copied = subject == "copy"
    rows = [
        row(
            "doubled-layers",
            lambda model: derive.reorder_layers(model, doubled),
            "Every layer appears twice.",
            layers=_numbered(doubled),
        ),
        row(
            "removed-layer",
            lambda model: derive.reorder_layers(model, shorter),
            "Layer 1 is left out.",
            layers=_numbered(shorter),
        ),
        row(
            "pruned-units",
            lambda model: derive.prune_mlp_units(model, n_kept=family.fewer_units),
            f"The {family.fewer_units} largest units of every MLP are kept, in their order.",
        ),
        row(
            "pruned-scrambled-units",
            lambda model: derive.prune_mlp_units(model, n_kept=family.fewer_units, rng=_rng(1)),
            f"The {family.fewer_units} largest units of every MLP are kept, in a random order.",
            disguise={"units"},
        ),
        row(
            "new-embeddings",
            lambda model: derive.renew_embeddings(model, rng=_rng(2)),
            "All token rows are drawn anew.",
            lost=family.token_rows,
        ),
        row(
            "more-tokens",
            lambda model: derive.extend_vocabulary(model, n_new=40, rng=_rng(3)),
            "40 random token rows are appended.",
            same_function=copied,
        ),
        row(
            "padded-tokens",
            lambda model: derive.pad_vocabulary(model, multiple=300),  # of which no vocabulary here is one
            "Token rows of zeros are appended, up to 600.",
            same_function=copied,
        ),
    ]
    if n > 2:  # with two layers, a third of them is none
        rows.append(
            row(
                "depth-up",
                lambda model: derive.reorder_layers(model, taller),
                f"The layers are {taller}: the first and the last ones, overlapping.",
                layers=_numbered(taller),
            )
        )
    if family.narrower is not None:
        width = family.narrower
        rows += [
            row(
                "pruned-residual",
                lambda model: derive.prune_residual(model, n_kept=width),
                f"{width} of the residual dimensions are kept, in their order.",
            ),
            row(
                "pruned-scrambled-residual",
                lambda model: derive.prune_residual(model, n_kept=width, rng=_rng(4)),
                f"{width} of the residual dimensions are kept, in a random order.",
                disguise={"residual-permutation"},
            ),
            row(
                "idle-layer",
                lambda model: derive.insert_idle_layer(model, before=1),
                "A copy of layer 1 that writes nothing is inserted before it.",
                layers=_numbered([0, 1, *range(1, n)]),
                same_function=copied,
            ),
        ]
    if family.per_group is not None:
        fewer = family.per_group
        rows.append(
            row(
                "fewer-heads",
                lambda model: derive.prune_heads(model, per_group=fewer),
                f"{fewer} of the query heads of each KV group are kept, in their order.",
            )
        )
    return rows


def _partial_copies(key: str, family: Family) -> list[Relation]:
    """Return strangers into which something of the base was copied."""

    def row(
        name: str, copy: Callable[[Checkpoint, Checkpoint], Checkpoint], how: str, **truth: Any
    ) -> Relation:
        def make() -> Checkpoint:
            return copy(zoo_model(family.stranger), zoo_model(family.base))

        return row_of(f"{key}: {name}", family, make, how, **truth)

    parts = family.components
    inner = "experts" if "experts" in parts else "mlp"
    last = family.n_layers - 1
    third = {layer + 1: layer for layer in range(1, 1 + family.n_layers // 3)}
    rows = [
        row(
            "one-layer",
            lambda stranger, base: derive.copy_parts(stranger, base, layers={0: last}),
            f"Layer 0 of a stranger is the base's layer {last}; the rest is the stranger's.",
            layers=((0, last),),
            lost=family.token_rows,
            unclear={"norms", "router"},
        ),
        row(
            "only-embeddings",
            lambda stranger, base: derive.copy_parts(stranger, base, parts=["embeddings", "head"]),
            "A stranger with the base's token rows.",
            layers=(),
            lost=parts - family.token_rows,
        ),
        row(
            "only-mlps",
            lambda stranger, base: derive.copy_parts(stranger, base, parts=["mlp"]),
            "A stranger with the base's MLPs, or experts and routers.",
            lost=parts - {inner, "router"},
        ),
        row(
            "only-norms",
            lambda stranger, base: derive.copy_parts(stranger, base, parts=["norms"]),
            "A stranger with the base's norm gains.",
            lost=parts - {"norms"},
        ),
        row(
            "new-attention",
            lambda stranger, base: derive.copy_parts(base, stranger, parts=["attention"]),
            "The base with a stranger's attention.",
            lost={"attention"},
        ),
    ]
    if family.n_layers > 3:
        rows.append(
            row(
                "third-of-layers",
                lambda stranger, base: derive.copy_parts(stranger, base, layers=third),
                f"A third of the layers copied into a stranger, one place further: {third}.",
                layers=tuple(third.items()),
                lost=family.token_rows,
                unclear={"norms", "router"},
            )
        )
    return rows


def _combinations(key: str, family: Family, tuned: str) -> list[Relation]:
    heavy, low_rank = ("finetune-heavy", "lora") if key == "llama" else (tuned, tuned)
    rms = key != "gpt2"
    experts: tuple[str, ...] = ("experts",) if "experts" in family.components else ()

    def row(name: str, make: Model, how: str, *disguises: str, lost: Iterable[str] = ()) -> Relation:
        hides = frozenset[Hidden]().union(*(DISGUISES[name].hides for name in disguises))
        return row_of(f"{key}: {name}", family, make, how, disguise=hides, lost=lost)

    def int8(*disguises: str) -> Model:
        return lambda: derive.round_to_int8(disguised(zoo_model(tuned), *disguises))

    def pruned() -> Checkpoint:
        narrow = derive.prune_mlp_units(zoo_model(tuned), n_kept=family.fewer_units)
        return derive.round_to_int4(disguised(narrow, "units", "heads", "residual-permutation"))

    rows = [
        row("tuned-units-int8", int8("units"), "Tuned, units permuted, rounded to int8.", "units"),
        row(
            "tuned-units-heads-int8",
            int8("units", "heads"),
            "Tuned, units and heads permuted, rounded to int8.",
            *("units", "heads"),
        ),
        row(
            "tuned-units-heads-residual-int8",
            int8("units", "heads", "residual-permutation"),
            "Tuned, units, heads and residual dimensions permuted, rounded to int8.",
            *("units", "heads", "residual-permutation"),
        ),
        row(
            "pruned-permuted-int4",
            pruned,
            "Tuned, a third of the units pruned, units, heads and residual dimensions permuted, 4 bits.",
            *("units", "heads", "residual-permutation"),
        ),
    ]
    if not rms:
        everything = ("units", "heads", "residual-permutation", "head-scales")
        return [*rows, _everything(row, tuned, everything)]
    turned = ("residual-rotation", "units", "heads", *experts)
    scales = ("unit-scales", "head-scales", "residual-scale", "rope-pairs")
    return [
        *rows,
        row(
            "heavy-rotated",
            lambda: disguised(zoo_model(heavy), "rotation-and-gains"),
            "A heavy fine-tune where there is one, rotated, with random gains.",
            "residual-rotation",
            lost={"norms"},
        ),
        row(
            "scaled-signed-permuted",
            lambda: disguised(zoo_model(low_rank), "unit-scales", "unit-signs", "residual-signs", "units"),
            "A low-rank fine-tune where there is one; units scaled, signs flipped, units permuted.",
            *("residual-signs", "units"),
        ),
        _everything(row, tuned, ("rotation-and-gains", *turned[1:], *scales, "mixed-values")),
    ]


def _everything(row: Callable[..., Relation], tuned: str, disguises: tuple[str, ...]) -> Relation:
    return row(
        "everything",
        lambda: disguised(zoo_model(tuned), *disguises),
        f"Tuned, then all at once: {', '.join(disguises)}.",
        *disguises,
        lost={"norms"} if "rotation-and-gains" in disguises else (),
    )


def _upcycling() -> list[Relation]:
    """Return Mixtrals made from Llamas: what was an MLP is in their experts."""
    llama = FAMILIES["llama"]
    family = replace(llama, components=llama.components - {"mlp"} | {"experts", "router"})
    made = {
        ("copy", 0.0): "Four experts, each a copy of the MLP of its layer; a random router.",
        ("copy", 0.3): "Four experts, each a copy of the MLP of its layer with noise; a random router.",
        ("fine-tune", 0.1): "A fine-tune, then four experts with noise; a random router.",
    }
    return [
        row_of(
            f"llama: experts of a {subject}" + (f" with noise {noise}" if noise else ""),
            family,
            partial(_upcycled, "base" if subject == "copy" else "finetune-light", noise),
            how,
            lost={"router"},
            same_function=not noise,
        )
        for (subject, noise), how in made.items()
    ]


def _upcycled(source: str, noise: float) -> Checkpoint:
    return derive.upcycle(zoo_model(source), n_experts=4, noise=noise, rng=_rng(5))


def _merges() -> list[Relation]:
    llama = FAMILIES["llama"]

    def children() -> list[Checkpoint]:
        return [zoo_model("finetune-light"), zoo_model("finetune-sibling")]

    def merge(name: str, make: Model, how: str) -> Relation:
        return row_of(f"llama: {name}", llama, make, how)

    return [
        merge(
            "dare-merge",
            lambda: derive.merge_dare(zoo_model("base"), [(child, 0.5) for child in children()], rng=_rng(6)),
            "Two children merged: nine tenths of their differences dropped, the rest scaled up.",
        ),
        merge(
            "ties-merge",
            lambda: derive.merge_ties(zoo_model("base"), children()),
            "Two children merged: their largest differences where the signs agree.",
        ),
        merge(
            "slerp-merge",
            lambda: derive.merge_slerp(*children()),
            "Two children interpolated along the arc between them.",
        ),
        merge(
            "merge-with-a-stranger",
            lambda: derive.merge_linear([zoo_model("base"), zoo_model("twin-1")], [0.7, 0.3]),
            "Seven tenths of the base and three tenths of a stranger.",
        ),
    ]
