"""One step of the deep stage, or all of it, in a process of its own: bytes, CPU seconds, memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import modelkin as mk
from benchmarks.alignment_subject import Synthetic, pair_of
from benchmarks.peers_job import answer_job, peak_bytes
from modelkin.comparison import price_comparison
from modelkin.comparison.deep import DeepStage
from modelkin.comparison.frames import KeyFrame, frame_of_keys, frame_of_tokens, frame_of_units
from modelkin.comparison.methods import Contrast, Skipped, frame_rows, load_method
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.tokens import pair_tokens
from modelkin.model import Model, open_model

OPTIONS = mk.CompareOptions(depth="deep")
FRAMES = {"map from tokens": "tokens", "map from keys": "keys", "map from units": "units"}
WHOLE = "compare, deep"
OWN_LAYERS = "own-layers"
_LEFT = 0.45
"""Share of the bytes that earlier steps leave for own-layers, roughly."""


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Do one step on one pair."""
    sources = pair_of(job["subject"], job["kind"])
    models = open_model(sources[0], OPTIONS.fetch), open_model(sources[1], OPTIONS.fetch)
    try:
        return _whole(sources) if job["step"] == WHOLE else _step(job["step"], sources, models)
    finally:
        for model in models:
            model.close()


def _whole(sources: tuple[Synthetic, Synthetic]) -> dict[str, Any]:
    models = open_model(sources[0], OPTIONS.fetch), open_model(sources[1], OPTIONS.fetch)
    plans = price_comparison(candidate=models[0], base=models[1], options=OPTIONS).plans
    planned = [plan.bytes_to_fetch for plan in plans]
    before = _counts(sources, models)
    comparison = mk.compare(candidate=models[0], base=models[1], options=OPTIONS)
    said = f"{comparison.verdict.conclusion.value}, {comparison.alignment.residual}"
    return {**_since(before, sources, models), "planned": planned, "result": said}


def _step(name: str, sources: tuple[Synthetic, Synthetic], models: tuple[Model, Model]) -> dict[str, Any]:
    pair = ModelPair(candidate=models[0], base=models[1], options=OPTIONS)
    stage = DeepStage(pair, pair_tokens(*models))
    before = _counts(sources, models)
    if name == OWN_LAYERS:
        stage.reading.spent = [int((1 - _LEFT) * stage.reading.room)] * 2
    already = list(stage.reading.spent)
    if name in FRAMES:
        result = _frame(stage, FRAMES[name])
    else:
        result = _own_layers(stage) if name == OWN_LAYERS else _survey(stage, name)
    planned = [spent - known for spent, known in zip(stage.reading.spent, already, strict=True)]
    return {**_since(before, sources, models), "planned": planned, "result": result}


def _own_layers(stage: DeepStage) -> str:
    stage.key_frame = _by_keys(stage)
    stage._contrast_layers("none")
    found = [item for item in stage.evidence if isinstance(item, Contrast)]
    if not found:
        return "; ".join(str(item.reason) for item in stage.evidence if isinstance(item, Skipped))
    facing = [item.effect.value for item in found if item.component != "attention"]
    others = max(item.mismatched.largest for item in found)
    return f"{len(facing)} layers: {min(facing):.3f} to {max(facing):.3f}, mismatched at most {others:.3f}"


def _survey(stage: DeepStage, name: str) -> str:
    pair = replace(stage.pair, layer_pairs=stage._pairs_to_match())
    stage._probe(pair, (name,))
    skipped = [item.reason for item in stage.evidence if isinstance(item, Skipped)]
    if load_method(name).plan(pair).probes:
        return "done"
    return str(skipped[0]) if skipped else "nothing to do"


def _frame(stage: DeepStage, way: str) -> str:
    if way == "tokens":
        found = frame_of_tokens(stage.reading, stage.pair)
    elif way == "keys":
        by_keys = _by_keys(stage)
        found = None if by_keys is None else by_keys.frame
    else:
        if frame_rows(stage.pair) is None:
            return "too large"
        by_units = frame_of_units(stage.reading, stage.pair)
        found = None if by_units is None else by_units.frame
    return "none" if found is None else f"{found.kind}, fit {found.fit:.2f}"


def _by_keys(stage: DeepStage) -> KeyFrame | None:
    return frame_of_keys(stage.reading, replace(stage.pair, layer_pairs=stage._layer_pairs()))


def _counts(sources: tuple[Synthetic, Synthetic], models: tuple[Model, Model]) -> dict[str, Any]:
    return {
        "cpu_seconds": time.process_time() - sum(source.cpu_seconds for source in sources),
        "read": [model.totals().bytes_fetched for model in models],
        "base_bytes": peak_bytes(),
    }


def _since(
    before: Mapping[str, Any], sources: tuple[Synthetic, Synthetic], models: tuple[Model, Model]
) -> dict[str, Any]:
    now = _counts(sources, models)
    return {
        "cpu_seconds": now["cpu_seconds"] - before["cpu_seconds"],
        "read": [after - earlier for after, earlier in zip(now["read"], before["read"], strict=True)],
        "all_read": now["read"],
        "base_bytes": before["base_bytes"],
        "peak_bytes": now["base_bytes"],
    }


if __name__ == "__main__":
    answer_job(work)
