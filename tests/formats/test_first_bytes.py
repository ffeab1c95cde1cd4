"""Files of one ending are told apart by their first bytes, whether they are named or looked for."""

import numpy as np
import pytest
from tests.formats.small_files import ct2_file, ggml_whisper
from tests.formats.test_llama2c import file_of

import modelkin as mk
from modelkin.errors import UnsupportedFormat
from modelkin.source import MemorySource

FILES = {
    "ctranslate2": ct2_file({"a/weight": np.ones((2, 3), "<f4")}),
    "ggml": ggml_whisper()[0],
    "llama2.c": file_of("base"),
}


@pytest.mark.parametrize("format_", FILES)
def test_a_file_of_any_name_is_read_as_what_it_is(format_, tmp_path):
    (tmp_path / "weights.bin").write_bytes(FILES[format_])
    assert mk.open_model(str(tmp_path / "weights.bin")).weights.format == format_
    assert mk.open_model(str(tmp_path)).weights.format == format_


@pytest.mark.parametrize("format_", FILES)
def test_names_that_promise_another_format_do_not_count(format_):
    source = MemorySource({"ggml-model.bin": FILES[format_]})
    assert mk.open_model(source).weights.format == format_


def test_a_file_of_no_format_is_refused(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"\x93NUMPY" + bytes(100))
    with pytest.raises(UnsupportedFormat, match=r"weights\.bin: expected"):
        _ = mk.open_model(str(tmp_path / "weights.bin")).index


def test_a_config_that_names_a_model_type_counts_more_than_the_weights():
    files = {"model.bin": FILES["llama2.c"], "config.json": b'{"model_type": "llama", "vocab_size": 512}'}
    assert mk.open_model(MemorySource(files)).config == {"model_type": "llama", "vocab_size": 512}
