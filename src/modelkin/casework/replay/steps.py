"""GLM and INTELLECT: what changed between two relatives, and what the number format hides of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .facts import WIDTH, Floats, PublishedFacts
from .record import Chapter, grid

_BORDER = 0.5
"""Where the steps of the format double."""
_FIRST = 3
"""In earlier layers almost everything changed, and by more than a step."""
_MANTISSA = 8
"""Bits of bf16, including the hidden one: a value in [1/2, 1) has steps of 2^-8."""


def step_size(value: float) -> float:
    """Return the distance of neighbouring bf16 numbers at a positive value."""
    return 2.0 ** (math.floor(math.log2(value)) + 1 - _MANTISSA)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneNumber:
    """A model with one number: this share of the gains below 1/2 changed, and none above."""

    layers: Floats
    below: Floats
    """Share of the gains of a layer below 1/2, in per cent of 1."""
    changed: Floats
    """Per cent, as published."""
    share: float

    @property
    def predicted(self) -> Floats:
        """Per cent of the gains of each layer that changed, by the model."""
        return self.share * self.below

    @property
    def residuals(self) -> Floats:
        """What it does not explain, in points."""
        return self.changed - self.predicted


def one_number(facts: PublishedFacts) -> OneNumber:
    """Fit the model. Its one exception is left in."""
    known, norms = facts.single["changed"], facts.norms["input"]
    layers = np.array([layer for layer in known["layers"] if layer >= _FIRST])
    changed = np.array(known["per_cent"])[layers]
    z = (_BORDER - norms.mean_b[layers]) / norms.std_b[layers]
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in z])
    # The median of the ratios, so that an exceptional layer stands out instead of distorting the fit.
    share = float(np.median(changed[below > 0.5] / below[below > 0.5]))
    return OneNumber(layers=layers.astype(float), below=below, changed=changed, share=share)


def steps(facts: PublishedFacts) -> Chapter:
    """Explain why changes seem to stop at a layer."""
    known, norms = facts.single["changed"], facts.norms["input"]
    model = one_number(facts)
    odd = int(np.argmax(np.abs(model.residuals)))
    rest = np.delete(np.arange(len(model.layers)), odd)
    differences = dict(zip(known["difference_layers"], known["mean_difference"], strict=True))
    steps_of = {layer: step_size(float(norms.mean_b[layer])) for layer in (0, 13, 44, 45)}
    elements = [
        (layer, norms.mean_b[layer], differences[layer], differences[layer] * WIDTH / steps_of[layer])
        for layer in (13, 44, 45)
    ]
    changes = zip(model.layers.astype(int), model.changed, 100.0 * model.below, model.predicted, strict=True)
    return facts.chapter(
        "steps",
        {
            "share": model.share,
            "before": model.changed[model.layers == 12][0],
            "after": model.changed[model.layers == 13][0],
            "mean_before": norms.mean_b[12],
            "mean_after": norms.mean_b[13],
            "correlation_all": np.corrcoef(model.predicted, model.changed)[0, 1],
            "correlation": np.corrcoef(model.predicted[rest], model.changed[rest])[0, 1],
            "first": known["per_cent"][0],
            "third": known["per_cent"][2],
            "steps_first": differences[0] / (known["per_cent"][0] / 100.0) / steps_of[0],
            "residual": np.abs(model.residuals[rest]).max(),
            "layers": len(model.layers),
            "odd_layer": int(model.layers[odd]),
            "odd": model.residuals[odd],
            "last": elements[-1][3],
        },
        grid("steps", changes, layer="d", changed=".1f", below=".0f", predicted=".1f"),
        grid("elements", elements, layer="d", mean_gain=".3f", mean_difference=".2e", elements=".1f"),
    )
