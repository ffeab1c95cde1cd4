"""Trained small models, changed in memory, for tests of published methods."""

from __future__ import annotations

import numpy as np
from tests.comparison.disguises import disguised, zoo_model

from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison import ReferenceScore
from modelkin.reference import ReferenceOptions, reference_scores
from modelkin.source import MemorySource


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def source(model: Checkpoint, name: str) -> MemorySource:
    return MemorySource(model.files("F32"), name=name)


def asked(method: str, candidate: Checkpoint, base: Checkpoint) -> ReferenceScore:
    (found,) = reference_scores(
        source(candidate, "org/candidate"), source(base, "org/base"), ReferenceOptions(methods=(method,))
    )
    return found


def score(method: str, candidate: Checkpoint | str, base: Checkpoint | str = "base") -> float:
    """Return the score; a test that expects one fails where there is none."""
    models = [zoo_model(item) if isinstance(item, str) else item for item in (candidate, base)]
    found = asked(method, models[0], models[1])
    assert found.score is not None, str(found.reason)
    return found.score


def under(*names: str, model: str = "base") -> Checkpoint:
    """Return a model of the zoo under disguises."""
    return disguised(zoo_model(model), *names, seed=3)
