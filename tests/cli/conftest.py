"""Models to run commands on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support import LlamaShape, llama_files, llama_tensors

from modelkin.formats.safetensors import safetensors_bytes


@pytest.fixture(scope="module")
def small_zoo(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Path]:
    """Return a function from the noise of a child to a folder with it, its base and two strangers."""

    def make(noise: float) -> Path:
        rng = np.random.default_rng(1)
        child = {
            name: (values + rng.normal(scale=noise, size=values.shape)).astype(np.float32)
            for name, values in llama_tensors().items()
        }
        models = {
            "base": llama_files(),
            "child": {**llama_files(), "model.safetensors": safetensors_bytes(child)},
            "stranger": llama_files(seed=1),
            "narrow": llama_files(LlamaShape(hidden=16, mlp=32)),
        }
        folder = tmp_path_factory.mktemp("zoo")
        for name, files in models.items():
            (folder / name).mkdir()
            for file, data in files.items():
                (folder / name / file).write_bytes(data)
        return folder

    return make
