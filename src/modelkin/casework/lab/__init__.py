"""The lab: actually trained tiny models with known ancestry, the zoo that holds them, and toy experiments.

Reading a zoo, deriving models from it and the experiments on vectors need only numpy. Training needs the
extra ``lab`` (torch, transformers): ``modelkin lab build --out DIR``, ``modelkin lab norms``.
"""

from . import derive
from ._centring import EXAMPLE, Centring, VectorPair, centring, model_vectors, read_vectors, write_centring
from .builder import build_zoo, copy_embedded
from .cosines import CosineStudy, CosineStudyOptions, cosine_study, exact_cosine
from .cosines_files import write_cosines
from .norms import NormsOptions, NormsResult
from .norms_figures import norms_figures
from .norms_report import conclude, norms_blocks, norms_document, norms_from_json, write_norms
from .norms_train import norms_experiment
from .recipes import load_recipes
from .zoo import embedded_zoo, load_zoo
