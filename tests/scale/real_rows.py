"""The truth table on published weights at real width: what is compared, and what has to come out.

Four layers of each model, whole: CodeLlama-13B (5,120 wide), TinyLlama-1.1B (2,048), SmolLM2-135M (576),
Gemma-3-270M (640). Relatives are derived row by row (`tests.scale.changes`). The registries hold no second
model of these widths, so strangers of equal width are cut out: other models' weights, cropped to the shape of
the base. They were trained by others on other data, have the tails and outlying dimensions that training
leaves, and some have the tokens of the base as well; nobody derived one from the other. Beside them stands a
null by construction, the base with rows and columns of every tensor shuffled by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from tests.real import fetch
from tests.real.published import published
from tests.scale import changes as c
from tests.scale.codellama import codellama
from tests.scale.lazy import Lazy, stored, written

N_LAYERS: Final = 4
ALL: Final = frozenset(range(N_LAYERS))
DEPTHS: Final = ("standard", "deep")
DepthName = Literal["standard", "deep"]


def folder_of(model: str) -> Path:
    """Return four layers of a published model as a folder; skip the test where it is not there."""
    if model == "codellama":
        return codellama()
    return written(str(published(model)), fetch.FOLDER / "first-layers" / model, layers=N_LAYERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a comparison has to say."""

    related: bool
    shared: Mapping[str, frozenset[int] | int] = field(default_factory=dict)
    """Component -> layers in which it has to be found, or how many; none for one without layers."""
    absent: frozenset[str] = frozenset()
    """Components of which nothing may be found."""
    faces: Mapping[int, int] = field(default_factory=dict)
    """Layers that have to face each other, candidate's to base's."""
    residual: str | None = None
    """How the residual stream has to be paired; None where it does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One candidate."""

    name: str
    what: str
    make: Callable[[Lazy], Lazy]
    """From the base, or from the model in `of`."""
    expected: Mapping[str, Expected]
    """By depth."""
    of: str | None = None
    """The model it is made of, where that is not the base."""


_EVERYWHERE = Expected(related=True, shared={"attention": ALL, "mlp": ALL, "embedding": 0})
_KEPT_PLACES = dict.fromkeys(DEPTHS, _EVERYWHERE)
_NOTHING = Expected(
    related=False, absent=frozenset({"attention", "mlp", "embedding", "head", "norms", "residual"})
)
_STRANGERS = dict.fromkeys(DEPTHS, _NOTHING)
MATCHED: Final = frozenset({0, 2, 3})
"""Layers that are matched unit by unit. Matching reads whole matrices, 141 MB a layer of CodeLlama, so that
no more than three layers of a large model are read, spread over the depth (`MATCHED_LAYERS`, `spread_pairs`
of `modelkin.comparison.deep`): of these four, not the second. Of models in `SMALL` all are."""
SMALL: Final = frozenset({"smollm2", "gemma3"})
"""Models of which a tenth of the bytes of the deep depth is enough for more than three whole layers."""
_MATCHED_UNITS = Expected(related=True, shared={"attention": ALL, "mlp": MATCHED, "embedding": 0})
_TWO_LAYERS = Expected(related=True, shared={"attention": ALL, "mlp": 2, "embedding": 0})
"""Where units are missing, their order is looked at first, which leaves bytes for two layers of CodeLlama."""


def _row(name: str, what: str, make: Callable[[Lazy], Lazy], *, standard: Expected, deep: Expected) -> Row:
    return Row(name=name, what=what, make=make, expected={"standard": standard, "deep": deep})


RELATIVES: Final = (
    Row(name="noise", what="5 % noise on every tensor", make=c.noise(0.05), expected=_KEPT_PLACES),
    Row(
        name="low-rank",
        what="a change of rank 16 on every matrix, a tenth of its length",
        make=c.low_rank(16, 0.1),
        expected=_KEPT_PLACES,
    ),
    Row(name="int8", what="rows on 255 levels", make=c.int8, expected=_KEPT_PLACES),
    Row(name="int4", what="groups of 32 on 16 levels", make=c.int4, expected=_KEPT_PLACES),
    Row(name="pruned", what="half of all numbers set to zero", make=c.pruned(0.5), expected=_KEPT_PLACES),
    _row(
        "units",
        "MLP units in another order",
        c.units,
        standard=Expected(related=True, shared={"attention": ALL, "embedding": 0}, absent=frozenset({"mlp"})),
        deep=_MATCHED_UNITS,
    ),
    _row(
        "heads",
        "KV groups, and query heads in them, in another order",
        c.heads,
        standard=Expected(related=True, shared={"mlp": ALL, "embedding": 0}),
        deep=Expected(related=True, shared={"attention": MATCHED, "mlp": ALL, "embedding": 0}),
    ),
    _row(
        "fewer-units",
        "a third of the units left out, the others in another order",
        c.fewer_units(0.67),
        standard=Expected(related=True, shared={"attention": ALL}, absent=frozenset({"mlp"})),
        deep=_TWO_LAYERS,
    ),
    _row(
        "residual-order",
        "dimensions of the residual stream in another order",
        c.residual_order,
        standard=_NOTHING,
        deep=Expected(related=True, shared={"attention": ALL, "mlp": ALL}, residual="permutation"),
    ),
    _row(
        "rotation",
        "gains folded, the residual stream turned",
        c.rotation,
        standard=_NOTHING,
        deep=Expected(related=True, shared={"attention": ALL, "mlp": ALL}, residual="rotation"),
    ),
    _row(
        "renewed",
        "5 % noise; units and heads in another order; norms, embeddings and head of chance",
        c.chain(c.noise(0.05), c.units, c.heads, c.new_norms_and_embeddings),
        standard=_NOTHING,
        deep=Expected(
            related=True,
            shared={"attention": MATCHED, "mlp": MATCHED},
            absent=frozenset({"embedding", "head"}),
        ),
    ),
    _row(
        "everything",
        "2 % noise, gains folded, stream turned, units and heads in another order",
        c.chain(c.noise(0.02), c.rotation, c.units, c.heads),
        standard=_NOTHING,
        deep=Expected(related=True),
    ),
    _row(
        "hidden",
        "the same, with key pairs turned and new token tables",
        c.chain(c.noise(0.02), c.rotation, c.units, c.heads, c.turned_pairs, c.new_tables),
        standard=_NOTHING,
        deep=Expected(related=True, absent=frozenset({"embedding", "head"})),
    ),
    _row(
        "layer-left-out",
        "layer 1 of 4 left out",
        c.in_layers([[0], [2], [3]]),
        standard=Expected(related=True, shared={"attention": frozenset({0}), "mlp": frozenset({0})}),
        deep=Expected(
            related=True,
            shared={"attention": frozenset({0, 1, 2}), "mlp": frozenset({0, 1, 2})},
            faces={0: 0, 1: 2, 2: 3},
        ),
    ),
    _row(
        "layer-doubled",
        "layer 1 of 4 twice",
        c.in_layers([[0], [1], [1], [2], [3]]),
        standard=Expected(related=True, shared={"attention": frozenset({0, 1}), "mlp": frozenset({0, 1})}),
        deep=Expected(
            related=True,
            shared={"attention": frozenset(range(5)), "mlp": frozenset(range(5))},
            faces={0: 0, 1: 1, 2: 1, 3: 2, 4: 3},
        ),
    ),
    _row(
        "neighbours-merged",
        "layers 1 and 2 of 4 replaced by their mean",
        c.in_layers([[0], [1, 2], [3]]),
        standard=Expected(related=True, shared={"attention": frozenset({0}), "mlp": frozenset({0})}),
        deep=Expected(
            related=True,
            shared={"attention": frozenset({0, 1, 2}), "mlp": frozenset({0, 1, 2})},
            faces={0: 0, 2: 3},
        ),
    ),
    Row(
        name="half-a-stranger",
        what="the mean with a stranger (the shuffled null below)",
        make=c.merged_with(c.shuffled, 0.5),
        expected=_KEPT_PLACES,
    ),
)

_SHAPES: Final = {
    "tinyllama": {
        **{"vocab": 32_000, "residual": 2_048, "mlp": 5_632, "query": 2_048, "key": 256, "value": 256},
        **{"heads": 32, "kv_heads": 4, "head_dim": 64},
    },
    "smollm2": {
        **{"vocab": 32_000, "residual": 576, "mlp": 1_536, "query": 576, "key": 192, "value": 192},
        **{"heads": 9, "kv_heads": 3, "head_dim": 64},
    },
}
"""What strangers are cut to; the vocabulary is that of Llama, whatever the base has."""


def _cut(other: str, base: str, number: int, first: float) -> Row:
    return Row(
        name=f"{other}-cut-{number}",
        what=f"{other}, dimensions, units and heads from {first:.0%} of what there is to spare, "
        f"cropped to the shape of {base}",
        make=c.cut(_SHAPES[base], first=first),
        expected=_STRANGERS,
        of=other,
    )


_SHUFFLED = Row(
    name="shuffled",
    what="rows and columns of every tensor shuffled by themselves",
    make=c.shuffled,
    expected=_STRANGERS,
)
_TABLES: Final[Mapping[str, tuple[Row, ...]]] = {
    "codellama": (*RELATIVES, _SHUFFLED),
    "tinyllama": (
        *RELATIVES,
        _SHUFFLED,
        *(_cut("codellama", "tinyllama", number, first) for number, first in enumerate((0.0, 0.5, 1.0))),
    ),
    "smollm2": (
        *(row for row in RELATIVES if row.name in ("renewed", "everything", "hidden", "units", "rotation")),
        _SHUFFLED,
        *(_cut("codellama", "smollm2", number, number / 4) for number in range(5)),
        *(_cut("tinyllama", "smollm2", number, number / 4) for number in range(5)),
    ),
    # It has norms and gains of its own kind: what needs to know their readers is left to the others.
    "gemma3": (
        *(row for row in RELATIVES if row.name in ("noise", "low-rank", "int8", "int4", "pruned", "units")),
        _SHUFFLED,
    ),
}


def rows_of(model: str) -> tuple[Row, ...]:
    """Return the rows of a base."""
    return tuple(_all_layers(row) for row in _TABLES[model]) if model in SMALL else _TABLES[model]


def _all_layers(row: Row) -> Row:
    """Return a row of which all layers are matched where others have three of them matched."""

    def whole(expected: Expected) -> Expected:
        shared = {part: ALL if layers == MATCHED else layers for part, layers in expected.shared.items()}
        return replace(expected, shared=shared)

    return replace(row, expected={depth: whole(expected) for depth, expected in row.expected.items()})


def models() -> tuple[str, ...]:
    """Return the bases."""
    return tuple(_TABLES)


def candidate_of(model: str, row: Row) -> Lazy:
    """Make the candidate of a row."""
    made = row.make(stored(folder_of(row.of or model)))
    if (row.of, model) != ("codellama", "tinyllama"):
        return made
    # Both have Llama's tokens, so rows of one token can be held against each other: the harder case.
    return replace(made, tokenizer=stored(folder_of(model)).tokenizer)
