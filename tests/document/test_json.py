"""JSON: plain numbers, honest gaps."""

import json
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
from tests.support import llama_files

import modelkin as mk
from modelkin.document import plain, to_json
from modelkin.document.results import schema
from modelkin.source import MemorySource, StoreInfo


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Result:
    name: str
    colour: Colour
    sizes: tuple[int, ...]
    missing: float | None = None


def test_dataclasses_enums_tuples_and_none_become_plain():
    assert plain(Result("a", Colour.RED, (1, 2))) == {
        "name": "a",
        "colour": "red",
        "sizes": [1, 2],
        "missing": None,
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="what was not measured is None"):
        plain({"p": value})


def test_what_json_cannot_say_is_refused():
    with pytest.raises(TypeError, match="object cannot be written"):
        plain(object())


def test_an_inspection_follows_its_schema():
    with mk.open_model(MemorySource(llama_files(n_shards=2))) as model:
        document = json.loads(to_json(mk.inspect_model(model)))
    jsonschema.validate(document, schema("modelkin.inspection/1"))
    assert document["schema"] == "modelkin.inspection/1"


def test_a_store_follows_its_schema():
    found = StoreInfo(path=Path("x"), n_bytes=1, n_objects=1, n_files=1, limit=2)
    jsonschema.validate(json.loads(to_json(found)), schema("modelkin.store/1"))


NAMES = [
    f"modelkin.{path.name.removesuffix('.json').replace('-1', '/1')}"
    for path in resources.files("modelkin.document").joinpath("schema").iterdir()
]


@pytest.mark.parametrize("name", NAMES)
def test_shipped_schemas_are_valid_schemas(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$id"] == name
