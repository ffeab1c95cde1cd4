"""Which numbers of a config the weights contradict: those without which more tensors are explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from modelkin.message import Message

from ._entries import Finding, Renaming, uses
from ._roles import Part
from ._sizes import ConfigView, KnownSizes, resolve_sizes
from .spec import ArchitectureSpec, TensorSpec

_MAX_SHAPES: Final = 4096  # distinct shapes to learn sizes from; real models have some dozens
_MAX_TRIED: Final = 256
"""Kinds of tensors on which a config is tried without some of its numbers: the commonest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BelievedSizes:
    """The sizes that explain most tensors."""

    known: KnownSizes
    doubted: tuple[str, ...]
    """Keys of the config that were not believed."""
    n_as_said: int
    """How many tensors are explained if the whole config is believed."""


def believed_sizes(
    spec: ArchitectureSpec,
    view: ConfigView | None,
    named: Iterable[Finding],
    shapes: Mapping[str, tuple[int, ...]],
    renaming: Renaming,
) -> BelievedSizes:
    """Return the sizes of a config, but not those of its numbers without which more tensors are explained.

    `spec` is the family with the variants of the config, `named` are the tensors whose names it knows.
    """
    trial = _Trial(spec=spec, view=view, kinds=_kinds(named, shapes), renaming=renaming)
    said = trial.known(())
    n_as_said, _ = trial.score(said)
    if view is not None and n_as_said < sum(kind.count for kind in trial.kinds):
        doubted = _doubtful(replace(trial, kinds=trial.kinds[:_MAX_TRIED]), _keys(spec, view))
        known = trial.known(doubted)
        if trial.score(known)[0] > n_as_said:
            return BelievedSizes(known=known, doubted=doubted, n_as_said=n_as_said)
    return BelievedSizes(known=said, doubted=(), n_as_said=n_as_said)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """Tensors of one name, part and shape; one of them stands for all."""

    finding: Finding
    shape: tuple[int, ...]
    count: int

    @property
    def shaped(self) -> tuple[TensorSpec, tuple[int, ...]] | None:
        """What sizes are learned from; a piece of a quantised weight tells nothing."""
        tensor = self.finding.tensor
        return (tensor, self.shape) if tensor is not None and self.finding.part == tensor.part else None


def _kinds(named: Iterable[Finding], shapes: Mapping[str, tuple[int, ...]]) -> tuple[_Kind, ...]:
    """Return the kinds of tensors, commonest first: of two contradictory shapes, the first counts."""
    counts: Counter[tuple[TensorSpec | None, Part, tuple[int, ...]]] = Counter()
    first: dict[tuple[TensorSpec | None, Part, tuple[int, ...]], Finding] = {}
    for finding in named:
        key = (finding.tensor, finding.part, tuple(shapes[finding.name]))
        counts[key] += 1
        first.setdefault(key, finding)
    return tuple(_Kind(finding=first[key], shape=key[2], count=count) for key, count in counts.most_common())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A checkpoint read with one family and as much of its config as is believed."""

    spec: ArchitectureSpec
    view: ConfigView | None
    kinds: tuple[_Kind, ...]
    renaming: Renaming

    def known(self, doubted: Iterable[str]) -> KnownSizes:
        """Return the sizes if these keys of the config are not believed."""
        shaped = [kind.shaped for kind in self.kinds if kind.shaped is not None]
        return resolve_sizes(self.spec.sizes, self.view, shaped[:_MAX_SHAPES], doubted=frozenset(doubted))

    def score(self, known: KnownSizes) -> tuple[int, int]:
        """Return how many tensors these sizes explain, and how many roles they have.

        A fused tensor that cannot be taken apart is explained, but has one role instead of several.
        """
        plans = [(kind, uses(kind.finding, kind.shape, known, self.renaming)) for kind in self.kinds]
        explained = [(kind.count, len(plan)) for kind, plan in plans if not isinstance(plan, Message)]
        return sum(count for count, _ in explained), sum(count * roles for count, roles in explained)


def _keys(spec: ArchitectureSpec, view: ConfigView) -> tuple[str, ...]:
    """Return the keys that sizes follow from and the config has, in the order of the family's file."""
    keys = (
        key for options in spec.sizes.values() for option in options for key in sorted(option.config_keys)
    )
    return tuple(dict.fromkeys(key for key in keys if view.has(key)))


def _doubtful(trial: _Trial, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fewest keys without which most is explained.

    If either of two could be wrong, that is the latter: a file has the sizes that others build on first, such
    as the number of heads before that of a head's dimensions.
    """
    options = [*((key,) for key in reversed(keys)), tuple(_without_the_rest(trial, keys))]
    return max(options, key=lambda doubted: (trial.score(trial.known(doubted)), -len(doubted)))


def _without_the_rest(trial: _Trial, keys: tuple[str, ...]) -> Iterator[str]:
    """Yield the keys that cost tensors when they are believed one after the other, where none was before."""
    doubted, best = set(keys), trial.score(trial.known(keys))
    for key in keys:
        score = trial.score(trial.known(doubted - {key}))
        if score < best:
            yield key
        else:
            doubted, best = doubted - {key}, score
