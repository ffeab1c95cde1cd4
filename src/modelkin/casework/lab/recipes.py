"""The models of the zoo as data: what each is made from, what was done to it, what it shares with its parent.

The table is ``data/recipes.toml``. The loader is strict: an unknown key or name is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from modelkin.errors import SpecError
from modelkin.message import say
from modelkin.structs import Fields, read, read_toml

from . import derive
from .checkpoint import PARTS, Part
from .corpus import CorpusSpec

_FILE: Final = "recipes.toml"

T = TypeVar("T")
Whole = Annotated[int, Meta(ge=0, le=10**9)]
Parts = Annotated[tuple[Part, ...], Meta(max_length=len(PARTS))]

Relation = Literal[
    "independent",
    "fine-tune",
    "continued-pretraining",
    "low-rank",
    "vocabulary-extension",
    "new-tokenizer",
    "new-attention",
    "norms-only",
    "embeddings-only",
    "half-of-layers",
    "third-of-layers",
    "mlps-only",
    "new-heads",
    "new-embeddings",
    "depth-up-scaling",
    "layer-removal",
    "unit-pruning",
    "width-pruning",
    "up-cycling",
    "rotation",
    "same-initialisation",
    "distillation",
]
"""How a model came from its parent. The weights show nothing of a distillation from predictions."""

Rows = Literal["same", "shared", "new"]
"""What becomes of the parent's token rows: all kept, those of shared tokens kept, none kept."""


class TokenizerSpec(Fields):
    """How a tokenizer is made."""

    corpus: str
    vocab: Whole
    extends: str | None = None
    """Name of the tokenizer to which the frequent words of the corpus are added; None to train a new one."""


class Recipe(Fields):
    """One model: its config, its data, its seeds, its parent, and what was done."""

    name: str
    config: str
    """Name of the config, and so of the family."""
    tokenizer: str
    corpus: str
    init_seed: Whole
    order_seed: Whole
    """Seed of the order in which the corpus is shown."""
    steps: Whole
    learning_rate: Annotated[float, Meta(ge=0.0, le=1.0)]
    relation: Relation
    note: str
    parent: str | None = None
    teacher: str | None = None
    """The model whose predictions are learned instead of the text."""
    keep: Parts = ()
    """Parts taken from the parent; the others start afresh from `init_seed`."""
    keep_layers: Annotated[tuple[Whole, ...], Meta(max_length=999)] | None = None
    """Layers of which parts are kept; None for all."""
    keep_outside: bool = True
    """Whether parts outside the layers (embeddings, the last norm) are kept too."""
    start: dict[str, Any] | None = None
    """What is done to the parent first: a `function` of `derive`, its arguments, maybe a `seed`."""
    rows: Rows = "same"
    freeze: Parts = ()
    freeze_steps: Whole = 0
    """For how many steps the parts in `freeze` do not move."""
    rank: Whole = 0
    """Rank of the updates of a low-rank fine-tune, which are added to the weights at the end; 0 for none."""
    embedded: bool = False
    """Whether the model comes with the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeBook:
    """Everything that is needed to build the zoo."""

    configs: Mapping[str, Mapping[str, Any]] = field(repr=False)
    """By name: ``class`` of transformers, ``config_class``, and the arguments of the config."""
    corpora: Mapping[str, CorpusSpec] = field(repr=False)
    tokenizers: Mapping[str, TokenizerSpec] = field(repr=False)
    recipes: Mapping[str, Recipe]
    """In an order in which parents come before their children."""

    def lineage(self, names: Iterable[str]) -> list[Recipe]:
        """Return the named recipes with all their ancestors and teachers, parents first."""
        wanted: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in self.recipes:
                raise SpecError(
                    _FILE, say("problem.recipe-no-model", name=repr(name), known=", ".join(self.recipes))
                )
            wanted.add(name)
            recipe = self.recipes[name]
            pending.extend(
                other for other in (recipe.parent, recipe.teacher) if other and other not in wanted
            )
        return [recipe for name, recipe in self.recipes.items() if name in wanted]


@cache
def load_recipes() -> RecipeBook:
    """Return the table that comes with modelkin."""
    return parse_recipes(files(__package__).joinpath("data", _FILE).read_text(encoding="utf-8"))


def parse_recipes(text: str) -> RecipeBook:
    """Read a table of recipes; the error names the place of an unknown, missing or mistyped key or name."""
    file = read_toml(_FILE, text, _File)
    book = RecipeBook(
        configs={name: _config(name, table) for name, table in file.configs.items()},
        corpora=dict(_tables(file, "corpora", CorpusSpec)),
        tokenizers=dict(_tables(file, "tokenizers", TokenizerSpec)),
        recipes=dict(_tables(file, "models", Recipe)),
    )
    _check_names(book)
    return book


Entries = Annotated[dict[str, dict[str, Any]], Meta(max_length=999)]


class _File(Fields):
    format: Annotated[int, Meta(ge=1, le=1)]
    configs: Entries
    corpora: Entries
    tokenizers: Entries
    defaults: Annotated[dict[str, Any], Meta(max_length=99)]
    """Of models."""
    models: Entries


class _Config(Struct, frozen=True, kw_only=True):
    class_: str = msgspec.field(name="class")
    config_class: str


def _config(name: str, table: dict[str, Any]) -> dict[str, Any]:
    found = read(f"{_FILE} [configs.{name}]", table, _Config)
    rest = {key: value for key, value in table.items() if key not in ("class", "config_class")}
    return {"class": found.class_, "config_class": found.config_class, "arguments": rest}


def _tables(file: _File, key: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    for name, table in getattr(file, key).items():
        own = {**file.defaults, **table, "name": name} if key == "models" else table
        yield name, read(f"{_FILE} [{key}.{name}]", own, kind)


def _check_names(book: RecipeBook) -> None:
    for name, tokenizer in book.tokenizers.items():
        _known(f"[tokenizers.{name}]", tokenizer.corpus, book.corpora)
        if tokenizer.extends is not None:
            _known(f"[tokenizers.{name}]", tokenizer.extends, book.tokenizers)
    before: set[str] = set()
    for name, recipe in book.recipes.items():
        where = f"[models.{name}]"
        _known(where, recipe.config, book.configs)
        _known(where, recipe.tokenizer, book.tokenizers)
        _known(where, recipe.corpus, book.corpora)
        for other in (recipe.parent, recipe.teacher):
            if other is not None and other not in before:
                raise SpecError(f"{_FILE} {where}", say("problem.recipe-order", other=repr(other)))
        if bool(recipe.keep) != (recipe.parent is not None and recipe.relation != "same-initialisation"):
            raise SpecError(f"{_FILE} {where}", say("problem.recipe-keep"))
        if recipe.start is not None:
            _known(where, recipe.start.get("function", ""), dict.fromkeys(derive.__all__))
            if recipe.parent is None:
                raise SpecError(f"{_FILE} {where}", say("problem.recipe-start"))
        before.add(name)


def _known(where: str, name: str, table: Mapping[str, object]) -> None:
    if name not in table:
        raise SpecError(
            f"{_FILE} {where}", say("problem.recipe-undefined", name=repr(name), known=", ".join(table))
        )
