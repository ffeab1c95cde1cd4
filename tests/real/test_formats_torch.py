"""Published files of torch: a copy, three relatives, and the original Whisper."""

import numpy as np
from tests.real.published import published

import modelkin as mk
from modelkin.comparison.verdict import Conclusion


def compared(candidate: str, base: str) -> mk.Comparison:
    return mk.compare(candidate=str(published(candidate)), base=str(published(base)))


def test_the_torch_file_of_minilm_is_its_safetensors_bit_by_bit():
    result = compared("minilm_bin", "minilm")
    assert result.verdict.conclusion is Conclusion.IDENTICAL


def test_the_original_whisper_opens_as_whisper():
    with mk.open_model(str(published("whisper_en_pt"))) as model:
        assert model.architecture.family == "whisper"
        assert len(model.architecture.tensors) == len(model.index) == 167
        assert model.config is not None
        assert model.config["vocab_size"] == 51864
        positions = model.tensor("model.encoder.embed_positions.weight")
    # A fixed table of sines and cosines, stored in half precision: the first line is that of position 0.
    np.testing.assert_array_equal(positions[0], np.repeat([0.0, 1.0], 192))
