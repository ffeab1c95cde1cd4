"""Few values that were edited are neither a copy, nor noise, nor a change of low rank."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
from tests.comparison.disguises import zoo_model
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.record import Relation
from modelkin.options import Depth
from modelkin.source import MemorySource

Dtype = Literal["F32", "BF16", "F16"]
Floats = npt.NDArray[np.float32]
NAME = "model.layers.2.mlp.up_proj.weight"


def compared(
    candidate: Checkpoint, base: Checkpoint, dtypes: tuple[Dtype, Dtype], depth: Depth = "standard"
) -> Relation:
    sources = [
        MemorySource(model.files(dtype), name=name)
        for model, dtype, name in zip((candidate, base), dtypes, ("c", "b"), strict=True)
    ]
    return mk.compare(*sources, options=mk.CompareOptions(depth=depth)).relation


def one_larger(values: Floats) -> None:
    values[17, 33] += 0.5


def one_zero(values: Floats) -> None:
    values[17, 33] = 0


def twenty(values: Floats) -> None:
    rng = np.random.default_rng(1)
    values[rng.permutation(160)[:20], rng.permutation(96)[:20]] += 0.2


FORMATS = [("BF16", "BF16"), ("F32", "F32"), ("F32", "BF16"), ("BF16", "F32")]


@pytest.mark.parametrize(
    ("edit", "count", "dtypes", "depth"),
    every(
        3,
        [
            (edit, count, dtypes, depth)
            for edit, count in ((one_larger, 1), (one_zero, 1), (twenty, 20))
            for dtypes in FORMATS
            for depth in ("standard", "full")
        ],
    ),
)
def test_values_that_were_edited_are_counted_and_make_no_copy(edit, count, dtypes, depth):
    base = zoo_model("base")
    values = base.tensors[NAME].copy()
    edit(values)
    changed = base.with_tensors({NAME: values})
    for pair in ((changed, base), (base, changed)):
        found = compared(*pair, dtypes, depth)
        assert found.kind == "unknown"
        (edited,) = [item for item in found.findings if item.kind == "edited"]
        assert (edited.numbers["values"], edited.numbers["tensors"]) == (count, 1)
        assert not {item.kind for item in found.findings} & {"noise", "low-rank", "copy", "precision-copy"}


@pytest.mark.parametrize("dtypes", FORMATS)
def test_a_share_of_all_matrices_that_was_edited_makes_no_copy(dtypes):
    base, rng = zoo_model("base"), np.random.default_rng(3)
    changed = base.with_tensors(
        {
            name: np.where(
                rng.random(values.shape) < 5e-4,
                values + 3 * values.std() * rng.normal(size=values.shape),
                values,
            ).astype(np.float32)
            for name, values in base.tensors.items()
            if "proj" in name
        }
    )
    found = compared(changed, base, dtypes)
    assert found.kind == "unknown"
    assert {item.kind for item in found.findings} <= {"edited", "frozen"}


@pytest.mark.parametrize("size", [0.001, 0.01])
def test_noise_that_storing_mostly_lost_was_no_edit(size):
    base = zoo_model("base")
    noisy = derive.cast(derive.add_noise(base, size=size, rng=np.random.default_rng(2)), "BF16")
    found = compared(noisy, base, ("BF16", "BF16"))
    assert "edited" not in {item.kind for item in found.findings}


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_a_copy_in_another_precision_is_one_still(dtype):
    rng = np.random.default_rng(4)
    base = zoo_model("base")
    fine = base.with_tensors(
        {
            name: np.asarray(values * (1 + 1e-4 * rng.normal(size=values.shape)), np.float32)
            for name, values in base.tensors.items()
        }
    )
    found = compared(fine, fine, (dtype, "F32"))
    assert found.kind == "precision-copy"


def test_an_edit_of_one_step_does_not_hide_the_others():
    base = zoo_model("base")
    values = base.tensors[NAME].copy()
    twenty(values)
    values[5, 5] *= np.float32(1 + 2**-7)
    found = compared(base.with_tensors({NAME: values}), base, ("BF16", "BF16"))
    (edited,) = [item for item in found.findings if item.kind == "edited"]
    assert edited.numbers["values"] == 20
