"""``claim``: an argument from cosines to so many sigmas, computed as it was made, and its refutation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

import numpy as np

from modelkin.casework.studies._bench import Bench, Skipped, said, shown_table
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.describe.matrix import parse_layer_list
from modelkin.describe.measures import MEASURES, Pairs, Stack, measured

from ._kind import Kind
from ._reading import read_layers, read_roles
from ._vectors import Saved, load_vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """Options of the experiment."""

    vectors: str
    pair: tuple[str, str]
    controls: tuple[str, ...]
    role: str
    zero: int
    layers: tuple[int, ...]


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


def read(parts: dict[str, Node], scope: Scope) -> Argument:
    """Read the options."""
    return Argument(
        vectors=scope.experiment(parts["from"]),
        pair=scope.pair(parts["pair"]),
        controls=scope.aliases(parts["controls"], least=0) if "controls" in parts else (),
        role=read_roles(parts["roles"])[0] if "roles" in parts else "attention_norm",
        zero=parts["zero"].whole(low=0, high=9_999) if "zero" in parts else 0,
        layers=parse_layer_list(read_layers(parts["layers"])),
    )


def run(bench: Bench, options: Argument) -> None:
    """Compute the argument, then the same arithmetic on what no relation could change, and on controls."""
    saved = load_vectors(bench, options.vectors)
    a, b = options.pair
    layers = _layers(bench, saved, options)
    zero = {name: _within_zero(saved, name, options, layers) for name in (a, b)}
    among = {name: _among(saved, name, options, layers) for name in (a, b)}
    cross = _cross(saved, a, b, options.role, layers)
    others = {}
    for control in options.controls:
        for name in (a, b):
            key = f"{bench.name(name)} | {bench.name(control)}"
            others[key] = _control(saved, name, control, options.role, layers, zero[name])
    claim = sigmas(_values(zero[b], "cosine"), _values(cross, "cosine"))
    shuffled = sigmas(_values(zero[b], "expected"), _values(cross, "expected"))
    fair = sigmas(_values(among[b], "cosine"), _values(cross, "cosine"))
    groups = {
        f"{bench.name(a)}, layer {options.zero} with others": zero[a],
        f"{bench.name(b)}, layer {options.zero} with others": zero[b],
        f"{bench.name(a)} | {bench.name(b)}": cross,
        f"{bench.name(a)}, other layers": among[a],
        f"{bench.name(b)}, other layers": among[b],
        **{key: item for key, item in others.items() if not isinstance(item, str)},
    }
    for key, item in others.items():
        if isinstance(item, str):
            bench.leave(f"control {key}", item)
    bench.folder.json(
        bench.data("-cosines.json"), {key: [asdict(item) for item in items] for key, items in groups.items()}
    )
    baseline = list(groups)[:2]
    bench.document(
        {
            "pair": options.pair,
            "layers": layers,
            "zero": options.zero,
            "groups": {key: _means(items) for key, items in groups.items()},
            "baseline": baseline,
            "evidence": list(groups)[2],
            "claim": claim,
            "same_arithmetic_on_expectations": shuffled,
            "without_layer_zero": fair,
            "controls": {
                key: item
                if isinstance(item, str)
                else sigmas(_values(zero[b], "cosine"), _values(item, "cosine"))
                for key, item in others.items()
            },
        },
        tables=[
            shown_table(
                "claim",
                ("what", "cosine", "expected", "excess", "pearson", "pairs"),
                [[key, *_row(items), len(items)] for key, items in groups.items()],
            )
        ],
        said=_said(bench, options, claim, shuffled, fair, cross),
    )


def _layers(bench: Bench, saved: Mapping[tuple[str, str], Saved], options: Argument) -> tuple[int, ...]:
    for name in options.pair:
        if (name, options.role) not in saved:
            raise Skipped(f"there are no vectors of {name}")
    present = [set(saved[name, options.role].layers) for name in options.pair]
    if saved[options.pair[0], options.role].n != saved[options.pair[1], options.role].n:
        raise Skipped("the vectors of both models have different lengths")
    common = present[0] & present[1]
    gone = [layer for layer in (options.zero, *options.layers) if layer not in common]
    if gone:
        bench.leave("layers " + ", ".join(map(str, gone)), "not both models have them")
    layers = tuple(layer for layer in options.layers if layer in common)
    if len(layers) < 2 or options.zero not in common:
        raise Skipped("the argument needs two layers and the layer it compares them with")
    return layers


def _cosines(
    saved: Mapping[tuple[str, str], Saved], role: str, pairs: Sequence[tuple[str, int, str, int]]
) -> list[Cosine]:
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
            cosine=_plain(cosine.values[k]),
            expected=_plain(cosine.expected[k]),
            pearson=_plain(pearson.values[k]),
        )
        for k, (a, i, b, j) in enumerate(pairs)
    ]


def _plain(value: object) -> float | None:
    return None if np.ma.is_masked(value) else float(value)  # type: ignore[arg-type]


def _within_zero(
    saved: Mapping[tuple[str, str], Saved], name: str, options: Argument, layers: Sequence[int]
) -> list[Cosine]:
    return _cosines(saved, options.role, [(name, options.zero, name, layer) for layer in layers])


def _among(
    saved: Mapping[tuple[str, str], Saved], name: str, options: Argument, layers: Sequence[int]
) -> list[Cosine]:
    return _cosines(saved, options.role, [(name, i, name, j) for i, j in combinations(layers, 2)])


def _cross(
    saved: Mapping[tuple[str, str], Saved], a: str, b: str, role: str, layers: Sequence[int]
) -> list[Cosine]:
    return _cosines(saved, role, [(a, layer, b, layer) for layer in layers])


def _control(
    saved: Mapping[tuple[str, str], Saved],
    name: str,
    control: str,
    role: str,
    layers: Sequence[int],
    zero: Sequence[Cosine],
) -> list[Cosine] | str:
    if (control, role) not in saved:
        return "its vectors could not be had"
    if saved[control, role].n != saved[name, role].n:
        return "its vectors have another length"
    common = [layer for layer in layers if layer in saved[control, role].layers]
    return _cross(saved, name, control, role, common) if common else "it has none of the layers"


def _values(items: Sequence[Cosine], name: str) -> list[float]:
    return [value for item in items if (value := getattr(item, name)) is not None]


def sigmas(baseline: Sequence[float], evidence: Sequence[float]) -> dict[str, float | None]:
    """Compute the arithmetic of the claim: a difference of means over the root of the mean variance.

    That is Cohen's d, an effect size of few chosen values. It is no z score, and no p-value follows from it.

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


def _row(items: Sequence[Cosine]) -> list[float | None]:
    found = _means(items)
    cosine, expected = found["cosine"], found["expected"]
    excess = None if cosine is None or expected is None else cosine - expected
    return [cosine, expected, excess, found["pearson"]]


def _said(
    bench: Bench,
    options: Argument,
    claim: Mapping[str, float | None],
    shuffled: Mapping[str, float | None],
    fair: Mapping[str, float | None],
    cross: Sequence[Cosine],
) -> list[dict[str, object]]:
    a, b = (bench.name(name) for name in options.pair)
    found = _means(cross)
    told = [
        said(
            "claim_made",
            a=a,
            b=b,
            zero=options.zero,
            d=claim["d"],
            difference=claim["difference"],
            baseline=claim["baseline"],
            evidence=claim["evidence"],
        ),
        said("claim_no_p", n=len(cross)),
        said("claim_expected", d=shuffled["d"], difference=shuffled["difference"]),
        said("claim_fair", zero=options.zero, baseline=fair["baseline"], evidence=fair["evidence"]),
    ]
    if found["pearson"] is not None:
        told.append(said("claim_left", pearson=found["pearson"]))
    return told


KIND = Kind(
    name="claim",
    meaning="an argument from cosines to sigmas, and the same arithmetic where nothing is related",
    fields=Fields(required=("from", "pair", "layers"), optional=("controls", "roles", "zero"), read=read),
    run=run,
)
