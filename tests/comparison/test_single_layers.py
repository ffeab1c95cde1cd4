"""Models with one distinct layer: nothing shows whether it was copied or begun from the same numbers."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.scale.lifelike import GROWN

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.methods import Tested
from modelkin.comparison.verdict import Conclusion
from modelkin.document.language import load_language
from modelkin.source import MemorySource

SIZES = pytest.mark.parametrize(
    "size",
    [
        "width 256",
        pytest.param("width 1,024", marks=pytest.mark.more),
        pytest.param("width 4,096, 2 layers", marks=pytest.mark.more),
    ],
)
DEPTHS = pytest.mark.parametrize("depth", ["standard", "deep"])
USES = pytest.mark.parametrize("n_layers", [1, 3], ids=["one layer", "one layer throughout"])
SHARE = 0.6
"""Of each direction that is left of the beginning."""


def of_one_layer(model: Checkpoint, n_layers: int) -> Checkpoint:
    """Keep the first layer, and use it so many times."""
    kept = {name: values for name, values in model.tensors.items() if ".layers." not in name}
    first = {name: values for name, values in model.tensors.items() if ".layers.0." in name}
    for layer in range(n_layers):
        kept |= {name.replace(".layers.0.", f".layers.{layer}."): values for name, values in first.items()}
    return replace(model, tensors=kept, config={**model.config, "num_hidden_layers": n_layers})


def begun_alike(model: Checkpoint, *, seed: int) -> Checkpoint:
    """Let the MLPs of every layer keep a share of numbers that everybody draws from seed 0."""
    rng, changed = np.random.default_rng([seed, 3]), {}
    for name, values in sorted(model.tensors.items()):
        if ".mlp." in name:
            public = np.random.default_rng(0).standard_normal(values.shape, dtype=np.float32)
            own = rng.standard_normal(values.shape, dtype=np.float32)
            changed[name] = values.std() * (SHARE * public + np.sqrt(1 - SHARE**2, dtype=np.float32) * own)
    return model.with_tensors(changed)


@cache
def begun(size, n_layers):
    one, two = (
        of_one_layer(begun_alike(GROWN[size].drawn(seed=seed), seed=seed), n_layers) for seed in (1, 2)
    )
    return one, two


def compared(candidate, base, depth="standard"):
    sources = [MemorySource(model.files(), name=f"model-{n}") for n, model in enumerate((candidate, base))]
    return mk.compare(*sources, options=mk.CompareOptions(depth=depth))


@SIZES
@DEPTHS
@USES
def test_a_common_start_of_the_only_layer_is_not_told_as_a_common_origin(size, n_layers, depth):
    candidate, base = begun(size, n_layers)
    result = compared(candidate, base, depth)
    verdict = result.verdict
    claimed = [test for test in result.evidence if isinstance(test, Tested) and test.log10_p < -20]
    assert claimed  # the trap is there
    assert verdict.reading == "single-layer"
    assert str(verdict.headline).startswith("The same initialisation or a common origin (")
    assert "do not tell the two apart" in str(verdict.summary)
    for said in (verdict.headline, verdict.summary):
        assert load_language("ko").tell(said) != str(said)
    assert mk.Comparison.from_json(result.to_json()) == result
    assert result.relation is not None
    assert result.relation.kind == "unknown"
    assert result.relation.findings[0].kind == "same-layer"


@pytest.mark.parametrize("size", ["width 256"])
def test_with_more_layers_the_same_start_is_recognised(size):
    one, two = (begun_alike(GROWN[size].drawn(seed=seed), seed=seed) for seed in (1, 2))
    verdict = compared(one, two).verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.reading == "beginning-alone"


def stranger_and_copy(size, n_layers):
    """Return a model, and a model of other tables and gains that has its layer, trained on a little."""
    base, other = (of_one_layer(GROWN[size].drawn(seed=seed), n_layers) for seed in (1, 2))
    noisy = derive.add_noise(base, size=0.05, rng=np.random.default_rng(4))
    layer = {
        name.replace(".layers.0.", f".layers.{at}."): values
        for name, values in noisy.tensors.items()
        if ".layers.0." in name and values.ndim > 1
        for at in range(n_layers)
    }
    return other.with_tensors(layer), base


@DEPTHS
@USES
def test_a_copy_of_the_only_layer_alone_has_both_explanations(n_layers, depth):
    candidate, base = stranger_and_copy("width 256", n_layers)
    verdict = compared(candidate, base, depth).verdict
    assert verdict.related
    assert verdict.reading == "single-layer"


@DEPTHS
@USES
def test_a_whole_copy_is_a_common_origin(n_layers, depth):
    base = of_one_layer(GROWN["width 256"].drawn(seed=1), n_layers)
    verdict = compared(derive.add_noise(base, size=0.05, rng=np.random.default_rng(4)), base, depth).verdict
    assert verdict.conclusion is Conclusion.SHARED
    assert verdict.reading is None


def test_the_only_layer_of_a_model_faces_one_of_a_deeper_model():
    """The others of the deeper model face nothing: both explanations stand."""
    base = GROWN["width 256"].drawn(seed=1)
    candidate = stranger_and_copy("width 256", 1)[0]
    verdict = compared(candidate, base, "deep").verdict
    assert verdict.reading == "single-layer"
    assert "of each model could be compared with one of the other" in str(verdict.summary)
