"""Masks and beginnings that wide strangers have in common, at deep depth: neither is shared weights."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pytest
from tests.comparison.expectations import DEEP
from tests.scale.guards import seen
from tests.scale.lifelike import Grown
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint, layer_of
from modelkin.comparison.methods import BEGINNING_FLAGS, Tested, axis
from modelkin.source import MemorySource

pytestmark = pytest.mark.timeout(1_800)

SIZES = {
    256: Grown(width=256, layers=3, units=256, heads=8, kv_heads=4, vocab=500),
    1_024: Grown(width=1_024, layers=3, units=512, heads=16, kv_heads=4, vocab=1_000),
    4_096: Grown(width=4_096, layers=3, units=512, heads=32, kv_heads=8, vocab=1_000),
}
WIDTHS = marked(SIZES, lambda width: False, lambda width: width == 256)
KEPT = 0.5
"""Share of the weights that the mask keeps."""
FILLED = 0.2
"""Noise in its zeros, in deviations of the tensor."""
BEGUN = 0.7
"""Size of what all layers began from, in deviations of the tensor."""
SMALL = ("small weights in the same places", {"same-sizes", "sizes-alone"})
ZEROS = ("zeros in the same places", {"same-zeros", "zeros-alone"})
ALIKE = ("layers that all begin alike", BEGINNING_FLAGS)


def changed(model: Checkpoint, change: Callable[[str, np.ndarray], np.ndarray]) -> Checkpoint:
    """Change the matrices of all layers."""
    return model.with_tensors(
        {
            name: np.asarray(change(name, rows), np.float32)
            for name, rows in model.tensors.items()
            if rows.ndim == 2 and layer_of(name) is not None
        }
    )


def masked(model: Checkpoint, filling: float, *, seed: int) -> Checkpoint:
    """Multiply by a mask that is the same for all models of a size, and fill its zeros.

    The weights get a mean: where signs are random, places alone make no rows alike.
    """
    noise = np.random.default_rng([seed, 99])

    def change(name: str, rows: np.ndarray) -> np.ndarray:
        lost = np.random.default_rng([3, *name.encode()]).random(rows.shape, np.float32) > KEPT
        filled = filling * rows.std() * noise.standard_normal(rows.shape, np.float32) if filling else 0.0
        return np.where(lost, filled, rows + rows.std())

    return changed(model, change)


def begun(model: Checkpoint) -> Checkpoint:
    """Add to all layers what every model of a size begins from."""

    def change(name: str, rows: np.ndarray) -> np.ndarray:
        # By the part, not by the layer.
        public = np.random.default_rng([4, *name.split(".", 3)[3].encode()])
        return np.asarray(rows + BEGUN * rows.std() * public.standard_normal(rows.shape, np.float32))

    return changed(model, change)


def compared(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    return mk.compare(
        candidate=MemorySource(candidate.files("F32"), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
        options=DEEP,
    )


def with_flags(result: mk.Comparison, flags: Collection[str]) -> list[Tested]:
    return [item for item in result.evidence if isinstance(item, Tested) and {*flags} & {*item.flags}]


def tuned(model: Checkpoint) -> Checkpoint:
    return derive.add_noise(model, size=0.05, rng=np.random.default_rng(5))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("guard", [SMALL, ZEROS], ids=["filled", "zeros"])
def test_strangers_under_one_mask_are_strangers(width, guard):
    (name, flags), filling = guard, FILLED if guard == SMALL else 0.0
    models = [masked(SIZES[width].drawn(seed=seed), filling, seed=seed) for seed in (1, 2)]
    found = compared(*models)
    assert {test.method for test in with_flags(found, flags)} >= {"mlp-units", "mlp-map"}
    assert not found.verdict.related
    assert min(test.log10_p for test in found.evidence if isinstance(test, Tested)) > -6
    seen(name, width, springs=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_tuned_copy_of_a_masked_model_is_found(width):
    """The mask was filled before it was tuned: small places are the same, and so is everything else."""
    base = masked(SIZES[width].drawn(seed=1), FILLED, seed=1)
    found = compared(tuned(base), base)
    assert {test.component for test in with_flags(found, SMALL[1])} <= {"residual"}
    assert {name for name, part in found.verdict.components.items() if part.conclusion.related} >= {
        "mlp",
        "attention",
    }
    seen(SMALL[0], width, springs=False)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_pruned_copy_of_a_pruned_model_is_found_by_what_its_zeros_leave(width):
    base = masked(SIZES[width].drawn(seed=1), 0.0, seed=1)
    child = tuned(base)
    zeros = {name: np.where(base.tensors[name] == 0.0, 0.0, rows) for name, rows in child.tensors.items()}
    found = compared(child.with_tensors(zeros), base)
    assert with_flags(found, {"same-zeros"})
    assert not with_flags(found, {"zeros-alone"})
    assert found.verdict.components["mlp"].conclusion.related
    assert found.verdict.components["attention"].conclusion.related
    seen(ZEROS[0], width, springs=False)


@pytest.mark.more
def test_a_common_mask_would_be_taken_for_shared_weights(monkeypatch):
    monkeypatch.setattr(axis, "given_small_places", lambda test, *_, **__: test)
    models = [masked(SIZES[256].drawn(seed=seed), FILLED, seed=seed) for seed in (1, 2)]
    assert compared(*models).verdict.related  # the trap is there


@pytest.mark.more
@pytest.mark.parametrize("width", marked(SIZES, lambda width: width == 256))
def test_strangers_whose_layers_all_begin_alike_are_strangers(width):
    found = compared(*(begun(SIZES[width].drawn(seed=seed)) for seed in (1, 2)))
    assert with_flags(found, ALIKE[1])
    assert not found.verdict.related
    seen(ALIKE[0], width, springs=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_copy_is_found_beyond_what_all_layers_begin_with(width):
    base = begun(SIZES[width].drawn(seed=1))
    found = compared(tuned(base), base)
    assert found.verdict.components["mlp"].conclusion.related
    seen(ALIKE[0], width, springs=False)
