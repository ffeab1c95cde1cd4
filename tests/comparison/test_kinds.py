"""What was done to a model is said, with its numbers; one row of each change here, all with `make kinds`."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.comparison.disguises import disguised, zoo_model
from tests.comparison.kinds import KindRow, kind_rows
from tests.support.amount import every, marked

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import MemorySource

STANDARD = mk.CompareOptions(fetch=mk.FetchOptions(use_store=False))
NOW = {
    "llama: noise-10%",
    "llama: adapter-4, int8",
    "llama: removed-direction",
    "llama: two-of-four",
    "llama: scaled-inputs",
    "llama: trained-adapter",
    "gpt2: int4",
    "qwen2: tuned",
    "mixtral-16: new-embeddings",
    "llama-deep: more-tokens",
}
ROWS = marked(
    [
        row
        for row in kind_rows()
        if row.after not in ("permuted", "rotated") and row.kind not in ("depth-change", "width-change")
    ],
    lambda row: row.name in sorted(NOW)[::2],
    more=lambda row: row.name in NOW,
)


def compared(row: KindRow, options: mk.CompareOptions = STANDARD) -> mk.Comparison:
    return mk.compare(
        candidate=MemorySource(row.make().files("F32"), name="candidate"),
        base=MemorySource(row.base().files("F32"), name="base"),
        options=options,
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_was_done_is_said(row: KindRow):
    relation = compared(row).relation
    assert relation.kind == row.kind
    assert row.findings <= {item.kind for item in relation.findings}


def named(name: str) -> KindRow:
    return {row.name: row for row in kind_rows()}[name]


@pytest.mark.more
def test_an_order_that_was_changed_is_undone_first():
    deep = mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False))
    relation = compared(named("llama: adapter-4, permuted"), deep).relation
    assert relation.kind == "low-rank"
    found = {item.kind: item.numbers for item in relation.findings}
    assert found["low-rank"]["rank"] == 4
    assert "reordered" in found


TURNED = marked(
    [
        row
        for row in kind_rows()
        if row.after == "rotated" and row.change in ("adapter-4", "int4", "noise-1%", "tuned")
    ],
    lambda row: row.name in ("llama: adapter-4, rotated", "qwen2: tuned, rotated"),
)


@pytest.mark.more
@pytest.mark.parametrize("row", TURNED, ids=lambda row: row.name)
def test_a_rotation_is_undone_first(row: KindRow):
    deep = mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False))
    relation = compared(row, deep).relation
    assert relation.kind == row.kind
    found = {item.kind: item.numbers for item in relation.findings}
    assert float(found["turned"]["error"]) < (0.1 if row.kind == "fine-tune" else 0.01)
    if row.kind == "low-rank":
        assert found["low-rank"]["rank"] == 4
    if row.change == "int4":
        assert (found["quantised-copy"]["bits"], found["quantised-copy"]["group"]) == (4, 32)


@pytest.mark.more
@pytest.mark.parametrize(
    "name", marked(["llama: adapter-4, rotated", "qwen2: tuned, rotated"], lambda name: "tuned" in name)
)
def test_a_map_is_learned_again_at_large_widths_too(name: str, monkeypatch):
    # As at widths of thousands, where a round takes half a minute.
    monkeypatch.setattr("modelkin.comparison.relation.turned._WIDEST", 16)
    test_a_rotation_is_undone_first(named(name))


def test_a_rotated_copy_is_a_copy_and_said_to_be_rotated():
    base = zoo_model("base")
    found = mk.diff(
        candidate=MemorySource(
            disguised(base, "rotation-and-gains", "units", "heads").files("BF16"), name="candidate"
        ),
        base=MemorySource(base.files("BF16"), name="base"),
        options=mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False)),
    )
    assert found.relation.kind == "copy"
    assert {item.kind for item in found.relation.findings} == {"copy", "reordered", "turned"}
    assert {item.what for item in found.tensors} == {"turned"}
    assert found.relation.not_subtracted is None


def test_a_copy_in_another_precision_says_how_many_values_are_equal():
    base = zoo_model("base")
    narrow = base.with_tensors({name: values * np.float32(1.01) for name, values in base.tensors.items()})
    relation = mk.compare(
        candidate=MemorySource(narrow.files("F16"), name="candidate"),
        base=MemorySource(narrow.files("F32"), name="base"),
        options=STANDARD,
    ).relation
    assert relation.kind == "precision-copy"
    (found,) = relation.findings
    assert found.what.code == "found.precision-copy-counted"
    assert 0 < int(found.numbers["equal"]) <= int(found.numbers["values"])


@pytest.mark.more
def test_factors_that_were_undone_before_levels_were_found_are_told():
    base = zoo_model("base")
    scaled = derive.scale_inputs(base, spread=0.4, rng=np.random.default_rng(1))
    relation = mk.compare(
        candidate=MemorySource(derive.round_to_int4(scaled).files("F32"), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
        options=STANDARD,
    ).relation
    assert relation.kind == "quantised-copy"
    found = {item.kind: item.numbers for item in relation.findings}
    assert found["rescaled-first"]["tensors"] == 20  # queries, keys, values, gates and units of four layers
    assert found["quantised-copy"]["bits"] == 4


def test_a_width_is_said_by_its_name():
    deep = mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False))
    relation = compared(named("llama: fewer-units"), deep).relation
    assert relation.kind == "width-change"
    assert str(relation.findings[0].what) == "MLP units: 112 instead of 160"
    assert "residual_candidate" not in relation.findings[0].numbers


def test_strangers_have_no_kind_and_no_findings():
    stranger = {row.name: row for row in kind_rows()}["llama: tuned"]
    other = {row.name: row for row in kind_rows()}["qwen2: tuned"]
    result = mk.compare(
        candidate=MemorySource(other.make().files("F32"), name="candidate"),
        base=MemorySource(stranger.base().files("F32"), name="base"),
        options=STANDARD,
    )
    assert not result.verdict.related
    assert result.relation.kind == "unknown"
    assert result.relation.findings == ()


def test_every_finding_says_what_it_cannot_tell():
    relation = compared(named("llama: trained-adapter")).relation
    assert [item.kind for item in relation.findings] == ["low-rank", "frozen"]
    for item in relation.findings:
        assert item.numbers
        assert str(item.cannot_tell).endswith(".")


WIDTH, UNITS, LAYERS, VOCABULARY = 4096, 1024, 2, 512


def wide(seed: int) -> dict[str, np.ndarray]:
    """Make the tensors of a Llama as wide as published ones, with few layers and units."""
    rng = np.random.default_rng(seed)

    def matrix(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)

    tensors = {
        "model.embed_tokens.weight": matrix(VOCABULARY, WIDTH),
        "lm_head.weight": matrix(VOCABULARY, WIDTH),
    }
    tensors["model.norm.weight"] = 1 + matrix(WIDTH)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for name, shape in (
            ("self_attn.q_proj", (WIDTH, WIDTH)),
            ("self_attn.k_proj", (WIDTH // 4, WIDTH)),
            ("self_attn.v_proj", (WIDTH // 4, WIDTH)),
            ("self_attn.o_proj", (WIDTH, WIDTH)),
            ("mlp.gate_proj", (UNITS, WIDTH)),
            ("mlp.up_proj", (UNITS, WIDTH)),
            ("mlp.down_proj", (WIDTH, UNITS)),
        ):
            tensors[f"{prefix}{name}.weight"] = matrix(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{name}.weight"] = 1 + matrix(WIDTH)
    return tensors


CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": WIDTH,
    "intermediate_size": UNITS,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": VOCABULARY,
}


def stored(tensors: dict[str, np.ndarray], name: str) -> MemorySource:
    held = Checkpoint(config=CONFIG, tensors=tensors)
    return MemorySource(held.files("BF16"), name=name)


def rounded(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(derive.cast(Checkpoint(config=CONFIG, tensors=tensors), "BF16").tensors)


WIDE_CHANGES = {
    "low-rank": lambda model: derive.merge_low_rank(model, rank=16, size=0.02, rng=np.random.default_rng(1)),
    "noise": lambda model: derive.add_noise(model, size=0.05, rng=np.random.default_rng(2)),
    "quantised-copy": lambda model: derive.round_to_int4(model, group=128),
    "sparse-copy": derive.prune_two_of_four,
}


@pytest.mark.scale
@pytest.mark.parametrize("kind", WIDE_CHANGES)
def test_what_was_done_is_said_at_the_width_of_published_models(kind):
    base = rounded(wide(0))
    changed = WIDE_CHANGES[kind](Checkpoint(config=CONFIG, tensors=base))
    relation = mk.compare(
        candidate=stored(dict(changed.tensors), "candidate"), base=stored(base, "base"), options=STANDARD
    ).relation
    assert relation.kind == kind
    found = {item.kind: item.numbers for item in relation.findings}
    if kind == "low-rank":
        assert found["low-rank"]["rank"] == 16
    if kind == "quantised-copy":
        assert (found["quantised-copy"]["bits"], found["quantised-copy"]["group"]) == (4, 128)
    if kind == "sparse-copy":
        assert found["sparse-two-of-four"]["two_of_four"] == 1.0


@pytest.mark.more
@pytest.mark.parametrize(
    ("change", "kind", "word"),
    [
        (lambda model: model, "copy", "equal"),
        (
            partial(derive.merge_low_rank, rank=4, size=0.3, rng=np.random.default_rng(3)),
            "low-rank",
            "low-rank",
        ),
    ],
    ids=["copy", "adapter"],
)
def test_parts_of_fused_matrices_are_put_into_order_one_by_one(change, kind, word):
    """Queries, keys and values of GPT-2 are one matrix; its heads and units were renumbered."""
    base = zoo_model("gpt2-base")
    made = disguised(change(base), "units", "heads")
    found = mk.diff(
        candidate=MemorySource(made.files("F32"), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
        options=mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False)),
    )
    assert found.relation.kind == kind
    parts = {item.role: item.what for item in found.tensors if item.tensor.endswith("c_attn.weight")}
    assert parts == dict.fromkeys(("attention_query", "attention_key", "attention_value"), word)


@pytest.mark.more
def test_layers_that_face_none_are_subtracted_by_their_number():
    """Two of four layers were reinitialised: nothing is found in them, and they are unlike what is there."""
    relation = mk.compare(
        candidate=MemorySource(zoo_model("half-of-layers").files("BF16"), name="candidate"),
        base=MemorySource(zoo_model("base").files("BF16"), name="base"),
        options=mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False)),
    ).relation
    assert relation.kind == "parts-replaced"
    assert {item.kind: item.numbers for item in relation.findings}["layers-replaced"]["layers"] == "2, 3"


@pytest.mark.parametrize(
    "name", every(3, ["gpt2: int4", "llama: int8", "llama: adapter-4", "qwen2: noise-10%", "qwen2: tuned"])
)
def test_what_was_done_is_said_of_f16_against_bf16(name):
    row = named(name)
    relation = mk.compare(
        candidate=MemorySource(row.make().files("F16"), name="candidate"),
        base=MemorySource(row.base().files("BF16"), name="base"),
        options=STANDARD,
    ).relation
    assert relation.kind == row.kind
    assert row.findings <= {item.kind for item in relation.findings}
