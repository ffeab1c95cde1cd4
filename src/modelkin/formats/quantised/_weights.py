"""Weights of a format whose tensors may be codes, put together."""

from __future__ import annotations

from dataclasses import replace

from modelkin.formats._interface import Request, Weights

from ._decode import decode_index, has_codes
from ._found import small_reader


def put_together(weights: Weights, request: Request) -> Weights:
    """Make weights of codes and scales; the config is read only where some tensor may be one."""
    if not has_codes(weights.index):
        return weights
    config = weights.config or request.config
    index, notes = decode_index(weights.index, config, small_reader(request.fetcher, weights.index))
    return replace(weights, index=index, notes=(*weights.notes, *notes))
