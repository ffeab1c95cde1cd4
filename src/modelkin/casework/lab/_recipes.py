"""The models of the zoo as data: what each is made of, what was done to it, what it shares with its parent.

The table is ``data/recipes.toml``. The loader is strict: an unknown key or name is an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeVar, get_args

from modelkin.errors import SpecError

from . import derive
from ._corpus import CorpusSpec
from ._parts import PARTS, Part

__all__ = ["Recipe", "RecipeBook", "Relation", "Rows", "TokenizerSpec", "load_recipes", "parse_recipes"]

_FORMAT: Final = 1
_FILE: Final = "recipes.toml"

T = TypeVar("T")

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
"""How a model came from its parent. Of a distillation the weights show nothing."""

Rows = Literal["same", "shared", "new"]
"""What becomes of the parent's token rows: all kept, those of shared tokens kept, none kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """How a tokenizer is made."""

    corpus: str
    vocab: int
    extends: str | None = None
    """Name of the tokenizer to which the frequent words of the corpus are added; None to train anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One model: its config, its data, its seeds, its parent, and what was done."""

    name: str
    config: str
    """Name of the config, and so of the family."""
    tokenizer: str
    corpus: str
    init_seed: int
    order_seed: int
    """Seed of the order in which the corpus is shown."""
    steps: int
    learning_rate: float
    relation: Relation
    note: str
    parent: str | None = None
    teacher: str | None = None
    """The model whose predictions are learnt instead of the text."""
    keep: tuple[Part, ...] = ()
    """Parts taken from the parent; the others begin anew from `init_seed`."""
    keep_layers: tuple[int, ...] | None = None
    """Layers of which parts are kept; None for all."""
    keep_outside: bool = True
    """Whether parts outside of the layers (embeddings, the last norm) are kept too."""
    start: Mapping[str, Any] | None = None
    """What becomes of the parent first: a `function` of `derive`, its arguments, maybe a `seed`."""
    rows: Rows = "same"
    freeze: tuple[Part, ...] = ()
    freeze_steps: int = 0
    """How many of the steps the parts in `freeze` do not move."""
    rank: int = 0
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
                raise SpecError(_FILE, f"no model {name!r}; known: {', '.join(self.recipes)}")
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
    """Read a table of recipes.

    Raises
    ------
    SpecError
        With the place, for an unknown key, a missing one, a wrong type, or a name that is not defined.
    """
    try:
        top = _Table(_FILE, tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise SpecError(_FILE, f"is not TOML: {exc}") from exc
    if (number := top.take("format", int)) != _FORMAT:
        raise SpecError(_FILE, f"format should be {_FORMAT}, got {number}")
    configs = {name: _config(table) for name, table in top.tables("configs")}
    corpora = {name: _corpus(table) for name, table in top.tables("corpora")}
    tokenizers = {name: _tokenizer(table) for name, table in top.tables("tokenizers")}
    defaults = top.take("defaults", dict)
    recipes = {name: _recipe(name, table) for name, table in top.tables("models", defaults)}
    top.close()
    book = RecipeBook(configs=configs, corpora=corpora, tokenizers=tokenizers, recipes=recipes)
    _check_names(book)
    return book


class _Table:
    """A TOML table from which every key is taken exactly once."""

    def __init__(self, where: str, data: object) -> None:
        if not isinstance(data, dict):
            raise SpecError(where, f"expected a table, got {type(data).__name__}")
        self.where = where
        self._left: dict[str, Any] = dict(data)

    def take(self, key: str, kind: type[T], default: T | None = None) -> T:
        if key not in self._left:
            if default is None:
                raise SpecError(self.where, f"the key {key!r} is missing")
            return default
        value = self._left.pop(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise SpecError(
                self.where, f"{key!r} should be {kind.__name__}, got {type(value).__name__} {value!r}"
            )
        return value

    def name(self, key: str) -> str | None:
        return self.take(key, str) if key in self._left else None

    def choice(self, key: str, choices: object, default: str | None = None) -> Any:  # noqa: ANN401
        return self._one_of(key, self.take(key, str, default), get_args(choices))

    def parts(self, key: str) -> tuple[Part, ...]:
        return tuple(self._one_of(key, word, PARTS) for word in self.take(key, list, []))

    def _one_of(self, key: str, value: object, known: tuple[str, ...]) -> Any:  # noqa: ANN401
        if value not in known:
            raise SpecError(self.where, f"{key!r} should be one of {', '.join(known)}, got {value!r}")
        return value

    def tables(self, key: str, defaults: Mapping[str, Any] | None = None) -> Iterable[tuple[str, _Table]]:
        return [
            (name, _Table(f"{self.where} [{key}.{name}]", {**(defaults or {}), **data}))
            for name, data in self.take(key, dict).items()
        ]

    def rest(self) -> dict[str, Any]:
        rest, self._left = self._left, {}
        return rest

    def close(self) -> None:
        for key in self._left:
            raise SpecError(self.where, f"unknown key {key!r}")


def _config(table: _Table) -> dict[str, Any]:
    return {
        "class": table.take("class", str),
        "config_class": table.take("config_class", str),
        "arguments": table.rest(),
    }


def _corpus(table: _Table) -> CorpusSpec:
    try:
        spec = CorpusSpec(
            languages=tuple(table.take("languages", list)),
            domains=tuple(table.take("domains", list)),
            seed=table.take("seed", int),
            characters=table.take("characters", int),
        )
    except ValueError as exc:
        raise SpecError(table.where, str(exc)) from exc
    table.close()
    return spec


def _tokenizer(table: _Table) -> TokenizerSpec:
    spec = TokenizerSpec(
        corpus=table.take("corpus", str), vocab=table.take("vocab", int), extends=table.name("extends")
    )
    table.close()
    return spec


def _recipe(name: str, table: _Table) -> Recipe:
    layers = table.take("keep_layers", list, [])
    recipe = Recipe(
        name=name,
        config=table.take("config", str),
        tokenizer=table.take("tokenizer", str),
        corpus=table.take("corpus", str),
        init_seed=table.take("init_seed", int),
        order_seed=table.take("order_seed", int),
        steps=table.take("steps", int),
        learning_rate=table.take("learning_rate", float),
        relation=table.choice("relation", Relation),
        note=table.take("note", str),
        parent=table.name("parent"),
        teacher=table.name("teacher"),
        keep=table.parts("keep"),
        keep_layers=tuple(layers) if layers else None,
        keep_outside=table.take("keep_outside", bool, True),
        start=table.take("start", dict, {}) or None,
        rows=table.choice("rows", Rows, "same"),
        freeze=table.parts("freeze"),
        freeze_steps=table.take("freeze_steps", int, 0),
        rank=table.take("rank", int, 0),
        embedded=table.take("embedded", bool, False),
    )
    table.close()
    return recipe


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
                raise SpecError(f"{_FILE} {where}", f"the model {other!r} should come before its child")
        if bool(recipe.keep) != (recipe.parent is not None and recipe.relation != "same-initialisation"):
            raise SpecError(
                f"{_FILE} {where}", "'keep' is for children, and every child has to keep something"
            )
        if recipe.start is not None:
            _known(where, recipe.start.get("function", ""), dict.fromkeys(derive.__all__))
            if recipe.parent is None:
                raise SpecError(f"{_FILE} {where}", "'start' is for children")
        before.add(name)


def _known(where: str, name: str, table: Mapping[str, object]) -> None:
    if name not in table:
        raise SpecError(f"{_FILE} {where}", f"{name!r} is not defined; known: {', '.join(table)}")
