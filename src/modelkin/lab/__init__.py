"""The lab: really trained tiny models with known ancestry, the zoo that keeps them, and derived ones.

Reading a zoo and deriving from it needs numpy alone. Training needs the extra ``lab`` (torch, transformers):
``python -m modelkin.lab build --out DIR``.
"""

from . import derive
from ._build import Builder, build_zoo, copy_embedded
from ._checkpoint import Checkpoint, read_safetensors
from ._parts import PARTS, Part, layer_of, part_of
from ._recipes import Recipe, RecipeBook, Relation, load_recipes, parse_recipes
from ._zoo import Zoo, ZooModel, ancestry_table, embedded_zoo, load_zoo

__all__ = [
    "PARTS",
    "Builder",
    "Checkpoint",
    "Part",
    "Recipe",
    "RecipeBook",
    "Relation",
    "Zoo",
    "ZooModel",
    "ancestry_table",
    "build_zoo",
    "copy_embedded",
    "derive",
    "embedded_zoo",
    "layer_of",
    "load_recipes",
    "load_zoo",
    "parse_recipes",
    "part_of",
    "read_safetensors",
]
