"""One parameter under two names: which of them a loader takes.

A model with a head calls the layers of its body ``model.layers``, the body alone calls them ``layers``.
transformers loads either into either: it adds or strips the prefix wherever the result is a parameter of its
class. So a file may hold a parameter twice. transformers then takes the name that comes first in its order,
and silently drops the other. The tensor looked at here must be the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from modelkin.message import say
from modelkin.untrusted import quoted

from ._renamed import Renamed
from .loader import family as find_family
from .notation import split_name

_MOVED: Final = ("language_model.model.", "model.language_model.")
"""Where multimodal models used to keep the language model, and where they do since transformers 5."""
_N_LISTED: Final = 3
"""Names shown in a note; the number beside them says how many there are."""


def united(names: Iterable[str], family: str, model_type: str | None = None) -> Renamed | None:
    """Return the names as transformers unifies them, or None if nothing is named in two ways.

    Names that lose against another for the same parameter get no role, and a note says so. If models of a
    family have several prefixes, the one of the config's `model_type` is taken.
    """
    every = list(names)
    foreign = _foreign(every, family, model_type or "")
    if foreign is not None:
        return foreign
    for prefix, known in _bodies(family).items():
        inside = [name for name in every if name.startswith(prefix)]
        if not inside:
            continue
        targets = {name: target for name in every if (target := _target(name, prefix, known)) is not None}
        moved = [name for name, target in targets.items() if name != target]
        # If all names are written the other way, that is a convention of its own.
        if moved and len(moved) < len(targets):
            return _renamed(targets)
    return None


def _foreign(names: list[str], family: str, model_type: str) -> Renamed | None:
    """Leave out names with the prefix of another model of the family."""
    prefixes = [prefix for prefix in _bodies(family) if prefix != _MOVED[1]]
    words = set(re.split("[-_]", model_type))
    own = [prefix for prefix in prefixes if prefix[:-1] in words and any(n.startswith(prefix) for n in names)]
    others = tuple(prefix for prefix in prefixes if prefix not in own)
    lost = [name for name in names if name.startswith(others)] if own and others else []
    if not lost:
        return None
    listed = tuple(map(quoted, sorted(lost)[:_N_LISTED]))
    return Renamed(
        usual={},
        notes=(say("other-body", n=len(lost), model_type=quoted(model_type), names=listed),),
        unsure={name: say("structure.other-body", model_type=quoted(model_type)) for name in lost},
    )


def _renamed(targets: dict[str, str]) -> Renamed:
    rivals: dict[str, list[str]] = {}
    for name, target in targets.items():
        rivals.setdefault(target, []).append(name)
    taken = {target: min(found, key=_natural) for target, found in rivals.items()}
    lost = {
        name: say("structure.same-parameter", name=quoted(taken[target]))
        for name, target in targets.items()
        if taken[target] != name
    }
    own = {name: target for target, name in taken.items()}
    moved = sorted(name for name, target in own.items() if name != target)
    notes = [say("two-bodies", n=len(moved), names=tuple(map(quoted, moved[:_N_LISTED])))] if moved else []
    if lost:
        listed = tuple(map(quoted, sorted(lost)[:_N_LISTED]))
        notes.append(say("same-parameter", n=len(lost), names=listed))
    return Renamed(usual=own, notes=tuple(notes), unsure=lost)


@cache
def _bodies(family: str) -> Mapping[str, frozenset[str]]:
    """Return what may come before the names of a family's body, and the templates of those names."""
    spec = find_family(family)
    prefixes = [body for body in spec.bodies if body.count(".") == 1]
    return {
        prefix: frozenset(f"{prefix}{tensor.template}" for tensor in spec.tensors if tensor.in_body)
        for prefix in (*prefixes, _MOVED[1])
    }


def _target(name: str, prefix: str, known: frozenset[str]) -> str | None:
    """Return the parameter that a name is loaded into, or None if it is not one of the body's."""
    if prefix == _MOVED[1]:
        older = name.startswith(_MOVED[0])
        wanted = [_MOVED[1] + name[len(_MOVED[0]) :] if older else name]
    else:
        # Any character may stand for the dot: what transformers strips is a regex.
        shorter = name[len(prefix) :] if name.startswith(prefix[:-1]) else ""
        wanted = [shorter, f"{prefix}{name}", name]
    return next((item for item in wanted if item.startswith(prefix) and split_name(item)[0] in known), None)


def _natural(name: str) -> list[tuple[int, int | str, int]]:
    """Order names as transformers does: word by word, and numbers by their value."""
    order: list[tuple[int, int | str, int]] = []
    for part in name.split("."):
        text = part.rstrip("0123456789")
        digits = part[len(text) :]
        order.append((1, text, int(digits) if digits else -1) if text else (0, int(digits or 0), -1))
    return order
