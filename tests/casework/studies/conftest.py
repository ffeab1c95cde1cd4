"""A Hub with tiny models under the real names, and every study run once on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.casework.studies.tiny import Floats, Tiny, correlated, files, gain, gains, tensors
from tests.support import HubServer

from modelkin.casework.studies import StudyResult, load_study, run_study
from modelkin.casework.studies.files import parse_study
from modelkin.figures import Animation, Figure, animate, draw
from modelkin.options import FetchOptions

LAYERS = 41
CODE = b"# Copyright 2025 Upstage\nclass SolarOpenConfig:\n    ignored = r'model\\.layers\\.46.*'\n"
CORRELATION = 0.25
"""Of the input norms of Solar and GLM at layer 20, by construction: everything else is independent."""


EVEN = {"model.layers.0.input_layernorm.weight": gain(0.4, 0.05, 3, 48)}
"""A first norm like the others."""


def sibling(tiny: Tiny) -> dict[str, Floats]:
    """Return a model in which every third gain of the input norm moved a little."""
    found = tensors(tiny)
    for name, values in found.items():
        if name.endswith("input_layernorm.weight"):
            values[::3] *= 1.01
    return found


def repositories() -> dict[str, dict[str, bytes]]:
    # As with the real ones: GLM's prediction layer has the number of a decoder layer of Solar.
    solar = Tiny(family="solar_open", layers=LAYERS + 2, seed=1)
    glm = Tiny(family="glm4_moe", layers=LAYERS, seed=2, heads=6, dense=1, mtp=True, bf16=True)
    intellect = Tiny(family="glm4_moe", layers=LAYERS, seed=2, heads=6, dense=1, bf16=True)
    plain_glm = Tiny(family="glm4_moe", layers=LAYERS, seed=2, heads=6, dense=1, mtp=True)
    mean, std = float(gains(solar, 20, 0).mean()), float(gains(solar, 20, 0).std())
    partner = mean + std * correlated(CORRELATION, 77, 1000 * glm.seed + 40)
    linked = {"model.layers.20.input_layernorm.weight": partner}
    return {
        "upstage/Solar-Open-100B": files(solar, linked) | {"modeling_solar_open.py": CODE},
        # Full precision, so that statistics are exact.
        "zai-org/GLM-4.5-Air": files(plain_glm),
        "test/glm-bf16": files(glm),
        "test/intellect-bf16": files(intellect, sibling(intellect)),
        "PrimeIntellect/INTELLECT-3": files(intellect, sibling(intellect)),
        "microsoft/Phi-3.5-MoE-instruct": files(Tiny(family="phimoe", layers=32, seed=3)),
        "mistralai/Mixtral-8x7B-Instruct-v0.1": files(Tiny(family="mixtral", layers=32, seed=4)),
        "mistralai/Mixtral-8x22B-Instruct-v0.1": files(Tiny(family="mixtral", layers=32, seed=8, hidden=48)),
        "mistralai/Mistral-7B-Instruct-v0.3": files(Tiny(family="mistral", layers=32, seed=4)),
        "01-ai/Yi-1.5-6B-Chat": files(Tiny(family="llama", layers=32, seed=5)),
        "01-ai/Yi-1.5-9B-Chat": files(Tiny(family="llama", layers=41, seed=5)),
        "Qwen/Qwen3-4B": files(Tiny(family="llama", layers=24, seed=9)),
        "Qwen/Qwen3-14B": files(Tiny(family="llama", layers=24, seed=10, hidden=48), EVEN),
        "Qwen/Qwen1.5-7B-Chat": files(Tiny(family="qwen2", layers=32, seed=6)),
        # internlm/internlm2-chat-7b is not there: a study must go on without it.
    }


@pytest.fixture(scope="session")
def hub() -> Iterator[HubServer]:
    with HubServer(repositories()) as server:
        yield server


@dataclass(frozen=True)
class Done:
    """A study that was run."""

    folder: Path
    result: StudyResult
    requests: int
    figures: tuple[Figure | Animation, ...]

    def steps(self) -> dict[str, str]:
        """Return what was skipped, with the reason."""
        every = (*self.result.experiments, *self.result.figures)
        return {step.id: str(step.reason) for step in every if step.status != "done"}


_FEWER = (
    (re.compile(r"trials: \d+"), "trials: 40"),
    (re.compile(r"draws: \d+"), "draws: 6"),
    (re.compile(r"dimension: 4096"), "dimension: 64"),
    (re.compile(r"dimensions: \[64, 512, 4096\]"), "dimensions: [16, 64]"),
)


def with_fewer_draws(text: str) -> str:
    """Return a study whose draws and trials take no time."""
    for pattern, fewer in _FEWER:
        text = pattern.sub(fewer, text)
    return text


RunStudy = Callable[[str], Done]


def one_of_each_layout() -> Callable[..., tuple[Path, ...]]:
    """Return a function that draws the first figure of each layout, and gives its picture to all others.

    One study has fifty figures of two layouts, which differ in numbers only; these are in files of their own.
    """
    drawn: dict[object, tuple[bytes, ...]] = {}

    def draw_once(figure: Figure, folder: Path, name: str, **options: Any) -> tuple[Path, ...]:
        layout = tuple(tuple(type(mark) for mark in panel.marks) for panel in figure.panels)
        if layout not in drawn:
            paths = draw(figure, folder, name, **options)
            drawn[layout] = tuple(path.read_bytes() for path in paths)
            return paths
        copies = tuple(folder / f"{name}.{kind}" for kind in options["formats"])
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in zip(copies, drawn[layout], strict=True):
            path.write_bytes(data)
        return copies

    return draw_once


def kept(drawing: Callable[..., Any], made: list[Figure | Animation]) -> Callable[..., Any]:
    """Return a function that draws, and keeps what it draws."""

    def draw_and_keep(figure: Figure | Animation, *place: Any, **options: Any) -> Any:
        made.append(figure)
        return drawing(figure, *place, **options)

    return draw_and_keep


@pytest.fixture(scope="session")
def done(hub: HubServer, tmp_path_factory: pytest.TempPathFactory) -> RunStudy:
    """Return a function that runs a shipped study once: small drawings, few draws, real range reads."""
    known: dict[str, Done] = {}

    def get(name: str) -> Done:
        if name not in known:
            text = with_fewer_draws(load_study(name).text)
            if name == "centred-review":  # the first layers and frames are enough to draw
                text = text.replace(
                    "data: centring}\n  - {file: result/figure_01",
                    "data: centring, steps: 3}\n  - {file: result/figure_01",
                )
            models = (
                {"glm": "test/glm-bf16", "intellect": "test/intellect-bf16"}
                if name == "centred-review"
                else {}
            )
            folder = tmp_path_factory.mktemp(name)
            hub.reset()
            with pytest.MonkeyPatch.context() as patch:
                figures: list[Figure | Animation] = []
                drawn = one_of_each_layout() if name == "three-models" else draw
                patch.setattr("modelkin.casework.studies._run.draw", kept(drawn, figures))
                patch.setattr("modelkin.casework.studies._run.animate", kept(animate, figures))
                result = run_study(
                    parse_study(text.encode(), name),
                    folder,
                    models=models,
                    fetch=FetchOptions(endpoint=hub.url, token=False, use_store=False),
                    language="ko" if name == "sanity-check" else "en",
                    dpi=30,
                    formats=("png", "svg") if name == "sanity-check" else ("svg",),
                )
            known[name] = Done(
                folder=folder, result=result, requests=hub.n_requests(), figures=tuple(figures)
            )
        return known[name]

    return get


def close(value: object, wanted: float, tolerance: float = 2e-6) -> bool:
    return bool(np.isclose(float(str(value)), wanted, rtol=0, atol=tolerance))
