"""Adapters made by PEFT: read on the fly, they are what PEFT makes of them when it merges."""

import numpy as np
import pytest
from tests.places import FORMATS

import modelkin as mk
from modelkin.tensors import TensorSlice

GOLDEN = FORMATS / "adapters"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES)
def test_every_tensor_is_as_peft_merges_it(case):
    folder = GOLDEN / case
    with (
        mk.open_model(f"{folder / 'adapter'}::{folder / 'base'}") as applied,
        mk.open_model(str(folder / "merged.safetensors")) as merged,
        mk.open_model(str(folder / "base")) as base,
    ):
        assert applied.index.keys() == merged.index.keys()
        changed = 0
        for name in merged.index:
            wanted = merged.tensor(name)
            np.testing.assert_allclose(applied.tensor(name), wanted, rtol=2e-5, atol=2e-5, err_msg=name)
            changed += not np.array_equal(wanted, base.tensor(name))
        assert changed == sum("+" in info.dtype for info in applied.index.values()) + _n_replaced(applied)


def _n_replaced(model):
    return sum(info.file.startswith("adapter/") for info in model.index.values() if "+" not in info.dtype)


@pytest.mark.parametrize("case", CASES)
def test_any_rows_agree_with_the_whole(case):
    folder = GOLDEN / case
    with mk.open_model(f"{folder / 'adapter'}::{folder / 'base'}") as model:
        for name, info in model.index.items():
            if "+" not in info.dtype:
                continue
            whole = model.tensor(name)
            rows = [info.n_rows - 1, 0, info.n_rows // 2, 0]
            np.testing.assert_allclose(model.tensor(name, rows), whole[rows], rtol=1e-6, atol=1e-6)
            block = TensorSlice.blocks(name, [(1, info.n_elements - 1)])
            np.testing.assert_allclose(model.read([block])[0], whole.reshape(-1)[1:-1], rtol=1e-6, atol=1e-6)
            chunks = [chunk.values for chunk in model._reader.chunks([name], max_bytes=64)]
            np.testing.assert_allclose(np.concatenate(chunks), whole.reshape(-1), rtol=1e-6, atol=1e-6)
