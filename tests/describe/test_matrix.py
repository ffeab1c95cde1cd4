"""``matrix``: the right tensors, read once, with the right reasons for what is not there."""

import itertools
import json
import re
import weakref
from collections.abc import Mapping

import jsonschema
import numpy as np
import pytest
from tests.architecture.handwritten_cases import HANDWRITTEN, recorded
from tests.places import ZOO
from tests.support import HubServer, LlamaShape, llama_config, llama_files, llama_tensors

import modelkin as mk
from modelkin.architecture import Segment
from modelkin.describe.matrix import BASELINES, KnownRelation, parse_layer_list, parse_role
from modelkin.describe.matrix.views import View, published_windows
from modelkin.describe.measures import DEFAULT, MEASURES, Stack, table_from_csv
from modelkin.document import ENGLISH, load_language, matrix_view, render_markdown
from modelkin.document.results import schema
from modelkin.errors import BadSelection, FormatError, UsageError
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.source import MemorySource
from modelkin.tensors import Blocks, TensorInfo

NONE = {"baselines": ()}


def llama(shape=None, *, seed=0, change=None, dtype="F32"):
    tensors = llama_tensors(shape, seed=seed, dtype=dtype)
    if change:
        change(tensors)
    config = json.dumps(llama_config(shape, dtype=dtype)).encode()
    return MemorySource({"config.json": config, "model.safetensors": safetensors_bytes(tensors)})


def of_case(case, *, seed=0):
    """A model of a recorded layout, with random numbers; and the numbers."""
    config, shapes = HANDWRITTEN[case][0]() if case in HANDWRITTEN else recorded(case)
    rng = np.random.default_rng(seed)
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": safetensors_bytes(tensors)}
    return MemorySource(files), tensors


def markdown_of(result):
    return render_markdown(matrix_view(result, ENGLISH))


def run(models, **options):
    return mk.matrix(models, mk.MatrixOptions(**{**NONE, **options}))


def value(result, measure="pearson", **wanted):
    rows = list(result.table.where(measure=measure, **wanted))
    assert len(rows) == 1, rows
    return rows[0].value


# -- the right numbers ---------------------------------------------------------------------------------


def test_every_measure_of_every_layer_is_that_of_the_tensors():
    models = {"a": llama(), "b": llama(seed=1)}
    result = run(models, measures=("all",), roles=("input-norm", "k_proj"))
    tensors = [llama_tensors(seed=seed) for seed in (0, 1)]
    names = {"attention_norm": "input_layernorm", "attention_key": "self_attn.k_proj"}
    for row in result.table:
        name = f"model.layers.{row.layer_a}.{names[row.role]}.weight"
        a, b = (Stack(own[name].reshape(1, -1), "F32") for own in tensors)
        found = MEASURES[row.measure](a, b)
        assert row.n == a.n
        if row.value is None:
            assert row.reason == found.reasons[0]
        else:
            assert row.value == pytest.approx(float(found.values[0]), rel=1e-12, abs=1e-15)
    assert len(result.table) == 2 * 2 * len(MEASURES)
    refused = result.table.where(measure="cv-difference", role="attention_key")
    assert all("near zero" in str(reason) for reason in refused.distinct("reason"))


def test_input_minus_post_is_the_difference_in_each_layer():
    result = run({"a": llama(), "b": llama(seed=1)}, measures=("pearson",), roles=("input-minus-post",))
    differences = []
    for seed in (0, 1):
        own = llama_tensors(seed=seed)
        layer = {
            kind: own[f"model.layers.1.{kind}_layernorm.weight"].astype(float)
            for kind in ("input", "post_attention")
        }
        differences.append(layer["input"] - layer["post_attention"])
    assert value(result, layer_a=1) == pytest.approx(np.corrcoef(*differences)[0, 1])
    record = next(item for item in result.tensors if (item.model, item.layer) == ("a", 1))
    assert record.mean == pytest.approx(differences[0].mean())
    assert (
        record.tensor
        == "model.layers.1.input_layernorm.weight minus model.layers.1.post_attention_layernorm.weight"
    )


@pytest.mark.parametrize(
    ("pairs", "layers", "expected"),
    [
        (("same",), {}, {("a", 0, "b", 0), ("a", 1, "b", 1), ("a", None, "b", 2)}),
        (("relative",), {}, {("a", 0, "b", 0), ("a", 1, "b", 2)}),
        (("within",), {}, {("a", 0, "a", 1), ("b", 0, "b", 1), ("b", 0, "b", 2), ("b", 1, "b", 2)}),
        (("all",), {"layers": "0-1"}, {("a", i, "b", j) for i in (0, 1) for j in (0, 1)}),
        (("mixed",), {"layers_of": {"a": "1", "b": "2"}}, {("a", 1, "b", 2)}),
        (("mixed",), {"layers_of": {"a": "1,0", "b": "0,2"}}, {("a", 1, "b", 0), ("a", 0, "b", 2)}),
    ],
)
def test_layers_face_each_other_as_asked(pairs, layers, expected):
    models = {"a": llama(LlamaShape(layers=2)), "b": llama(LlamaShape(layers=3), seed=1)}
    result = run(models, measures=("pearson",), roles=("input-norm",), pairs=pairs, **layers)
    found = {
        (row.model_a, row.layer_a if row.value is not None else None, row.model_b, row.layer_b)
        for row in result.table
    }
    assert found == expected


def test_a_layer_that_one_model_does_not_have_is_a_row_with_a_reason():
    models = {"a": llama(LlamaShape(layers=2)), "b": llama(LlamaShape(layers=3), seed=1)}
    result = run(models, measures=("pearson",), roles=("input-norm",))
    row = next(iter(result.table.where(layer_a=2)))
    assert (row.value, str(row.reason), row.n) == (None, "a has no layer 2", 0)
    assert [row.layer_a for row in result.table] == [0, 1, 2]


def test_a_layer_that_was_not_chosen_is_not_said_to_be_absent():
    models = {"a": llama(), "b": llama(seed=1)}
    result = run(models, measures=("pearson",), roles=("input-norm",), layers_of={"a": "0"})
    reasons = {row.layer_a: str(row.reason) for row in result.table}
    assert reasons == {0: "None", 1: "layer 1 of a was not chosen"}


def test_roles_outside_the_layers_are_one_row():
    result = run({"a": llama(), "b": llama(seed=1)}, measures=("pearson",), roles=("final-norm", "embedding"))
    assert [(row.role, row.layer_a, row.layer_b) for row in result.table] == [
        ("final_norm", None, None),
        ("embedding", None, None),
    ]


def test_shapes_that_differ_are_told():
    models = {"a": llama(), "b": llama(LlamaShape(hidden=16, mlp=32), seed=1)}
    result = run(models, measures=("cosine",), roles=("input-norm", "final-norm", "up-proj"))
    assert tuple(map(str, result.table.distinct("reason"))) == (
        "shapes differ: 32 and 16",
        "shapes differ: 64x32 and 32x16",
    )
    assert {row.layer_a for row in result.table.where(role="final_norm")} == {None}


def test_one_model_without_a_tensor_outside_the_layers_is_named():
    models = {"a": llama(LlamaShape(tied=True)), "b": llama(seed=1)}
    result = run(models, measures=("pearson",), roles=("lm-head",))
    assert tuple(map(str, result.table.distinct("reason"))) == ("a: there is no output_head",)


def test_constant_gains_have_a_reason_and_never_a_number():
    def ones(tensors):
        tensors["model.layers.0.input_layernorm.weight"][:] = 1.0

    result = run({"a": llama(change=ones), "b": llama(seed=1)}, roles=("input-norm",))
    assert value(result, layer_a=0) is None
    assert value(result, layer_a=1) is not None
    (reason,) = result.table.where(measure="pearson", layer_a=0).distinct("reason")
    assert str(reason) == "a: all values are equal"
    json.loads(result.to_json())


def test_values_that_are_not_finite_have_a_reason():
    def spoil(tensors):
        tensors["model.layers.0.input_layernorm.weight"][3] = np.nan

    result = run({"a": llama(change=spoil), "b": llama(seed=1)}, roles=("input-norm",), measures=("all",))
    rows = result.table.where(layer_a=0)
    assert {row.measure for row in rows if row.value is not None} == {"byte-identity"}


def test_byte_identity_and_steps_of_a_copy_with_one_changed_value():
    def nudge(tensors):
        gains = tensors["model.layers.1.input_layernorm.weight"]
        gains.view(np.uint16)[5] += 1

    models = {"a": llama(dtype="BF16"), "b": llama(dtype="BF16", change=nudge)}
    result = run(models, roles=("input-norm",), measures=("byte-identity", "changed-share", "mean-ulps"))
    assert [value(result, "byte-identity", layer_a=layer) for layer in (0, 1)] == [1.0, 0.0]
    assert [value(result, "changed-share", layer_a=layer) for layer in (0, 1)] == [0.0, 1 / 32]
    assert [value(result, "mean-ulps", layer_a=layer) for layer in (0, 1)] == [None, 1.0]


def test_a_model_of_mixed_precision_is_still_identical_where_it_is():
    def widen(tensors):
        name = "model.layers.0.input_layernorm.weight"
        tensors[name] = tensors[name].astype(np.float64)

    models = {"a": llama(change=widen), "b": llama()}
    result = run(models, roles=("input-norm",), measures=("byte-identity", "changed-share"))
    rows = {row.layer_a: (row.value, str(row.reason)) for row in result.table.where(measure="byte-identity")}
    assert rows == {0: (None, "stored as F64 and F32"), 1: (1.0, "None")}
    assert [value(result, "changed-share", layer_a=layer) for layer in (0, 1)] == [0.0, 0.0]


def test_whole_numbers_are_not_measured():
    def count(tensors):
        tensors["model.layers.0.input_layernorm.weight"] = np.arange(32, dtype=np.int8)

    result = run({"a": llama(change=count), "b": llama()}, roles=("input-norm",), pairs=("same", "within"))
    assert set(map(str, result.table.where(layer_a=0).distinct("reason"))) == {
        "a: stored as I8, which holds no measurable numbers",
        "None",  # the layers of b
    }


# -- layouts -------------------------------------------------------------------------------------------


def test_fused_and_input_first_tensors_are_taken_apart():
    source, tensors = of_case("gpt2")
    result = run(
        {"a": source}, roles=("q_proj", "k_proj", "v_proj", "q_proj.bias", "mlp-up"), pairs=("within",)
    )
    fused = tensors["transformer.h.0.attn.c_attn.weight"].astype(float)
    width = fused.shape[0]
    for at, role in enumerate(("attention_query", "attention_key", "attention_value")):
        record = next(item for item in result.tensors if (item.role, item.layer) == (role, 0))
        part = fused[:, at * width : (at + 1) * width]
        assert record.shape == part.T.shape
        assert record.mean == pytest.approx(part.mean())
        assert record.norm == pytest.approx(np.linalg.norm(part))
    bias = next(item for item in result.tensors if item.role == "attention_query.bias")
    assert bias.n == width


def test_experts_in_one_tensor_and_in_many_are_the_same_experts():
    source, tensors = of_case("glm4_moe-memory")
    result = run({"a": source}, roles=("expert-up#2", "expert-down#2", "expert-gate"), pairs=("within",))
    name = next(name for name in tensors if name.endswith("experts.gate_up_proj"))
    layer = int(name.split(".")[2])
    stacked = tensors[name][2].astype(float)
    half = stacked.shape[0] // 2
    up = next(item for item in result.tensors if (item.role, item.layer) == ("expert_up#2", layer))
    assert up.mean == pytest.approx(stacked[half:].mean())
    assert up.norm == pytest.approx(np.linalg.norm(stacked[half:]))
    gate = next(item for item in result.tensors if (item.role, item.layer) == ("expert_gate#0", layer))
    assert gate.norm == pytest.approx(np.linalg.norm(tensors[name][0][:half].astype(float)))
    beyond = run({"a": source, "b": of_case("glm4_moe-memory", seed=1)[0]}, roles=("expert-up#99",))
    assert any("no expert 99" in str(row.reason) for row in beyond.table)


def test_next_token_prediction_layers_are_apart_and_labelled():
    models = {"a": of_case("glm4_moe_mtp")[0], "b": of_case("glm4_moe_mtp", seed=1)[0]}
    plain = run(models, roles=("input-norm",), measures=("pearson",), pairs=("same", "within"))
    assert {row.layer_a for row in plain.table} | {row.layer_b for row in plain.table} == {0, 1}
    assert plain.models[0].mtp_layers == (2,)
    both = run(models, roles=("input-norm",), measures=("pearson",), mtp=True)
    assert [(row.role, row.layer_a) for row in both.table] == [
        ("attention_norm", 0),
        ("attention_norm", 1),
        ("mtp.attention_norm", 2),
    ]


def test_a_layer_of_next_token_prediction_that_is_absent_is_not_said_to_be_unchosen():
    models = {"a": of_case("glm4_moe")[0], "b": of_case("glm4_moe_mtp", seed=1)[0]}
    result = run(models, roles=("mtp.router",), measures=("pearson",), layers="2")
    (row,) = result.table
    assert str(row.reason) == f"a has no multi-token-prediction layer {row.layer_b}"
    claims = "a: the config says one multi-token-prediction layer, but the checkpoint has none"
    assert claims in map(str, result.notes)
    assert not any("multi-token" in str(note) and str(note).startswith("b:") for note in result.notes)


def test_windows_are_those_of_the_published_probe():
    """Its routers were counted twice over: half of the values that it counted were different ones."""

    def share(name, size, layers):
        found = [
            published_windows(f"model.layers.{layer}.{name}", seed=0, windows=3, length=2**18, size=size)
            for layer in layers
        ]
        assert all(stop <= start for part in found for (_, stop), (start, _) in itertools.pairwise(part))
        return np.mean([sum(stop - start for start, stop in part) for part in found]) / (3 * 2**18)

    assert share("mlp.gate.weight", 128 * 4096, range(1, 46)) == pytest.approx(0.50, abs=0.005)
    assert share("self_attn.k_proj.weight", 1024 * 4096, range(46)) == pytest.approx(0.95, abs=0.02)


def test_windows_are_read_at_the_same_places_of_both_models():
    shape = LlamaShape(hidden=64, heads=8)
    models = {"a": llama(shape), "b": llama(shape, seed=1)}
    result = run(models, roles=("k-proj",), measures=("cosine",), windows=2, sample=200)
    tensors = [llama_tensors(shape, seed=seed) for seed in (0, 1)]
    for layer in (0, 1):
        name = f"model.layers.{layer}.self_attn.k_proj.weight"
        flat = [np.asarray(part[name], dtype=float).ravel() for part in tensors]
        places = published_windows(name, seed=0, windows=2, length=200, size=flat[0].size)
        one, other = (np.concatenate([values[start:stop] for start, stop in places]) for values in flat)
        wanted = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        assert value(result, "cosine", layer_a=layer) == pytest.approx(wanted)
    with pytest.raises(UsageError, match="windows"):
        run(models, roles=("k-proj",), windows=2, pairs=("all",))


def cut_by_windows(monkeypatch, limit):
    """A model and one with half of its heads, in windows that overlap by more or less, layer by layer."""
    from modelkin.describe.matrix import _reading

    monkeypatch.setattr(_reading, "PART_VALUES", limit)
    shelves = []
    shelve = _reading.SliceReader.shelve

    def shelving(self, name, items):
        shelves.append(shelve(self, name, items))
        return shelves[-1]

    monkeypatch.setattr(_reading.SliceReader, "shelve", shelving)
    options = {"roles": ("q-proj",), "windows": 3, "sample": 100, "truncation": True}
    return run(pruned("prefix", layers=6), measures=("cosine",), **options), shelves


def test_layers_are_cut_once_however_their_windows_overlap(monkeypatch):
    result, shelves = cut_by_windows(monkeypatch, 10**6)
    sizes = {stack.n for shelf in shelves for stack in shelf.stacks.values()}
    assert len(sizes) > 2
    rows = [(row.view, row.layer_a, row.layer_b) for row in result.table if row.measure == "cosine"]
    assert len(rows) == len(set(rows)) == 6 * len(result.table.distinct("view")) == 18


def overlapping(baselines=()):
    """Two models whose windows overlap by more or less, layer by layer."""
    shape = LlamaShape(layers=12)
    models = {"a": llama(shape), "b": llama(shape, seed=1)}
    options = {"roles": ("k-proj",), "windows": 3, "sample": 200, "draws": 20}
    return run(models, measures=("cosine", "pearson"), baselines=baselines, **options)


def test_layers_stay_in_order_however_their_windows_overlap():
    result = overlapping()
    assert len(result.table.distinct("n")) > 2
    for measure in ("cosine", "pearson"):
        assert [row.layer_a for row in result.table.where(measure=measure)] == list(range(12))
    assert [(item.model, item.layer) for item in result.tensors] == [(m, n) for m in "ab" for n in range(12)]


def test_layers_that_cannot_be_measured_stay_in_order():
    shapes = LlamaShape(layers=2), LlamaShape(layers=3)
    models = {"a": llama(shapes[1]), "b": llama(shapes[0], seed=1), "c": llama(shapes[1], seed=2)}
    rows = list(run(models, measures=("pearson", "spearman"), roles=("input-norm",)).table)
    assert [row.layer_a for row in rows] == [0, 1, 2] * 6
    assert [row.measure for row in rows] == [*["pearson"] * 3, *["spearman"] * 3] * 3


@pytest.mark.parametrize("baseline", ["expectation", "shuffle", "random"])
def test_baselines_cover_all_layers_however_their_windows_overlap(baseline):
    result = overlapping((baseline,))
    for measure in ("cosine", "pearson"):
        (found,) = (item for item in result.baselines if item.measure == measure)
        assert found.observed == pytest.approx(result.table.where(measure=measure).values.mean())
        assert "12 pairs of layers" in str(found.note)
        expected = result.table.where(measure=measure).expected
        assert found.null.mean == pytest.approx(expected.mean(), abs=0.02)


def test_draws_over_layers_of_several_sizes_say_so():
    result = overlapping(("shuffle",))
    found, sizes = result.baselines[0], len(result.table.distinct("n"))
    assert f"layers of {sizes} sizes" in str(found.note)


@pytest.mark.parametrize(
    ("layers", "left"),
    [(5, None), (4, "one of 5 pairs of layers is left out"), (3, "2 of 5 pairs of layers are left out")],
)
@pytest.mark.parametrize("baseline", ["expectation", "shuffle"])
def test_pairs_of_layers_that_a_baseline_leaves_out_are_counted(baseline, layers, left):
    models = {"a": llama(LlamaShape(layers=5)), "b": llama(LlamaShape(layers=layers), seed=1)}
    result = run(models, roles=("k-proj",), measures=("pearson",), baselines=(baseline,), draws=3)
    (found,) = result.baselines
    assert f"{layers} pairs of layers" in str(found.note)
    assert ("left out" in str(found.note)) == (left is not None)
    assert left is None or left in str(found.note)


def test_numbers_of_values_of_layers_are_told_as_a_range():
    result = overlapping()
    low, high = min(result.table.column("n")), max(result.table.column("n"))
    text = markdown_of(result)
    assert f"{low} to {high} values each; {low} to {high} of 512 values, in blocks chosen by the seed" in text


@pytest.mark.parametrize(("limit", "kept"), [(10**6, True), (100, False)])
def test_features_of_many_small_stacks_are_not_held_together(monkeypatch, limit, kept):
    _, shelves = cut_by_windows(monkeypatch, limit)
    held = ["wide" in vars(stack) for shelf in shelves for stack in shelf.stacks.values()]
    assert len(held) > 8
    assert set(held) == {kept}


def test_a_mean_is_of_as_many_layers_as_were_measured():
    deeper = {"a": llama(LlamaShape(layers=5)), "b": llama(LlamaShape(layers=3), seed=1)}
    text = markdown_of(run(deeper, roles=("input-norm",), measures=("pearson",)))
    assert "mean of 3" in text
    assert "mean of 5" not in text


def test_a_dense_layer_has_no_router_and_says_so():
    models = {"a": of_case("glm4_moe")[0], "b": of_case("solar_open")[0]}
    result = run(models, roles=("router",), measures=("pearson",))
    reasons = {row.layer_a: row.reason for row in result.table}
    assert "a: there is no router" in str(reasons[0])
    assert reasons[1] is None


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("length", "stride", "n_groups"), [(6, 6, 1), (2, 3, 2), (1, 2, 3)])
def test_a_part_of_a_tensor_is_found_in_its_bytes(axis, length, stride, n_groups):
    full = np.arange(48).reshape(6, 8)
    info = TensorInfo(name="x", dtype="F32", shape=full.shape, file="f", start=0, stop=192)
    segment = Segment(axis=axis, offset=0, length=length, stride=stride, n_groups=n_groups)
    taken = [i for start, stop in segment.ranges() for i in range(start, stop)]
    part = np.take(full, taken, axis=axis)
    view = View(info=info, full=full.shape, segment=segment, transposed=axis == 1)
    wanted = view.chosen(limit=1000, seed=0, key="k").selection
    assert isinstance(wanted, Blocks)
    read = np.concatenate([full.ravel()[start:stop] for start, stop in wanted.blocks])
    np.testing.assert_array_equal(read, part.ravel())
    shape = part.T if axis == 1 else part
    np.testing.assert_array_equal(view.ordered(read, whole=True), shape.ravel())
    some = view.chosen(limit=4, seed=3, key="k").selection
    assert isinstance(some, Blocks)
    sampled = np.concatenate([full.ravel()[start:stop] for start, stop in some.blocks])
    assert len(set(sampled)) == 4
    assert set(sampled) <= set(part.ravel())


# -- samples -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "limit", "blocks"),
    [
        ((1024, 4096), 262_144, [65_536] * 4),
        ((1024, 4096), 65_536, [16_384] * 4),
        ((1024, 4096), 4096, [4096]),
        # Four blocks of 65,536 would be all of it, and more than was allowed.
        ((75, 4096), 262_144, [16_384] * 16),
    ],
)
def test_a_sample_takes_four_requests_unless_that_would_be_more_than_the_sample(shape, limit, blocks):
    stop = 2 * shape[0] * shape[1]
    info = TensorInfo(name="x", dtype="BF16", shape=shape, file="f", start=0, stop=stop)
    like = View(info=info, full=shape)
    found = like.chosen(limit=limit, seed=0, key="k").selection
    assert isinstance(found, Blocks)
    # Neighbours are one request: then there are fewer.
    assert sum(stop - start for start, stop in found.blocks) == sum(blocks)
    assert len(found.blocks) <= len(blocks)


def test_a_large_tensor_is_sampled_at_the_same_places_each_value_once():
    shape = LlamaShape(hidden=64, mlp=256)
    base = llama_tensors(shape)

    def double(tensors):
        for values in tensors.values():
            values *= 2.0

    models = {"a": llama(shape), "b": llama(shape, change=double)}
    result = run(
        models, roles=("up-proj",), measures=("pearson", "relative-l2"), sample=4096, pairs=("same", "within")
    )
    rows = result.table.where(measure="pearson", model_a="a", model_b="b")
    assert [row.value for row in rows] == pytest.approx([1.0, 1.0])
    assert {row.n for row in rows} == {4096}
    assert {str(row.note) for row in rows} == {"4,096 of 16,384 values, in blocks chosen by the seed"}
    mean = next(item.mean for item in result.tensors if item.model == "a")
    blocks = base["model.layers.0.mlp.up_proj.weight"].astype(float).reshape(4, 4096).mean(axis=1)
    assert min(abs(blocks - mean)) < 1e-12


def test_another_seed_takes_other_places_and_the_same_seed_the_same():
    shape = LlamaShape(hidden=64, mlp=256)

    def mean(seed):
        result = run({"a": llama(shape)}, roles=("up-proj",), sample=1024, seed=seed, pairs=("within",))
        return result.tensors[0].mean

    assert mean(0) == mean(0)
    assert len({mean(seed) for seed in range(5)}) > 1


def test_a_sample_of_another_layout_is_refused_and_the_whole_is_not():
    gpt2, tensors = of_case("gpt2")
    up = tensors["transformer.h.0.mlp.c_fc.weight"]  # stored input-first
    shape = LlamaShape(hidden=up.shape[0], mlp=up.shape[1])

    def same(tensors):
        tensors["model.layers.0.mlp.up_proj.weight"][:] = up.T

    models = {"a": gpt2, "b": llama(shape, change=same)}
    whole = run(models, roles=("mlp-up",), measures=("pearson",), layers="0")
    assert value(whole) == pytest.approx(1.0)
    small = run(models, roles=("mlp-up",), measures=("pearson",), layers="0", sample=64)
    assert tuple(map(str, small.table.distinct("reason"))) == (
        "stored in different layouts: only whole tensors can be compared; raise the sample",
    )


# -- the truncation test -------------------------------------------------------------------------------


def pruned(kind, *, layers=1):
    """A model with 8 heads in 2 groups, and one with 4 of them: the first, or the first of each group."""
    large = LlamaShape(hidden=32, heads=8, kv_heads=2, layers=layers)
    tensors = llama_tensors(large)
    small = dict(tensors)
    heads = [0, 1, 2, 3] if kind == "prefix" else [0, 1, 4, 5]
    rows = np.concatenate([np.arange(4 * head, 4 * head + 4) for head in heads])
    for layer in range(layers):
        prefix = f"model.layers.{layer}.self_attn."
        small[prefix + "q_proj.weight"] = tensors[prefix + "q_proj.weight"][rows]
        small[prefix + "o_proj.weight"] = np.ascontiguousarray(tensors[prefix + "o_proj.weight"][:, rows])
    config = llama_config(large)
    sources = []
    for n_heads, own in ((8, tensors), (4, small)):
        text = json.dumps(config | {"num_attention_heads": n_heads, "head_dim": 4}).encode()
        sources.append(MemorySource({"config.json": text, "model.safetensors": safetensors_bytes(own)}))
    return {"large": sources[0], "small": sources[1]}


@pytest.mark.parametrize("sample", [65_536, 128])
@pytest.mark.parametrize("role", ["q-proj", "o-proj"])
@pytest.mark.parametrize("kind", ["prefix", "groups"])
def test_pruned_heads_are_found_by_the_cut_that_was_made(kind, role, sample):
    result = run(
        pruned(kind), roles=(role,), measures=("pearson", "byte-identity"), truncation=True, sample=sample
    )
    found = {row.view: row.value for row in result.table if row.measure == "pearson"}
    assert set(found) == {"whole", "prefix", "groups"}
    other = "groups" if kind == "prefix" else "prefix"
    assert found["whole"] is None
    assert found[kind] == pytest.approx(1.0)
    assert found[other] < 0.95
    assert value(result, "byte-identity", view=kind) == 1.0
    notes = {row.view: str(row.note) for row in result.table}
    assert notes["groups"].startswith("the first 2 of 4 heads in each of 2 groups")
    assert notes["prefix"].startswith("the first 16 of 32 ")


def test_without_the_option_nothing_is_cut():
    result = run(pruned("prefix"), roles=("q-proj",), measures=("pearson",))
    assert result.table.distinct("view") == ("whole",)


def test_tensors_that_differ_along_two_axes_are_not_cut_and_that_is_noted():
    models = {"a": llama(), "b": llama(LlamaShape(hidden=16, mlp=32), seed=1)}
    result = run(models, roles=("q-proj",), truncation=True)
    assert tuple(map(str, result.notes)) == ("attention_query, a and b: not cut: more than one axis differs",)


# -- baselines -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    models = {name: str(ZOO / name) for name in ("base", "twin-1", "twin-2", "finetune-light")}
    return mk.matrix(
        models,
        mk.MatrixOptions(
            roles=("input-norm", "embedding"),
            sample=4096,
            draws=49,
            baselines=tuple(BASELINES),
            groups={"twins": ("twin-1", "twin-2"), "line": ("base", "finetune-light")},
            known=(
                KnownRelation(relation="independent", model_a="base", model_b="twin-1"),
                KnownRelation(relation="derived", model_a="base", model_b="finetune-light"),
            ),
        ),
    )


def baselines(result, baseline, measure="pearson", role="attention_norm"):
    return {
        str(item.scope): item
        for item in result.baselines
        if (item.baseline, item.measure, item.role) == (baseline, measure, role)
    }


@pytest.mark.more
def test_every_baseline_is_there_for_every_measure(trained):
    assert {(item.baseline, item.measure) for item in trained.baselines} == {
        (name, measure) for name in BASELINES for measure in DEFAULT
    }
    assert all((item.null is None) == (item.reason is not None) for item in trained.baselines)


@pytest.mark.more
def test_strangers_lie_within_the_shuffles_and_a_child_far_outside(trained):
    found = baselines(trained, "shuffle")
    stranger, child = found["base x twin-1"], found["base x finetune-light"]
    assert stranger.null.minimum < stranger.observed < stranger.null.maximum
    assert child.observed > 0.9 > 3 * child.null.maximum
    cosine = baselines(trained, "shuffle", "cosine")["base x twin-1"]
    assert cosine.observed > 0.97  # which is what reordered gains have too
    assert cosine.null.minimum < cosine.observed < cosine.null.maximum


def test_the_exact_expectation_is_the_mean_of_the_shuffles(trained):
    exact = baselines(trained, "expectation", "cosine")
    for scope, drawn in baselines(trained, "shuffle", "cosine").items():
        assert drawn.null.mean == pytest.approx(exact[scope].null.mean, abs=5 * drawn.null.sd / 7)


def test_known_relations_and_groups_are_summed_up(trained):
    assert baselines(trained, "derived")["base x finetune-light"].null.mean > 0.9
    assert abs(baselines(trained, "independent")["base x twin-1"].null.mean) < 0.3
    groups = baselines(trained, "groups")
    assert {scope: item.null.n for scope, item in groups.items()} == {
        "twins x twins": 1,
        "twins x line": 4,
        "line x line": 1,
    }
    assert groups["line x line"].null.mean > 0.9 > groups["twins x line"].null.mean


def test_layers_of_one_model_are_correlated_and_layer_0_is_shown_apart(trained):
    zero = baselines(trained, "layer-0")
    assert zero["base, layer 0 with each of the others"].null.n == 3
    assert zero["base, all pairs of the others"].null.n == 3
    assert (
        zero["base, all pairs of the others"].null.mean
        > zero["base, layer 0 with each of the others"].null.mean
    )
    assert baselines(trained, "within")["base"].null.n == 6


def test_other_offsets_are_told_one_by_one(trained):
    found = baselines(trained, "mismatched")
    own = {scope: item for scope, item in found.items() if scope.startswith("base x finetune-light")}
    assert len(own) == 1 + 6
    assert own["base x finetune-light, all different layers"].null.n == 12
    assert own["base x finetune-light, offset +3"].null.n == 1
    assert all(item.observed > 0.9 > item.null.mean for item in own.values())


def test_rows_of_tokens_are_paired_by_text_and_then_not(trained):
    found = baselines(trained, "permuted-tokens", role="embedding")
    assert found["base x finetune-light"].observed > 0.9 > found["base x finetune-light"].null.q95
    stranger = found["base x twin-1"]
    assert stranger.null.q05 < stranger.observed < stranger.null.q95
    inside = baselines(trained, "random-tokens", role="embedding")
    assert inside["base, two tokens"].null.n == 2000
    reasons = {str(item.reason) for item in baselines(trained, "permuted-tokens").values()}
    assert reasons == {"only embedding and output head have rows for tokens"}


def test_a_relative_that_was_declared_independent_is_refused_as_a_control():
    models = {name: str(ZOO / name) for name in ("base", "finetune-light")}
    known = (KnownRelation(relation="independent", model_a="base", model_b="finetune-light"),)
    result = run(models, roles=("input-norm",), baselines=("independent",), known=known)
    assert {item.null for item in result.baselines} == {None}
    assert all(
        "a relative cannot serve as a negative control" in str(item.reason) for item in result.baselines
    )


def test_nothing_is_taken_as_independent_by_itself():
    result = run({"a": llama(), "b": llama(seed=1)}, baselines=("independent", "derived", "groups"))
    reasons = {item.baseline: str(item.reason) for item in result.baselines}
    assert reasons["independent"] == "no pair of models was declared independent"
    assert reasons["groups"] == "no groups were given"


# -- reading -------------------------------------------------------------------------------------------


def test_every_model_is_read_once_and_only_what_is_needed(tmp_path):
    shape = LlamaShape(layers=6, hidden=256, mlp=1024, vocab=2000)
    repos = {f"org/{name}": llama_files(shape, seed=seed, n_shards=3) for seed, name in enumerate("abc")}
    with HubServer(repos) as hub:
        fetch = mk.FetchOptions(endpoint=hub.url, store_dir=tmp_path)
        options = mk.MatrixOptions(
            roles=("input-norm", "post-norm", "k-proj"), sample=4096, draws=5, fetch=fetch
        )
        result = mk.matrix(list(repos), options)
        first, sent = hub.n_requests(), hub.bytes_sent()
        hub.reset()
        again = mk.matrix(list(repos), options)
        repeated = hub.bytes_sent()
        commits = {name: hub.commit(name) for name in repos}
    assert again.table == result.table
    assert {model.name: model.revision for model in result.models} == commits
    total = sum(len(data) for files in repos.values() for data in files.values())
    assert sent < total / 4
    assert first < 3 * 40
    assert repeated < sent / 20
    assert len(result.table) == 3 * 3 * 6 * len(DEFAULT)


def test_a_budget_is_kept(tmp_path):
    with HubServer({"org/a": llama_files()}) as hub:
        fetch = mk.FetchOptions(endpoint=hub.url, store_dir=tmp_path, byte_budget=100)
        with pytest.raises(mk.errors.BudgetExceeded, match="byte"):
            mk.matrix(["org/a"], mk.MatrixOptions(fetch=fetch))


def test_an_unknown_architecture_is_a_remark_and_reasons():
    strange = MemorySource({"model.safetensors": safetensors_bytes({"x": np.ones((2, 2), np.float32)})})
    result = run({"a": strange, "b": llama()}, roles=("input-norm",))
    assert any(str(note).startswith("a: ") for note in result.notes)
    assert set(result.table.column("value")) != set()
    assert all(row.value is None and "a has no layer" in str(row.reason) for row in result.table)


# -- writing and choosing ------------------------------------------------------------------------------


def test_a_result_is_written_and_read_back(trained, tmp_path):
    text = trained.to_json()
    jsonschema.Draft202012Validator(schema("modelkin.matrix/1")).validate(json.loads(text))
    back = mk.MatrixResult.from_json(text)
    assert back == trained
    paths = trained.write(tmp_path / "new")
    assert [path.name for path in paths] == ["matrix.json", "matrix.csv", "MATRIX.md", "report.html"]
    assert mk.MatrixResult.from_json(paths[0].read_text()) == trained
    assert list(table_from_csv(paths[1].read_text()).cells()) == list(trained.table.cells())
    assert "What does not follow" in paths[2].read_text()


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_page_of_a_matrix_has_its_numbers_and_loads_nothing(trained, tmp_path, language):
    page = trained.write(tmp_path, language=language)[-1].read_text()
    assert f"<title>{load_language(language).say('matrix.title')}</title>" in page
    assert f'<html lang="{language}"' in page
    row = next(row for row in trained.table.where(measure="pearson") if row.value is not None)
    assert f"{row.value:.4f}" in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)


def test_the_schema_and_the_document_have_the_same_keys(trained):
    properties = schema("modelkin.matrix/1")["properties"]
    assert isinstance(properties, Mapping)
    assert set(properties) - {"notes_codes"} == set(json.loads(trained.to_json()))


def test_a_document_of_an_older_version_does_not_say_which_message_a_sentence_is():
    models = {"a": llama(LlamaShape(layers=2)), "b": llama(LlamaShape(layers=3), seed=1)}
    document = json.loads(run(models, pairs=("same",)).to_json())
    read = mk.MatrixResult.from_json(json.dumps(document)).table
    table = document["table"]
    for cells in (table["columns"], *table["rows"]):
        del cells[13:]
    old = mk.MatrixResult.from_json(json.dumps(document)).table
    assert list(old.cells()) == list(read.cells())
    assert {row.reason.code for row in read if row.reason} == {"matrix-no-layer"}
    assert {row.reason.code for row in old if row.reason} == {"quoted"}
    jsonschema.Draft202012Validator(schema("modelkin.matrix/1")).validate(document)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(schema="modelkin.matrix/2"), "expected the schema"),
        (lambda d: d.pop("notes"), "missing keys 'notes'"),
        (lambda d: d.update(extra=1), "unknown keys 'extra'"),
        (lambda d: d["table"]["columns"].pop(), "expected the columns"),
        (lambda d: d["table"]["rows"][0].pop(), "expected 15 cells"),
        (lambda d: d["table"]["rows"][0].__setitem__(7, "x"), "unexpected 'x'"),
        (lambda d: d["table"]["rows"][0].__setitem__(14, 99), "note_message: unexpected 99"),
        (lambda d: d["models"][0].pop("ref"), "missing keys 'ref'"),
        (lambda d: d["baselines"][0].update(observed="high"), "observed"),
        (lambda d: d["options"].update(pairs=["diagonal"]), "expected one of .*, got 'diagonal'"),
        (lambda d: d["options"].update(seed=-1), "expected a whole number"),
        (lambda d: d.update(tensors={}), "tensors: expected a list"),
    ],
)
def test_a_document_that_is_not_ours_is_refused(change, words):
    document = json.loads(run({"a": llama(), "b": llama(seed=1)}, baselines=("expectation",)).to_json())
    change(document)
    with pytest.raises(FormatError, match=words):
        mk.MatrixResult.from_json(json.dumps(document))


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"schema": NaN}'])
def test_text_that_is_no_document_is_refused(text):
    with pytest.raises(FormatError, match=r"matrix: (the document: )?expected"):
        mk.MatrixResult.from_json(text)


def test_names_of_strangers_cannot_break_a_document():
    hostile = 'x"rows": "@rows@"|<script>`\x1b[2J'
    result = run({hostile: llama(), "b": llama(seed=1)})
    assert mk.MatrixResult.from_json(result.to_json()) == result
    text = markdown_of(result)
    before, code = text.split("```console")
    assert "<script>" not in before.replace("\\<script", "")
    assert code.count("\n") == 5  # nothing in a name begins a line, so nothing ends the block
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"measures": ("pearsn",)}, UsageError, "unknown name 'pearsn'"),
        ({"roles": ("attention-nrm",)}, BadSelection, "unknown name 'attention-nrm'"),
        ({"roles": ("router.nonsense",)}, BadSelection, "expected ROLE"),
        ({"layers": "5-2"}, BadSelection, "from low to high"),
        ({"layers": "0-99999"}, BadSelection, "at most 9999"),
        ({"layers": "a"}, BadSelection, "such as 0-10,20"),
        ({"layers": ""}, BadSelection, "such as 0-10,20"),
        ({"baselines": ("luck",)}, UsageError, "unknown name 'luck'"),
        (
            {"known": (KnownRelation(relation="cousins", model_a="a", model_b="b"),)},
            UsageError,
            "unknown name 'cousins'",
        ),
        ({"sample": 1}, UsageError, "of at least 16, got 1"),
        ({"roles": ()}, UsageError, "at least one"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_read(options, error, words):
    with pytest.raises(error, match=words):
        mk.MatrixOptions(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"groups": {"g": ("a", "c")}}, "no model called 'c'"),
        ({"layers_of": {"c": "0"}}, "no model called 'c'"),
        ({"known": (KnownRelation(relation="derived", model_a="a", model_b="c"),)}, "no model called 'c'"),
        ({"layers": "50"}, "no model has a layer in '50'"),
    ],
)
def test_names_and_layers_that_are_not_there_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        run({"a": llama(), "b": llama(seed=1)}, **options)


def test_models_are_given_once():
    with pytest.raises(UsageError, match="given twice"):
        mk.matrix([str(ZOO / "base"), str(ZOO / "base")])
    with pytest.raises(UsageError, match="at least one"):
        mk.matrix([])


@pytest.mark.parametrize(
    ("text", "layers"),
    [("0-10,20,30-35", (*range(11), 20, *range(30, 36))), ("3", (3,)), (" 2 , 0-1,1", (2, 0, 1))],
)
def test_the_grammar_of_layers(text, layers):
    assert parse_layer_list(text) == layers


def test_a_list_keeps_its_order():
    assert parse_layer_list("30,10-12,11") == (30, 10, 11, 12)


@pytest.mark.parametrize(
    "label",
    [
        "attention_norm",
        "attention_norm_minus_mlp_norm",
        "expert_up#3",
        "mtp.attention_norm",
        "attention_query.bias",
    ],
)
def test_a_label_is_read_back(label):
    assert parse_role(label).label == label


def test_vectors_of_a_role_are_gone_before_those_of_the_next_are_read(monkeypatch):
    from modelkin.describe.matrix import _reading

    stacks: list[weakref.ref[Stack]] = []
    alive: list[int] = []
    shelve, read = _reading.SliceReader.shelve, _reading.SliceReader.read

    def shelving(self, name, items):
        shelf = shelve(self, name, items)
        stacks.extend(map(weakref.ref, shelf.stacks.values()))
        return shelf

    def reading(self, choice, *, cut=0):
        alive.append(sum(one() is not None for one in stacks))
        read(self, choice, cut=cut)

    monkeypatch.setattr(_reading.SliceReader, "shelve", shelving)
    monkeypatch.setattr(_reading.SliceReader, "read", reading)
    run({"a": llama(), "b": llama(seed=1)}, roles=("k-proj", "v-proj", "input-norm"), baselines=BASELINES)
    assert alive == [0, 0, 0]
    assert len(stacks) == 6
