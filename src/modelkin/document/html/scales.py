"""From numbers to positions and colours. Steps are stated in the legend, so nothing is clipped silently."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from modelkin.comparison.methods import Tested


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMeasure:
    """One number of a test, and how it is drawn."""

    key: str
    """Also its name in the language files."""
    value: Callable[[Tested], float | None]
    steps: tuple[float, ...]
    """Sizes at which the colour changes; below the first is chance."""
    compressed: bool
    """Whether the axis is logarithmic away from zero."""

    def level(self, value: float) -> int:
        """Return the step of a value, with its sign."""
        size = sum(abs(value) >= step for step in self.steps)
        return -size if value < 0 else size

    def place(self, value: float) -> float:
        """Return where a value lies on the axis."""
        return math.copysign(math.log10(1 + abs(value)), value) if self.compressed else value


def _effect(test: Tested) -> float:
    return test.effect.value


def _strength(test: Tested) -> float:
    return -test.log10_p + 0.0


def _matched(test: Tested) -> float | None:
    return test.n_matched / test.n if test.n else None


MEASURES: Mapping[str, LayerMeasure] = {
    measure.key: measure
    for measure in (
        LayerMeasure(
            key="effect", value=_effect, steps=(0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95), compressed=False
        ),
        LayerMeasure(key="z", value=lambda test: test.z, steps=(2, 4, 8, 16, 32, 64, 128), compressed=True),
        LayerMeasure(key="log10_p", value=_strength, steps=(1, 2, 4, 6, 16, 64, 256), compressed=True),
        LayerMeasure(
            key="matched", value=_matched, steps=(0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95), compressed=False
        ),
    )
}


def colour(level: int) -> str:
    """Return the class that paints a step: `p3` above chance, `n3` below, `p0` at chance."""
    return f"n{-level}" if level < 0 else f"p{level}"


def short(value: float) -> str:
    """Write a number of a measure in few characters."""
    # Three digits show nothing of less.
    if value == 0 or 0.001 <= abs(value) < 1:
        return f"{value:.3f}"
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def ticks(measure: LayerMeasure, low: float, high: float) -> Sequence[float]:
    """Return round values between two ends of an axis."""
    if measure.compressed:
        sizes = [size * 10.0**power for power in range(6) for size in (1, 3)]
        values = [*(-size for size in reversed(sizes)), 0.0, *sizes]
    else:
        values = [n / 4 for n in range(-4, 5)]
    return [value for value in values if low <= value <= high]
