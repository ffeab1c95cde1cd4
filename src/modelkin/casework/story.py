"""The dispute in small: three comparisons that a raw cosine cannot tell apart, and a test can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt

from modelkin.comparison import Comparison, compare
from modelkin.document import ENGLISH
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
    commands: tuple[tuple[str, str], ...]
    """What to try next: a command that runs right away, and what it shows."""


_CHAPTERS = ("twin-1", "finetune-light", "norms-only")
"""Models compared with `base`; the texts of reports have a title and a text for each."""
COMMANDS = {
    "page": "modelkin compare demo:finetune-light demo:base --out report",
    "deep": "modelkin compare demo:moe-tuned demo:moe-base --depth deep",
    "inspect": "modelkin inspect demo:moe-base",
}
"""What the demo ends with; the texts of reports say what each shows."""


def tell_story(zoo: Path, *, progress: Progress | None = None) -> Story:
    """Compare the models in a folder with `base`. All numbers are computed on the spot."""
    chapters = tuple(_chapter(zoo, name, progress=progress) for name in _CHAPTERS)
    commands = tuple((command, ENGLISH.say(f"demo.try.{key}")) for key, command in COMMANDS.items())
    return Story(schema=SCHEMA, chapters=chapters, moral=ENGLISH.say("demo.moral"), commands=commands)


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
        cosine=fmean([item.cosine for item in found]),
        mean_direction_part=fmean([item.mean_direction_part for item in found]),
        correlated_part=fmean([item.correlated_part for item in found]),
        pearson=fmean(correlations),
    )


def _chapter(zoo: Path, name: str, *, progress: Progress | None) -> DemoChapter:
    with _open(zoo, name, progress) as mine, _open(zoo, "base", progress) as theirs:
        return DemoChapter(
            name=name,
            title=ENGLISH.say(f"demo.{name}.title"),
            text=ENGLISH.say(f"demo.{name}.text"),
            gains=gain_cosine(mine, theirs),
            comparison=compare(candidate=mine, base=theirs, options=CompareOptions()),
        )


def _open(zoo: Path, name: str, progress: Progress | None) -> Model:
    """Open a model under its short name: the path of an installed package is long and says nothing."""
    return open_model(ModelRef(kind="local", text=name, target=str(zoo / name)), progress=progress)


def _gains(model: Model) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    for entry in model.architecture.tensors:
        if entry.component == "norms" and entry.axes == (("residual",),) and entry.part == "weight":
            yield entry.tensor, np.asarray(model.tensor(entry.tensor), dtype=np.float64)
