"""What tensors are for when their names say nothing: guessed from shapes, and reported as guessed.

A guess must not accuse anybody. The tests rest on knowing which axes may be reordered: the units of an MLP
may, the dimensions of a query that rotary positions rotate may not, and independent models share the pattern
of those. So a role is given only where the shape leaves no doubt about the meaning of each axis, or where a
word in the name settles it. Gate and up projection look alike and have equal axes: mistaking one for the
other only costs power. Query, key, value and output projection of one size have different axes, and get no
role.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from modelkin.message import Message, say

from ._renamed import Renamed
from ._templates import Axes, Solution, Template, TensorSlot, solve, templates

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_MAX_NUMBERS: Final = 3
"""Numbers in a name that may be the layer's: the first, second or third (a stage or an expert may come
first)."""
_MAX_OUTSIDE: Final = 16
"""Tensors before the first layer: embeddings, their norm and positions are far fewer."""
_FEWEST_LAYERS: Final = 2
"""One layer repeats nothing, so that there is no pattern to find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBlocks:
    """The layers of a checkpoint."""

    layers: Mapping[int, tuple[str, ...]]
    """Number of each layer to its tensors, in order."""
    outside: tuple[str, ...]
    """All other tensors, in order."""
    n_before: int
    """How many of those come before the first layer."""


def natural_order(names: Sequence[str]) -> list[str]:
    """Sort names as people do: ``w_2`` before ``w_10``."""

    def key(name: str) -> list[tuple[int, int, str]]:
        parts = re.split(r"([0-9]{1,9})", name)
        return [(0, int(part), "") if place % 2 else (1, 0, part) for place, part in enumerate(parts)]

    return sorted(names, key=key)


def find_blocks(
    names: Sequence[str], shapes: Mapping[str, tuple[int, ...]], length: int
) -> Iterator[LayerBlocks]:
    """Yield possible divisions into layers of `length` tensors each, by numbers first."""
    for place in range(_MAX_NUMBERS):
        if (found := _numbered(names, shapes, length, place)) is not None:
            yield found
    if (found := _repeated(names, shapes, length)) is not None:
        yield found


def _numbered(
    names: Sequence[str], shapes: Mapping[str, tuple[int, ...]], length: int, place: int
) -> LayerBlocks | None:
    """Group tensors into layers by a number at the same place in their names."""
    groups: dict[int, list[str]] = {}
    for name in names:
        numbers = _NUMBER.findall(name)
        if len(numbers) > place:
            groups.setdefault(int(numbers[place]), []).append(name)
    layers = {number: tuple(members) for number, members in groups.items() if len(members) == length}
    kinds = {_shapes_of(members, shapes) for members in layers.values()}
    if len(layers) < _FEWEST_LAYERS or len(kinds) != 1 or len(layers) != len(groups):
        return None
    return _blocks(names, dict(sorted(layers.items())))


def _repeated(names: Sequence[str], shapes: Mapping[str, tuple[int, ...]], length: int) -> LayerBlocks | None:
    """Find the longest repetition of a stretch of shapes, near the beginning."""
    every = [shapes[name] for name in names]
    best, first = 0, 0
    for start in range(min(_MAX_OUTSIDE, len(names)) + 1):
        count = 1
        pattern = every[start : start + length]
        while pattern == every[start + count * length : start + (count + 1) * length]:
            count += 1
        if count > best and len(pattern) == length:
            best, first = count, start
    if best < _FEWEST_LAYERS:
        return None
    layers = {
        number: tuple(names[first + number * length : first + (number + 1) * length])
        for number in range(best)
    }
    return _blocks(names, layers)


def _blocks(names: Sequence[str], layers: Mapping[int, tuple[str, ...]]) -> LayerBlocks:
    inside = {name for members in layers.values() for name in members}
    before = next((place for place, name in enumerate(names) if name in inside), len(names))
    return LayerBlocks(
        layers=layers, outside=tuple(name for name in names if name not in inside), n_before=before
    )


def _shapes_of(
    members: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> frozenset[tuple[tuple[int, ...], int]]:
    return frozenset(Counter(shapes[name] for name in members).items())


Shapes = Mapping[str, tuple[int, ...]]

_FEWEST: Final = 19
"""Two layers of the shortest template (Llama, nine tensors) and an embedding."""
_MOST: Final = 5_000
"""Only dense families can be guessed, and those have fewer tensors; the search takes long on more."""
_MOST_UNEXPLAINED: Final = 16
"""Heads of other tasks and buffers may stay unexplained; more means that it is another family."""
_MOST_TYPES: Final = 16
"""Rows of a table of token types: BERT has two. A table of positions or tokens is far longer."""
_WORD: Final = re.compile(r"[a-z]+[0-9]*")
_NORM: Final = frozenset({"norm", "layernorm", "rmsnorm", "ln"})
_HEAD_WORDS: Final = frozenset({"head", "output", "classifier", "decoder", "unembed"})


def guess(shapes: Shapes, order: Sequence[str], families: Collection[str] | None) -> Renamed | None:
    """Guess what the tensors of a checkpoint are for; None if nothing known has such shapes.

    `order` is that of the files, `families` those that the config leaves possible; None for all.
    """
    if not _FEWEST <= len(shapes) <= _MOST:
        return None
    best: _Guess | None = None
    for template in templates():
        if families is not None and template.family not in families:
            continue
        for names in (list(order), natural_order(list(shapes))):
            for blocks in find_blocks(names, shapes, len(template.block)):
                reading = _read(template, blocks, shapes)
                if reading is not None and (best is None or len(reading.usual) > len(best.usual)):
                    best = reading
    if best is None or len(shapes) - len(best.usual) > _MOST_UNEXPLAINED:
        return None
    left = {name: _NOTHING for name in shapes if name not in best.usual}
    unsure = {**best.unsure, **left}
    return Renamed(usual=best.usual, notes=tuple(_notes(best, len(unsure))), guessed=True, unsure=unsure)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guess:
    """A checkpoint read with a template."""

    template: Template
    usual: Mapping[str, str]
    unsure: Mapping[str, Message]
    n_layers: int


def _notes(reading: _Guess, n_unsure: int) -> Iterator[Message]:
    yield say("guessed-roles", family=reading.template.title, n=reading.n_layers)
    if n_unsure:
        yield say("guessed-left", n=n_unsure)


def _read(template: Template, blocks: LayerBlocks, shapes: Shapes) -> _Guess | None:
    first = next(iter(blocks.layers.values()))
    solution = solve([shapes[name] for name in first], template.block)
    if solution is None:
        return None
    sorted_names = _is_sorted(template, solution, [shapes[name] for name in first])
    outside = _outside(template, blocks, shapes, solution.residual, sorted_names=sorted_names)
    if outside is None:
        return None
    doubtful = solution.doubtful | _seen_outside(solution, [shapes[name] for name in outside])
    usual = dict(outside)
    unsure = {name: _REASON for name in outside if shapes[name] in doubtful and not _words(name) & _NORM}
    slots = sorted(template.block, key=lambda slot: slot.name) if sorted_names else list(template.block)
    shape_of = dict(zip((slot.name for slot in template.block), solution.shapes, strict=True))
    for shape in set(solution.shapes):
        alike = [slot for slot in slots if shape_of[slot.name] == shape]
        members = [[name for name in names if shapes[name] == shape] for names in blocks.layers.values()]
        own = frozenset(word for slot in alike for word in slot.words)
        foreign = frozenset(word for slot in slots for word in slot.words) - own
        settled = all(_settled(names, alike, foreign) is not None for names in members)
        for number, names in zip(blocks.layers, members, strict=True):
            named = _settled(names, alike, foreign) if settled else None
            for name, slot in (named or dict(zip(names, alike, strict=True))).items():
                usual[name] = template.layer.format(number) + slot.name
                if shape in doubtful and not settled:
                    unsure[name] = _REASON
    return _Guess(template=template, usual=usual, unsure=unsure, n_layers=len(blocks.layers))


_NOTHING: Final = say("structure.guessed-nothing")
_REASON: Final = say("structure.guessed-alike")


def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name.lower()))


def _is_sorted(template: Template, solution: Solution, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Say whether the tensors of a layer are sorted by their usual names, as safetensors keeps them."""
    shape_of = dict(zip((slot.name for slot in template.block), solution.shapes, strict=True))
    return [shape_of[name] for name in sorted(shape_of)] == list(shapes)


def _seen_outside(solution: Solution, outside: Sequence[tuple[int, ...]]) -> frozenset[tuple[int, ...]]:
    """Return shapes of matrices that occur both inside and outside layers."""
    return frozenset(shape for shape in outside if len(shape) > 1) & frozenset(solution.shapes)


def _settled(
    names: Sequence[str], slots: Sequence[TensorSlot], foreign: frozenset[str]
) -> dict[str, TensorSlot] | None:
    """Tell tensors of equal shape apart by words in their names; None unless that settles all of them.

    `foreign` are words for tensors of other shapes: a name with one of them contradicts itself.
    """
    groups: dict[Axes, list[TensorSlot]] = {}
    for slot in slots:
        groups.setdefault(slot.axes, []).append(slot)
    found: dict[Axes, list[str]] = {axes: [] for axes in groups}
    for name in names:
        words = _words(name)
        fitting = [axes for axes, members in groups.items() if any(slot.words & words for slot in members)]
        if len(fitting) != 1 or words & foreign:
            return None
        found[fitting[0]].append(name)
    if any(len(found[axes]) != len(members) for axes, members in groups.items()):
        return None
    return {
        name: slot
        for axes, members in groups.items()
        for name, slot in zip(_by_words(found[axes], members), members, strict=True)
    }


def _by_words(names: Sequence[str], slots: Sequence[TensorSlot]) -> list[str]:
    """Put names into the order of slots where each slot has a word of its own, else leave them."""
    words = {name: _words(name) for name in names}
    told = [[name for name in names if slot.words & words[name]] for slot in slots]
    alone = [members[0] for members in told if len(members) == 1]
    return alone if len(set(alone)) == len(names) else list(names)


def _outside(
    template: Template, blocks: LayerBlocks, shapes: Shapes, width: int, *, sorted_names: bool
) -> dict[str, str] | None:
    """Name what lies outside layers; None without the tables that every model of the family has."""
    tables = [name for name in blocks.outside if len(shapes[name]) == 2 and shapes[name][1] == width]
    n_tokens = max((shapes[name][0] for name in tables), default=0)
    tokens = [name for name in tables if shapes[name][0] == n_tokens]
    others = sorted((name for name in tables if name not in tokens), key=lambda name: -shapes[name][0])
    if not 1 <= len(tokens) <= 2 or (template.position and not others):
        return None
    found = {}
    embedding = tokens[0] if len(tokens) == 1 else _embedding(tokens, blocks)
    for name in tokens:
        found[name] = template.embedding if name == embedding else template.head
    if template.position:
        found[others[0]] = template.position
        if template.types and len(others) == 2 and shapes[others[1]][0] <= _MOST_TYPES:
            found[others[1]] = template.types
    vectors = [name for name in blocks.outside if shapes[name] == (width,)]
    if len(vectors) == len(template.norm):
        norms = sorted(template.norm) if sorted_names else template.norm
        found |= dict(zip(vectors, norms, strict=True))
    return found


def _embedding(tokens: Sequence[str], blocks: LayerBlocks) -> str:
    """Tell the embedding from the output head: by a word, else by position."""
    first, second = tokens
    heads = [name for name in tokens if _HEAD_WORDS & _words(name)]
    if len(heads) == 1:
        return second if heads[0] == first else first
    # In order of use the head comes last; in order of the usual names, first.
    return second if blocks.outside.index(second) < blocks.n_before else first
