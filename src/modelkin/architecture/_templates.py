"""Families guessed from shapes: what a layer consists of, and which shapes can be which tensors.

All possible readings are found, so that ambiguity shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from .loader import family

Axes = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSlot:
    """One kind of tensor of a template."""

    name: str
    """As transformers calls it; in a layer, what comes after the layer's number."""
    axes: Axes
    """The spaces of each axis."""
    sizes: tuple[str, ...]
    """What the length of each axis is called while shapes are matched: equal words, equal lengths."""
    words: frozenset[str]
    """Words in a name that mean this and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A family that can be guessed."""

    family: str
    title: str
    layer: str
    """The usual name of a layer, with ``{}`` for its number."""
    block: tuple[TensorSlot, ...]
    """What a layer consists of, in the order in which transformers keeps it."""
    embedding: str
    head: str
    norm: tuple[str, ...]
    position: str = ""
    types: str = ""
    """Usual names of what lies outside layers; empty where the family has none."""


_QUERY, _KEY, _VALUE, _OUT = (
    frozenset({letter, f"w{letter}", *more})
    for letter, more in (("q", ["query"]), ("k", ["key"]), ("v", ["value"]), ("o", []))
)
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "q_proj": _QUERY,
    "self.query": _QUERY,
    "k_proj": _KEY,
    "self.key": _KEY,
    "v_proj": _VALUE,
    "self.value": _VALUE,
    "o_proj": _OUT,
    "attention.output.dense": _OUT,
    "gate_proj": frozenset({"gate", "w1"}),
    "up_proj": frozenset({"up", "w3"}),
    "down_proj": frozenset({"down", "w2"}),
    "layernorm": frozenset({"norm", "layernorm", "rmsnorm", "ln", "ln1", "ln2", "norm1", "norm2"}),
}
"""Words that identify a role. Those that several roles share, such as ``out`` or ``dense``, do not."""

_LLAMA: Final = (
    *(f"self_attn.{part}_proj.weight" for part in "qkvo"),
    *(f"mlp.{part}_proj.weight" for part in ("gate", "up", "down")),
    *("input_layernorm.weight", "post_attention_layernorm.weight"),
)
# Llama with biases: its first three, queries, keys and values, have one each.
_QWEN2: Final = (
    *(f"self_attn.{part}_proj.{kind}" for part in "qkv" for kind in ("weight", "bias")),
    *_LLAMA[3:],
)
_GPT2: Final = tuple(
    f"{module}.{kind}"
    for module in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
    for kind in ("weight", "bias")
)
_BERT: Final = tuple(
    f"{module}.{kind}"
    for module in (
        *("attention.self.query", "attention.self.key", "attention.self.value"),
        *("attention.output.dense", "attention.output.LayerNorm"),
        *("intermediate.dense", "output.dense", "output.LayerNorm"),
    )
    for kind in ("weight", "bias")
)


def _slots(family_name: str, layer: str, names: tuple[str, ...]) -> tuple[TensorSlot, ...]:
    spec = family(family_name)
    known = {tensor.pattern: tensor for tensor in spec.tensors}
    square = family_name != "llama"
    found = []
    for name in names:
        axes = known[f"{{body}}{layer}{{layer}}.{name}"].axes
        word = next((words for part, words in _WORDS.items() if part in name.lower()), frozenset[str]())
        sizes = tuple(_size(spaces, square=square) for spaces in axes)
        found.append(TensorSlot(name=name, axes=axes, sizes=sizes, words=word))
    return tuple(found)


def _size(spaces: tuple[str, ...], *, square: bool) -> str:
    """Name the length of an axis; heads fill the width exactly in the older families."""
    if spaces == ("fused",):
        return "3 residual"
    if square and spaces[0] == "heads":
        return "residual"
    return " ".join("qk_dim" if space == "v_dim" else space for space in spaces)


def _llama(title: str, names: tuple[str, ...]) -> Template:
    return Template(
        family="llama",
        title=title,
        layer="model.layers.{}.",
        block=_slots("llama", "layers.", names),
        embedding="model.embed_tokens.weight",
        head="lm_head.weight",
        norm=("model.norm.weight",),
    )


@cache
def templates() -> tuple[Template, ...]:
    """Return the families that can be guessed, the commonest first."""
    return (
        _llama("Llama", _LLAMA),
        _llama("Qwen2", _QWEN2),
        Template(
            family="gpt2",
            title="GPT-2",
            layer="transformer.h.{}.",
            block=_slots("gpt2", "h.", _GPT2),
            embedding="transformer.wte.weight",
            position="transformer.wpe.weight",
            norm=("transformer.ln_f.weight", "transformer.ln_f.bias"),
            head="lm_head.weight",
        ),
        Template(
            family="bert",
            title="BERT",
            layer="bert.encoder.layer.{}.",
            block=_slots("bert", "encoder.layer.", _BERT),
            embedding="bert.embeddings.word_embeddings.weight",
            position="bert.embeddings.position_embeddings.weight",
            types="bert.embeddings.token_type_embeddings.weight",
            norm=("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.bias"),
            head="cls.predictions.decoder.weight",
        ),
    )


Shape = tuple[int, ...]

_MAX_STEPS: Final = 20_000
"""Bounds the search: hostile shapes could take forever, those of a layer take far fewer."""
_MAX_SOLUTIONS: Final = 64
"""Ways to assign shapes that are compared. Where there are more, roles are ambiguous anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """How a layer can be read."""

    residual: int
    """Width of the model."""
    shapes: tuple[Shape, ...]
    """The shape of each slot, in the order of the slots."""
    doubtful: frozenset[Shape]
    """Shapes shared by tensors of different meaning: within this reading, or between this and another."""


def solve(shapes: Sequence[Shape], slots: Sequence[TensorSlot]) -> Solution | None:
    """Read the shapes of a layer as the slots of a template; None if that is impossible."""
    if len(shapes) != len(slots):
        return None
    found: list[tuple[int, tuple[Shape, ...]]] = []
    steps = [_MAX_STEPS]
    for width in sorted({shape[0] for shape in shapes if len(shape) == 1}):
        sizes = {"residual": width, "3 residual": 3 * width}
        for way in _ways(Counter(shapes), slots, sizes, steps):
            found.append((width, way))
            if len(found) == _MAX_SOLUTIONS:
                break
    if not found or steps[0] <= 0:
        return None
    meanings: dict[Shape, set[object]] = {}
    for width, way in found:
        for slot, shape in zip(slots, way, strict=True):
            meanings.setdefault(shape, set()).add((width, slot.axes))
    residual, way = found[0]
    return Solution(
        residual=residual,
        shapes=way,
        doubtful=frozenset(shape for shape, of in meanings.items() if len(of) > 1),
    )


def _ways(
    left: Counter[Shape], slots: Sequence[TensorSlot], sizes: Mapping[str, int], steps: list[int]
) -> Iterator[tuple[Shape, ...]]:
    """Yield the shapes of all slots, one way after another."""
    if not slots:
        yield ()
        return
    for shape in [shape for shape, count in left.items() if count]:
        steps[0] -= 1
        if steps[0] <= 0:
            return
        learnt = _fitted(shape, slots[0], sizes)
        if learnt is None:
            continue
        left[shape] -= 1
        yield from ((shape, *rest) for rest in _ways(left, slots[1:], learnt, steps))
        left[shape] += 1


def _fitted(shape: Shape, slot: TensorSlot, sizes: Mapping[str, int]) -> Mapping[str, int] | None:
    """Return the sizes extended by what this tensor implies; None if it contradicts them."""
    if len(shape) != len(slot.sizes):
        return None
    learnt = dict(sizes)
    for name, length in zip(slot.sizes, shape, strict=True):
        if learnt.setdefault(name, length) != length:
            return None
    return learnt
