"""A zoo that no threshold of trees was set on: other bases, other data, the same ways of making children.

Languages, corpora, tokenizers, initialisations and orders differ from those of ``tests/zoo``; some families
have generations and siblings that the zoo lacks. Built with torch into a folder, not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from tests.lineage.collection import (
    HEAVY,
    LIGHT,
    SIBLING,
    Collection,
    dare,
    experts,
    int4,
    int8,
    linear,
    longer,
    noisy,
    pruned,
    slerp,
    stacked,
    ties,
)

from modelkin.casework.lab import build_zoo, load_recipes
from modelkin.casework.lab.recipes import Recipe, RecipeBook

_SEEDS = 7_000
"""Added to every seed of an initialisation, so that no model begins as one of the zoo does."""
_ORDERS = 700
_LANGUAGES = 40
_STEPS = {True: 120, False: 50}
"""At most, of models without and with a parent: half an hour of training becomes two minutes."""
TRAINED = (
    *("base", LIGHT, HEAVY, SIBLING, "grandchild", "lora", "extended", "depth-up", "half-of-layers"),
    *("fewer-dimensions", "norms-only", "new-attention"),
    *("deep-1", "fewer-layers", "experts", "rotated"),
    *("qwen2-base", "qwen2-tuned", "qwen2-depth-up", "gpt2-base", "gpt2-tuned", "gpt2-depth-up"),
    *("moe-base", "moe-tuned", "gemma-base", "gemma-tuned"),
    *("twin-1", "corpus-1", "tokenizer-1", "heads8-1"),
)
"""Of the recipes of the zoo."""
_ALL = ("embeddings", "head", "norms", "attention", "mlp")


def _tuned(name: str, parent: Recipe, **changes: object) -> Recipe:
    """Return the recipe of a fine-tune."""
    return replace(
        parent,
        **{
            "name": name,
            "parent": parent.name,
            "keep": _ALL,
            "relation": "fine-tune",
            "init_seed": 0,
            "learning_rate": 1e-3,
            "note": f"A fine-tune of {parent.name}.",
            "start": None,
            "embedded": False,
        }
        | changes,
    )


def held_out_book(*, full: bool = False) -> RecipeBook:
    """Return the recipes with other seeds and some children more; `full` trains as long as the zoo was."""
    book = load_recipes()
    corpora = {
        name: replace(
            spec, seed=spec.seed + _SEEDS, languages=tuple(number + _LANGUAGES for number in spec.languages)
        )
        for name, spec in book.corpora.items()
    }
    recipes = {
        name: replace(
            recipe,
            init_seed=recipe.init_seed + _SEEDS,
            order_seed=recipe.order_seed + _ORDERS,
            steps=recipe.steps if full else min(recipe.steps, _STEPS[recipe.parent is None]),
            freeze_steps=recipe.freeze_steps if full else recipe.freeze_steps * 50 // recipe.steps,
            start=None
            if recipe.start is None
            else recipe.start | ({"seed": recipe.start["seed"] + _SEEDS} if "seed" in recipe.start else {}),
        )
        for name, recipe in book.recipes.items()
        if name in TRAINED
    }
    for name, parent, order, changes in MORE:
        steps = 150 if full else 50
        recipes[name] = _tuned(name, recipes[parent], order_seed=_ORDERS + order, steps=steps, **changes)
    return RecipeBook(configs=book.configs, corpora=corpora, tokenizers=book.tokenizers, recipes=recipes)


MORE: tuple[tuple[str, str, int, dict[str, object]], ...] = (
    ("qwen2-second", "qwen2-tuned", 101, {"corpus": "gamma"}),
    ("qwen2-sibling", "qwen2-base", 102, {"corpus": "gamma", "learning_rate": 5e-4}),
    ("gpt2-second", "gpt2-tuned", 103, {"corpus": "gamma"}),
    ("gpt2-third", "gpt2-second", 104, {"corpus": "beta", "learning_rate": 5e-4}),
    ("gemma-sibling", "gemma-base", 105, {"corpus": "gamma", "rank": 4, "relation": "low-rank"}),
    ("heads8-tuned", "heads8-1", 106, {"corpus": "gamma"}),
    ("heads8-second", "heads8-tuned", 107, {"corpus": "beta"}),
)
"""Name, parent, order of the data, and what else differs: generations and siblings that the zoo lacks."""


DERIVED = {
    "heavy-int8": int8(HEAVY),
    "sibling-int4": int4(SIBLING),
    "qwen2-int8": int8("qwen2-second"),
    "grandchild-int4": int4("grandchild"),
    "sibling-pruned": pruned(SIBLING, 0.4),
    "gemma-pruned": pruned("gemma-tuned", 0.5),
    "light-noise": noisy(LIGHT, 0.07),
    "gpt2-noise": noisy("gpt2-second", 0.05),
    "qwen2-longer": longer("qwen2-sibling", 48),
    "heavy-experts": experts(HEAVY, 4),
    "merge-linear": linear(LIGHT, SIBLING, 0.3),
    "merge-linear-int8": int8("merge-linear"),
    "merge-slerp": slerp(HEAVY, "lora", 0.4),
    "merge-ties": ties("base", "lora", SIBLING, 0.4),
    "merge-dare": dare("base", LIGHT, HEAVY, 0.4),
    "merge-strangers": linear("twin-1", "corpus-1", 0.35),
    "merge-qwen2": linear("qwen2-tuned", "qwen2-sibling", 0.5),
    "franken": stacked(SIBLING, LIGHT, [1, 3]),
}
"""By arithmetic, of other parents and with other numbers than in the collection of development."""


def held_out(folder: Path) -> Collection:
    """Return the collection, with the models of a folder that `build_held_out` filled."""
    return Collection(folder=folder, trained=(*TRAINED, *(name for name, *_ in MORE)), derived=DERIVED)


def build_held_out(folder: Path, only: Sequence[str] = (), *, full: bool = False) -> None:
    """Build what is not there yet: all of it, or the named ones with what they come from."""
    build_zoo(
        held_out_book(full=full),
        folder,
        only=only,
        report=lambda record: print(record["name"], record["last_loss"], flush=True),
    )


if __name__ == "__main__":
    import sys

    names = [name for name in sys.argv[2:] if name != "--full"]
    build_held_out(Path(sys.argv[1]), names, full="--full" in sys.argv)
