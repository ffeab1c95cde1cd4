"""Copies in which every axis was renumbered, and strangers that could look like them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from huggingface_hub import constants
from tests.comparison.disguises import disguised, zoo_model
from tests.comparison.expectations import DEEP
from tests.comparison.strangers import lineages
from tests.places import ZOO
from tests.support import HubServer, LlamaShape, llama_config, llama_tensors, virtual_llama
from tests.support.amount import every, marked

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.alignment.keys import KEYS_FIT
from modelkin.comparison.deep import DeepStage, contrasts
from modelkin.comparison.frames import frame_of_keys
from modelkin.comparison.methods import Contrast, Skipped, Tested, load_method
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.strangers import load_archive
from modelkin.comparison.tokens import UNREAD, pair_tokens
from modelkin.comparison.verdict import Verdict, decide, load_rule
from modelkin.model import open_model
from modelkin.options import READING
from modelkin.source import MemorySource

pytestmark = pytest.mark.timeout(300)
EVERYTHING = ("units", "heads", "residual-permutation")


def without_tokenizer(model: Checkpoint) -> dict[str, bytes]:
    return {name: data for name, data in model.files("F32").items() if "token" not in name}


def held_against(candidate: Checkpoint, base: Checkpoint):
    """Return what own-layers alone finds, without a tokenizer, and the verdict on it."""
    mine, theirs = (
        open_model(MemorySource(without_tokenizer(model), name="m")) for model in (candidate, base)
    )
    pair = ModelPair(candidate=mine, base=theirs, options=DEEP)
    found = contrasts(pair, pair_tokens(mine, theirs))
    verdict = decide(found, load_rule(), candidate="B", base="A", stage="deep")
    return found, verdict


def shared(verdict: Verdict) -> set[str]:
    return {name for name, item in verdict.components.items() if item.conclusion.related}


@pytest.mark.parametrize(
    ("child", "parent"),
    [
        ("finetune-heavy", "base"),
        ("gpt2-tuned", "gpt2-base"),
        ("bert-tuned", "bert-base"),
        ("moe-tuned", "moe-base"),
        ("new-tokenizer", "base"),
        ("scrambled-units", "deep-1"),
        ("experts", "deep-1"),
    ],
)
def test_a_trained_child_is_found_however_it_is_numbered(child, parent):
    found, verdict = held_against(disguised(zoo_model(child), *EVERYTHING), zoo_model(parent))
    assert {"mlp", "experts"} & shared(verdict)
    assert all(item.basis == "own-layers" for item in verdict.components.values())
    units = [item for item in found if isinstance(item, Contrast) and item.component != "attention"]
    assert min(item.statistic for item in units) > 0.9
    assert max(item.mismatched.limit for item in units) < 0.4


def test_new_embeddings_a_rotation_and_permuted_units_together_hide_nothing():
    hidden = derive.renew_embeddings(zoo_model("finetune-light"), rng=np.random.default_rng(1))
    _, verdict = held_against(
        disguised(hidden, "rotation-and-gains", "units", "unit-scales"), zoo_model("base")
    )
    assert shared(verdict) >= {"mlp", "attention"}


def test_layers_of_other_depth_find_those_that_they_face():
    found, _ = held_against(disguised(zoo_model("depth-up"), *EVERYTHING), zoo_model("base"))
    units = [item for item in found if isinstance(item, Contrast) and item.component == "mlp"]
    faced = {item.layers[0]: item.base_layers[0] for item in units if item.statistic > 0.9}
    assert faced == {0: 0, 1: 1, 2: 2, 3: 1, 4: 2, 5: 3}


@pytest.mark.parametrize(
    ("parent", "order"),
    [
        pytest.param("base", [0, 2, 1, 3], marks=pytest.mark.more),
        pytest.param("base", [3, 2, 1, 0], marks=pytest.mark.more),
        ("deep-1", [0, 2, 1, 4, 3, 5]),
    ],
)
def test_layers_that_changed_places_find_those_that_they_face(parent, order):
    base = zoo_model(parent)
    found, verdict = held_against(disguised(derive.reorder_layers(base, order), *EVERYTHING), base)
    assert shared(verdict) == {"mlp", "attention"}
    units = [item for item in found if isinstance(item, Contrast) and item.component == "mlp"]
    assert {item.layers[0]: item.base_layers[0] for item in units} == dict(enumerate(order))
    assert all(item.statistic > 0.9 for item in units)


def test_attention_alone_is_found_in_the_coordinates_of_tokens():
    stranger, base = zoo_model("twin-1"), zoo_model("base")
    taken = [name for name in base.tensors if "self_attn" in name or "embed" in name]
    mixed = replace(stranger, tensors={**stranger.tensors, **{name: base.tensors[name] for name in taken}})
    result = mk.compare(
        candidate=MemorySource(disguised(mixed, *EVERYTHING).files("F32"), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
        options=DEEP,
    )
    assert shared(result.verdict) == {"attention"}
    assert result.verdict.components["mlp"].conclusion.related is False


@pytest.mark.parametrize(("stranger", "parent"), [("twin-1", "base"), ("deep-2", "deep-1")])
@pytest.mark.parametrize(
    "disguise", ["residual-permutation", pytest.param("rotation-and-gains", marks=pytest.mark.more)]
)
def test_attention_alone_is_found_in_the_coordinates_of_keys(stranger, parent, disguise):
    """Tokens, gains and MLPs are a stranger's: nothing but attention is left to learn coordinates from."""
    other, base = zoo_model(stranger), zoo_model(parent)
    taken = {name: base.tensors[name] for name in base.tensors if "self_attn" in name}
    mixed = replace(other, tensors={**other.tensors, **taken})
    found, verdict = held_against(disguised(mixed, "units", "heads", disguise), base)
    assert shared(verdict) == {"attention"}
    heads = [item for item in found if isinstance(item, Contrast) and item.component == "attention"]
    assert {item.layers[0] for item in heads} == set(range(int(base.config["num_hidden_layers"])))


def split_in_two(model: Checkpoint) -> Checkpoint:
    """Split every MLP unit: both halves have its gate and its down column, and up rows that add up to its."""
    tensors = dict(model.tensors)
    rng = np.random.default_rng(3)
    for name, rows in model.tensors.items():
        if name.endswith("up_proj.weight"):
            half = (rng.standard_normal(rows.shape) * rows.std()).astype(np.float32)
            tensors[name] = np.concatenate([half, rows - half])
        elif name.endswith("gate_proj.weight"):
            tensors[name] = np.concatenate([rows, rows])
        elif name.endswith("down_proj.weight"):
            tensors[name] = np.concatenate([rows, rows], axis=1)
    width = 2 * int(model.config["intermediate_size"])
    return replace(model, tensors=tensors, config={**model.config, "intermediate_size": width})


def test_units_that_were_split_in_two_are_found():
    hidden = disguised(split_in_two(zoo_model("base")), "units", "rotation-and-gains")
    _, verdict = held_against(hidden, zoo_model("base"))
    assert "mlp" in shared(verdict)


def test_a_permuted_copy_is_said_to_hold_the_same_numbers_in_another_order():
    base = zoo_model("shallow-1")
    result = mk.compare(
        candidate=MemorySource(without_tokenizer(disguised(base, *EVERYTHING)), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
        options=DEEP,
        controls=[str(ZOO / "shallow-2"), str(ZOO / "shallow-3")],
    )
    verdict = result.verdict
    assert verdict.conclusion.value == "shared-reparametrised"
    assert "the same numbers in another order" in str(verdict.summary)
    assert "numbers in another order, proven by equality" in str(verdict.headline)
    assert "number by number in attention, mlp, norms is equal" in str(verdict.summary)
    assert result.relation.kind == "copy"
    assert verdict.basis == "own-layers"
    found = [item for item in result.evidence if isinstance(item, Contrast)]
    assert all(
        item.rank and item.rank.control_pairs == 5 and item.rank.largest_control < 0.1 for item in found
    )
    assert all(item.log10_p >= -12 for item in found)
    assert mk.Comparison.from_json(result.to_json()).evidence == result.evidence


def deeply_compared(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    return mk.compare(
        candidate=MemorySource(candidate.files("F32"), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
        options=DEEP,
    )


@pytest.mark.more
@pytest.mark.parametrize("hidden", [("units", "heads"), ("residual-permutation",)])
def test_a_permuted_copy_that_exact_tests_find_is_said_to_hold_the_same_numbers(hidden):
    base = zoo_model("base")
    verdict = deeply_compared(disguised(base, *hidden), base).verdict
    assert verdict.basis == "exact"
    assert "numbers in another order, proven by equality" in str(verdict.headline)
    assert "number by number in attention, embedding, head, mlp, norms is equal." in str(verdict.summary)
    assert "residual" not in str(verdict.summary)


@pytest.mark.more
def test_only_the_parts_that_are_equal_are_said_to_hold_the_same_numbers():
    base, tuned = zoo_model("base"), zoo_model("finetune-light")
    taken = {name: tuned.tensors[name] for name in tuned.tensors if "self_attn" in name}
    mixed = replace(base, tensors={**base.tensors, **taken})
    verdict = deeply_compared(disguised(mixed, "units"), base).verdict
    assert "proven by equality" not in str(verdict.headline)
    assert "number by number in embedding, head, mlp, norms is equal. Also shared: attention." in str(
        verdict.summary
    )


@pytest.mark.more
@pytest.mark.parametrize("hidden", ["residual-signs", "unit-scales"])
def test_numbers_that_changed_are_not_said_to_be_the_same(hidden):
    base = zoo_model("base")
    verdict = deeply_compared(disguised(base, "units", hidden), base).verdict
    assert verdict.related
    assert "in another order" not in f"{verdict.headline} {verdict.summary}"


def test_a_tuned_copy_is_not_said_to_hold_the_same_numbers():
    found, verdict = held_against(disguised(zoo_model("finetune-light"), *EVERYTHING), zoo_model("base"))
    assert "in another order" not in str(verdict.summary)
    assert {item.same_numbers for item in found if isinstance(item, Contrast)} <= {0.0, None}


# -- strangers ---------------------------------------------------------------------------------------------


def every_layer_twice(model: Checkpoint) -> Checkpoint:
    return derive.reorder_layers(model, [0, 0, 1, 1, 2, 2, 3, 3])


def one_layer(model: Checkpoint) -> Checkpoint:
    return derive.reorder_layers(model, [1, 1, 1, 1])


def many_zeros(model: Checkpoint) -> Checkpoint:
    return derive.prune_by_magnitude(model, fraction=0.9)


REPEATED = [every_layer_twice, one_layer, many_zeros, derive.round_to_int4]


@pytest.mark.parametrize("change", marked(REPEATED, lambda change: change is one_layer, more=bool))
def test_strangers_that_repeat_themselves_or_were_rounded_are_not_accused(change):
    found, verdict = held_against(change(zoo_model("twin-1")), change(zoo_model("base")))
    assert not verdict.related
    assert all(item.effect.value < 0.2 for item in found if isinstance(item, Contrast))


def test_layers_that_teach_no_coordinates_are_not_called_too_few(monkeypatch):
    monkeypatch.setattr("modelkin.comparison.methods.own_layers.contrasts_of_folds", lambda *_, **__: [])
    monkeypatch.setattr("modelkin.comparison.methods.own_layers.contrast_in", lambda *_, **__: None)
    found, _ = held_against(zoo_model("twin-1"), zoo_model("base"))
    assert [item.reason.code for item in found if isinstance(item, Skipped)] == ["own-layers-untaught"]


def test_a_model_that_is_one_layer_throughout_is_not_tested():
    found, _ = held_against(one_layer(zoo_model("twin-1")), one_layer(zoo_model("base")))
    assert [item.reason.code for item in found if isinstance(item, Skipped)] == ["own-layers-repeated"]


@pytest.mark.parametrize(
    "names", [("heads8-1", "heads8-2"), ("shallow-1", "shallow-2"), ("moe16-1", "moe16-2")]
)
def test_strangers_of_few_layers_and_units_are_not_accused(names):
    _, verdict = held_against(*(disguised(zoo_model(name), *EVERYTHING) for name in names))
    assert not verdict.related


def test_the_archive_holds_thousands_of_strangers_that_stay_below_the_floor():
    archive = load_archive()
    assert len(archive) > 3_000
    assert {pair.part for pair in archive} == {"units", "heads"}
    assert max(pair.mean_facing for pair in archive) < load_rule().own_layers["floor"]


# -- layers that are too large to be read whole ------------------------------------------------------------


WIDE = LlamaShape(layers=8, hidden=256, mlp=1024, heads=8, kv_heads=4, vocab=512)


@pytest.fixture
def few_bytes(monkeypatch):
    """Let the deep stage read a few parts of layers only, as it does of large models."""
    monkeypatch.setitem(READING, "deep", (6_000_000, 10_000))
    monkeypatch.setattr("modelkin.comparison.pair.MAX_TOKENIZER_BYTES", 0)
    monkeypatch.setattr("modelkin.comparison.pair.VOCABULARY_BYTES", 0)


def drawn(seed: int) -> Checkpoint:
    return Checkpoint(config=llama_config(WIDE), tensors=llama_tensors(WIDE, seed=seed))


def hidden(model: Checkpoint, *, units: bool = True, seed: int = 5) -> Checkpoint:
    """Add 3 % of noise, renumber every axis, turn the pairs of keys, and draw new token tables."""
    rng = np.random.default_rng(seed)

    def changed(name: str, values: np.ndarray) -> np.ndarray:
        drawn = rng.standard_normal(values.shape)
        made = 0.02 * drawn if "embed" in name or "lm_head" in name else values + 0.03 * values.std() * drawn
        return made.astype(np.float32)

    made = replace(model, tensors={name: changed(name, values) for name, values in model.tensors.items()})
    made = derive.permute_mlp_units(made, rng=rng) if units else made
    made = derive.permute_heads(made, rng=rng)
    return derive.rotate_residual(derive.turn_rope_pairs(made, rng=rng), rng=rng)


def compared_in_part(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    sources = [
        MemorySource(model.files("BF16"), name=name) for name, model in (("B", candidate), ("A", base))
    ]
    return mk.compare(candidate=sources[0], base=sources[1], options=DEEP)


@pytest.mark.more
def test_a_part_of_the_units_is_enough_in_coordinates_that_keys_teach(few_bytes):
    found = compared_in_part(hidden(drawn(3)), drawn(3))
    assert found.verdict.conclusion.value == "shared-reparametrised"
    assert found.alignment.frames[0].learned_from.code == "key-rows"
    layers = [item for item in found.evidence if isinstance(item, Contrast) and item.component == "mlp"]
    assert len(layers) >= 2
    assert all(item.effect.value > 0.8 and item.log10_p <= -9 for item in layers)
    assert all(item.could_agree < 1 for item in layers)


@pytest.mark.more
@pytest.mark.parametrize("seed", range(4))
def test_coordinates_with_the_wrong_sign_are_reversed(few_bytes, seed):
    """Keys leave the sign of the map open; units that kept their places settle it, in an exact test."""
    found = compared_in_part(hidden(drawn(3), units=False, seed=seed), drawn(3))
    assert found.alignment.residual == "rotation"
    tests = [item for item in found.evidence if isinstance(item, Tested) and item.frame == "rotation"]
    sure = [item for item in tests if item.log10_p < -9]
    assert {item.layers for item in sure if item.component == "mlp"} == {(layer,) for layer in range(8)}
    assert all((item.z or 0.0) > 0 and item.effect.value > 0.9 for item in sure)


@pytest.mark.more
def test_without_keys_a_part_of_the_units_teaches_nothing(few_bytes, monkeypatch):
    """What the test above shows is due to keys."""
    monkeypatch.setattr("modelkin.comparison.deep.frame_of_keys", lambda reading, pair: None)
    assert not compared_in_part(hidden(drawn(3)), drawn(3)).verdict.related


@pytest.mark.more
def test_hidden_strangers_whose_layers_are_read_in_part_are_not_accused(few_bytes):
    found = compared_in_part(hidden(drawn(4)), drawn(3))
    assert not found.verdict.related
    assert "key-rows" not in {frame.learned_from.code for frame in found.alignment.frames}
    assert any("keys of its attention heads" in str(item) for item in found.verdict.limitations)


@pytest.mark.parametrize(
    ("hidden_size", "kv_heads", "with_heads"),
    [(4096, 32, True), (5120, 40, True), (5120, 8, True), (8192, 64, False)],
)
def test_heads_of_two_layers_are_planned_beside_units_where_the_bytes_allow_it(
    hidden_size, kv_heads, with_heads, monkeypatch
):
    """At a width of 5,120 six tenths of the bytes for units left too few for heads, which went unseen."""
    shape = LlamaShape(
        layers=8,
        hidden=hidden_size,
        mlp=27 * hidden_size // 10,
        heads=hidden_size // 128,
        kv_heads=kv_heads,
        vocab=512,
    )
    with HubServer({"org/big": virtual_llama(shape)}) as hub, monkeypatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", hub.url)
        model = open_model("org/big", DEEP.fetch)
        pair = ModelPair(candidate=model, base=model, options=DEEP).seen(UNREAD, 350_000_000)
        pair = replace(pair, layer_pairs=tuple((layer, layer) for layer in range(shape.layers)))
        (probe,) = load_method("own-layers").plan(pair).probes
        model.close()
    read = {slice_.name for part in probe.base for slice_ in part.slices}
    assert sum(name.endswith("gate_proj.weight") for name in read) >= 4
    assert sum(name.endswith("o_proj.weight") for name in read) == (2 if with_heads else 0)


@pytest.mark.more
def test_keys_of_unrelated_models_teach_nothing(monkeypatch):
    """Heads of eight dimensions are now and then alike by chance; the map that they teach fits nothing.

    All layers teach it, as for large models, and every other one, as where the rest is tested in it.
    """
    monkeypatch.setattr("modelkin.comparison.alignment.keys.KEYS_FIT", -1.0)
    opened = {name: open_model(str(ZOO / name), DEEP.fetch) for name in lineages()}
    fits = []
    for candidate, base in itertools.permutations(lineages(), 2):
        stage = DeepStage(
            ModelPair(candidate=opened[candidate], base=opened[base], options=DEEP), tokens=UNREAD
        )
        pairs = stage._layer_pairs()
        for fold in (pairs, pairs[::2], pairs[1::2]):
            found = frame_of_keys(stage.reading, replace(stage.pair, layer_pairs=fold))
            fits.append(0.0 if found is None else found.frame.fit)
    for model in opened.values():
        model.close()
    assert len(fits) > 3000
    assert max(fits) < 0.8 * KEYS_FIT


SCRAMBLED = ("rotation-and-gains", "units", "heads")


def without_mlps(model: Checkpoint, *, renamed: bool) -> Checkpoint:
    """Leave out what a family calls MLPs, or give it names that say nothing."""
    others = {"gate_proj": "a", "up_proj": "b", "down_proj": "c"}
    tensors = {}
    for name, values in model.tensors.items():
        for known, other in others.items():
            name = name.replace(f".mlp.{known}.", f".mixer.{other}.")
        if renamed or ".mixer." not in name:
            tensors[name] = values
    return Checkpoint(config=model.config, tensors=tensors, tokenizer=model.tokenizer)


def compared_without_mlps(candidate: Checkpoint, base: Checkpoint, *, renamed: bool) -> mk.Comparison:
    mine, theirs = (
        MemorySource(without_mlps(model, renamed=renamed).files("BF16"), name=name)
        for name, model in (("candidate", candidate), ("base", base))
    )
    return mk.compare(mine, theirs, options=mk.CompareOptions(depth="deep"))


@pytest.mark.parametrize("turned", every(2, [False, True]))
@pytest.mark.parametrize("renamed", [False, True])
def test_scrambled_attention_is_found_where_no_mlp_is_known(renamed, turned):
    donor = disguised(zoo_model("finetune-light"), *SCRAMBLED)
    taken = {name: values for name, values in donor.tensors.items() if "self_attn" in name}
    pair = zoo_model("twin-1").with_tensors(taken), zoo_model("base")
    found = compared_without_mlps(*(pair[::-1] if turned else pair), renamed=renamed)
    shared = {name for name, item in found.verdict.components.items() if item.conclusion.related}
    assert shared == {"attention"}
    assert found.verdict.basis == "own-layers"
    assert found.verdict.components["mlp"].conclusion.value == "not-testable"


@pytest.mark.parametrize(
    ("candidate", "base"),
    [
        ("twin-1", "base"),
        ("corpus-1", "twin-2"),
        ("distilled", "base"),
        ("heads8-1", "heads8-4"),
        ("deep-1", "deep-2"),
    ],
)
def test_heads_of_strangers_are_not_found_where_no_mlp_is_known(candidate, base):
    found = compared_without_mlps(disguised(zoo_model(candidate), *SCRAMBLED), zoo_model(base), renamed=False)
    assert found.verdict.conclusion.value == "no-evidence"
    contrasts = [test for test in found.evidence if isinstance(test, Contrast)]
    assert {test.component for test in contrasts} == {"attention"}
    assert all(test.log10_p > -3 for test in contrasts)
