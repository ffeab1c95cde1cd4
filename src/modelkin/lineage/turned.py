"""Members whose residual stream has other coordinates: their token rows are mapped to those of the family.

A stream that was permuted, rotated or narrowed leaves no number of a tensor in place, so samples of the same
places say nothing. Token rows stay rows of the same tokens: the map is learned from them, and they are
measured in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from modelkin.comparison.alignment import Frame, find_frame
from modelkin.lineage.samples import Site
from modelkin.lineage.tree_samples import ModelSample, Sample, distance
from modelkin.message import say

_TABLES = ("embedding", "output_head", "position_embedding")
"""Rows over the residual stream, in an order that both share."""
_STRANGE = 1.5
"""Squared distance of tables from which their coordinates have nothing in common: 2 for strangers, less
because of the common mean row, which no rotation moves far."""
_FITS = 0.5
"""Mean cosine of held-out rows: below it, rows were reinitialised."""


def in_common_coordinates(
    members: Sequence[ModelSample], related: Mapping[str, set[str]]
) -> list[ModelSample]:
    """Return the members, mapping those whose token rows differ from all their relatives.

    Parameters
    ----------
    members
        Of one family.
    related
        The accepted relatives of each, by name.
    """
    by_name = {member.name: member for member in members}
    apart = {
        member.name: [_apart(member, by_name[name]) for name in related[member.name]] for member in members
    }
    plain = [
        member
        for member in members
        if any(away is not None and away < _STRANGE for away in apart[member.name])
    ]
    if not plain:  # all have their own coordinates: those of the best connected one are as good as any
        plain = [max(members, key=lambda member: len(related[member.name]))]
    known = {member.name for member in plain}
    found = []
    for member in members:
        others = [by_name[name] for name in sorted(related[member.name] & known)]
        if member.name in known or not others or _table(member) is None:
            found.append(member)
            continue
        # The relative with the most relatives: the map is the same for all of one width.
        reference = max(others, key=lambda other: len(related[other.name]))
        frame = frame_between(member, reference)
        found.append(member if frame is None else _turned(member, reference, frame))
    return found


def frame_between(mine: ModelSample, theirs: ModelSample) -> Frame | None:
    """Learn the map from one model's residual coordinates to another's, from rows of the same tokens."""
    tables = _table(mine), _table(theirs)
    if tables[0] is None or tables[1] is None:
        return None
    n = min(len(tables[0]), len(tables[1]))
    made = find_frame(tables[0][:n].copy(), tables[1][:n].copy(), learned_from=say("embedding-rows"), seed=0)
    return made if isinstance(made, Frame) and made.kind != "identity" and made.fit > _FITS else None


def _turned(member: ModelSample, reference: ModelSample, frame: Frame) -> ModelSample:
    values: dict[Site, Sample] = {}
    shapes: dict[Site, tuple[int, ...]] = {}
    empty = np.zeros(frame.widths[1], bool) if frame.places is None else frame.places < 0
    for site, held in member.values.items():
        # Gains are folded into what reads a rotated stream; among the tables, into the output head.
        tables = _TABLES if frame.matrix is None else _TABLES[:1]
        if site.module not in tables or site not in reference.values:
            continue
        rows = frame.apply(held.reshape(-1, member.shapes[site][1])).copy()
        rows[:, empty] = np.nan
        values[site] = rows.reshape(-1)
        shapes[site] = (member.shapes[site][0], frame.widths[1])
    return replace(
        member,
        values=values,
        shapes=shapes,
        dtypes={site: member.dtypes[site] for site in values},
        digests={},
        turned=frame.kind,
    )


def _table(member: ModelSample) -> Sample | None:
    for site, values in member.values.items():
        if site.module == "embedding" and len(member.shapes[site]) == 2:
            return values.reshape(-1, member.shapes[site][1])
    return None


def _apart(mine: ModelSample, theirs: ModelSample) -> float | None:
    """Return the distance of token tables, or of most tensors of one shape if that is less."""
    away = {
        site: distance(values[:n], theirs.values[site][:n])
        for site, values in mine.values.items()
        if site in theirs.values
        and mine.shapes[site][1:] == theirs.shapes[site][1:]
        and (n := min(values.size, theirs.values[site].size))
    }
    tables = [value for site, value in away.items() if site.module == "embedding"]
    return min([float(np.median(list(away.values()))), *tables]) if away else None
