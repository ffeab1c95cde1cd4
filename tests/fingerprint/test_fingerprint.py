"""A fingerprint: the same bytes every time, few of them, few to read, and only of what has no order."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, partial
from itertools import combinations

import numpy as np
import pytest
from huggingface_hub import constants
from tests.comparison.common_recipes import public_bases, public_projections
from tests.comparison.test_masks import is_gain, masked
from tests.places import LOOKALIKES, ZOO
from tests.scale.lifelike import GROWN
from tests.support import HubServer, LlamaShape, llama_files, virtual_llama
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.document import fingerprint_from_json, to_json
from modelkin.document.results import schema
from modelkin.errors import FormatError
from modelkin.fingerprint import FingerprintRows, fingerprint_model, fingerprint_product, products
from modelkin.fingerprint.blocks import offset_z
from modelkin.fingerprint.reading import MOST_BYTES, ModelRows, read_rows
from modelkin.fingerprint.recipe import CODE_BYTES, DATA_BYTES, SLOTS, chosen_layers, slot_numbers
from modelkin.source import MemorySource


@cache
def made(path: str) -> FingerprintRows:
    with mk.open_model(path) as model:
        return FingerprintRows(fingerprint_model(model))


def zoo(name: str) -> FingerprintRows:
    return made(str(ZOO / name))


def of_files(files, name="model") -> mk.Fingerprint:
    with mk.open_model(MemorySource(files, name=name)) as model:
        return fingerprint_model(model)


def test_it_is_about_thirty_kilobytes_and_its_code_below_four():
    assert DATA_BYTES <= 30_000
    assert CODE_BYTES <= 4_096
    found = zoo("base").made
    assert len(found.data) == DATA_BYTES
    assert len(found.code()) == CODE_BYTES


def test_a_bit_of_the_code_says_whether_a_number_is_above_the_median_of_its_feature():
    for found in (zoo("base").made, zoo("gpt2-base").made, zoo("moe-base").made):
        bits = np.unpackbits(np.frombuffer(found.code(), np.uint8), bitorder="little").astype(bool)
        for number, slot in enumerate(SLOTS):
            block = found.block(number)
            used = np.asarray(block.any(axis=1))
            if used.any():
                above = (block > np.median(block[used], axis=0)) & used[:, None]
                assert np.array_equal(bits[slot.start : slot.stop], above.reshape(-1))


def test_the_same_model_gives_the_same_bytes():
    with mk.open_model(str(ZOO / "base")) as model:
        again = fingerprint_model(model)
    assert again.data == zoo("base").made.data
    assert again.digest == zoo("base").made.digest


def test_a_cast_hardly_changes_it():
    base = Checkpoint.read(ZOO / "base")
    cast = FingerprintRows(of_files(base.files("BF16")))
    product = fingerprint_product(cast, zoo("base"))
    assert product.best is not None
    assert product.best.effect > 0.99


def test_layers_at_the_beginning_in_the_middle_and_at_the_end_are_kept():
    assert chosen_layers(80) == (0, 1, 2, 40, 79)
    assert chosen_layers(1) == (0,)


@pytest.mark.parametrize(
    ("shape", "layers", "head"),
    [
        (LlamaShape(layers=32, hidden=4_096, mlp=11_008, heads=32, kv_heads=32, vocab=32_000), 5, True),
        (LlamaShape(layers=48, hidden=6_144, mlp=16_384, heads=48, kv_heads=8, vocab=92_544), 4, True),
        (LlamaShape(layers=80, hidden=8_192, mlp=28_672, heads=64, kv_heads=8, vocab=128_256), 4, False),
    ],
    ids=["7B", "20B", "70B"],
)
def test_layers_come_before_the_head_where_bytes_are_short(shape, layers, head, monkeypatch):
    fetch = mk.FetchOptions(use_store=False)
    with HubServer({"org/big": virtual_llama(shape)}) as hub, monkeypatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", hub.url)
        with mk.open_model("org/big", fetch) as model:
            rows = read_rows(model)
            totals = model.totals()
    assert isinstance(rows, ModelRows)
    assert sum(layer.read for layer in rows.layers) == layers
    assert rows.layers[0].read
    assert (rows.head is not None, rows.head_is_unread) == (head, not head)
    assert totals.bytes_fetched <= MOST_BYTES
    assert totals.requests < 200


def test_slots_without_a_block_say_why():
    slots = zoo("base").made.slots
    assert [str(slots[number].reason) for number in slot_numbers("experts")] == [
        "the model lacks this tensor"
    ]
    assert all((slot.n_units == 0) == (slot.reason is not None) for slot in slots)


def test_an_unknown_architecture_is_a_fingerprint_with_a_reason():
    from modelkin.formats.safetensors import safetensors_bytes

    strange = {"a.b": np.ones((3, 4, 5), np.float32)}
    found = of_files({"model.safetensors": safetensors_bytes(strange), "config.json": b"{}"})
    assert found.n_blocks == 0
    assert {slot.reason.code for slot in found.slots if slot.reason} == {"unknown-architecture"}


def test_units_that_belong_to_units_a_fixed_number_away_are_refused():
    rng = np.random.default_rng(0)
    first = rng.standard_normal((64, 96))
    assert offset_z(first, rng.standard_normal((64, 96))) < 5
    assert offset_z(first, 0.6 * np.roll(first, 7, axis=0) + rng.standard_normal((64, 96))) > 5


def test_repeated_units_are_left_out():
    tensors = dict(Checkpoint.read(ZOO / "base").tensors)
    name = "model.layers.0.mlp.gate_proj.weight"
    gate = tensors[name].copy()
    gate[10:20] = gate[10]
    tensors[name] = gate
    found = of_files(Checkpoint.read(ZOO / "base").with_tensors(tensors).files("F32"))
    assert found.slots[0].n_units == 64 - 10
    assert not found.block(0)[10:20].any()


def test_units_that_are_tied_to_coordinates_are_marked_and_not_tested():
    def tied(seed):
        files = Checkpoint.read(ZOO / "base")
        rng = np.random.default_rng(seed)
        gates = {
            name: (np.eye(*values.shape) * 3 + rng.standard_normal(values.shape) * 0.2).astype(np.float32)
            for name, values in files.tensors.items()
            if "gate_proj" in name
        }
        noise = {
            name: rng.standard_normal(values.shape).astype(np.float32) * 0.1 + (values.ndim == 1)
            for name, values in files.tensors.items()
            if name not in gates
        }
        return FingerprintRows(of_files(files.with_tensors({**noise, **gates}).files("F32")))

    one, two = tied(1), tied(2)
    assert "tied" in one.made.slots[0].marks
    assert fingerprint_product(one, two).log10_p > -6


def near_alike(seed: int, how: str) -> FingerprintRows:
    """Return a model whose units are alike when their numbers are near; no two have a common origin."""
    files = Checkpoint.read(ZOO / "base")
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, values in files.tensors.items():
        drawn = rng.standard_normal(values.shape)
        if "gate_proj" in name and how == "smooth":
            apart = np.subtract.outer(np.arange(len(drawn)), np.arange(len(drawn)))
            drawn = np.exp(-((apart / 4.0) ** 2)) @ drawn
        elif "gate_proj" in name and how == "groups":
            drawn += 3 * rng.standard_normal((len(drawn), drawn.shape[1]))[np.arange(len(drawn)) // 8]
        tensors[name] = (drawn * 0.1 + (values.ndim == 1)).astype(np.float32)
    return FingerprintRows(of_files(files.with_tensors(tensors).files("F32")))


@pytest.mark.parametrize("how", ["smooth", "groups"])
def test_units_that_are_alike_when_their_numbers_are_near_are_tested_against_other_models_alone(how):
    one, two, plain = near_alike(1, how), near_alike(2, how), near_alike(3, "plain")
    assert one.rows(0).is_ordered
    assert two.rows(0).is_ordered
    assert not plain.rows(0).is_ordered

    # The same units in the same order: z is large, and says nothing where both are of that kind.
    def bounds(a, b):
        blocks = fingerprint_product(a, b).blocks
        return [
            block.log10_p for block in blocks if block.kind in ("mlp", "units") and block.log10_p is not None
        ]

    assert bounds(one, one) == []
    assert min(bounds(plain, plain)) < -14
    assert fingerprint_product(one, two).log10_p == 0


def test_no_block_of_the_trained_base_is_ordered():
    rows = zoo("base")
    assert not any(rows.rows(number).is_ordered for number in range(len(SLOTS)))


def test_it_comes_back_equal_from_its_file():
    import jsonschema

    found = zoo("base").made
    text = to_json(found)
    jsonschema.validate(json.loads(text), schema("modelkin.fingerprint/1"))
    assert fingerprint_from_json(text) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": "0"}, "expected a fingerprint of recipe 1, got recipe '0'"),
        ({"data": "AAAA"}, "bytes in"),
        ({"data": "***"}, "bytes in base64"),
        ({"slots": []}, "bytes in"),
    ],
)
def test_another_recipe_or_a_damaged_file_is_refused(change, message):
    document = json.loads(to_json(zoo("base").made)) | change
    with pytest.raises(FormatError, match=message):
        fingerprint_from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": 2**70}, "shape that no model can have"),
        ({"layers": -1}, "shape that no model can have"),
        ({"revision": "x" * 300}, "more than 256 characters"),
        ({"ref": "\ud800"}, "not UTF-8"),
    ],
)
def test_a_model_that_no_registry_can_hold_is_refused(change, message):
    found = zoo("base").made
    with pytest.raises(FormatError, match=message):
        replace(found, model=replace(found.model, **change)).check("sent")


@pytest.mark.parametrize("change", [{"n_units": 65}, {"n_units": -1}, {"layer": 10**30}, {"marks": ("x",)}])
def test_a_block_that_cannot_be_is_refused(change):
    found = zoo("base").made
    with pytest.raises(FormatError, match="impossible description"):
        replace(found, slots=(replace(found.slots[0], **change), *found.slots[1:])).check("sent")


def test_fingerprints_of_two_recipes_are_not_compared():
    other = FingerprintRows(replace(zoo("base").made, recipe="9"))
    with pytest.raises(FormatError, match="recipe"):
        fingerprint_product(zoo("base"), other)


@pytest.mark.parametrize("change", ["rotated", "units"])
def test_what_keeps_the_function_is_seen_by_the_blocks_that_do_not_see_it(change):
    base, rng = Checkpoint.read(ZOO / "base"), np.random.default_rng(3)
    copy = (
        derive.rotate_residual(base, rng=rng)
        if change == "rotated"
        else derive.permute_mlp_units(base, rng=rng)
    )
    product = fingerprint_product(FingerprintRows(of_files(copy.files("F32"))), zoo("base"))
    kinds = {block.kind for block in product.blocks if block.log10_p is not None and block.log10_p < -14}
    assert kinds & ({"tok", "gram"} if change == "rotated" else {"emb", "norms", "val", "dimensions"})
    assert (product.token_gram or 0.0) > 0.9


def test_a_scrambled_copy_is_only_proposed():
    product = fingerprint_product(zoo("scrambled-units"), zoo("base"))
    assert product.token_gram is not None


@pytest.mark.parametrize("pair", [("begun-1", "begun-2"), ("masked-1", "masked-2")])
def test_common_beginnings_and_masks_are_no_finding(pair):
    one, two = (made(str(LOOKALIKES / name)) for name in pair)
    assert fingerprint_product(one, two).log10_p + 8 > -6


ADAPTERS = {
    "projections": partial(public_projections, rank=64, size=3.0),
    "one pair of bases": partial(public_bases, n_bases=1, size=1.5),
    "one pair of few bases": partial(public_bases, n_bases=1, rank=8, size=1.5),
}
"""Larger than the weights: those of a realistic size are lost among 16 features."""


@cache
def lifelike(seed: int) -> Checkpoint:
    return GROWN["width 256"].drawn(seed=seed)


def rows_of(model: Checkpoint) -> FingerprintRows:
    return FingerprintRows(of_files(model.files("F32")))


@pytest.mark.more
@pytest.mark.parametrize("adapters", every(3, ADAPTERS))
def test_adapters_between_public_random_matrices_are_no_finding(adapters, monkeypatch):
    models = [rows_of(ADAPTERS[adapters](lifelike(seed))) for seed in range(6)]

    def bounds():
        return [fingerprint_product(one, two).log10_p for one, two in combinations(models, 2)]

    with monkeypatch.context() as patch:
        patch.setattr(products, "_scatter", lambda _: 0.0)
        assert min(bounds()) < -6  # the trap is there
    assert min(bounds()) > -5


@pytest.mark.more
@pytest.mark.parametrize(
    "adapters", [partial(public_projections, rank=64, size=0.8), partial(public_bases, n_bases=1, size=0.4)]
)
def test_layers_of_a_copy_are_found_although_both_have_adapters_between_public_matrices(adapters):
    base, rng = lifelike(0), np.random.default_rng(1)
    child = base.with_tensors(
        {
            name: (values + values.std() * rng.normal(size=values.shape)).astype(np.float32)
            for name, values in sorted(base.tensors.items())
            if values.ndim == 2
        }
    )
    product = fingerprint_product(rows_of(adapters(child)), rows_of(adapters(base)))
    bounds = [block.log10_p for block in product.blocks if block.layers and block.log10_p is not None]
    assert min(bounds) < -14


def under_a_mask(name: str, density: float, filling: str, seed: int = 1) -> FingerprintRows:
    model = Checkpoint.read(ZOO / name)
    return rows_of(masked(model, density, filling, seed=seed, chosen=is_gain))


def unmarked(rows: FingerprintRows) -> FingerprintRows:
    return FingerprintRows(
        replace(rows.made, slots=tuple(replace(slot, marks=()) for slot in rows.made.slots))
    )


@pytest.mark.parametrize(
    ("pair", "density", "filling"),
    [
        (("base", "twin-1"), 0.05, "0"),
        (("base", "twin-1"), 0.8, "0.2"),
        (("gpt2-base", "gpt2-twin"), 0.5, "0.05"),
        (("moe-base", "moe-twin"), 0.2, "0.2"),
        (("deep-1", "deep-2"), 0.5, "0"),
    ],
    ids=str,
)
def test_strangers_with_one_mask_on_their_gains_are_no_finding(pair, density, filling):
    one, two = (under_a_mask(name, density, filling, seed) for seed, name in enumerate(pair))
    assert fingerprint_product(unmarked(one), unmarked(two)).log10_p < -14  # the trap is there
    assert fingerprint_product(one, two).log10_p > -5


def test_a_mask_on_the_gains_of_one_model_leaves_the_block_of_gains_to_be_tested():
    one, two = under_a_mask("base", 0.5, "0"), zoo("base")
    kinds = {block.kind for block in fingerprint_product(one, two).blocks}
    assert "norms" in kinds
    assert "norms" not in {block.kind for block in fingerprint_product(one, one).blocks}


def test_layers_that_a_model_repeats_are_not_added_up():
    product = fingerprint_product(zoo("depth-up"), zoo("base"))
    assert product.log10_p < -14
    assert "units" not in {block.kind for block in product.blocks}


def test_slots_lie_side_by_side():
    assert [slot.start for slot in SLOTS[1:]] == [slot.stop for slot in SLOTS[:-1]]


def test_a_model_with_few_units_has_blocks_of_few_units():
    found = of_files(llama_files(LlamaShape(hidden=16, mlp=24, layers=2)))
    assert {slot.n_units for slot in found.slots if slot.kind == "mlp" and slot.n_units} == {24}
