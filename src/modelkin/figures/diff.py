"""The figure of a difference: how much each kind of matrix changed, layer by layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from modelkin.message import phrase

from ._figure import Axis, Figure, Panel
from ._inputs import words
from ._scale import Scale
from .marks import HeatMap
from .values import grid

if TYPE_CHECKING:
    from modelkin.comparison import ModelDiff

_STRANGERS = math.sqrt(2)
_LEAST = 0.01
"""The scale reaches at least this far, so that traces of rounding do not look like changes."""


def change_map(result: ModelDiff) -> Figure | None:
    """Draw the relative change of every role in every layer; None if there are no layers to draw.

    Colours end at the largest change of the pair. The colour bar marks the value for strangers, the root of
    two: their difference is as large as both together.
    """
    cells: dict[tuple[str, int], list[float]] = {}
    for item in result.tensors:
        if item.layer is not None and item.component != "norms" and not item.role.endswith("_bias"):
            cells.setdefault((item.role, item.layer), []).append(item.relative_change)
    if not cells:
        return None
    roles = list(dict.fromkeys(role for role, _ in cells))
    layers = sorted({layer for _, layer in cells})
    means = {key: math.fsum(values) / len(values) for key, values in cells.items()}
    high = max(_LEAST, *means.values())
    scale = Scale(
        kind="sequential",
        low=0.0,
        high=high,
        label=phrase("figure.relative_change"),
        chance=_STRANGERS,
        chance_label=phrase("figure.strangers"),
    )
    heat = HeatMap(
        values=grid([[means.get((role, layer)) for layer in layers] for role in roles]),
        rows=tuple(role.replace("_", " ") for role in roles),
        columns=words(layers),
        scale=scale,
    )
    x = Axis(label=phrase("figure.layer_of", name=result.candidate.ref))
    panel = Panel(title="", marks=(heat,), x=x, height=3.6)
    return Figure(
        title=phrase("figure.change_map"),
        panels=(panel,),
        note=phrase("figure.change_note"),
    )
