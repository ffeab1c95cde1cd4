"""Architecture files: strict, and each mistake is named."""

from __future__ import annotations

import pytest

from modelkin.architecture import Role, families, family, parse_spec
from modelkin.architecture.loader import read_data
from modelkin.architecture.wrappers import parse_suffixes, parse_wrappers
from modelkin.errors import SpecError

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
            r"tiny.toml: unknown key 'nrom'; did you mean 'norm'\?",
        ),
        ('norm = "rms"', 'norm = "rmz"', r"unknown norm 'rmz'; did you mean 'rms'\?"),
        ('norm = "rms"', "", "the key 'norm' is missing"),
        ('norm = "rms"', "norm = 1", "'norm' should be str, got int 1"),
        ('kind = "decoder"', 'kind = "decodr"', r"unknown kind 'decodr'; did you mean 'decoder'\?"),
        ("format = 1", "format = 2", "format should be 1, got 2"),
        ("format = 1", "format = [", "is not TOML"),
        ('rope_layout = "half"', "", "the key 'rope_layout' is missing"),
        ('bodies = ["model."]', "bodies = []", "'bodies' is empty"),
        ('bodies = ["model."]', "bodies = [1]", "'bodies' should be a list of strings"),
        ('"residual"], bias', '"residul"], bias', r"unknown space 'residul'; did you mean 'residual'\?"),
        (
            '"attention_query"',
            '"attention_qery"',
            r"unknown role 'attention_qery'; did you mean 'attention_query'\?",
        ),
        ("bias = true", "baas = true", r"'baas'; did you mean 'bias'\?"),
        ("heads * qk_dim", "heads + qk_dim", "cannot read the axis"),
        ("residual / heads", "residual // heads", "only sizes, config.<key>"),
        ("residual / heads", "residual /", "cannot read the expression 'residual /'"),
        ("residual / heads", "residual / size.heads", "'size.heads' does not start with 'config.'"),
        ("residual / heads", "residual / v_dim", "the size 'v_dim' is not defined"),
        ("residual / heads", "__import__('os')", "only sizes, config.<key>"),
        ("mlp = [", "mpl = [", r"unknown size 'mpl'; did you mean 'mlp'\?"),
        ('mlp = ["4 * residual"]', "", "the space 'mlp' is used by a tensor"),
        ("{layer}.wi", "{layr}.wi", "cannot read '{layr}'"),
        ("{layer}.wi.weight", "{expert}.q.weight", "match the same names"),
        ("{layer}.wi.weight", "3.q.weight", "match the same names"),
        ('mlp_gate = "mlp"', 'mlp_gat = "mlp"', r"unknown role 'mlp_gat'; did you mean 'mlp_gate'\?"),
        ("parts = {", "part = {", "the key 'parts' is missing"),
        ('["fused", "residual"]', '["fused", "fused"]', "only one axis can be fused"),
        (".q.weight", ".q.kernel", "'bias' is for names that end in '.weight'"),
        (
            "[tensors]",
            '[[when]]\nconfig = "a"\nequals = 1\nnom = 1\n[tensors]',
            r"unknown key 'nom'; did you mean 'norm'\?",
        ),
        ("[tensors]", '[[when]]\nconfig = "a"\nequals = 1.5\n[tensors]', "'equals' should be"),
        (
            "[tensors]",
            '[[when]]\nconfig = "a"\nequals = 1\nsizes = { hads = ["1"] }\n[tensors]',
            "unknown size 'hads'",
        ),
        (
            "[tensors]",
            '[merged_spaces]\nmlp = { into = "residual", until = "router" }\n[tensors]',
            "'unless' is missing",
        ),
    ],
)
def test_each_mistake_is_named(old, new, message):
    assert old in GOOD
    with pytest.raises(SpecError, match=message):
        parse_spec("tiny.toml", GOOD.replace(old, new, 1))


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
    with pytest.raises(SpecError, match=r"unknown family 'lama'; did you mean 'llama'\?"):
        family("lama")


@pytest.mark.parametrize(
    ("file", "parse", "old", "new", "message"),
    [
        ("wrappers.toml", parse_wrappers, "outer =", "outr =", "the key 'outer' is missing"),
        ("wrappers.toml", parse_wrappers, "format = 1", "format = 1\nx = 1", "unknown key 'x'"),
        ("wrappers.toml", parse_wrappers, '"vision"', "1", "should be str"),
        ("quantization.toml", parse_suffixes, 'part = "scale"', 'part = "scaly"', "unknown part 'scaly'"),
        ("quantization.toml", parse_suffixes, "weight = ", "wait = ", "the key 'weight' is missing"),
    ],
)
def test_the_other_data_files_are_strict_too(file, parse, old, new, message):
    text = read_data(file)
    assert old in text
    with pytest.raises(SpecError, match=message):
        parse(file, text.replace(old, new, 1))
