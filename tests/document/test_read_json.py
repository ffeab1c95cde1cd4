"""What was written is read back equal; what was not written by us is refused."""

import copy
import json

import jsonschema
import pytest

import modelkin as mk
from modelkin.document import load_language, to_json
from modelkin.document.results import fingerprint_from_json, schema
from modelkin.errors import FormatError
from modelkin.message import Message


@pytest.fixture(scope="session")
def document(compared):
    return json.loads(to_json(compared("controlled")))


def test_a_comparison_is_read_back_equal(comparison):
    text = comparison.to_json()
    again = mk.Comparison.from_json(text)
    assert again == comparison
    assert again.to_json() == text


def test_controls_are_read_back_equal(compared):
    assert mk.Comparison.from_json(compared("controlled").to_json()) == compared("controlled")


def test_a_comparison_follows_its_schema(comparison):
    document = json.loads(to_json(comparison))
    jsonschema.Draft202012Validator(schema("modelkin.comparison/1")).validate(document)
    assert document["schema"] == "modelkin.comparison/1"
    assert document["candidate"]["ref"] == f"org/{document['verdict']['conclusion']}"


def test_controls_follow_the_schema(document):
    jsonschema.Draft202012Validator(schema("modelkin.comparison/1")).validate(document)
    assert [item["usable"] for item in document["controls"]] == [True, True, False, False, False, False]


def test_the_keys_of_the_contract_are_there(compared):
    document = json.loads(to_json(compared("shared")))
    verdict = {"conclusion", "related", "log10_p", "log10_p_extrapolated", "effect", "detection_limit"}
    verdict |= {"components", "summary", "limitations"}
    ledger = {"requests", "bytes_fetched", "bytes_needed", "cache_hits", "seconds", "ranges"}
    evidence = {"method", "version", "axis", "component", "layers", "statistic", "z", "log10_p", "effect"}
    evidence |= {"n", "exact", "null", "status", "reason"}
    assert verdict <= document["verdict"].keys()
    assert ledger <= document["ledger"].keys()
    assert evidence <= document["evidence"][0].keys()
    assert {"conclusion", "effect", "log10_p"} <= document["verdict"]["components"]["mlp"].keys()
    assert {"value", "low", "high", "level"} == document["verdict"]["effect"].keys()


def changed(document, path, value):
    """Return the text of a document with one value changed; `path` is like ``verdict.effect.low``."""
    document = copy.deepcopy(document)
    *parents, last = path.split(".")
    place = document
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    place[last] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            "schema",
            "modelkin.comparison/2",
            "expected the schema modelkin.comparison/1, got 'modelkin.compar",
        ),
        ("schema", None, "expected the schema"),
        ("surprise", 1, "the document: unknown keys 'surprise'"),
        ("verdict.surprise", 1, "verdict: unknown keys 'surprise'"),
        ("verdict.conclusion", "guilty", "verdict.conclusion: expected one of"),
        ("verdict.conclusion", [], "verdict.conclusion: expected one of"),
        ("verdict.related", "yes", "verdict.related: expected bool"),
        ("verdict.log10_p", "-3", "verdict.log10_p: expected float"),
        ("verdict.log10_p", True, "verdict.log10_p: expected float"),
        ("verdict.effect", 3, "verdict.effect: expected an object"),
        ("verdict.effect.low", None, "verdict.effect.low: expected float, got None"),
        ("verdict.limitations", "none", "verdict.limitations: expected a list"),
        ("candidate.layers", 2.5, "candidate.layers: expected int"),
        ("candidate.dtypes", [], "candidate.dtypes: expected an object"),
        ("evidence.0.status", "maybe", r"evidence\[0\].status: expected one of"),
        ("controls.0.pair", ["a"], r"controls\[0\].pair: expected 2 items"),
        ("relation.details", {"x": None}, "relation.details.x: expected float or int or str"),
    ],
)
def test_other_keys_and_values_are_refused_by_place(document, path, value, words):
    with pytest.raises(FormatError, match=words):
        mk.Comparison.from_json(changed(document, path, value))


def test_a_missing_key_is_refused(document):
    less = {key: value for key, value in document.items() if key != "ledger"}
    with pytest.raises(FormatError, match="missing keys 'ledger'"):
        mk.Comparison.from_json(json.dumps(less))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"schema": 1, "schema": 2}',
        '{"schema": "modelkin.comparison/1", "x": NaN}',
        "9" * 5000,
    ],
)
def test_what_is_no_document_of_ours_is_refused(text):
    with pytest.raises(FormatError, match=r"^comparison: "):
        mk.Comparison.from_json(text)


def test_infinity_in_disguise_is_refused(document):
    text = changed(document, "verdict.log10_p", -1e300).replace("-1e+300", "-1e999")
    with pytest.raises(FormatError, match="-1e999 is no finite number"):
        mk.Comparison.from_json(text)


@pytest.mark.parametrize(
    ("read", "english", "korean"),
    [
        (
            mk.Comparison.from_json,
            "Only results of `modelkin compare` can be read",
            "결과만 읽을 수 있습니다",
        ),
        (
            mk.ModelDiff.from_json,
            "Only `modelkin diff` writes it.",
            "`modelkin diff` 명령만 이 파일을 씁니다.",
        ),
        (fingerprint_from_json, "Only `modelkin fingerprint` writes it.", "`modelkin fingerprint` 명령만"),
    ],
)
def test_who_writes_such_a_document_is_told_in_both_languages(read, english, korean):
    with pytest.raises(FormatError, match="expected the schema") as caught:
        read("{}")
    assert isinstance(caught.value.advice, Message)
    assert str(caught.value.advice).startswith(english)
    assert korean in load_language("ko").tell(caught.value.advice)
