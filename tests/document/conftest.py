"""Comparisons of every conclusion, each made once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.support import LlamaShape, llama_files, llama_tensors

import modelkin as mk
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.source import MemorySource

NARROW = LlamaShape(hidden=16, mlp=32)


def noisy(seed: int = 1, *, only: str = "") -> dict[str, bytes]:
    """Return the tiny model with a little noise; or a stranger that took only some tensors of it."""
    rng = np.random.default_rng(seed)
    strangers = llama_tensors(seed=seed)
    tensors = {
        name: (values + rng.normal(scale=0.005, size=values.shape)).astype(np.float32)
        if only in name
        else strangers[name]
        for name, values in llama_tensors().items()
    }
    return {**llama_files(), "model.safetensors": safetensors_bytes(tensors)}


def models() -> dict[str, dict[str, bytes]]:
    return {
        "shared": noisy(),
        "shared-partial": noisy(only="norm"),
        "no-evidence": llama_files(seed=1),
        "identical": llama_files(),
        "not-testable": llama_files(NARROW),
    }


CONCLUSIONS = tuple(models())
CONTROLLED = "controlled"
"""At quick depth, with controls of every kind."""
_made: dict[str, mk.Comparison] = {}


def _compared(name: str) -> mk.Comparison:
    if name not in _made:
        files = models()
        controlled = name == CONTROLLED
        controls = ("no-evidence", "not-testable", "identical") if controlled else ()
        _made[name] = mk.compare(
            candidate=MemorySource(files["shared" if controlled else name], name=f"org/{name}"),
            base=MemorySource(llama_files(), name="org/base"),
            controls=[MemorySource(files[other], name=f"org/{other}") for other in controls],
            options=mk.CompareOptions(depth="quick" if controlled else "standard"),
        )
    return _made[name]


@pytest.fixture(scope="session")
def compared() -> Callable[[str], mk.Comparison]:
    """Return the comparison that ends in a conclusion, or the one with controls."""
    return _compared


@pytest.fixture(scope="session", params=CONCLUSIONS)
def comparison(request: pytest.FixtureRequest) -> mk.Comparison:
    """Return each of them in turn."""
    return _compared(request.param)
