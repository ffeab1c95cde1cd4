"""One parameter under two names: what transformers takes gets the role."""

import numpy as np
import pytest
from tests.support import LlamaShape, llama_config, llama_files, llama_tensors

import modelkin as mk
from modelkin.architecture import detect
from modelkin.comparison.verdict import Conclusion
from modelkin.formats.safetensors import safetensors_bytes

SHAPE = LlamaShape(layers=2)
BODY = {name: value for name, value in llama_tensors(SHAPE).items() if name.startswith("model.")}


def shapes(*groups):
    return {name: np.shape(value) for group in groups for name, value in group.items()}


def bare(tensors):
    return {name.removeprefix("model."): value for name, value in tensors.items()}


def roles(found):
    return {entry.tensor for entry in found.tensors}


@pytest.mark.parametrize("config", [llama_config(SHAPE), None])
def test_of_two_names_the_first_in_the_order_of_transformers_gets_the_role(config):
    found = detect(config, shapes(llama_tensors(SHAPE), bare(BODY)))
    taken = {name.removeprefix("model.") for name in BODY} - {"norm.weight"} | {"model.norm.weight"}
    assert roles(found) == taken | {"lm_head.weight"}
    assert {item.name for item in found.unknown} == {*BODY, "norm.weight"} - {"model.norm.weight"}
    assert "transformers uses" in str(found.unknown[0].reason)
    assert {"two-bodies", "same-parameter"} <= {note.code for note in found.notes}


def test_a_doubled_prefix_is_taken_off_once():
    doubled = {f"model.{name}": value for name, value in BODY.items()}
    found = detect(llama_config(SHAPE), shapes(llama_tensors(SHAPE), doubled))
    assert roles(found) == {*llama_tensors(SHAPE)} - {"model.norm.weight"} | {"model.model.norm.weight"}


@pytest.mark.parametrize("letter", [".", "_", "x"])
def test_names_that_are_only_there_in_the_other_way_have_a_role_as_well(letter):
    tensors = llama_tensors(SHAPE)
    lone = {name: value for name, value in tensors.items() if ".layers.1." in name}
    rest = {name: value for name, value in tensors.items() if name not in lone}
    for other in (bare(lone), {f"model{letter}{name}": value for name, value in lone.items()}):
        found = detect(llama_config(SHAPE), shapes(rest, other))
        assert roles(found) == {*rest, *other}
        assert found.n_layers == 2
        assert not found.unknown


def test_a_model_of_several_modalities_has_its_language_model_in_one_place():
    tensors = llama_tensors(SHAPE)
    older = {f"language_model.{name}": value for name, value in tensors.items()}
    newer = {name.replace("model.", "model.language_model.", 1): value for name, value in BODY.items()}
    found = detect({"text_config": llama_config(SHAPE)}, shapes(older, newer))
    body = {name for name in older if name.startswith("language_model.model.")}
    assert body <= roles(found)
    assert {*newer} == {item.name for item in found.unknown if item.name in newer}


@pytest.mark.parametrize("prefix", ["module.", "talker.model.", "x."])
def test_what_no_loader_takes_away_is_no_other_name(prefix):
    other = {f"{prefix}{name}": value for name, value in BODY.items()}
    found = detect(llama_config(SHAPE), shapes(llama_tensors(SHAPE), other))
    assert roles(found) == {*llama_tensors(SHAPE)}
    assert "same-parameter" not in {note.code for note in found.notes}


def test_one_way_of_writing_is_left_as_it_is():
    for tensors in (llama_tensors(SHAPE), bare(BODY)):
        found = detect(llama_config(SHAPE), shapes(tensors))
        assert roles(found) == {*tensors}
        assert not {"two-bodies", "same-parameter"} & {note.code for note in found.notes}


def test_a_decoy_under_the_usual_names_hides_no_copy():
    shape = LlamaShape(layers=4)
    stolen = llama_tensors(shape, seed=1)
    body = {name: value for name, value in stolen.items() if name.startswith("model.")}
    both = {**llama_tensors(shape), **bare(body)}
    files = {**llama_files(shape), "model.safetensors": safetensors_bytes(both)}
    result = mk.compare(
        candidate=mk.MemorySource(files), base=mk.MemorySource(dict(llama_files(shape, seed=1)))
    )
    assert result.verdict.related
    assert result.verdict.conclusion is not Conclusion.IDENTICAL
    assert any(note.code == "same-parameter" for note in result.candidate.skipped)


@pytest.mark.parametrize(
    ("model_type", "own", "other"),
    [("roberta", "roberta", "bert"), ("xlm-roberta", "roberta", "bert"), ("bert", "bert", "roberta")],
)
def test_the_prefix_of_another_model_of_the_family_is_no_prefix(model_type, own, other):
    def body(prefix):
        layer = f"{prefix}.encoder.layer.0."
        squares = (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
        )
        norms = ("attention.output.LayerNorm", "output.LayerNorm")
        return {
            f"{prefix}.embeddings.word_embeddings.weight": (64, 16),
            **{f"{layer}{name}.weight": (16, 16) for name in squares},
            **{f"{layer}{name}.{part}": (16,) for name in norms for part in ("weight", "bias")},
            f"{layer}intermediate.dense.weight": (48, 16),
            f"{layer}output.dense.weight": (16, 48),
        }

    config = {"model_type": model_type, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4}
    found = detect(config, {**body("bert"), **body("roberta")})
    assert roles(found) == {*body(own)}
    assert {item.name for item in found.unknown} == {*body(other)}
    assert "other-body" in {note.code for note in found.notes}
    bare_too = {name.removeprefix("bert."): shape for name, shape in body("bert").items()}
    found = detect(config, {**body("bert"), **body("roberta"), **bare_too})
    assert roles(found) == {min(name, f"{own}.{name}") for name in bare_too}
