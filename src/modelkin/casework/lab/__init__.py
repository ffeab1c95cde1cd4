"""The lab: actually trained tiny models with known ancestry, the zoo that holds them, and toy experiments.

Reading a zoo, deriving models from it and the experiments on vectors need only numpy. Training needs the
extra ``lab`` (torch, transformers): ``modelkin lab build --out DIR``, ``modelkin lab norms``.
"""

from . import derive
from ._centring import EXAMPLE, Centring, VectorPair, centring, model_vectors, read_vectors, write_centring
from ._cosines import (
    CosineStudy,
    CosineStudyOptions,
    cosine_study,
    exact_cosine,
    limit_cosine,
    published_cosines,
)
from ._cosines_files import cosine_figures, write_cosines
from ._norms_figures import norms_figures
from ._recipes import Recipe, RecipeBook, load_recipes, parse_recipes
from ._zoo import Zoo, ZooModel, embedded_zoo, load_zoo
from .builder import Builder, build_zoo, copy_embedded
from .checkpoint import Checkpoint, layer_of, part_of, read_safetensors
from .norms import ModelRun, NormCosine, NormsOptions, NormsResult, PairResult, TestResult
from .norms_report import conclude, groups_of, norms_blocks, norms_document, norms_from_json, write_norms
from .norms_train import norms_experiment
