"""Self-similarity of anchor tokens, after the embedding signal of Cisco's Model Provenance Kit (2026).

64 tokens that both vocabularies have; the cosines among their rows, correlated between the models, rescaled
from -1...1 to 0...1. The kit chooses anchors for each model separately and compares them by position; here
they are the same tokens by text. The kit's other signals, and its verdict from the config alone, are not
repeated.
"""

from __future__ import annotations

from typing import final

import numpy as np

from modelkin.message import Message, say

from ._interface import RawScore, ReferenceMethod, ReferencePair, Wanted
from .reading import SideReader, rows_slice
from .zhu import unit_rows

N_ANCHORS = 64
"""As many as the kit takes."""


@final
class AnchorSimilarity(ReferenceMethod):
    """(r + 1) / 2 of the cosines among anchor tokens."""

    uses_tokens = True

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Ask for the rows of the anchors."""
        rows = pair.rows
        if isinstance(rows, Message):
            return rows
        mine, theirs = ([rows_slice(*side)] for side in rows.spread(N_ANCHORS).sides())
        return mine, theirs

    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Correlate the cosines above the diagonal."""
        rows = pair.rows
        if isinstance(rows, Message):
            return rows
        sides = rows.spread(N_ANCHORS).sides()
        found = []
        for reader, side in zip(readers, sides, strict=True):
            anchors = unit_rows(reader.rows(*side)).astype(np.float64)
            cosines = (anchors @ anchors.T)[np.triu_indices(len(anchors), 1)]
            found.append(cosines - cosines.mean())
        size = float(np.linalg.norm(found[0]) * np.linalg.norm(found[1]))
        if size <= 0.0:
            return say("reference-flat-curve")
        r = float(found[0] @ found[1]) / size
        return RawScore(score=(r + 1.0) / 2.0, details={"r": r, "anchors": float(len(sides[0][1]))})
