"""Inspecting a tiny model of every architecture family, as a file on disk would be."""

import json
import math

import jsonschema
import pytest
from rich.console import Console
from tests.architecture.handwritten_cases import HANDWRITTEN, recorded, recorded_names
from tests.support.amount import every

import modelkin as mk
from modelkin.architecture.loader import families
from modelkin.document import inspection_view, render_terminal, to_json
from modelkin.document.results import schema
from modelkin.formats.safetensors import RawTensor, safetensors_bytes
from modelkin.source import MemorySource

CASES = [*recorded_names(), *HANDWRITTEN]


def model_of(case: str) -> mk.Model:
    config, shapes = HANDWRITTEN[case][0]() if case in HANDWRITTEN else recorded(case)
    tensors = {
        name: RawTensor("BF16", tuple(shape), bytes(2 * math.prod(shape))) for name, shape in shapes.items()
    }
    files = {
        "config.json": json.dumps(config).encode(),
        "model.safetensors": safetensors_bytes(tensors),
    }
    return mk.open_model(MemorySource(files, name=case))


@pytest.mark.parametrize("case", every(4, CASES))
def test_every_family_is_inspected_from_its_header_alone(case, tmp_path):
    with model_of(case) as model:
        found = mk.inspect_model(model)
    assert found.family is not None
    assert found.unknown == ()
    assert found.layers
    assert all(
        tensor.purposes or tensor.name in {item.name for item in model.architecture.other}
        for tensor in found.tensors
    )
    assert found.ledger.bytes_needed < 300_000
    jsonschema.validate(json.loads(to_json(found)), schema("modelkin.inspection/1"))
    with (tmp_path / "screen").open("w") as file:
        Console(file=file, width=120).print(render_terminal(inspection_view(found)))
    text = (tmp_path / "screen").read_text()
    assert f"{found.family}: {found.title}" in text


def test_there_is_a_fixture_for_every_family():
    seen = {model_of(case).architecture.family for case in CASES}
    assert {spec.family for spec in families()} <= seen


@pytest.mark.parametrize("component", ["norms", "embedding", "attention"])
def test_components_are_planned_without_fixed_tables_and_mtp_layers(component):
    with model_of("glm4_moe_mtp") as model:
        plan = mk.plan_components(model, [component])
        wanted = {
            entry.tensor
            for entry in model.architecture.tensors
            if entry.component == component and not entry.fixed
        }
        assert plan.bytes_needed == sum(model.index[name].n_bytes for name in wanted)
        assert model.architecture.mtp_tensors
