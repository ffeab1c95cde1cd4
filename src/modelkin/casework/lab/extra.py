"""The packages of the extra ``lab``, imported only when needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from modelkin.errors import MissingExtra
from modelkin.message import say


def lab_module(name: str) -> Any:  # noqa: ANN401
    """Return a module of the extra ``lab``; raise `MissingExtra` if it is not installed."""
    try:
        return import_module(name)
    except ImportError as exc:
        raise MissingExtra(
            "lab",
            say("problem.training-needs", name=repr(name)),
            hint=say("hint.install", command="pip install 'modelkin[lab]'"),
        ) from exc
