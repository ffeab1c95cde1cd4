"""Configs of two models, field by field; and whether each config fits its tensors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelkin.message import Message, say
from modelkin.model import Model, ModelLike, open_models

from .config_fields import known_fields, named_fields
from .key_scan import DimensionCheck, ExpertCensus, KeyScan, check_dimensions, count_experts, scan_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelkin.options import FetchOptions
    from modelkin.progress import Progress

CONFIGS_SCHEMA = "modelkin.configs/1"
_LONGEST = 200
"""Characters of a value that are shown: some configs hold whole lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldComparison:
    """One field of both configs."""

    name: str
    """Its common name."""
    status: str
    """equal, different, only candidate, only base."""
    candidate: str | None
    """Value as JSON; None if the config lacks the field."""
    base: str | None
    candidate_name: str | None
    """What this config calls it."""
    base_name: str | None
    group: str
    """sizes, attention, positions, experts, parts, tokens, bookkeeping; other if it is not described."""
    meaning: Message | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigComparison:
    """Two configs. Equal fields are a choice of the makers, not a sign of where weights come from."""

    candidate: str
    base: str
    fields: tuple[FieldComparison, ...]
    counts: Mapping[str, int]
    """Fields by status, bookkeeping left out."""
    experts: tuple[ExpertCensus, ExpertCensus] | None
    """From the tensors of candidate and base; None if these were not examined."""
    keys: tuple[KeyScan, KeyScan] | None
    dimensions: tuple[tuple[DimensionCheck, ...], tuple[DimensionCheck, ...]] | None
    notes: tuple[Message, ...]


def compare_configs(
    candidate: ModelLike,
    base: ModelLike,
    options: FetchOptions | None = None,
    *,
    tensors: bool = True,
    progress: Progress | None = None,
) -> ConfigComparison:
    """Compare two configs, and each with the names and shapes of its tensors.

    Parameters
    ----------
    candidate, base
        Model references, sources, or opened models.
    options
        How to fetch.
    tensors
        Whether to look at headers too: experts, odd keys, sizes.
    progress
        Told about long reads.

    Examples
    --------
    >>> from modelkin.source import MemorySource
    >>> one = MemorySource({"config.json": b'{"n_embd": 8, "num_experts": 4}'})
    >>> other = MemorySource({"config.json": b'{"hidden_size": 8, "n_routed_experts": 2}'})
    >>> [(field.name, field.status) for field in compare_configs(one, other, tensors=False).fields]
    [('hidden_size', 'equal'), ('n_routed_experts', 'different')]
    """
    with open_models([candidate, base], options, progress=progress) as models:
        mine, theirs = models
        return ConfigComparison(
            candidate=mine.location.ref,
            base=theirs.location.ref,
            fields=(fields := compare_fields(mine.config or {}, theirs.config or {})),
            counts=_counts(fields),
            experts=(count_experts(mine), count_experts(theirs)) if tensors else None,
            keys=(scan_keys(mine), scan_keys(theirs)) if tensors else None,
            dimensions=(check_dimensions(mine), check_dimensions(theirs)) if tensors else None,
            notes=tuple(
                say("no-config", model=model.location.ref) for model in models if model.config is None
            ),
        )


def compare_fields(
    candidate: Mapping[str, object], base: Mapping[str, object]
) -> tuple[FieldComparison, ...]:
    """Compare two configs field by field: known ones first, in the order of the shipped table."""
    mine, theirs = named_fields(candidate), named_fields(base)
    order = {name: place for place, name in enumerate(dict.fromkeys(m.name for m in known_fields().values()))}
    names = sorted(mine.keys() | theirs.keys(), key=lambda name: (order.get(name, len(order)), name))
    return tuple(_field(name, mine.get(name), theirs.get(name)) for name in names)


def config_difference(candidate: Model, base: Model) -> dict[str, tuple[str, str]]:
    """Return the fields of both configs that differ, as JSON, under their common names."""
    return {
        field.name: (field.candidate or "absent", field.base or "absent")
        for field in compare_fields(candidate.config or {}, base.config or {})
        if field.status != "equal"
    }


def _field(name: str, left: tuple[str, object] | None, right: tuple[str, object] | None) -> FieldComparison:
    if left is None or right is None:
        status = "only base" if left is None else "only candidate"
    else:
        # JSON has one kind of number, but true is not one.
        same = left[1] == right[1] and isinstance(left[1], bool) == isinstance(right[1], bool)
        status = "equal" if same else "different"
    known = known_fields().get(name)
    return FieldComparison(
        name=name,
        status=status,
        candidate=None if left is None else _shown(left[1]),
        base=None if right is None else _shown(right[1]),
        candidate_name=None if left is None else left[0],
        base_name=None if right is None else right[0],
        group=known.group if known else "other",
        meaning=known.meaning if known else None,
    )


def _counts(fields: tuple[FieldComparison, ...]) -> dict[str, int]:
    counts = dict.fromkeys(("equal", "different", "only candidate", "only base"), 0)
    for field in fields:
        if field.group != "bookkeeping":
            counts[field.status] += 1
    return counts


def _shown(value: object) -> str:
    return json.dumps(value)[:_LONGEST]
