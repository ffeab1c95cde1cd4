"""Small models that come with the package, so that everything can be tried without a network."""

from __future__ import annotations

import atexit
import shutil
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from importlib import resources
from pathlib import Path

from modelkin.errors import UsageError, not_written
from modelkin.message import say

__all__ = ["DEMO_MODELS", "copy_demo_models", "demo_path", "demo_zoo"]

DEMO_MODELS = ("base", "twin-1", "finetune-light", "continued", "norms-only", "moe-base", "moe-tuned")
"""Names of the embedded models, as used in ``demo:NAME``; ``zoo.json`` says what each is."""


def demo_zoo() -> AbstractContextManager[Path]:
    """Return the folder of all embedded models, for use in a ``with`` statement.

    They are actually trained, on invented text, with known ancestry: ``zoo.json`` in the folder says which
    came from which.
    """
    return resources.as_file(resources.files("modelkin.demo").joinpath("zoo"))


@cache
def demo_path(name: str) -> Path:
    """Return the folder of one embedded model, which stays until the program ends."""
    kept = ExitStack()  # if the package is in an archive, the model is unpacked
    atexit.register(kept.close)
    return kept.enter_context(resources.as_file(resources.files("modelkin.demo").joinpath("zoo", name)))


def copy_demo_models(folder: Path) -> tuple[Path, ...]:
    """Copy all embedded models into a folder, one folder each, and return these.

    Raises `UsageError` if one of them is there already, or the folder cannot be written.
    """
    for name in (*DEMO_MODELS, "zoo.json"):
        if (folder / name).exists():
            raise UsageError(
                str(folder / name), say("problem.already-there"), hint=say("hint.another-folder")
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with demo_zoo() as zoo:
            shutil.copyfile(zoo / "zoo.json", folder / "zoo.json")
            return tuple(Path(shutil.copytree(zoo / name, folder / name)) for name in DEMO_MODELS)
    except OSError as error:
        raise not_written(str(folder), say("part.the-models"), error) from error
