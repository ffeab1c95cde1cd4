"""Files that torch itself has written: every tensor of them, by any selection, as torch would give it."""

import math

import numpy as np
import pytest
from tests.places import FORMATS

import modelkin as mk
from modelkin.errors import IndexFileError, NotFound, UnsupportedFormat
from modelkin.formats import read_weights
from modelkin.formats.torch import FORMAT
from modelkin.formats.torch import layout as layout_module
from modelkin.source import ByteRange, Fetcher, FileInfo, MemorySource
from modelkin.tensors import TensorSlice

FLOATS = {
    **{"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"},
    **{"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"},
}
INTEGERS = {
    **{"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8"},
    **{"uint16": "U16", "uint32": "U32", "uint64": "U64"},
}


def numbers(*shape: int) -> np.ndarray:
    """What `make_torch.py` puts into every float tensor."""
    return ((np.arange(math.prod(shape)) % 7 - 3) / 2).reshape(shape).astype(np.float32)


def expected() -> dict[str, np.ndarray]:
    wide = numbers(6, 8)
    found = {name: numbers(2, 5) for name in FLOATS}
    found |= {name: (np.arange(10) % 5).reshape(2, 5) for name in INTEGERS}
    return found | {
        "bool": np.arange(6) % 2 == 0,
        "complex64": numbers(4) + 1j * numbers(4),
        "wide": wide,
        "tied": wide,
        "transposed": wide.T,
        "cut": wide[1:4, 2:7],
        "rows": wide[2:5],
        "column": wide[:, 3],
        "stepped": wide[::2, ::3],
        "expanded": np.broadcast_to(numbers(1, 4), (3, 4)),
        "permuted": numbers(2, 3, 4).transpose(2, 0, 1),
        "bf16_transposed": numbers(3, 5).T,
        "int_transposed": np.arange(6).reshape(2, 3).T,
        "scalar": np.float32(1.5),
        "empty": np.empty((0, 3), np.float32),
        "parameter": numbers(3),
    }


@pytest.fixture(params=["torch_zip.bin", "torch_zip_protocol5.bin", "torch_legacy.bin"])
def model(request):
    return mk.open_model(str(FORMATS / request.param))


def test_every_tensor_is_there_with_its_format_and_shape(model):
    assert model.weights.format == "pytorch"
    assert model.weights.notes == ()
    wanted = expected()
    assert {name: info.shape for name, info in model.index.items()} == {
        name: array.shape for name, array in wanted.items()
    }
    assert {name: model.index[name].dtype for name in (FLOATS | INTEGERS)} == FLOATS | INTEGERS
    assert model.index["bool"].dtype == "BOOL"
    assert model.index["bf16_transposed"].dtype == "BF16"


@pytest.mark.parametrize("name", expected())
def test_a_tensor_has_the_numbers_that_torch_gave_it(model, name):
    np.testing.assert_array_equal(model.tensor(name), expected()[name])


def test_integers_stay_integers_however_they_lie(model):
    assert model.tensor("int_transposed").dtype == np.int64
    assert not model.index["int_transposed"].is_float
    assert model.index["transposed"].is_float


def test_ties_and_cuts_share_the_bytes_of_one_storage(model):
    wide, tied, rows = (model.index[name] for name in ("wide", "tied", "rows"))
    assert (wide.start, wide.stop) == (tied.start, tied.stop)
    assert (rows.start - wide.start, rows.stop - rows.start) == (2 * 8 * 4, 3 * 8 * 4)
    assert rows.storage is None


@pytest.mark.parametrize("name", ["transposed", "cut", "stepped", "permuted", "expanded", "wide"])
def test_rows_of_a_view_are_those_of_the_whole(model, name):
    whole = expected()[name]
    for first in range(len(whole) - 1):
        got = model.tensor(name, rows=slice(first, first + 2))
        np.testing.assert_array_equal(got, whole[first : first + 2])
    np.testing.assert_array_equal(model.tensor(name, rows=[2, 0]), whole[[2, 0]])


def test_raw_bits_of_a_view_are_as_wide_as_its_format(model):
    (bits,) = model._reader.raw([TensorSlice.whole("bf16_transposed")])
    assert bits.dtype == np.uint16
    np.testing.assert_array_equal((bits.astype(np.uint32) << 16).view(np.float32), numbers(3, 5).T)


def test_all_chunks_together_are_the_model(model):
    found: dict[str, list[np.ndarray]] = {}
    for chunk in model.chunks():
        found.setdefault(chunk.name, []).append(chunk.values)
    for name, whole in expected().items():
        flat = np.concatenate(found.get(name, [np.empty(0, np.float32)]))
        np.testing.assert_array_equal(flat, np.asarray(whole).reshape(-1))


def test_few_lines_of_a_transposed_tensor_take_few_bytes_where_they_are_far_apart(model, monkeypatch):
    lines = TensorSlice.rows("transposed", 2, 4)
    (near,) = model._reader.ranges([lines]).values()
    monkeypatch.setattr(layout_module, "APART", 4)
    (ranges,) = model._reader.ranges([lines]).values()
    assert [item.length for item in ranges] == [8] * 6
    assert near == [ByteRange(ranges[0].start, ranges[-1].stop)]


def test_a_format_that_numpy_lacks_is_left_out_and_said():
    model = mk.open_model(str(FORMATS / "torch_complex128.bin"))
    assert list(model.index) == ["a"]
    assert tuple(map(str, model.weights.notes)) == ("left out: 1 of 2 tensors, in the format complex128",)
    assert len(model.weights.left_out) == 1


def test_shards_are_joined_by_their_index():
    model = mk.open_model(str(FORMATS / "torch_sharded"))
    assert list(model.index) == ["a", "b", "c"]
    np.testing.assert_array_equal(model.tensor("c"), numbers(3, 2))
    assert model.index.files == tuple(f"pytorch_model-0000{n}-of-00002.bin" for n in (1, 2))


def test_a_missing_shard_is_named():
    files = {path.name: path.read_bytes() for path in (FORMATS / "torch_sharded").iterdir()}
    del files["pytorch_model-00002-of-00002.bin"]
    with pytest.raises(IndexFileError, match=r"1 of 2 shards are missing, starting with .*00002-of-00002"):
        _ = mk.open_model(MemorySource(files)).index


def test_shards_of_an_index_must_be_files_of_torch():
    files = {path.name: path.read_bytes() for path in (FORMATS / "torch_sharded").iterdir()}
    index = files["pytorch_model.bin.index.json"].replace(b"00002.bin", b"00002.exe")
    with pytest.raises(IndexFileError, match=r"does not end in \.bin or \.pt or \.pth or \.ckpt"):
        _ = mk.open_model(MemorySource({**files, "pytorch_model.bin.index.json": index})).index


def test_a_torchscript_program_gives_its_tensors_and_no_code():
    model = mk.open_model(str(FORMATS / "torch_script.pt"))
    assert {name: info.shape for name, info in model.index.items()} == {
        "0.weight": (2, 3),
        "0.bias": (2,),
        "1.weight": (2,),
        "1.bias": (2,),
    }
    np.testing.assert_array_equal(model.tensor("0.weight"), numbers(2, 3))
    assert tuple(map(str, model.weights.notes)) == (
        "the file is a TorchScript program: its tensors were read, its code was not",
    )


def test_a_lightning_checkpoint_gives_its_weights_without_optimizer_and_prefix():
    model = mk.open_model(str(FORMATS / "torch_lightning.ckpt"))
    assert list(model.index) == ["proj.bias", "proj.weight"]
    np.testing.assert_array_equal(model.tensor("proj.weight"), numbers(2, 3))
    notes = " / ".join(map(str, model.weights.notes))
    assert "the weights are under 'state_dict'" in notes
    assert "left out because it is not part of the model: optimizer_states" in notes
    assert "mentions 1 names that were not resolved: torch._C._nn.gelu" in notes
    assert "prefix 'model.' of Lightning" in notes


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["pytorch_model.bin", "pytorch_model.bin.index.json", "a.pt"], "pytorch_model.bin"),
        (["pytorch_model.bin.index.json", "a.pt"], "pytorch_model.bin.index.json"),
        (["sub/pytorch_model.bin", "b.pt", "a.pth"], "a.pth"),
        (["optimizer.pt", "scheduler.pt", "rng_state_0.pth", "weights.ckpt"], "weights.ckpt"),
        (["pytorch_model.fp16.bin"], "pytorch_model.fp16.bin"),
        (["ggml-model.bin", "model.bin", "training_args.bin", "optimizer.pt"], None),
    ],
)
def test_the_file_is_chosen_as_loaders_do(files, chosen):
    listing = {file: FileInfo(name=file, size=1) for file in files}
    assert FORMAT.choose(listing) == chosen


def test_other_files_of_weights_are_mentioned():
    data = (FORMATS / "torch_complex128.bin").read_bytes()
    model = mk.open_model(MemorySource({"pytorch_model.bin": data, "b.pt": data, "optimizer.pt": data}))
    assert str(model.weights.notes[0]) == "pytorch_model.bin was taken; there are also b.pt"


def test_slices_of_tensors_in_several_files_are_refused():
    data = (FORMATS / "torch_zip.bin").read_bytes()
    with pytest.raises(UnsupportedFormat, match="one of 2 files that hold slices of every tensor"):
        _ = mk.open_model(MemorySource({"consolidated.00.pth": data, "consolidated.01.pth": data})).index


def test_a_named_file_that_is_not_there_is_not_found():
    fetcher = Fetcher(MemorySource({"a.pt": b"x"}), mk.FetchOptions())
    with pytest.raises(NotFound, match=r"b\.pt: no such file"):
        read_weights(fetcher, head_bytes=100, name="b.pt")
