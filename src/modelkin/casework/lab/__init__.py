"""The lab: really trained tiny models with known ancestry, the zoo that keeps them, and toy experiments.

Reading a zoo, deriving from it and the experiments on vectors need numpy alone. Training needs the extra
``lab`` (torch, transformers): ``modelkin lab build --out DIR``, ``modelkin lab norms``.
"""

from . import derive
from ._build import Builder, build_zoo, copy_embedded
from ._centring import EXAMPLE, Centring, VectorPair, centring, read_vectors, write_centring
from ._centring_models import model_vectors
from ._checkpoint import Checkpoint, read_safetensors
from ._cosines import (
    CosineStudy,
    CosineStudyOptions,
    DrawnCosines,
    PublishedCosine,
    cosine_study,
    published_cosines,
)
from ._cosines_exact import ExactCosine, exact_cosine, limit_cosine
from ._cosines_figures import cosine_figures, write_cosines
from ._norms import norms_experiment
from ._norms_figures import norms_figures
from ._norms_files import norms_document, norms_from_json, norms_to_json, write_norms
from ._norms_records import ModelRun, NormCosine, NormsOptions, NormsResult, PairResult, TestResult
from ._norms_words import Group, conclude, groups_of
from ._parts import PARTS, Part, layer_of, part_of
from ._recipes import Recipe, RecipeBook, Relation, load_recipes, parse_recipes
from ._zoo import Zoo, ZooModel, ancestry_table, embedded_zoo, load_zoo

__all__ = [
    "EXAMPLE",
    "PARTS",
    "Builder",
    "Centring",
    "Checkpoint",
    "CosineStudy",
    "CosineStudyOptions",
    "DrawnCosines",
    "ExactCosine",
    "Group",
    "ModelRun",
    "NormCosine",
    "NormsOptions",
    "NormsResult",
    "PairResult",
    "Part",
    "PublishedCosine",
    "Recipe",
    "RecipeBook",
    "Relation",
    "TestResult",
    "VectorPair",
    "Zoo",
    "ZooModel",
    "ancestry_table",
    "build_zoo",
    "centring",
    "conclude",
    "copy_embedded",
    "cosine_figures",
    "cosine_study",
    "derive",
    "embedded_zoo",
    "exact_cosine",
    "groups_of",
    "layer_of",
    "limit_cosine",
    "load_recipes",
    "load_zoo",
    "model_vectors",
    "norms_document",
    "norms_experiment",
    "norms_figures",
    "norms_from_json",
    "norms_to_json",
    "parse_recipes",
    "part_of",
    "published_cosines",
    "read_safetensors",
    "read_vectors",
    "write_centring",
    "write_cosines",
    "write_norms",
]
