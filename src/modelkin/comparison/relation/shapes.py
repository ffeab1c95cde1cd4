"""What became of the shape: depth, widths, experts, vocabulary, parts inserted from elsewhere."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from modelkin.architecture import Architecture
from modelkin.comparison.tokens import Tokens
from modelkin.comparison.verdict import Verdict
from modelkin.message import Message, say
from modelkin.tokenizer import TokenPairs

from .measure import ALIKE
from .result import RelationFinding, TensorChange

_LAYERED = frozenset({"attention", "mlp", "experts", "router", "residual"})
"""Components whose common origin implies that the layers are those of the other model."""
WIDTHS = ("residual", "mlp", "heads", "kv_heads", "expert_mlp", "experts")
"""Sizes whose change is a change of width, each reported by name."""
_HEADS = ("heads", "kv_heads")
_BARE = {
    "token-tables-only": "same-tables",
    "tables-so-far": "same-tables",
    "tables-reordered": "same-tables",
    "coordinates-only": "same-coordinates",
    "coordinates-and-heads": "same-coordinates",
    "coordinates-so-far": "same-coordinates",
    "single-layer": "same-layer",
}
"""Readings by which no layer need have been copied, and what is then found: nothing was replaced."""
_LEARNED = {"units-found-again", "layers-found-again"}
"""Readings of units that were copied or learned; numbers that are far apart speak for neither."""
BARE = frozenset({*_BARE.values(), "same-units"})
"""Findings that stand alone: what follows from a copy is not said."""
_UNITS = frozenset({"attention", "mlp", "experts"})
"""Components of layers that are made of units or heads."""
_NARROWED = {"same-tables": {"embedding", "head"}, "same-units": _UNITS, "same-layer": _UNITS}
"""Findings of some components, whatever else is shared."""
_UNLIKE = ("layers-unlike", "tables-unlike")
"""What was not found where it was expected, and may be elsewhere: no kind follows."""
_SAME_IDS = 0.9
"""Share of common tokens that keep their ids unless a vocabulary was reordered: special tokens may move."""
_NEARLY_ALL = 0.8
"""Share of a part's tensors that must be unlike: gains and biases of strangers can be alike."""
Sizes = Mapping[str, int]


def shape_findings(
    mine: Architecture,
    theirs: Architecture,
    verdict: Verdict,
    layers: Sequence[tuple[int, int]],
    tokens: Tokens,
    changes: Sequence[TensorChange],
) -> list[RelationFinding]:
    """Return what became of the shape; the first one names the kind. Parts that share nothing say nothing.

    Where layers need not have been copied, no shape became of another: what is shared is all that is said.
    """
    if verdict.reading in _BARE:
        return [_bare(verdict, _BARE[verdict.reading])]
    if verdict.reading in _LEARNED and _are_numbers_far(verdict, changes):
        return [_bare(verdict, "same-units")]
    found = {name for name, item in verdict.components.items() if item.conclusion.related}
    told: list[RelationFinding] = []
    # Before that, layers of equal number face each other, whether or not they do in truth.
    searched = verdict.stage == "deep"
    layered = bool(found & _LAYERED) or _are_layers_alike(changes)
    if layered:
        told += _experts(mine.sizes, theirs.sizes)
        told += _depth(mine, theirs, layers, searched=searched)
        told += _widths(mine, theirs, upcycled=bool(told and told[0].kind == "moe-upcycling"))
    vocabulary: list[RelationFinding] = []
    if found & {"embedding", "head"} or layered:
        vocabulary += _vocabulary(mine.sizes, theirs.sizes, tokens)
    resized = bool(vocabulary) and _differ(mine.sizes, theirs.sizes, "vocab")
    assumed = isinstance(tokens, TokenPairs) and tokens.assumed
    replaced = list(_replaced(verdict, changes, vocabulary=resized, searched=searched, assumed=assumed))
    open_ = [item for item in replaced if item.kind in _UNLIKE]
    return [*told, *(item for item in replaced if item not in open_), *vocabulary, *open_]


def _are_layers_alike(changes: Sequence[TensorChange]) -> bool:
    """Say whether subtracted layers are alike beyond what strangers reach, where no test applied to them."""
    inner = [item for item in changes if item.layer is not None and item.component in _LAYERED]
    alike = [item for item in inner if item.what == "equal" or (item.cosine or 0.0) >= ALIKE]
    return len(alike) >= _NEARLY_ALL * len(inner) > 0


def _are_numbers_far(verdict: Verdict, changes: Sequence[TensorChange]) -> bool:
    """Say whether matrices are no more alike than those of strangers can be, where units were found again.

    A copy that was reordered is alike once the order is undone, at least in one component. What learned what
    a block does has units in common, and few numbers.
    """
    medians = []
    for name in sorted(_UNITS & verdict.components.keys()):
        item = verdict.components[name]
        cosines = [
            change.cosine
            for change in changes
            if change.component == name
            and change.cosine is not None
            and (change.layer in item.layers or not item.other_layers)
        ]
        if item.conclusion.related and cosines:
            medians.append(statistics.median(cosines))
    return bool(medians) and max(medians) < ALIKE


def _bare(verdict: Verdict, kind: str) -> RelationFinding:
    names = [name for name, item in verdict.components.items() if item.conclusion.related]
    if kind in _NARROWED:
        names = [name for name in names if name in _NARROWED[kind]]
    parts = tuple(say(f"component.{name}") for name in names)
    return _shape(kind, {"components": ", ".join(names)}, parts=parts)


def _experts(mine: Sizes, theirs: Sizes) -> Iterable[RelationFinding]:
    counts = mine.get("experts", 0), theirs.get("experts", 0)
    if bool(counts[0]) != bool(counts[1]):
        yield _shape("moe-upcycling", {"experts": max(counts)}, n=max(counts))


def _depth(
    mine: Architecture, theirs: Architecture, layers: Sequence[tuple[int, int]], *, searched: bool
) -> Iterable[RelationFinding]:
    moved = sum(layer != facing for layer, facing in layers)
    if mine.n_layers == theirs.n_layers and not moved:
        return
    numbers: dict[str, float | int | str] = {
        "layers_candidate": mine.n_layers,
        "layers_base": theirs.n_layers,
    }
    if not searched:
        what = say("found.depth-counted", n=mine.n_layers, m=theirs.n_layers)
        cannot = say("cannot.depth-counted")
        yield RelationFinding(kind="depth-change", what=what, numbers=numbers, cannot_tell=cannot)
        return
    repeated = len(layers) - len({facing for _, facing in layers})
    numbers |= {"layers_moved": moved, "layers_repeated": repeated}
    yield _shape("depth-change", numbers, n=mine.n_layers, m=theirs.n_layers, moved=moved, repeated=repeated)


def changed_widths(mine: Architecture, theirs: Architecture) -> list[str]:
    """Return the widths that differ, as far as shapes of weights bear them out.

    Numbers of heads are in no shape, only their products with the size of a head. They count unless weights
    contradict the config that names them, or the products are equal: then rows are only divided otherwise.
    """
    sizes = mine.sizes, theirs.sizes
    names = [name for name in WIDTHS if _differ(*sizes, name)]
    believed = not (mine.contradicted or theirs.contradicted)
    return [name for name in names if name not in _HEADS or (believed and not _same_rows(*sizes))]


def _same_rows(mine: Sizes, theirs: Sizes) -> bool:
    rows = [
        {name: sizes[name] * sizes["qk_dim"] for name in _HEADS if name in sizes}
        for sizes in (mine, theirs)
        if "qk_dim" in sizes
    ]
    return len(rows) == 2 and rows[0] == rows[1]


def _widths(one: Architecture, other: Architecture, *, upcycled: bool) -> Iterable[RelationFinding]:
    mine, theirs, names = one.sizes, other.sizes, changed_widths(one, other)
    if upcycled:
        names = [name for name in names if name not in ("mlp", "expert_mlp", "experts")]
    if not names:
        return
    # Heads follow from the width in many families: the number that was chosen is named first.
    numbers: dict[str, float | int | str] = {}
    for name in names:
        numbers |= {f"{name}_candidate": mine[name], f"{name}_base": theirs[name]}
    widths = tuple(say("width", what=say(f"width.{name}"), n=mine[name], m=theirs[name]) for name in names)
    yield _shape("width-change", numbers, widths=widths)


def _replaced(
    verdict: Verdict, changes: Sequence[TensorChange], *, vocabulary: bool, searched: bool, assumed: bool
) -> Iterable[RelationFinding]:
    """Return the components that share nothing although they face each other, and layers that face none."""
    names: list[str] = []
    for name, item in verdict.components.items():
        faced = [change for change in changes if change.component == name]
        unlike = sum(change.what == "unlike" for change in faced)
        if name == "norms" or item.conclusion.related or not faced:
            continue
        if vocabulary and name in ("embedding", "head"):
            continue  # reported with the vocabulary
        if unlike >= _NEARLY_ALL * len(faced):
            names.append(name)
    layers = _unlike_layers(changes, names)
    # Without a tokenizer rows of equal number are compared: they may be in another order.
    tables = [name for name in names if assumed and name in ("embedding", "head")]
    names = [name for name in names if name not in tables]
    if tables:
        parts = tuple(say(f"component.{name}") for name in tables)
        yield _shape("tables-unlike", {"components": ", ".join(tables)}, parts=parts)
    if names:
        parts = tuple(say(f"component.{name}") for name in names)
        yield _shape("parts-replaced", {"components": ", ".join(names)}, parts=parts)
    elif layers:
        told = ", ".join(map(str, layers))
        if searched:
            yield _shape("layers-replaced", {"layers": told}, n=len(layers), layers=told)
        else:
            yield _shape("layers-unlike", {"layers": told}, n=len(layers), layers=told)


def _unlike_layers(changes: Sequence[TensorChange], names: Sequence[str]) -> list[int]:
    found: dict[int, list[bool]] = {}
    for item in changes:
        if item.layer is not None and item.component not in ("norms", *names):
            found.setdefault(item.layer, []).append(item.what == "unlike")
    return sorted(layer for layer, unlike in found.items() if sum(unlike) >= _NEARLY_ALL * len(unlike))


def _vocabulary(mine: Sizes, theirs: Sizes, tokens: Tokens) -> Iterable[RelationFinding]:
    counts = mine.get("vocab"), theirs.get("vocab")
    if counts[0] is None or counts[1] is None:
        return
    same = 0
    shared = 0
    if isinstance(tokens, TokenPairs) and len(tokens):
        shared = len(tokens)
        same = sum(left == right for left, right in zip(tokens.candidate, tokens.base, strict=True))
    numbers: dict[str, float | int | str] = {
        "vocabulary_candidate": counts[0],
        "vocabulary_base": counts[1],
        "shared_tokens": shared,
        "same_id": same,
    }
    reordered = shared > 0 and same < _SAME_IDS * shared
    if counts[0] == counts[1] and not reordered:
        return
    kind = "vocabulary-extended" if counts[0] > counts[1] else "vocabulary-cut"
    if reordered:
        kind = "vocabulary-reordered"
    yield _shape(kind, numbers, n=counts[0], m=counts[1], shared=shared, same=same)


def _differ(mine: Sizes, theirs: Sizes, name: str) -> bool:
    """Say whether a size differs; an unknown one does not."""
    return name in mine and name in theirs and mine[name] != theirs[name]


def _shape(kind: str, numbers: Mapping[str, float | int | str], **values: object) -> RelationFinding:
    what: Message = say(f"found.{kind}", **values)  # type: ignore[arg-type]
    return RelationFinding(kind=kind, what=what, numbers=numbers, cannot_tell=say(f"cannot.{kind}"))
