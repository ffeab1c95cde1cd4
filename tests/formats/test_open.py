"""Which file is taken for a model's weights, and what is said when there is none."""

import pytest
from tests.support import llama_files

import modelkin as mk
from modelkin.errors import NotFound, UnsupportedFormat
from modelkin.source import MemorySource


def test_safetensors_are_read_with_their_format_named():
    model = mk.open_model(MemorySource(llama_files()))
    assert model.weights.format == "safetensors"
    assert model.weights.notes == ()
    assert model.index is model.weights.index


def test_a_folder_without_weights_says_so():
    with pytest.raises(NotFound, match="no weights there"):
        _ = mk.open_model(MemorySource({"README.md": b"x"})).index


def test_weights_that_cannot_be_read_are_named():
    with pytest.raises(NotFound, match=r"there are Keras and TensorFlow: .*tf_model\.h5"):
        _ = mk.open_model(MemorySource({"tf_model.h5": b"x", "config.json": b"{}"})).index


def test_a_file_of_no_known_format_is_refused_by_name(tmp_path):
    (tmp_path / "model.xyz").write_bytes(b"x")
    with pytest.raises(UnsupportedFormat, match=r"model\.xyz: not a weight file"):
        _ = mk.open_model(str(tmp_path / "model.xyz")).index
