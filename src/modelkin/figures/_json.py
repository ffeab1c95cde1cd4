"""Descriptions as JSON and back, without loss: a figure is drawn from a file as from memory."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from modelkin.errors import FormatError, UsageError
from modelkin.message import say
from modelkin.untrusted import visible

from ._figure import Figure


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    schema: Literal["modelkin.figure/1"] = "modelkin.figure/1"
    figure: Figure


def figure_to_json(figure: Figure) -> str:
    """Write a description as JSON (schema ``modelkin.figure/1``)."""
    from modelkin.document.codec import dumps

    return dumps(msgspec.to_builtins(_Document(figure=figure), enc_hook=_number), indent=None)


def figure_from_json(text: str) -> Figure:
    """Read what `figure_to_json` wrote; the description is equal to the one that was written."""
    from modelkin.document.codec import parse

    document = parse(text, "figure")
    try:
        return msgspec.convert(document, _Document).figure
    except (msgspec.ValidationError, UsageError) as error:
        said = visible(str(error))[:300]
        raise FormatError("figure", say("problem.no-figure-json", why=said)) from error


def _number(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):  # a phrase, or a name of a type of its own
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} is not part of a description")
