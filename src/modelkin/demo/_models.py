"""Where the embedded models are."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import resources
from pathlib import Path


def demo_model(name: str = "tiny-llama") -> AbstractContextManager[Path]:
    """Return the folder of an embedded model, for use in a ``with`` statement.

    The weights of ``tiny-llama`` are random numbers from a fixed seed: it shows how a model is laid out,
    nothing more.
    """
    return resources.as_file(resources.files("modelkin.demo").joinpath("models", name))
