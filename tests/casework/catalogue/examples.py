"""One example of every figure: published measurements where there are small ones, else made-up models.

The gallery in the documentation is drawn from these (``python -m tests.casework.catalogue.gallery``).
"""

import csv
import importlib
import json
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from modelkin.casework import catalogue
from modelkin.casework.catalogue import centring, claim, models, pair, pairs, rows, synthetic, tokens, vectors
from modelkin.casework.catalogue.parts import Curve, Curves
from modelkin.comparison import ControlResult, methods
from modelkin.comparison.alignment import LayerMap
from modelkin.comparison.verdict import ComponentVerdict, Conclusion
from modelkin.describe.precision import pattern_loss
from modelkin.figures import Animation, Chance, Figure, Numbers, Series, comparison, numbers
from modelkin.message import Message, say
from modelkin.stats import limit_cosine

DATA = Path(__file__).parent / "data"
SOLAR, GLM, PHI = "Solar-Open-100B", "GLM-4.5-Air", "Phi-3.5-MoE"
PAIR = (SOLAR, GLM)
KINDS = {"input norm": "norm_pre", "post-attention norm": "norm_post"}
N = 4096


def norms(category: str) -> dict[str, np.ndarray]:
    with (DATA / "norms.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["category"] == category]
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0] if name != "category"}


def column(file: str, name: str) -> np.ndarray:
    with (DATA / file).open() as stream:
        return np.array([float(row[name]) for row in csv.DictReader(stream)])


def expected_cosine(
    mean_a: ArrayLike, std_a: ArrayLike, mean_b: ArrayLike, std_b: ArrayLike
) -> tuple[float, ...]:
    """Return the mean of the cosine over all shuffles, from means and standard deviations of both sides."""
    sides = ((np.asarray(mean_a), np.asarray(std_a)), (np.asarray(mean_b), np.asarray(std_b)))
    a, b = (m / np.hypot(m, s) for m, s in sides)
    return tuple(a * b)


def shuffle_spread(
    mean_a: ArrayLike, std_a: ArrayLike, mean_b: ArrayLike, std_b: ArrayLike, *, n: int
) -> tuple[float, ...]:
    """Return the standard deviation of the cosine over all shuffles of vectors of `n` values."""
    sides = ((np.asarray(mean_a), np.asarray(std_a)), (np.asarray(mean_b), np.asarray(std_b)))
    a, b = (s / np.hypot(m, s) for m, s in sides)
    return tuple(a * b / np.sqrt(n - 1))


def expected(table: dict[str, np.ndarray]) -> tuple[float | None, ...]:
    return expected_cosine(table["A_mean"], table["A_std"], table["B_mean"], table["B_std"])


TABLES = {kind: norms(category) for kind, category in KINDS.items()}
LAYERS = TABLES["input norm"]["layer"]
COSINE = {kind: table["cosine"] for kind, table in TABLES.items()}
PEARSON = {kind: table["cosine_centered"] for kind, table in TABLES.items()}
EXPECTED = {kind: expected(table) for kind, table in TABLES.items()}
RHO = {
    side: TABLES["input norm"][f"{side}_mean"]
    / np.hypot(TABLES["input norm"][f"{side}_mean"], TABLES["input norm"][f"{side}_std"])
    for side in "AB"
}
"""Mean direction of the input norm by layer: A is Solar, B is GLM."""
RANDOM_ROWS = (0.03733, 0.03789, 0.03889)
"""Smallest, mean and largest mean cosine of best-matched rows in 20 pairs of random 128 x 4096 matrices."""
THREE = json.loads((DATA / "three_models.json").read_text())


def curve(
    values: Series, expected: Series = (), *, layers: Series = (), n: int = N, chance: Chance | None = None
) -> Curve:
    """Return a curve over layers, by default those from 0."""
    return Curve(
        layers=numbers(layers if len(layers) else range(len(values))),
        values=numbers(values),
        expected=numbers(expected),
        n=n,
        chance=chance,
    )


ZERO_PAIRS = (
    ("0 and 10", "0 and 20", "0 and 30", "0 and 40"),
    {
        name: curve(values, [float(RHO[side][0] * RHO[side][layer]) for layer in (10, 20, 30, 40)])
        for name, side, values in (
            ("Solar", "A", (0.373059, 0.377298, 0.3771, 0.376059)),
            ("GLM", "B", (0.37581, 0.375664, 0.377255, 0.379035)),
        )
    },
)
"""Cosines of layer 0 with others, and their expectations."""


def published(values: dict[str, np.ndarray], *, spread: bool = False) -> Curves:
    """Return published values by kind of norm, with the expectation of the cosine."""
    sides = ("A_mean", "A_std", "B_mean", "B_std")
    found = {kind: curve(values[kind], EXPECTED[kind], layers=LAYERS) for kind in KINDS}
    if not spread:
        return found
    tables = {kind: [table[side] for side in sides] for kind, table in TABLES.items()}
    return {
        kind: replace(item, sd=numbers(shuffle_spread(*tables[kind], n=N))) for kind, item in found.items()
    }


def known_pair(**more: Any) -> pair.TwoModels:
    """Return what is published about Solar and GLM."""
    about_one = {kind: cosine_about_one(table) for kind, table in TABLES.items()}
    curves = {
        "cosine": published(COSINE, spread=True),
        "pearson": published(PEARSON),
        "cosine-about-1": published(about_one),
    }
    cells = {
        "cosine": pair.Cells(values=cosine_matrix(), expected=expected_matrix(), n=N),
        "pearson": pair.Cells(values=pearson_matrix(), n=N),
    }
    return pair.TwoModels(**{"names": PAIR, "curves": curves, "cells": cells, **more})


def made_up(seed: int, layers: int = 32, dimensions: int = 256, scale: float = 1.0) -> np.ndarray:
    """Gains that grow with depth and drift from layer to layer, as trained ones do."""
    rng = np.random.default_rng(seed)
    drift = np.cumsum(rng.normal(0, 0.02, (layers, dimensions)), axis=0)
    level = scale * np.linspace(0.2, 1.2, layers)[:, None]
    return level * (1 + rng.normal(0, 0.08, dimensions) + drift)


def Effect(value: float, low: float, high: float) -> methods.Effect:
    return methods.Effect(value=value, low=low, high=high)


def Test(
    method: str,
    component: str,
    layers: tuple[int, ...],
    effect: methods.Effect | None,
    z: float | None = None,
    log10_p: float = 0.0,
    detection_limit: float | None = None,
    reason: str | None = None,
) -> methods.Evidence:
    if effect is None:
        return methods.Skipped(
            method=method,
            version="1",
            component=component,
            axis="mlp",
            layers=layers,
            exact=True,
            null=say("null-mlp"),
            reason=say("quoted", text=reason or ""),
        )
    return methods.Tested(
        method=method,
        version="1",
        component=component,
        axis="mlp",
        layers=layers,
        null=say("null-mlp"),
        statistic=1.0,
        effect=effect,
        z=z,
        log10_p=log10_p,
        n=512,
        n_matched=0,
        detection_limit=detection_limit,
    )


def Component(
    conclusion: str,
    log10_p: float | None,
    effect: methods.Effect | None,
    n_tests: int,
    detection_limit: float | None = None,
    reason: str | None = None,
) -> ComponentVerdict:
    return ComponentVerdict(
        conclusion=Conclusion(conclusion),
        log10_p=log10_p,
        effect=effect,
        n_tests=n_tests,
        detection_limit=detection_limit,
        reason=None if reason is None else say("quoted", text=reason),
    )


def Control(
    pair: tuple[str, str],
    effect: methods.Effect | None,
    log10_p: float | None,
    usable: bool,
    reason: str | None = None,
) -> ControlResult:
    return ControlResult(
        pair=pair,
        revision=None,
        conclusion=None,
        effect=effect,
        log10_p=log10_p,
        usable=usable,
        reason=None if reason is None else say("quoted", text=reason),
    )


TESTS = (
    Test("embedding-rows", "embedding", (), Effect(0.93, 0.91, 0.95), 61.0, -212.4, 0.02),
    Test("mlp-units", "mlp", (3,), Effect(0.71, 0.66, 0.75), 44.0, -95.1, 0.03),
    Test("mlp-units", "mlp", (17,), Effect(0.68, 0.62, 0.73), 41.0, -88.0, 0.03),
    Test("value-dimensions", "attention", (3,), Effect(0.05, -0.12, 0.21), 0.6, -0.4, 0.41),
    Test("norm-profile", "norms", (0, 31), Effect(0.31, 0.22, 0.4), 9.4, -18.2, 0.09),
    Test("router-rows", "router", (4,), None, reason="the candidate is dense, it has no router"),
)
CONTROLS = (
    Control(("kept/control-a", "org/base"), Effect(0.004, -0.02, 0.03), -0.2, True),
    Control(("kept/control-b", "org/base"), Effect(-0.01, -0.04, 0.02), 0.0, True),
    Control(("kept/control-c", "org/base"), None, None, False, "its hidden size is 2048, not 4096"),
)
COMPONENTS = {
    "embedding": Component("shared", -212.4, Effect(0.93, 0.91, 0.95), 1, 0.02),
    "mlp": Component("shared", -180.0, Effect(0.71, 0.66, 0.75), 2, 0.03),
    "attention": Component("no-evidence", -0.4, Effect(0.05, -0.12, 0.21), 1, 0.41),
    "router": Component("not-testable", None, None, 0, reason="no router in the candidate"),
}


def made_up_map(rows: int = 24, columns: int = 32) -> LayerMap:
    """A candidate whose layers are those of the base without layers 12 to 19."""
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(rows, columns))
    path = tuple((i, i if i < 12 else i + 8) for i in range(rows))
    for i, j in path:
        scores[i, j] += 22 + 6 * rng.normal()
    rows_, columns_ = tuple(range(rows)), tuple(range(columns))
    cells = tuple(tuple(float(value) for value in row) for row in scores)
    return LayerMap(
        component="mlp",
        method="mlp-units",
        frame="identity",
        candidate_layers=rows_,
        base_layers=columns_,
        scores=cells,
        path=path,
        threshold=5.1,
    )


def layer_curves_cosine() -> Figure:
    return pair.layer_curves(known_pair(), title=f"Cosine by layer: {SOLAR} and {GLM}")


def layer_curves_pearson() -> Figure:
    router = dict(zip(column("router.csv", "layer"), column("router.csv", "pearson"), strict=True))
    values = [router.get(layer) for layer in LAYERS]
    curves = {**published(PEARSON), "router": curve(values, layers=LAYERS, n=128 * N)}
    known = known_pair(measure="pearson", label="Pearson r", curves={"pearson": curves})
    return pair.layer_curves(known, title=f"Pearson r by layer: {SOLAR} and {GLM}")


def router_matches() -> Figure:
    layers, matched = column("router.csv", "layer"), column("router.csv", "matched")
    low, middle, high = (value * np.ones(len(layers)) for value in RANDOM_ROWS)
    table = {"layer": layers, "matched": matched, "null_mean": middle, "null_low": low, "null_high": high}
    null = "the same search on random rows of the same shape (20 runs, full range)"
    return rows.router_matches(table, names=PAIR, repeats=20, null_name=null)


def distribution_by_type() -> Figure:
    excess = {kind: values - np.array(EXPECTED[kind], float) for kind, values in COSINE.items()}
    values = {
        **excess,
        "key projection": column("projections.csv", "k_proj"),
        "value projection": column("projections.csv", "v_proj"),
        "query projection": np.array([]),
        "router": column("router.csv", "cosine"),
    }
    chance = Chance(label="chance", value=0.0)
    return pairs.distribution_by_type(
        {kind: {"Solar | GLM": curve(sample, chance=chance)} for kind, sample in values.items()},
        measure="cosine",
        label="cosine minus expectation",
        reasons={"query projection": say("quoted", text="8192 rows against 12288")},
    )


def type_summary() -> Figure:
    keys = column("projections.csv", "k_proj")
    curves = {
        **published(COSINE),
        "key projection": curve(keys, np.zeros(len(keys))),
        "query projection": curve(()),
    }
    return pair.type_summary(known_pair(curves={"cosine": curves}))


def claimed_evidence() -> Figure:
    deep = [10, 20, 30, 40]
    chance = {side: float(np.mean(RHO[side][0] * RHO[side][deep])) for side in "AB"}
    claims = (
        claim.Claim(
            label="within Solar, layer 0",
            cosine=0.37588,
            expected=chance["A"],
            served="baseline",
            pearson=0.0418,
        ),
        claim.Claim(
            label="within GLM, layer 0",
            cosine=0.37694,
            expected=chance["B"],
            served="baseline",
            pearson=0.0521,
        ),
        claim.Claim(
            label="Solar and GLM, layers 10, 20, 30, 40",
            cosine=float(COSINE["input norm"][deep].mean()),
            expected=float(np.array(EXPECTED["input norm"], float)[deep].mean()),
            served="evidence",
            pearson=float(PEARSON["input norm"][deep].mean()),
        ),
    )
    # As the claim computes it: against the layers of GLM alone.
    difference = claims[2].cosine - claims[1].cosine
    expected = claims[2].expected - claims[1].expected
    return claim.claimed_evidence(
        claims, difference=difference, expected_difference=expected, sigmas=difference / 0.003364
    )


def with_controls() -> Figure:
    models = [made_up(seed) for seed in (1, 2, 3)]
    cosine, _, chance = measures_of(models[0], models[1])
    control, _, _ = measures_of(models[0], models[2])
    kinds = ("input norm", "post-attention norm")
    controls: dict[str, Numbers | Message] = {
        "A | C": numbers(control),
        "A | D": say("quoted", text="hidden size 2048, not 4096"),
    }
    curves = {"cosine": dict.fromkeys(kinds, curve(cosine, chance))}
    return pair.with_controls(
        pair.TwoModels(names=("A", "B"), curves=curves, controls=dict.fromkeys(kinds, controls))
    )


def shuffle_summary() -> Figure:
    return rows.shuffle_summary(TABLES, names=PAIR, n=N)


def comprehensive() -> Figure:
    return pair.comprehensive(known_pair(random={"N(1, 0.01)": (0.9999, 2.2e-6)}))


def proof() -> Figure:
    return pair.proof(known_pair(mismatched=np.diag(cosine_matrix(), 10), distance=10))


def cosine_about_one(table: dict[str, np.ndarray]) -> np.ndarray:
    """Cosine after subtracting one, from means, deviations and correlation."""
    a, b = (table[f"{side}_mean"] - 1 for side in "AB")
    s, t = table["A_std"], table["B_std"]
    return np.asarray((a * b + table["cosine_centered"] * s * t) / np.hypot(a, s) / np.hypot(b, t))


def pearson_matrix() -> np.ndarray:
    # The last column is the prediction layer of GLM, which faces no decoder layer.
    return np.loadtxt(DATA / "pearson_47x47.csv", delimiter=",")[:46, :46]


def expected_matrix() -> np.ndarray:
    return np.outer(RHO["A"], RHO["B"])


def cosine_matrix() -> np.ndarray:
    """Cosines from the digitised correlations: right to three digits."""
    rest = np.outer(np.sqrt(1 - RHO["A"] ** 2), np.sqrt(1 - RHO["B"] ** 2))
    return np.asarray(expected_matrix() + pearson_matrix() * rest)


def layer_decay() -> Figure:
    return pair.layer_decay(known_pair())


def row_similarity() -> Figure:
    permuted = np.random.default_rng(1).normal(0, 1 / 64, 3000)
    ids, cosines = column("embedding_rows.csv", "solar_id"), column("embedding_rows.csv", "cosine")
    return tokens.row_similarity(ids, cosines, permuted, names=("model A", "model B"))


def vocabulary_mapping() -> Figure:
    rng = np.random.default_rng(7)
    first = np.sort(rng.choice(50_000, 6000, replace=False))
    second = np.where(rng.random(6000) < 0.5, first + 259, rng.permutation(first))
    own = {"Hangul": 41200, "Latin": 52100, "Han": 9300, "digits and signs": 1200, "other scripts": 12600}
    high = {"Hangul": 8100, "Latin": 21100, "Han": 6200, "special": 64}
    background = {"C | D": 0.71, "C | E": 0.55}
    names = ("model A", "model B")
    return tokens.vocabulary_mapping(
        (first, second), names=names, own=own, high=high, background=background, overlap=0.53
    )


def centring_before() -> Figure:
    return centring.centring_before((0.95, 0.70, 0.72), (0.70, 1.05, 0.72))


def centring_after() -> Figure:
    return centring.centring_after((0.95, 0.70, 0.72), (0.70, 1.05, 0.72))


def centring_long() -> Figure:
    a, b = made_up(1)[20], made_up(2)[20]
    return centring.centring_after(a, b, names=("gains of A", "gains of B"))


def centring_animation(steps: int = 30, turn: int = 16) -> Animation:
    return centring.centring_animation((0.95, 0.70, 0.72), (0.70, 1.05, 0.72), steps=steps, turn=turn)


def measures_of(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cosine = np.sum(a * b, 1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    r = np.array([np.corrcoef(x, y)[0, 1] for x, y in zip(a, b, strict=True)])
    rho = [m.mean(1) / np.sqrt((m**2).mean(1)) for m in (a, b)]
    return cosine, r, rho[0] * rho[1]


def intuition() -> Figure:
    a, b = made_up(1, dimensions=1024), made_up(2, dimensions=1024)
    cosine, r, chance = measures_of(a, b)
    curves = {"cosine": {"norm": curve(cosine, chance)}, "pearson": {"norm": curve(r)}}
    names = ("org/model-a", "org/model-b")
    return pair.intuition(pair.TwoModels(names=names, curves=curves, vectors=(a[20], b[20]), layer=20))


def cosine_and_pearson() -> Figure:
    return pair.cosine_and_pearson(known_pair())


def changed_values() -> Figure:
    layers = np.arange(13)
    changed = [96.0, 87.2, 62.2, 15.9, 22.9, 13.2, 15.9, 12.1, 13.0, 14.1, 8.6, 11.9, 7.1]
    difference = [
        4.5e-4,
        4.4e-4,
        4.8e-4,
        2.9e-4,
        3.2e-4,
        2.6e-4,
        2.9e-4,
        2.6e-4,
        2.6e-4,
        2.5e-4,
        2.0e-4,
        2.2e-4,
        1.4e-4,
    ]
    means = TABLES["input norm"]["B_mean"][:13]
    ulp = 2.0 ** (np.floor(np.log2(means)) - 7)
    ulps = np.array(difference) / (np.array(changed) / 100) / ulp
    table = {
        "layer": layers,
        "percent": changed,
        "mean_absolute_difference": difference,
        "mean_ulps": ulps,
        "one_ulp": ulp,
    }
    return rows.changed_values(table, names=("base", "tuned"), what="Input norm")


def pair_matrices() -> Figure:
    rng = np.random.default_rng(4)
    base = made_up(1, 20)
    others = {name: made_up(seed, 20) for name, seed in (("B", 2), ("C", 3))}
    child = base + rng.normal(0, 0.002, base.shape)

    def correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(np.corrcoef(x, y)[: len(x), len(x) :])

    matrices = {
        "A | A-tuned": correlations(base, child),
        "A | B": correlations(base, others["B"]),
        "A | C": correlations(base, others["C"]),
    }
    return pairs.pair_matrices(matrices)


def pair_matrices_own() -> Figure:
    return pairs.pair_matrices({"Solar | GLM": pearson_matrix()}, limits={"Solar | GLM": 0.04})


def surfaces() -> Figure:
    return vectors.surfaces(
        {"org/model-a": made_up(1), "org/model-b": made_up(2)}, what="Input norm", dimensions=60
    )


def trajectories() -> Figure:
    models = {f"org/model-{name}": made_up(i, scale=1 + i / 4) for i, name in enumerate("abcd")}
    return vectors.trajectories(models, what="Input norm")


def vector_statistics() -> Figure:
    found = {}
    for i, name in enumerate("abcd"):
        values = made_up(i, scale=1 + i / 4)
        columns = {"mean": values.mean(1), "std": values.std(1)}
        ends = {"minimum": values.min(1), "maximum": values.max(1)}
        found[f"org/model-{name}"] = {"layer": range(32), **columns, **ends}
    return rows.vector_statistics(found, what="Input norm")


def scale_and_pattern() -> Figure:
    found = {}
    for i, name in enumerate("ab"):
        values = np.abs(made_up(i, scale=1 + i)) * np.linspace(0.3, 1.2, 32)[:, None]
        lost = {centre: [pattern_loss(row, "BF16", centre=centre) for row in values] for centre in (0.0, 1.0)}
        rms = np.sqrt((values**2).mean(axis=1))
        found[f"org/model-{name}"] = {
            "layer": range(32),
            "norm": np.linalg.norm(values, axis=1),
            "rho": values.mean(axis=1) / rms,
            "loss_bf16": lost[0.0],
            "loss_bf16_minus_one": lost[1.0],
            "n": [values.shape[1]],
        }
    return rows.scale_and_pattern(found, what="Input norm", number_format="BF16")


def ridges() -> Figure:
    first = {
        "org/model-a": made_up(1, dimensions=2048),
        "org/model-b": made_up(2, dimensions=2048, scale=1.3),
    }
    return vectors.ridges(
        {"input norm": first, "post-attention norm": {name: v * 1.5 for name, v in first.items()}},
        limits=(0.0, 2.2),
    )


def input_minus_post() -> Figure:
    models = {f"org/model-{name}": made_up(i) - made_up(i + 10, scale=1.7) for i, name in enumerate("ab")}
    means, stds = (
        {name: curve(f(values, axis=1)) for name, values in models.items()} for f in (np.mean, np.std)
    )
    a, b = models.values()
    tuned = a + np.random.default_rng(5).normal(0, 0.002, a.shape)
    r = {"a | b": curve(measures_of(a, b)[1]), "a | a-tuned": curve(measures_of(a, tuned)[1])}
    return pairs.input_minus_post(means, stds, r, n=256)


def squares(
    name: str, names: tuple[str, ...] = ("Solar", "GLM", "Phi"), expected: Mapping[str, Any] | None = None
) -> dict[str, models.Square]:
    return {
        tensor: models.Square(names=names, values=values, expected=(expected or {}).get(tensor))
        for tensor, values in THREE[name].items()
    }


def confusion() -> Figure:
    return models.confusion(squares("confusion_pearson_layer10"), measure="Pearson r", where="layer 10")


def confusion_cosine() -> Figure:
    exact: dict[str, list[list[float | None]]] = {}
    for tensor, kind in (
        ("input_layernorm", "input norm"),
        ("post_attention_layernorm", "post-attention norm"),
    ):
        value = EXPECTED[kind][10]
        exact[tensor] = [[None, value, None], [value, None, None], [None, None, None]]
    found = squares("confusion_cosine_layer10", expected=exact)
    return models.confusion(found, measure="cosine", where="layer 10")


def within() -> Figure:
    found = squares("within_pearson_glm_layers10_20_30", ("10", "20", "30"))
    return models.confusion(found, measure="Pearson r", where="layers of GLM-4.5-Air")


def distances() -> Figure:
    found = squares("confusion_rel_l2_layer10")
    del found["v_proj"]
    refused = {"v_proj": say("quoted", text="a mean of zero")}
    return models.confusion(found, measure="relative L2", where="layer 10", signed=False, refused=refused)


def layer_zero() -> Figure:
    return models.layer_pairs(*ZERO_PAIRS, title="Layer 0 against other layers of the model")


def near_layers() -> Figure:
    cosines = {"Solar": (0.988165, 0.995968), "GLM": (0.998163, 0.997556)}
    found = {
        name: curve(cosines[name], [float(RHO[side][i] * RHO[side][j]) for i, j in ((10, 20), (20, 30))])
        for name, side in (("Solar", "A"), ("GLM", "B"))
    }
    return models.layer_pairs(("10 and 20", "20 and 30"), found, title="Layers ten apart", zoom=True)


MODELS = tuple(f"model-{letter}" for letter in "abcdefgh")
GROUPS = ("MoE", "MoE", "MoE", "MoE", "dense", "dense", "dense", "dense")


def model_values(size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    rho = rng.uniform(0.965, 0.997, size)
    chance = np.outer(rho, rho)
    values = chance + rng.normal(0, 0.0005, (size, size))
    values = (values + values.T) / 2
    np.fill_diagonal(values, 1.0)
    if size == 8:
        for i, j in ((3, 4), (5, 6)):
            values[i, j] = values[j, i] = 0.999
    return values, chance


def model_matrix() -> Figure:
    values, chance = model_values(4)
    square = models.Square(names=MODELS[:4], values=values, expected=chance)
    return models.model_matrix(square, measure="cosine", title="Four made-up models", digits=3)


def model_matrix_groups() -> Figure:
    values, chance = model_values()
    related = (("model-d", "model-e"), ("model-f", "model-g"))
    square = models.Square(names=MODELS, values=values, expected=chance)
    title = "Eight made-up models"
    return models.model_matrix(square, measure="cosine", title=title, groups=GROUPS, related=related)


PAIRS_BY_LAYER = {
    f"pair {i + 1}": curve(
        np.array([0.9432, 0.9639, 0.98, 0.9897, 0.9889, 0.971]) + 0.012 * np.sin(i * 1.7 + np.arange(6)),
        (0.944, 0.9645, 0.9805, 0.99, 0.989, 0.972),
        layers=(5, 10, 15, 20, 25, 30),
    )
    for i in range(6)
}


def layer_range() -> Figure:
    return pairs.layer_range(PAIRS_BY_LAYER, measure="cosine", highlight="pair 1")


def groups() -> dict[str, Curve]:
    rng = np.random.default_rng(2)
    sizes = {"kind 1 and 1": (0.9639, 6), "kind 1 and 2": (0.9722, 16), "kind 2 and 2": (0.9738, 6)}
    values = {name: rng.normal(m, 0.008, n) for name, (m, n) in sizes.items()}
    return {name: curve(found, found + 0.0006) for name, found in values.items()}


def group_means() -> Figure:
    return models.group_means(groups(), measure="cosine")


def measure_comparison() -> Figure:
    return models.measure_comparison(
        {
            "Pairs, layer 10": {
                "Solar, GLM": models.CosineAndPearson(
                    cosine=0.9811, pearson=0.0092, expected=EXPECTED["input norm"][10]
                ),
                "Solar, Phi": models.CosineAndPearson(cosine=0.9776, pearson=0.0006),
                "GLM, Mixtral": models.CosineAndPearson(cosine=0.9497, pearson=-0.0057),
            },
            "Random against actual": {
                "N(1, 0.1)": models.CosineAndPearson(
                    cosine=0.9901, pearson=0.0007, expected=limit_cosine(means=(1.0, 1.0), sigmas=(0.1, 0.1))
                ),
                "Solar, GLM": models.CosineAndPearson(
                    cosine=0.9811, pearson=0.0092, expected=EXPECTED["input norm"][10]
                ),
            },
            "Within and across": {
                "layer 0, 10": models.CosineAndPearson(
                    cosine=0.3731, pearson=0.0418, expected=float(RHO["A"][0] * RHO["A"][10])
                ),
                "layer 10, 20": models.CosineAndPearson(
                    cosine=0.9882, pearson=0.4567, expected=float(RHO["A"][10] * RHO["A"][20])
                ),
                "across": models.CosineAndPearson(
                    cosine=0.9811, pearson=0.0092, expected=EXPECTED["input norm"][10]
                ),
            },
        }
    )


def experiments_summary() -> Figure:
    values, products = model_values(4)
    square = models.Square(names=MODELS[:4], values=values, expected=products)
    return models.experiments_summary(ZERO_PAIRS, square, PAIRS_BY_LAYER, groups())


def synthetic_cosines(pairs: int = 200) -> Figure:
    rng = np.random.default_rng(42)
    cells = []
    for dimension in (64, 512, 4096):
        for m1, m2 in ((0.1, 0.5), (0.5, 1.0), (1.0, 2.0)):
            for sigma in (1.0, 0.75, 0.5, 0.25, 0.1):
                x, y = (
                    rng.normal(m, sigma, (pairs if dimension < 4096 else 40, dimension)) for m in (m1, m2)
                )
                cosine = np.sum(x * y, 1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
                cells.append(
                    synthetic.CosineCell(
                        mean_1=m1,
                        mean_2=m2,
                        sigma=sigma,
                        dimension=dimension,
                        cosine=float(cosine.mean()),
                        spread=float(cosine.std()),
                        positive_1=float((x > 0).mean()),
                        positive_2=float((y > 0).mean()),
                    )
                )
    return synthetic.synthetic_cosines(cells)


def layer_map() -> Figure:
    return comparison.layer_map(made_up_map(), names=("org/candidate", "org/base"))


def evidence_forest() -> Figure:
    return comparison.evidence_forest(
        TESTS, names=("org/candidate", "org/base"), rule_log10_p=-9.0, floor=0.1
    )


def component_table() -> Figure:
    return comparison.component_table(COMPONENTS, names=("org/candidate", "org/base"))


def control_strip() -> Figure:
    return comparison.control_strip(("org/candidate", "org/base"), Effect(0.93, 0.91, 0.95), -212.4, CONTROLS)


def z_histogram() -> Figure:
    rng = np.random.default_rng(6)
    return comparison.z_histogram([*rng.normal(size=120), *rng.normal(9, 2, 30)])


def norm_cosines() -> Figure:
    return pair.norm_cosines(known_pair())


EXAMPLES: dict[str, Callable[[], Figure]] = {
    make.__name__: make
    for make in (
        layer_curves_cosine,
        layer_curves_pearson,
        router_matches,
        distribution_by_type,
        norm_cosines,
        type_summary,
        claimed_evidence,
        with_controls,
        comprehensive,
        proof,
        layer_decay,
        row_similarity,
        vocabulary_mapping,
        centring_before,
        centring_after,
        centring_long,
        intuition,
        cosine_and_pearson,
        changed_values,
        pair_matrices,
        pair_matrices_own,
        surfaces,
        trajectories,
        vector_statistics,
        scale_and_pattern,
        ridges,
        input_minus_post,
        confusion,
        confusion_cosine,
        within,
        distances,
        layer_zero,
        near_layers,
        model_matrix,
        model_matrix_groups,
        layer_range,
        group_means,
        measure_comparison,
        experiments_summary,
        shuffle_summary,
        synthetic_cosines,
        layer_map,
        evidence_forest,
        component_table,
        control_strip,
        z_histogram,
    )
}

FUNCTIONS = {
    name: item
    for module in pkgutil.iter_modules(catalogue.__path__, f"{catalogue.__name__}.")
    for name, item in vars(importlib.import_module(module.name)).items()
    if getattr(item, "__module__", "") == module.name and not name.startswith("_")
    if str(getattr(item, "__annotations__", {}).get("return")).startswith(("fig.Figure", "fig.Animation"))
}
"""The functions that draw, by name."""
