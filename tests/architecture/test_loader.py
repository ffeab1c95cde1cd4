"""Architecture files: strict, and each mistake is named."""

from __future__ import annotations

import re

import pytest

from modelkin.architecture import Role
from modelkin.architecture.loader import families, family, parse_spec, read_data
from modelkin.architecture.wrappers import Quantization, Wrappers
from modelkin.errors import SpecError
from modelkin.structs import read_toml

GOOD = """
format = 1
family = "tiny"
title = "Tiny"
model_types = ["tiny"]
class_names = ["TinyForCausalLM"]
kind = "decoder"
norm = "rms"
positions = "rope"
rope_layout = "half"
bodies = ["model."]

[sizes]
layers = ["config.num_hidden_layers"]
residual = ["config.hidden_size"]
heads = ["config.num_attention_heads"]
qk_dim = ["residual / heads"]
mlp = ["4 * residual"]

[tensors]
"{body}h.{layer}.q.weight" = { role = "attention_query", axes = ["heads * qk_dim", "residual"], bias = true }
"{body}h.{layer}.wi.weight" = { axes = ["fused", "residual"], parts = { mlp_gate = "mlp", mlp_up = "mlp" } }
"""


def said(error: SpecError) -> str:
    return f"{error}. {error.hint}"


def test_a_good_file_is_read():
    spec = parse_spec("tiny.toml", GOOD)
    assert [(tensor.role, tensor.part, tensor.axes) for tensor in spec.tensors] == [
        (Role.ATTENTION_QUERY, "weight", (("heads", "qk_dim"), ("residual",))),
        (Role.ATTENTION_QUERY, "bias", (("heads", "qk_dim"),)),
        (Role.UNSPLIT_MLP, "weight", (("fused",), ("residual",))),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'norm = "rms"',
            'norm = "rms"\nnrom = "rms"',
            r"^tiny.toml: nrom: there is no such key. Did you mean 'norm'\?",
        ),
        ('norm = "rms"', 'norm = "rmz"', r"norm: expected one of .*, got 'rmz'. Did you mean 'rms'\?"),
        ('norm = "rms"', "", "norm: it is required, but missing"),
        ('norm = "rms"', "norm = 1", "norm: expected one of layer, rms, rms-one-plus, got 1"),
        ('kind = "decoder"', 'kind = "decodr"', r"kind: .* got 'decodr'. Did you mean 'decoder'\?"),
        ("format = 1", "format = 2", "format: expected 1, got 2"),
        ("format = 1", "format = [", "is not TOML"),
        ('rope_layout = "half"', "", "rope_layout: it is required, but missing"),
        ('bodies = ["model."]', "bodies = []", "bodies: expected one or more"),
        ('bodies = ["model."]', "bodies = [1]", r"bodies\[0\]: expected a text, got 1"),
        (
            '"residual"], bias',
            '"residul"], bias',
            r"^tiny.toml: tensors\['{body}h.{layer}.q.weight'\].axes.* 'residul'. Did you mean 'residual'\?",
        ),
        (
            '"attention_query"',
            '"attention_qery"',
            r"q.weight'\].role: .* 'attention_qery'. Did you mean 'attention_query'\?",
        ),
        ("bias = true", "baas = true", r"baas: there is no such key. Did you mean 'bias'\?"),
        ("heads * qk_dim", "heads + qk_dim", "cannot read the axis"),
        ("residual / heads", "residual // heads", r"sizes.qk_dim\[0\]: .* only sizes, config.<key>"),
        ("residual / heads", "residual /", "cannot read the expression 'residual /'"),
        ("residual / heads", "residual / size.heads", "'size.heads' does not start with 'config.'"),
        (
            "residual / heads",
            "residual / v_dim",
            r"sizes.qk_dim: the size 'v_dim' is not defined. Did you mean 'qk_dim'\?",
        ),
        ("residual / heads", "__import__('os')", "only sizes, config.<key>"),
        ("mlp = [", "mpl = [", r"sizes.mpl: .* Did you mean 'mlp'\?"),
        ('mlp = ["4 * residual"]', "mlp = 4", "sizes.mlp: expected a list, got 4"),
        ('mlp = ["4 * residual"]', "mlp = [4]", r"sizes.mlp\[0\]: expected a text, got 4"),
        ('mlp = ["4 * residual"]', "", "the space 'mlp' is used by a tensor"),
        ("{layer}.wi", "{layr}.wi", "cannot read '{layr}'"),
        ("{layer}.wi.weight", "{expert}.q.weight", "match the same names"),
        ("{layer}.wi.weight", "3.q.weight", "match the same names"),
        ('mlp_gate = "mlp"', 'mlp_gat = "mlp"', r"parts.mlp_gat: .* Did you mean 'mlp_gate'\?"),
        ("parts = {", "part = {", r"wi.weight'\].part: expected one of .*, got a mapping"),
        ('["fused", "residual"], parts', '["mlp", "residual"], parts', "parts: it means nothing here"),
        (', parts = { mlp_gate = "mlp", mlp_up = "mlp" }', "", "parts: it is required, but missing"),
        ("parts = {", 'role = "mlp_up", parts = {', "role: it means nothing here"),
        ('role = "attention_query", ', "", "role: it is required, but missing"),
        ("bias = true", 'stack = "decoder"', "stack: it means nothing here"),
        ("bias = true", 'per = "heads"', "per: it means nothing here"),
        ('kind = "decoder"', 'kind = "encoder-decoder"', "stack: it is required, but missing"),
        ('positions = "rope"', 'positions = "none"', "rope_layout: it means nothing here"),
        ('["fused", "residual"]', '["fused", "fused"]', "only one axis can be fused"),
        (".q.weight", ".q.kernel", "'bias' is for names that end in '.weight'"),
        (
            "[tensors]",
            '[[when]]\nconfig = "a"\nequals = 1\nnom = 1\n[tensors]',
            r"when\[0\].nom: there is no such key. Did you mean 'norm'\?",
        ),
        (
            "[tensors]",
            '[[when]]\nconfig = "a"\nequals = 1.5\n[tensors]',
            "equals: expected a text or a whole number or true or false, got 1.5",
        ),
        (
            "[tensors]",
            '[[when]]\nconfig = "a"\nequals = 1\nsizes = { hads = ["1"] }\n[tensors]',
            r"when\[0\].sizes.hads: .* Did you mean 'heads'\?",
        ),
        (
            "[tensors]",
            '[merged_spaces]\nmlp = { into = "residual", until = "router" }\n[tensors]',
            "merged_spaces.mlp.until: there is no such key. Available: into, unless",
        ),
    ],
)
def test_each_mistake_is_named(old, new, message):
    assert old in GOOD
    with pytest.raises(SpecError) as caught:
        parse_spec("tiny.toml", GOOD.replace(old, new, 1))
    assert re.search(message, said(caught.value))


def test_different_plain_numbers_are_different_names():
    text = GOOD.replace("{layer}.q.weight", "{layer}.0.q.weight").replace(
        "{layer}.wi.weight", "{layer}.1.q.weight"
    )
    assert len(parse_spec("tiny.toml", text).tensors) == 3


def test_every_shipped_file_is_good():
    assert len(families()) >= 30
    assert len({spec.family for spec in families()}) == len(families())


@pytest.mark.parametrize("field", ["model_types", "class_names"])
def test_no_two_families_claim_the_same_config(field):
    seen: dict[str, str] = {}
    for spec in families():
        for word in getattr(spec, field):
            assert seen.setdefault(word, spec.family) == spec.family


def test_a_family_by_name():
    assert family("llama").norm == "rms"
    with pytest.raises(SpecError, match="no family 'lama'") as caught:
        family("lama")
    assert "llama" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("file", "kind", "old", "new", "message"),
    [
        ("wrappers.toml", Wrappers, "outer =", "outr =", "outr: there is no such key. Did you mean 'outer'"),
        (
            "wrappers.toml",
            Wrappers,
            "format = 1",
            "format = 1\nx = 1",
            "x: there is no such key. Available: format",
        ),
        ("wrappers.toml", Wrappers, '"vision"', "1", r"components\['vision_tower.'\]: expected a text"),
        (
            "quantization.toml",
            Quantization,
            'part = "scale"',
            'part = "scaly"',
            "got 'scaly'. Did you mean 'scale'",
        ),
        (
            "quantization.toml",
            Quantization,
            "weight = ",
            "wait = ",
            "wait: there is no such key. Did you mean 'weight'",
        ),
    ],
)
def test_the_other_data_files_are_strict_too(file, kind, old, new, message):
    text = read_data(file)
    assert old in text
    with pytest.raises(SpecError) as caught:
        read_toml(file, text.replace(old, new, 1), kind)
    assert re.search(message, said(caught.value))
