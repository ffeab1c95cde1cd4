"""A trained model, quantised by each scheme: related to its original, and to no stranger."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.formats.quantised_writers import SCHEMES
from tests.places import ZOO
from tests.support import HubServer

import modelkin as mk
from modelkin.comparison.methods import code_step
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.model import open_model
from modelkin.options import CompareOptions, FetchOptions
from modelkin.source import MemorySource
from modelkin.tensors import TensorSlice

# One of each layout; the others differ in widths and packing, which test_quantised.py checks by number.
CHECKED = (
    *("gptq-4", "gptq-itself", "gptq-act-order", "awq", "nf4", "bnb-8", "fp8-block", "int8", "int4-zeros"),
    *("nvfp4", "mxfp4", "mlx-4", "hqq-3-0"),
)
STRANGERS = ("gptq-4", "awq", "nf4", "fp8-block", "nvfp4", "mlx-4")


@lru_cache
def plain(name: str) -> dict[str, npt.NDArray[Any]]:
    with open_model(str(ZOO / name)) as model:
        return {tensor: model.tensor(tensor) for tensor in model.index}


def quantised(
    model: str, scheme: str, weights: Mapping[str, npt.NDArray[Any]] | None = None
) -> dict[str, bytes]:
    """Quantise the projections of a model, as the tools of the schemes do: norms and tokens stay."""
    tensors: dict[str, npt.NDArray[Any]] = {}
    for name, values in (weights or plain(model)).items():
        if name.endswith("_proj.weight"):
            parts, _ = SCHEMES[scheme].write(values)
            prefix = name.removesuffix("weight")
            tensors |= {prefix + part: one for part, one in parts.items()}
        else:
            tensors[name] = values
    config = json.loads((ZOO / model / "config.json").read_text())
    return {
        "config.json": json.dumps({**config, **SCHEMES[scheme].config}).encode(),
        "tokenizer.json": (ZOO / model / "tokenizer.json").read_bytes(),
        "model.safetensors": safetensors_bytes(tensors),
    }


@pytest.mark.parametrize("scheme", CHECKED)
def test_a_quantised_copy_is_known_as_one(scheme):
    result = mk.compare(candidate=MemorySource(quantised("base", scheme)), base=str(ZOO / "base"))
    assert result.verdict.conclusion.value == "shared"
    assert result.relation.kind == "quantised-copy"
    found = {name: part.conclusion.value for name, part in result.verdict.components.items()}
    assert {found[name] for name in ("mlp", "attention", "embedding", "head", "norms")} == {"shared"}
    assert result.candidate.parameters == result.base.parameters


@pytest.mark.parametrize("scheme", STRANGERS)
def test_a_quantised_stranger_stays_a_stranger(scheme):
    result = mk.compare(candidate=MemorySource(quantised("twin-1", scheme)), base=str(ZOO / "base"))
    assert result.verdict.conclusion.value == "no-evidence"
    assert result.relation.kind == "unknown"


@pytest.mark.parametrize("scheme", ["gptq-4", "nf4"])
def test_two_quantised_copies_of_one_model_are_related(scheme):
    result = mk.compare(
        candidate=MemorySource(quantised("base", scheme)), base=MemorySource(quantised("base", "awq"))
    )
    assert result.verdict.conclusion.value == "shared"
    strangers = mk.compare(
        candidate=MemorySource(quantised("twin-1", scheme)), base=MemorySource(quantised("base", "awq"))
    )
    assert strangers.verdict.conclusion.value == "no-evidence"


def test_the_same_codes_are_a_copy():
    files = quantised("base", "gptq-4")
    result = mk.compare(candidate=MemorySource(files), base=MemorySource(dict(files)))
    assert result.verdict.conclusion.value == "identical"
    assert result.relation.kind == "copy"


def test_a_model_that_was_trained_on_and_then_quantised_is_no_quantised_copy():
    result = mk.compare(candidate=MemorySource(quantised("finetune-heavy", "nf4")), base=str(ZOO / "base"))
    assert result.verdict.related
    assert result.relation.kind == "fine-tune"


def test_changed_projections_are_no_quantised_copy_though_all_else_is_equal():
    rng = np.random.default_rng(0)
    weights = {
        name: np.asarray(values + 0.2 * values.std() * rng.normal(size=values.shape), np.float32)
        if name.endswith("_proj.weight")
        else values
        for name, values in plain("base").items()
    }
    result = mk.compare(candidate=MemorySource(quantised("base", "int8", weights)), base=str(ZOO / "base"))
    assert result.verdict.related
    assert result.relation.kind == "noise"


def scaled_as_awq_does(model: str) -> dict[str, npt.NDArray[Any]]:
    """Scale the inputs of projections against the gains before them: the model computes the same."""
    rng = np.random.default_rng(1)
    weights = dict(plain(model))
    for layer in range(4):
        prefix = f"model.layers.{layer}."
        for norm, readers in (
            ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
            ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
        ):
            scale = np.exp(0.5 * rng.normal(size=96)).astype(np.float32)
            weights[f"{prefix}{norm}.weight"] = weights[f"{prefix}{norm}.weight"] / scale
            for reader in readers:
                weights[f"{prefix}{reader}.weight"] = weights[f"{prefix}{reader}.weight"] * scale
    return weights


@pytest.mark.parametrize(
    ("model", "conclusion", "kind"),
    [("base", "shared", "quantised-copy"), ("twin-1", "no-evidence", "unknown")],
)
def test_scales_that_awq_moves_into_norms_hide_no_relative_and_make_none(model, conclusion, kind):
    files = quantised(model, "awq", scaled_as_awq_does(model))
    result = mk.compare(candidate=MemorySource(files), base=str(ZOO / "base"))
    assert result.verdict.conclusion.value == conclusion
    assert result.relation.kind == kind
    if kind == "quantised-copy":
        found = {item.kind: item.numbers for item in result.relation.findings}
        assert found["quantised-copy"]["bits"] == 4


NAME = "model.layers.0.mlp.up_proj.weight"


def large(scheme: str) -> dict[str, bytes]:
    weights = np.random.default_rng(0).normal(size=(2048, 1024)).astype(np.float32)
    tensors, _ = SCHEMES[scheme].write(weights)
    prefix = NAME.removesuffix("weight")
    return {
        "config.json": json.dumps({"model_type": "llama", **SCHEMES[scheme].config}).encode(),
        "model.safetensors": safetensors_bytes({prefix + part: one for part, one in tensors.items()}),
    }


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    repos = {f"org/{scheme}": large(scheme) for scheme in ("fp8-block", "gptq-4")}
    repos["org/base"] = {file.name: file.read_bytes() for file in (ZOO / "base").iterdir()}
    repos["org/small"] = quantised("base", "nf4")
    with HubServer(repos) as server:
        yield server


def fetching(hub: HubServer, folder: Path) -> FetchOptions:
    return FetchOptions(endpoint=hub.url, token=False, store_dir=folder, head_bytes=4096)


def test_rows_of_a_model_on_the_hub_cost_their_bytes(hub, tmp_path):
    with open_model("org/fp8-block", fetching(hub, tmp_path)) as model:
        assert model.index[NAME].dtype == "FP8-block"
        opened = model.totals().bytes_fetched
        assert opened < 10_000
        rows = model.tensor(NAME, rows=slice(96, 160))
        assert model.totals().bytes_fetched - opened < 1.1 * 64 * 1024 + 65_536
        np.testing.assert_array_equal(rows, model.tensor(NAME)[96:160])


def test_columns_of_codes_stored_input_first_cost_their_bytes(hub, tmp_path):
    with open_model("org/gptq-4", fetching(hub, tmp_path)) as model:
        assert model.index[NAME].columns_first
        opened = model.totals()
        window = TensorSlice.blocks(NAME, [(1024 * row + 64, 1024 * row + 96) for row in range(2048)])
        values = model.read([window])[0].reshape(2048, 32)
        after = model.totals()
        assert after.bytes_fetched - opened.bytes_fetched < 120_000  # of 1.2 MB
        assert after.requests - opened.requests <= 4
        np.testing.assert_array_equal(values, model.tensor(NAME)[:, 64:96])


def test_a_quantised_model_on_the_hub_is_compared(hub, tmp_path):
    options = CompareOptions(fetch=fetching(hub, tmp_path))
    result = mk.compare(candidate="org/small", base="org/base", options=options)
    assert result.verdict.conclusion.value == "shared"


@pytest.mark.parametrize(
    ("dtype", "step"),
    [
        ("GPTQ-4", 2 / 15),
        ("MLX-6", 2 / 63),
        ("NF4", 1 / 3),
        ("IQ4_NL", 1 / 3),
        ("MXFP4", 1 / 3),
        ("FP8-block", 1 / 7),
        ("Q8_0", 2 / 255),
        ("Q4_K", 2 / 15),
        ("BF16", None),
        ("F8_E4M3", None),
        ("F16", None),
    ],
)
def test_the_widest_gap_between_codes_follows_from_the_name(dtype, step):
    assert code_step(dtype) == (None if step is None else pytest.approx(step))


def test_codes_are_never_further_apart_than_said():
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(32, 128)).astype(np.float32)
    for scheme in SCHEMES.values():
        _, expected = scheme.write(weights)
        step = code_step(scheme.label)
        assert step is not None
        largest = np.abs(weights).max(1, keepdims=True)
        assert (np.abs(expected - weights) <= 0.55 * step * largest).mean() > 0.85, scheme.label


def with_reordered_units(model: str) -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(2)
    weights = dict(plain(model))
    for layer in range(4):
        prefix = f"model.layers.{layer}.mlp."
        order = rng.permutation(len(weights[f"{prefix}up_proj.weight"]))
        for name in ("up_proj", "gate_proj"):
            weights[f"{prefix}{name}.weight"] = weights[f"{prefix}{name}.weight"][order]
        weights[f"{prefix}down_proj.weight"] = weights[f"{prefix}down_proj.weight"][:, order]
    return weights


@pytest.mark.parametrize(
    ("model", "conclusion", "kind"),
    [("base", "shared-reparametrised", "quantised-copy"), ("twin-1", "no-evidence", "unknown")],
)
@pytest.mark.parametrize("scheme", ["gptq-4", "nf4"])
def test_reordered_units_are_found_in_codes_at_deep_depth(scheme, model, conclusion, kind):
    files = quantised(model, scheme, with_reordered_units(model))
    options = CompareOptions(depth="deep")
    result = mk.compare(candidate=MemorySource(files), base=str(ZOO / "base"), options=options)
    assert result.verdict.conclusion.value == conclusion
    assert result.relation.kind == kind
