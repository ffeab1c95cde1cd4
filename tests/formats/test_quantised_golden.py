"""Files written by the libraries that define the formats, with the numbers they decode to."""

import json

import numpy as np
import pytest
from tests.places import FORMATS

import modelkin as mk
from modelkin.source import MemorySource

FILES = sorted(FORMATS.glob("quantised-*.safetensors"))


def test_there_are_files_of_every_library():
    kinds = {file.stem.split("-")[1] for file in FILES}
    assert kinds == {"bnb", "ct", "mlx", "hqq", "awq", "gpt"}
    assert sum(file.stat().st_size for file in FILES) < 150_000


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem.removeprefix("quantised-"))
def test_numbers_are_those_of_the_library(file):
    data = file.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    config = header["__metadata__"]["config"].encode()
    model = mk.open_model(MemorySource({"model.safetensors": data, "config.json": config}))
    assert list(model.index) == ["expected", "module.weight"]
    expected, got = model.tensor("expected"), model.tensor("module.weight")
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(model.tensor("module.weight", rows=[1]), got[1:2])
