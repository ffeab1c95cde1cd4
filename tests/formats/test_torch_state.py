"""Which of a checkpoint's tensors are the model, and what they are called."""

import numpy as np
import pytest
from tests.formats.test_whisper_names import TINY_DIMS, original_shapes
from tests.formats.torch_writer import (
    Stored,
    call,
    group,
    integer,
    mapping,
    name,
    read,
    storage,
    tensor,
    text,
    torch_file,
    whole,
    zipped,
)
from tests.support import llama_config, llama_tensors

import modelkin as mk
from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.source import MemorySource

T = tensor(storage("0", 2), (2,))
DATA = {"0": bytes(8)}


def names_and_notes(top: bytes) -> tuple[list[str], tuple[str, ...]]:
    weights = read(zipped(top, DATA))
    return list(weights.index), tuple(map(str, weights.notes))


def state(*names: str) -> bytes:
    return mapping(dict.fromkeys(names, T))


@pytest.mark.parametrize(
    "key", ["state_dict", "model_state_dict", "model", "module", "params", "weights", "net"]
)
def test_weights_are_found_under_the_keys_of_trainers(key):
    names, notes = names_and_notes(mapping({"epoch": integer(3), key: state("x.weight", "y.weight")}))
    assert names == ["x.weight", "y.weight"]
    assert notes == (f"the weights are under {key!r}",)


def test_keys_can_be_nested_and_only_the_likeliest_is_taken():
    top = mapping({"ema": state("e"), "model": mapping({"state_dict": state("w"), "step": integer(1)})})
    names, notes = names_and_notes(top)
    assert names == ["w"]
    assert notes == (
        "the weights are under 'model'; ema next to it was left out",
        "the weights are under 'state_dict'",
    )


def test_a_state_dict_with_a_part_called_model_stays_whole():
    assert names_and_notes(mapping({"model": state("a"), "head": T}))[0] == ["head", "model.a"]


def test_nested_dictionaries_are_joined_with_dots():
    top = mapping({"encoder": mapping({"layer": state("w")}), "decoder": b"](" + T + T + b"e"})
    assert names_and_notes(top)[0] == ["decoder.0", "decoder.1", "encoder.layer.w"]


def test_two_ways_to_one_name_are_refused():
    with pytest.raises(HeaderError, match=r"two tensors are called 'a\.b'"):
        names_and_notes(mapping({"a": state("b"), "a.b": T}))


def test_the_optimizer_is_left_out():
    adam = mapping({"state": mapping({"exp_avg": T})})
    names, notes = names_and_notes(mapping({"w": T, "optimizer": adam}))
    assert names == ["w"]
    assert notes == ("left out because it is not part of the model: optimizer",)


def test_numpy_arrays_are_left_out_and_said():
    array = call(
        name("numpy.core.multiarray", "_reconstruct"), name("numpy", "ndarray"), group(integer(0)), text("b")
    )
    names, notes = names_and_notes(mapping({"w": T, "n": array + group(integer(1)) + b"b"}))
    assert names == ["w"]
    assert notes == ("1 numpy array was left out",)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_forward_module."])
def test_marks_of_wrappers_are_taken_off(prefix):
    names, notes = names_and_notes(state(f"{prefix}a.weight", f"{prefix}b.weight"))
    assert names == ["a.weight", "b.weight"]
    assert all("of a wrapper was removed from all names" in note for note in notes)


def test_a_prefix_of_some_names_only_stays():
    assert names_and_notes(state("module.a", "b")) == (["b", "module.a"], ())


def lightning(*names: str) -> bytes:
    return mapping({"pytorch-lightning_version": text("2.0"), "state_dict": state(*names)})


def test_the_prefix_of_lightning_is_taken_off_a_wrapped_model():
    assert names_and_notes(lightning("model.model.layers.0.w", "model.lm_head.weight"))[0] == [
        "lm_head.weight",
        "model.layers.0.w",
    ]


def test_a_model_whose_own_names_begin_so_keeps_them():
    kept = ["model.embed_tokens.weight", "model.layers.0.w"]
    assert names_and_notes(lightning(*kept))[0] == kept
    assert names_and_notes(state(*kept))[0] == kept


def test_the_first_names_of_norms_are_those_of_today():
    names, notes = names_and_notes(state("bert.LayerNorm.gamma", "bert.LayerNorm.beta", "gamma"))
    assert names == ["bert.LayerNorm.bias", "bert.LayerNorm.weight", "gamma"]
    assert notes == ("gamma and beta of norms were renamed to weight and bias, as in newer files",)


@pytest.mark.parametrize(
    "top", [mapping({"lr": integer(1)}), b"N", b"]", integer(1), mapping({"model": b"}"})]
)
def test_a_file_without_tensors_is_not_a_model(top):
    with pytest.raises(UnsupportedFormat, match="no tensors in it"):
        names_and_notes(top)


def test_a_single_tensor_has_no_name():
    with pytest.raises(UnsupportedFormat, match="a single tensor without a name"):
        names_and_notes(T)


def test_names_that_nobody_can_see_are_refused():
    with pytest.raises(HeaderError, match=r"contains the invisible character U\+202E"):
        names_and_notes(state("a\u202eb"))
    with pytest.raises(HeaderError, match=r"contains the invisible character U\+D800"):
        names_and_notes(state("a\ud800b"))


def test_names_that_nobody_can_see_beside_good_ones_are_left_out():
    names, notes = names_and_notes(state("good", "a\u202eb", "x" * 2000))
    assert names == ["good"]
    assert any(note.startswith("2 tensors were left out because their names") for note in map(str, notes))


def test_parameters_and_tensors_by_their_class_are_tensors():
    hooks = call(name("collections", "OrderedDict"))
    parameter = call(name("torch._utils", "_rebuild_parameter"), T, b"\x88", hooks)
    kept = call(name("torch._utils", "_rebuild_parameter_with_state"), T, b"\x88", hooks, b"N}\x86")
    inner = group(storage("0", 2), integer(0), group(integer(2)), group(integer(1)), b"\x89", hooks)
    typed = call(
        name("torch._tensor", "_rebuild_from_type_v2"),
        *(name("torch._utils", "_rebuild_tensor_v2"), name("torch.nn.parameter", "Parameter"), inner, b"}"),
    )
    old = call(
        name("torch._utils", "_rebuild_tensor"),
        *(storage("0", 2), integer(0), group(integer(2)), group(integer(1))),
    )
    names, _ = names_and_notes(mapping({"p": parameter, "q": kept, "r": typed, "s": old}))
    assert names == ["p", "q", "r", "s"]


def test_the_original_whisper_opens_as_whisper_with_its_config():
    shapes = original_shapes(width=16, layers=1)
    shapes["decoder.token_embedding.weight"] = (50, 16)
    small = {**TINY_DIMS, "n_vocab": 50, "n_audio_state": 16, "n_text_state": 16}
    small |= {"n_audio_layer": 1, "n_text_layer": 1, "n_audio_head": 2, "n_text_head": 2}
    items, storages = {}, {}
    for number, (key, shape) in enumerate(shapes.items()):
        count = int(np.prod(shape))
        items[key] = tensor(storage(str(number), count, kind="Half"), shape)
        storages[str(number)] = bytes(2 * count)
    dims = mapping({key: integer(value) for key, value in small.items()})
    data = zipped(mapping({"dims": dims, "model_state_dict": mapping(items)}), storages)
    model = mk.open_model(MemorySource({"tiny.pt": data}))
    assert model.config is not None
    assert (model.config["model_type"], model.config["d_model"]) == ("whisper", 16)
    assert model.architecture.family == "whisper"
    assert len(model.architecture.tensors) == len(shapes)
    assert "model.decoder.layers.0.encoder_attn.q_proj.weight" in model.index


def test_a_config_beside_a_torch_file_counts():
    import json

    tensors = {key: Stored.of(value) for key, value in llama_tensors().items()}
    config = json.dumps(llama_config()).encode()
    model = mk.open_model(MemorySource({"pytorch_model.bin": torch_file(tensors), "config.json": config}))
    assert model.config == json.loads(config)
    assert model.architecture.family == "llama"
    alone = mk.open_model(MemorySource({"pytorch_model.bin": torch_file(tensors)}))
    assert alone.config is None
    assert alone.architecture.family == "llama"


def test_whole_is_a_pickle():
    assert whole(b"N") == b"\x80\x02N."
