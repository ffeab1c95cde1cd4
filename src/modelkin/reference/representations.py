"""Methods that compare models' internal states while they read the same text: REEF, phi_H, phi_MATCH."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say
from modelkin.tensors import TensorSlice

from ._interface import RawScore, ReferenceMethod, ReferencePair, Wanted
from .reading import Floats, SideReader
from .running import Trace, repr_module, shipped_prompts, traced
from .zhu import combined, log10_p_of_order, log10_p_of_two_matches

USUAL_DEPTH = 19 / 32
"""REEF takes the output of layer 18, counted from 0, of 32-layer models: the state after 19 of them."""

Square = npt.NDArray[np.float64]


# -- CKA -----------------------------------------------------------------------------------------------


def linear_gram(rows: Floats) -> Square:
    """Return products of rows."""
    wide = rows.astype(np.float64)
    return np.asarray(wide @ wide.T)


def rbf_gram(rows: Floats) -> Square:
    """Return a Gaussian of distances; its width is the root of their median, as published."""
    products = linear_gram(rows)
    sizes = np.diag(products)
    squares = np.clip(sizes[:, None] + sizes[None, :] - 2.0 * products, 0.0, None)
    median = float(np.median(squares[~np.eye(len(squares), dtype=bool)]))
    return np.asarray(np.exp(-squares / (2.0 * median if median > 0 else 1.0)))


def standardised(rows: Floats) -> Floats:
    """Return features with mean 0 and spread 1 over the prompts; those that never change are 0."""
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    spread = centred.std(axis=0, ddof=1)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0), dtype=np.float32)


def cka(first: Square, second: Square, *, unbiased: bool = False) -> float | None:
    """Return the centred kernel alignment of two Gram matrices over the same samples; None if one is flat.

    The biased form has a positive floor when samples are fewer than dimensions; the unbiased one does not.
    """
    centred = [(_without_bias if unbiased else _doubly)(gram) for gram in (first, second)]
    sizes = [float(np.sum(gram * gram)) for gram in centred]
    if min(sizes) <= 0.0:
        return None
    return float(np.sum(centred[0] * centred[1])) / float(np.sqrt(sizes[0] * sizes[1]))


def _doubly(gram: Square) -> Square:
    rows = gram.mean(axis=0)
    return np.asarray(gram - rows[:, None] - rows[None, :] + rows.mean())


def _without_bias(gram: Square) -> Square:
    n = len(gram)
    gram = gram.copy()
    np.fill_diagonal(gram, 0.0)
    means = gram.sum(axis=0) / (n - 2)
    means -= means.sum() / (2 * (n - 1))
    gram -= means[:, None] + means[None, :]
    np.fill_diagonal(gram, 0.0)
    return gram


# -- methods -------------------------------------------------------------------------------------------


class RunningMethod(ReferenceMethod):
    """A method that runs both models, one after the other."""

    uses_tokens = False
    watched: ClassVar[tuple[str, ...]] = ()
    """Which MLP activations to record, if any."""

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Ask for everything; without the extra there is no score and nothing is read."""
        repr_module("torch")
        for model in pair.models:
            if not model.architecture.is_known:
                return say("unknown-architecture", model=model.location.ref)
        mine, theirs = ([TensorSlice.whole(name) for name in model.index] for model in pair.models)
        return mine, theirs

    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Run both and compare."""
        prompts = pair.prompts or shipped_prompts()
        traces = []
        for reader in readers:
            trace = pair.of_pair.recall(
                reader, (self.watched, prompts), lambda r: traced(r, prompts, self.watched)
            )
            if isinstance(trace, Message):
                return trace
            traces.append(trace)
        return self.compared(pair, traces[0], traces[1])

    @abstractmethod
    def compared(self, pair: ReferencePair, mine: Trace, theirs: Trace) -> RawScore | Message:
        """Compute a score from what was seen."""


@final
class Reef(RunningMethod):
    """Linear, biased CKA of the last token's state in one layer of each model, as published.

    The authors' code first divides every feature by its spread, which their formula does not say and which is
    not invariant under a rotation of the residual stream; that form is among the details.
    """

    def compared(self, pair: ReferencePair, mine: Trace, theirs: Trace) -> RawScore | Message:
        """Compare the requested layers, or those of the usual depth."""
        places = pair.layers or (_usual(mine), _usual(theirs))
        depths = len(mine.hidden) - 1, len(theirs.hidden) - 1
        if any(not 0 <= place <= depth for place, depth in zip(places, depths, strict=True)):
            return say("reference-no-such-layer", n=places[0], m=places[1])
        rows = mine.hidden[places[0]], theirs.hidden[places[1]]
        linear, gaussian = [linear_gram(side) for side in rows], [rbf_gram(side) for side in rows]
        scaled = [linear_gram(standardised(side)) for side in rows]
        found = {
            "linear": cka(linear[0], linear[1]),
            "linear_unbiased": cka(linear[0], linear[1], unbiased=True),
            "linear_standardised": cka(scaled[0], scaled[1]),
            "rbf": cka(gaussian[0], gaussian[1]),
            "rbf_unbiased": cka(gaussian[0], gaussian[1], unbiased=True),
        }
        known = {name: value for name, value in found.items() if value is not None}
        if len(known) < len(found):
            return say("reference-flat-curve")
        return RawScore(
            score=known["linear"],
            details={**known, **_largest(mine, theirs), "prompts": float(mine.n_prompts)},
            layers=(places,),
        )


def _usual(trace: Trace) -> int:
    return max(1, round(USUAL_DEPTH * (len(trace.hidden) - 1)))


def _largest(mine: Trace, theirs: Trace) -> dict[str, float]:
    """Return the largest unbiased CKA of all pairs of layers, and where it is; layer 0 is the embedding."""
    grams = [[linear_gram(rows) for rows in trace.hidden] for trace in (mine, theirs)]
    found = {
        (a, b): value
        for a, first in enumerate(grams[0])
        for b, second in enumerate(grams[1])
        if (value := cka(first, second, unbiased=True)) is not None
    }
    if not found:
        return {}
    best = max(found, key=lambda place: found[place])
    return {
        "largest_unbiased": found[best],
        "largest_candidate_layer": float(best[0]),
        "largest_base_layer": float(best[1]),
    }


@final
class PhiH(RunningMethod):
    """phi_U on activations of units while reading text; the score is minus log10 p."""

    watched = ("hidden",)

    def compared(self, pair: ReferencePair, mine: Trace, theirs: Trace) -> RawScore | Message:
        """Match units of layers with the same number by their activations."""
        if mine.units.keys() != theirs.units.keys():
            return say("reference-layers")
        found = []
        for key, rows in mine.units.items():
            other = theirs.units[key]
            if rows.shape != other.shape:
                return say("reference-shapes")
            log10_p = log10_p_of_order(rows, other)
            if isinstance(log10_p, Message):
                return log10_p
            found.append(log10_p)
        return combined(found)


@final
class PhiMatchActivations(RunningMethod):
    """phi_MATCH as published, on the outputs of gates and ups; the score is minus log10 p."""

    watched = ("gate", "up")

    def compared(self, pair: ReferencePair, mine: Trace, theirs: Trace) -> RawScore | Message:
        """Correlate the match of gates with the match of ups, for layers of equal number."""
        layers = sorted({layer for _, layer in mine.units})
        if layers != sorted({layer for _, layer in theirs.units}):
            return say("reference-layers")
        found = []
        for layer in layers:
            sides = [(trace.units["gate", layer], trace.units["up", layer]) for trace in (mine, theirs)]
            if sides[0][0].shape[1] != sides[1][0].shape[1]:
                return say("reference-places")
            log10_p = log10_p_of_two_matches(sides[0], sides[1])
            if isinstance(log10_p, Message):
                return log10_p
            found.append(log10_p)
        return combined(found)
