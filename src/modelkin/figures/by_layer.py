"""Effects along the layers: what was found for each component in each layer, compared with chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkin.comparison.methods import Agreement, Contrast, Tested
from modelkin.errors import UsageError
from modelkin.message import say

from ._figure import Axis, Figure, Panel
from ._marks import Lines, ReferenceLine
from ._style import series_styles
from .values import numbers

if TYPE_CHECKING:
    from modelkin.comparison import Comparison


def effects_by_layer(result: Comparison) -> Figure:
    """Draw the strongest effect of each component in each layer, with its interval."""
    found: dict[str, dict[int, Tested | Agreement | Contrast]] = {}
    for test in result.evidence:
        if isinstance(test, Tested | Agreement | Contrast) and test.effect and len(test.layers) == 1:
            layers = found.setdefault(test.component, {})
            best = layers.get(test.layers[0])
            if best is None or best.effect is None or abs(test.effect.value) > abs(best.effect.value):
                layers[test.layers[0]] = test
    if not found:
        raise UsageError("layers", say("problem.no-layer-tests"), hint="Try --depth standard or deep.")
    styles = series_styles(found)
    last = max(layer for layers in found.values() for layer in layers)
    curves = []
    for component, layers in found.items():
        effects = [layers[layer].effect if layer in layers else None for layer in range(last + 1)]
        curves.append(
            Lines(
                name=component,
                x=numbers(range(last + 1)),
                y=numbers(None if item is None else item.value for item in effects),
                low=numbers(None if item is None else item.low for item in effects),
                high=numbers(None if item is None else item.high for item in effects),
                style=styles[component],
            )
        )
    panel = Panel(
        title="",
        marks=(*curves, ReferenceLine(value=0.0, label="chance")),
        x=Axis(label=f"layer of {result.candidate.ref}"),
        y=Axis(label="excess cosine"),
        height=3.4,
    )
    note = "0 is what chance gives, 1 is identical; a layer without a point was not tested by itself."
    return Figure(title="The strongest effect of each component, layer by layer", panels=(panel,), note=note)
