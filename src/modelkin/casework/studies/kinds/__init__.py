"""Kinds of experiments. Each declares its options, and runs."""

from modelkin.casework.studies.spec import Experiment

from ._drawn import CentringExperiment, RandomVectors, SyntheticCosines
from ._embeddings import Embeddings
from ._facts import Configs, RawBytes, Tokenizers
from ._looks import Changes, ProjectionExperiment
from ._measures import Measures
from ._precision import Precision
from ._repositories import Repositories
from ._routers import Routers
from ._shuffle import Shuffle
from ._vectors import Vectors
from .claim import Argument

KINDS: tuple[type[Experiment], ...] = (
    Measures,
    Vectors,
    Shuffle,
    Argument,
    RandomVectors,
    Routers,
    Embeddings,
    Configs,
    Tokenizers,
    RawBytes,
    Repositories,
    Changes,
    ProjectionExperiment,
    Precision,
    SyntheticCosines,
    CentringExperiment,
)
