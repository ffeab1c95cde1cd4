"""Tensors that two models have under the same name: the one place where models are paired by name.

A layer for multi-token prediction (MTP) is stored as if it were one more decoder layer. A model with more
layers has a decoder layer under that number, with the same names and shapes. The two are not the same thing,
so a name that is of such a layer in one model only pairs nothing.
"""

from __future__ import annotations

from typing import Final, Protocol

from modelkin.architecture import Architecture
from modelkin.message import Message, say
from modelkin.tensors import TensorIndex

_MOST_LISTED: Final = 3
"""Names given as examples; a layer with experts has thousands, which differ in a number only."""
_MOST_ALONE: Final = 12
"""Tensors without a counterpart that are named with their shapes: those of a layer with biases."""


class HasTensors(Protocol):
    """A model, or what methods see of one."""

    @property
    def index(self) -> TensorIndex:
        """All tensors."""

    @property
    def architecture(self) -> Architecture:
        """What each tensor is for."""


def shared_names(candidate: HasTensors, base: HasTensors) -> tuple[str, ...]:
    """Return the names that stand for a tensor of one shape in both models, in the candidate's order."""
    mine, theirs = candidate.index, base.index
    apart = candidate.architecture.mtp_names ^ base.architecture.mtp_names
    return tuple(
        name
        for name, info in mine.items()
        if name in theirs and theirs[name].shape == info.shape and name not in apart
    )


def names_apart(candidate: HasTensors, base: HasTensors) -> tuple[str, ...]:
    """Return the names that both models have, and that are of an MTP layer in one of them only."""
    apart = candidate.architecture.mtp_names ^ base.architecture.mtp_names
    return tuple(name for name in candidate.index if name in base.index and name in apart)


def names_alone(candidate: HasTensors, base: HasTensors) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tensors of each model that face none of the same name and shape: no value is compared."""
    shared = frozenset(shared_names(candidate, base))
    mine, theirs = (tuple(name for name in side.index if name not in shared) for side in (candidate, base))
    return mine, theirs


def told_alone(candidate: HasTensors, base: HasTensors) -> tuple[Message, ...]:
    """Name the tensors that face none, with their sizes, the largest first; nothing if there are none."""
    said = []
    for number, names in enumerate(names_alone(candidate, base)):
        index = (candidate, base)[number].index
        infos = sorted((index[name] for name in names), key=lambda info: (-info.n_elements, info.name))
        shown = [f"{info.name} ({' x '.join(map(str, info.shape)) or 1})" for info in infos[:_MOST_ALONE]]
        more = (say("and-more", n=len(infos) - _MOST_ALONE),) if len(infos) > _MOST_ALONE else ()
        if infos:
            said.append(
                say(
                    "alone-in-base" if number else "alone-in-candidate",
                    n=len(infos),
                    values=sum(info.n_elements for info in infos),
                    names=(*shown, *more),
                )
            )
    return tuple(said)


def told_apart(names: tuple[str, ...]) -> tuple[Message, ...]:
    """Say which tensors were not compared for this, and why; nothing if there are none."""
    more = len(names) - _MOST_LISTED
    if not names:
        return ()
    if more > 0:
        return (say("names-apart-more", n=len(names), names=names[:_MOST_LISTED], more=more),)
    return (say("names-apart", n=len(names), names=names),)
