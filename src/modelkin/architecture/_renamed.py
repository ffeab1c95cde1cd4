"""A checkpoint under other names: read as if it had the usual ones, reported by its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from modelkin.message import Message, say
from modelkin.untrusted import plain

from ._result import Architecture, RoleEntry, UnknownTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """What to call the tensors of a checkpoint."""

    usual: Mapping[str, str]
    """Own name to usual name; all others keep theirs."""
    notes: tuple[Message, ...]
    """What was done, for people."""
    prefix: str = ""
    """The prefix stripped from the names."""
    guessed: bool = False
    """Whether roles were guessed from shapes."""
    unsure: Mapping[str, Message] = field(default_factory=dict)
    """Own names of tensors that get no role, with the reason: they cannot be told from others, and a test on
    an axis that was mistaken for another would not be exact. Those without a usual name are left out
    altogether."""

    def __len__(self) -> int:
        """Return the number of tensors concerned."""
        return len(self.usual.keys() | self.unsure.keys())

    def shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]] | None:
        """Return the shapes under the usual names; None if two tensors would share one."""
        kept = [name for name in shapes if name in self.usual or name not in self.unsure]
        found = {self.usual.get(name, name): shapes[name] for name in kept}
        return found if len(found) == len(kept) else None


def restored(found: Architecture, renamed: Renamed) -> Architecture:
    """Return what was found, with the checkpoint's own names restored."""
    own = {usual: name for name, usual in renamed.usual.items()}

    def name_of(usual: str) -> str:
        return own.get(usual, usual)

    def own_names(entries: Iterable[RoleEntry]) -> tuple[RoleEntry, ...]:
        named = (replace(entry, tensor=name_of(entry.tensor)) for entry in entries)
        return tuple(entry for entry in named if entry.tensor not in renamed.unsure)

    unknown = [replace(item, name=name_of(item.name)) for item in found.unknown]
    unknown += [UnknownTensor(name=name, reason=reason) for name, reason in renamed.unsure.items()]
    return replace(
        found,
        prefix=renamed.prefix + found.prefix,
        tensors=own_names(found.tensors),
        mtp_tensors=own_names(found.mtp_tensors),
        unknown=tuple({item.name: item for item in unknown}.values()),
        other=tuple(replace(item, name=name_of(item.name)) for item in found.other),
        notes=(*renamed.notes, *found.notes),
        guessed=renamed.guessed,
    )


_MAX_DEPTH: Final = 4
"""Parts of a common prefix, at most: wrappers of wrappers add one or two each."""
_MOST: Final = 0.7
"""An output head, or a head of another task, may stay outside the prefix."""


def unprefixed(names: Iterable[str]) -> Iterator[Renamed]:
    """Yield the names without prefixes that most of them have, the shortest first."""
    every = list(names)
    counts: Counter[str] = Counter()
    for name in every:
        parts = name.split(".", _MAX_DEPTH)[:-1]
        for depth in range(1, min(len(parts), _MAX_DEPTH) + 1):
            counts[".".join(parts[:depth]) + "."] += 1
    common = [prefix for prefix, count in counts.items() if count >= max(2, _MOST * len(every))]
    for prefix in sorted(common, key=len):
        yield Renamed(
            usual={name: name[len(prefix) :] for name in every if name.startswith(prefix)},
            notes=(say("prefix", prefix=plain(prefix)),),
            prefix=prefix,
        )
