"""Kinds of experiments. Each declares its options, and runs."""

from modelkin.casework.studies.spec import Experiment

from ._drawn import Centring, RandomVectors, SyntheticCosines
from ._embeddings import Embeddings
from ._facts import Configs, RawBytes, Tokenizers
from ._forms import FORMS, Form
from ._looks import Changes, Projection
from ._measures import Measures
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
    Changes,
    Projection,
    SyntheticCosines,
    Centring,
)

__all__ = ["FORMS", "KINDS", "Form"]
