"""Every architecture: converted as llama.cpp does it, and read back under the names of transformers."""

import tomllib
from importlib.resources import files

import gguf
import numpy as np
import pytest
from tests.architecture import handwritten_cases
from tests.support.amount import every

import modelkin as mk
from modelkin.architecture import detect

from .gguf_conversions import CONVERSIONS, DROPPED
from .gguf_models import converted

CASES = (
    *("llama", "llama_biases", "mistral", "mixtral", "granite", "smollm3", "qwen2", "qwen3", "qwen2_moe"),
    *("qwen3_moe", "gemma", "gemma2", "gemma3", "olmo", "olmo2", "olmoe", "starcoder2", "stablelm", "cohere"),
    *("glm", "glm4", "glm4_moe", "deepseek_v2", "deepseek_v3", "gpt_oss", "phi", "phi3", "phimoe", "gpt2"),
    *("gptj", "gpt_neox", "falcon_7b", "falcon_40b", "bloom", "mpt", "bert", "modernbert", "t5"),
    *("t5_gated", "internlm2", "chatglm"),
)
NAMES = (files("modelkin.formats.gguf") / "architectures.toml").read_text(encoding="utf-8")
TABLES = {*tomllib.loads(NAMES)["architectures"]}
GATE_UP = ".mlp.experts.gate_up_proj"


def case_of(name):
    made = getattr(handwritten_cases, name, None)
    return made() if made is not None else handwritten_cases.recorded(name)


def random_arrays(shapes, seed=0):
    rng = np.random.default_rng(seed)
    # Halves of small integers: what the converter adds and the reader takes off leaves no rounding.
    return {name: (rng.integers(-64, 64, shape) / 2).astype(np.float32) for name, shape in shapes.items()}


def expected_arrays(arrays, config):
    """Return what is to be read: gpt-oss alone comes expert by expert, output first."""
    kept = {name: values for name, values in arrays.items() if not DROPPED.search(name)}
    kept = {name.removeprefix("bert."): values for name, values in kept.items()}
    if config["model_type"] != "gpt_oss":
        return kept
    split = {}
    for name, values in kept.items():
        stem, middle, rest = name.partition(".mlp.experts.")
        if not middle:
            split[name] = values
            continue
        ending = "bias" if rest.endswith("_bias") else "weight"
        for expert, item in enumerate(values):
            where = f"{stem}.mlp.experts.{expert}"
            if rest.startswith("down"):
                split[f"{where}.down_proj.{ending}"] = item if ending == "bias" else item.T
            else:
                split[f"{where}.gate_proj.{ending}"] = item[..., ::2].T
                split[f"{where}.up_proj.{ending}"] = item[..., 1::2].T
    return split


@pytest.mark.parametrize("name", every(2, CASES))
def test_a_converted_model_is_read_back_as_it_was(tmp_path, name):
    config, shapes = case_of(name)
    arrays = random_arrays(shapes)
    model = mk.open_model(str(converted(tmp_path / "model.gguf", arrays, config)))
    expected = expected_arrays(arrays, config)
    assert set(model.index) == set(expected)
    for tensor, values in expected.items():
        np.testing.assert_array_equal(model.tensor(tensor), values, err_msg=tensor, strict=True)


@pytest.mark.parametrize("name", CASES)
def test_family_and_roles_are_those_of_the_original(tmp_path, name):
    config, shapes = case_of(name)
    model = mk.open_model(str(converted(tmp_path / "model.gguf", random_arrays(shapes), config)))
    original = detect(config, shapes)
    found = model.architecture
    assert found.family == original.family
    dropped = ("mtp_layers", "mtp_input") if name == "deepseek_v3" else ()  # the converter drops those layers
    sizes = {key: size for key, size in original.sizes.items() if size and key not in dropped}
    assert {key: found.sizes.get(key) for key in sizes} == sizes
    assert not found.unknown
    assert model.index.n_parameters == sum(
        np.prod(shape) for tensor, shape in shapes.items() if not DROPPED.search(tensor)
    )


def test_every_architecture_with_a_table_is_one_of_llama_cpp():
    assert TABLES <= set(gguf.MODEL_ARCH_NAMES.values())  # noqa: SIM300


def test_most_tables_are_tried_here():
    tried = {gguf.MODEL_ARCH_NAMES[conversion.arch] for conversion in CONVERSIONS.values()}
    same_layout = {"mistral3", "seed_oss", "qwen2vl", "qwen3vl", "cohere2", "dots1", "t5encoder"}
    assert TABLES - tried == same_layout


def test_an_unknown_architecture_keeps_the_names_of_the_file(tmp_path):
    from .gguf_models import written

    path = written(
        tmp_path / "m.gguf",
        "rwkv7",
        {"rwkv7.block_count": 1},
        {"blk.0.x.weight": np.ones((2, 4), np.float32)},
    )
    model = mk.open_model(str(path))
    assert list(model.index) == ["blk.0.x.weight"]
    assert model.config == {"model_type": "rwkv7", "num_hidden_layers": 1}
    assert any("no names of transformers are known" in note for note in map(str, model.weights.notes))
