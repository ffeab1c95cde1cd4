"""Where the embedded models are."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import resources
from pathlib import Path


def demo_zoo() -> AbstractContextManager[Path]:
    """Return the folder of all embedded models, for use in a ``with`` statement.

    They are really trained, on invented text, with known ancestry: ``zoo.json`` in the folder says who came
    from whom.
    """
    return resources.as_file(resources.files("modelkin.demo").joinpath("zoo"))


def demo_model(name: str = "base") -> AbstractContextManager[Path]:
    """Return the folder of one embedded model, for use in a ``with`` statement."""
    return resources.as_file(resources.files("modelkin.demo").joinpath("zoo", name))
