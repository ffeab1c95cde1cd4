"""What a model computes, by transformers: imported on demand, as not everybody has it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from tests.places import DOCS

from modelkin.casework.lab.checkpoint import Checkpoint

_ROW = re.compile(r"^\| (`[a-z_`, 0-9]+`) \|.*\| (.+) \|$", re.MULTILINE)


def documented_changes() -> dict[str, str]:
    """Return, for each function of the page on the zoo, whether the model then computes the same."""
    rows = _ROW.findall((DOCS / "zoo.md").read_text().partition("| same function? |")[2].partition("\n\n")[0])
    return {name: same for names, same in rows for name in re.findall(r"\w+", names)}


TOKENS = np.random.default_rng(1).integers(0, 512, size=(3, 40))


def logits(
    checkpoint: Checkpoint, folder: Path, tokens: np.ndarray[Any, Any] = TOKENS
) -> np.ndarray[Any, Any]:
    """Run a model in double precision, so that what differs is the weights."""
    torch, transformers = (import_module(name) for name in ("torch", "transformers"))
    torch.set_num_threads(1)
    checkpoint.write(folder, "F32")
    kind = getattr(transformers, checkpoint.config["architectures"][0])
    model, report = kind.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    model.config._experts_implementation = "eager"  # the other one has no double precision
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    with torch.no_grad():
        found: np.ndarray[Any, Any] = model.double().eval()(torch.from_numpy(tokens)).logits.numpy()
    return found


def assert_same_function(before: Checkpoint, after: Checkpoint, folder: Path) -> None:
    old, new = logits(before, folder / "before"), logits(after, folder / "after")
    np.testing.assert_allclose(new[..., :512], old, rtol=0, atol=2e-4 * old.std())
