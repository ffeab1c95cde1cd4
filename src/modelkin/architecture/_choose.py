"""Which family to read a checkpoint as: the config's claim if the names bear it out, else the names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from modelkin.message import Message, say
from modelkin.untrusted import quoted

from ._match import FamilyFit, NameGroup, all_fits, rank
from ._sizes import ConfigView, nested
from .loader import families
from .spec import ArchitectureSpec
from .wrappers import wrappers

_CLAIMED_COVERAGE: Final = 0.5  # of names that back a config's claim
_NAMED_COVERAGE: Final = 0.9  # of names that must be explained where no config claims anything

_MAX_RIVALS: Final = 4
"""Families that explain the names equally well: their sizes decide between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The families to try."""

    fits: tuple[FamilyFit, ...]
    """The family whose names fit, and those whose names fit equally well; none if no family fits."""
    view: ConfigView | None
    """The config to take sizes from, or None."""
    needed: float
    """The share of tensors that shapes have to bear out."""
    reason: Message | None
    """Why no family fits."""
    notes: tuple[Message, ...]
    """What was odd."""


def config_views(config: object) -> tuple[list[ConfigView], list[Message]]:
    """Return the configs to consult (that of a wrapped language model before the wrapper's), and notes."""
    if config is None:
        return [], [say("no-config-file")]
    if not isinstance(config, Mapping):
        return [], [say("config-object", kind=type(config).__name__)]
    inner = [nested(config, path) for path in wrappers().configs]
    return [ConfigView(data) for data in (*inner, config) if isinstance(data, Mapping)], []


def choose(views: list[ConfigView], groups: tuple[NameGroup, ...]) -> Choice:
    """Choose the family.

    A claim of the config is dropped if its names explain less than half, or if another family explains
    every name and the claimed one does not.
    """
    fits = all_fits(groups)
    ranked = sorted(fits.values(), key=rank, reverse=True)
    named = next((fit for fit in ranked if fit.is_model and fit.coverage >= _NAMED_COVERAGE), None)
    claim = _claim(views)
    if claim is not None:
        claimed, view = fits[claim[0].family], claim[1]
        outdone = named is not None and named.coverage == 1.0 > claimed.coverage
        if claimed.coverage >= _CLAIMED_COVERAGE and claimed.is_model and not outdone:
            return Choice(fits=(claimed,), view=view, needed=_CLAIMED_COVERAGE, reason=None, notes=())
    if named is None:
        return Choice(fits=(), view=None, needed=0.0, reason=_why_none(views, ranked[0]), notes=())
    notes = [say("config-names", claimed=claim[0].title, found=named.spec.title)] if claim else []
    return Choice(
        fits=tuple(fit for fit in ranked if rank(fit)[:2] == rank(named)[:2])[:_MAX_RIVALS],
        view=views[0] if views else None,
        needed=_NAMED_COVERAGE,
        reason=None,
        notes=tuple(notes),
    )


def claimed_family(views: list[ConfigView]) -> str | None:
    """Return the family that a config names, or None if it names no known one."""
    claim = _claim(views)
    return None if claim is None else claim[0].family


def _claim(views: list[ConfigView]) -> tuple[ArchitectureSpec, ConfigView] | None:
    """Return the family that a config names, innermost config first."""
    for view in views:
        model_type, classes = view.text("model_type"), set(view.texts("architectures"))
        for spec in families():
            if model_type in spec.model_types:
                return spec, view
        for spec in families():
            if classes & spec.class_names:
                return spec, view
    return None


def _why_none(views: list[ConfigView], nearest: FamilyFit) -> Message:
    said = views[-1].text("model_type") if views else None
    reason = say("structure.no-family-said", said=quoted(said, 40)) if said else say("structure.no-family")
    if nearest.coverage == 0:
        return reason
    return say(
        "structure.nearest",
        reason=reason,
        family=nearest.spec.title,
        share=nearest.coverage,
        n=len(nearest.missing),
        m=nearest.n_required,
    )
