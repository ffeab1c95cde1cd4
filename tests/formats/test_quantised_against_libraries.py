"""Quantised weights against torch and the libraries that define the formats, as they are installed now."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import modelkin as mk
from modelkin.source import MemorySource

torch = pytest.importorskip("torch")
save = pytest.importorskip("safetensors.torch").save

from tests.data.formats.make_quantised import CASES  # noqa: E402

pytestmark = [
    pytest.mark.lab,
    pytest.mark.filterwarnings("ignore"),  # of other people's packages
]


def decoded(tensors: dict[str, Any], config: dict[str, Any]) -> Any:
    files = {
        "model.safetensors": save({f"module.{name}": one.contiguous() for name, one in tensors.items()}),
        "config.json": json.dumps(config).encode(),
    }
    return mk.open_model(MemorySource(files)).tensor("module.weight")


@pytest.mark.parametrize("case", CASES)
def test_libraries_and_modelkin_make_the_same_numbers(case):
    try:
        config, tensors, expected = CASES[case]()
    except ImportError as error:
        pytest.skip(str(error))
    key = "quantization_config" if "quant_method" in config else "quantization"
    np.testing.assert_array_equal(decoded(tensors, {key: config}), expected.float().numpy())


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.bfloat16])
def test_blocks_of_fp8_are_those_of_torch(dtype, scale_dtype):
    generator = torch.Generator().manual_seed(1)
    codes = torch.randn((300, 200), generator=generator).to(dtype)
    scales = torch.rand((3, 2), generator=generator).to(scale_dtype)
    spread = scales.float().repeat_interleave(128, 0).repeat_interleave(128, 1)[:300, :200]
    got = decoded(
        {"weight": codes, "weight_scale_inv": scales},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
    )
    np.testing.assert_array_equal(got, (codes.float() * spread).numpy())


def test_every_code_of_fp8_is_that_of_torch():
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).reshape(2, 128)
    got = decoded({"weight": codes, "weight_scale": torch.tensor(0.5)}, {})
    np.testing.assert_array_equal(got, (codes.float() * 0.5).numpy())
