"""The dispute in small: three comparisons that a raw cosine cannot tell apart, and a test can."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modelkin.comparison import Comparison, compare
from modelkin.model import Model, open_model
from modelkin.options import CompareOptions
from modelkin.progress import Progress
from modelkin.source import ModelRef
from modelkin.stats import cosine_decomposition

SCHEMA = "modelkin.demo/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class GainCosine:
    """The cosine of two models' norm gains and its parts, each a mean over the vectors of gains."""

    vectors: int
    cosine: float
    mean_direction_part: float
    correlated_part: float
    pearson: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoChapter:
    """One comparison and what it teaches."""

    name: str
    title: str
    text: str
    gains: GainCosine
    comparison: Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What ``modelkin demo`` tells."""

    schema: str
    chapters: tuple[DemoChapter, ...]
    moral: str


_CHAPTERS = (
    (
        "twin-1",
        "Two strangers that look like a copy",
        "twin-1 was trained like base, but from other random numbers. The cosine of their norm gains is near "
        "1, and looks like a copy. It is not: gains are positive numbers of like size, and any two such "
        "vectors point the same way.",
    ),
    (
        "finetune-light",
        "A true child",
        "finetune-light went on from the weights of base. Its cosine is hardly larger than the stranger's. "
        "What differs is the part that the mean direction does not explain.",
    ),
    (
        "norms-only",
        "A stranger with borrowed norms",
        "norms-only took the norm gains of base and trained everything else anew. The verdict names them.",
    ),
)
_MORAL = (
    "A raw cosine cannot tell the stranger from the child. Shuffling the numbering can: it keeps everything "
    "that two strangers have in common, and destroys what only a common origin gives."
)


def tell_story(zoo: Path, *, progress: Progress | None = None) -> Story:
    """Compare the models in a folder with `base`. All numbers are computed here and now."""
    chapters = tuple(_chapter(zoo, name, title, text, progress=progress) for name, title, text in _CHAPTERS)
    return Story(schema=SCHEMA, chapters=chapters, moral=_MORAL)


def gain_cosine(candidate: Model, base: Model) -> GainCosine:
    """Decompose the cosine of every norm gain that both models have, and average the parts."""
    theirs = dict(_gains(base))
    found = [
        cosine_decomposition(candidate=values, base=theirs[name])
        for name, values in _gains(candidate)
        if name in theirs and theirs[name].shape == values.shape
    ]
    correlations = [item.pearson for item in found if item.pearson is not None]
    return GainCosine(
        vectors=len(found),
        cosine=_mean([item.cosine for item in found]),
        mean_direction_part=_mean([item.mean_direction_part for item in found]),
        correlated_part=_mean([item.correlated_part for item in found]),
        pearson=_mean(correlations),
    )


def _chapter(zoo: Path, name: str, title: str, text: str, *, progress: Progress | None) -> DemoChapter:
    with _open(zoo, name, progress) as mine, _open(zoo, "base", progress) as theirs:
        return DemoChapter(
            name=name,
            title=title,
            text=text,
            gains=gain_cosine(mine, theirs),
            comparison=compare(candidate=mine, base=theirs, options=CompareOptions()),
        )


def _open(zoo: Path, name: str, progress: Progress | None) -> Model:
    """Open a model under its short name: the folder of an installed package is long and says nothing."""
    return open_model(ModelRef(kind="local", text=name, target=str(zoo / name)), progress=progress)


def _gains(model: Model) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    for entry in model.architecture.tensors:
        if entry.component == "norms" and entry.axes == (("residual",),) and entry.part == "weight":
            yield entry.tensor, np.asarray(model.tensor(entry.tensor), dtype=np.float64)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
