"""Reports in Korean of real pairs: nothing in them is an English sentence."""

import json

import jsonschema
import pytest
from tests.document.korean import TERMS, Texts, english, foreign, prose
from tests.places import FORMATS, ZOO
from tests.support.amount import every

import modelkin as mk
from modelkin.document import load_language, report_html
from modelkin.document.folder import report_markdown
from modelkin.document.results import schema
from modelkin.options import Depth

KOREAN = load_language("ko")


def model(name):
    """Return a model of the zoo, an adapter on one or alone, or a file of another format."""
    if "::" in name:
        adapter, base = name.split("::")
        return f"{FORMATS / adapter}::{ZOO / base}"
    place = ZOO / name
    return str(place if place.exists() else FORMATS / name)


PAIRS: dict[str, tuple[str, str, Depth, tuple[str, ...]]] = {
    "kin": ("finetune-light", "base", "standard", ()),
    "kin, controls": ("finetune-light", "base", "quick", ("twin-1", "moe-base", "base")),
    "strangers, deep": ("twin-1", "base", "deep", ()),
    "other family": ("gpt2-base", "base", "deep", ()),
    "experts": ("moe-tuned", "moe-base", "standard", ()),
    "adapter on its base": ("trained_adapters/base-gamma::base", "base", "standard", ()),
    "adapters alone": ("trained_adapters/base-gamma", "trained_adapters/base-beta", "standard", ()),
    "adapter of another shape": ("trained_adapters/base-gamma", "narrow", "standard", ()),
    "quantised": ("quantised-mlx-4.safetensors", "quantised-awq.safetensors", "standard", ()),
    "no names": ("onnx_bert_dynamo.onnx", "bert-base", "standard", ()),
    "scrambled": ("scrambled-units", "base", "deep", ("twin-1",)),
}


@pytest.fixture(scope="module", params=every(2, PAIRS))
def result(request):
    candidate, base, depth, controls = PAIRS[request.param]
    return mk.compare(
        candidate=model(candidate),
        base=model(base),
        controls=[model(name) for name in controls],
        options=mk.CompareOptions(depth=depth),
    )


@pytest.mark.parametrize("written", every(2, ["in memory", "read back"]))
def test_no_english_sentence_is_left(result, written):
    shown = result if written == "in memory" else mk.Comparison.from_json(result.to_json())
    text = report_markdown(shown, KOREAN)
    named = TERMS | {"base", "narrow"}
    assert foreign(prose(text), named) == []
    assert foreign(Texts(report_html(shown, KOREAN)).found, named) == []
    assert "(원문)" not in text


def test_its_json_follows_the_schema(result):
    jsonschema.validate(json.loads(result.to_json()), schema("modelkin.comparison/1"))


def test_the_search_finds_english_sentences(result):
    assert len(english(report_markdown(result).splitlines())) > 20
    assert english(["이 모델은 it cannot be said here", "norm-profile a/b mlp_up v_proj.weight x"]) == [
        "it cannot be said here"
    ]
    assert len(foreign(report_markdown(result).splitlines())) > 100
    assert foreign(["비교함 | yes", "0.31 to 0.98", "mlp_up의 norm", "demo:base의 “no such file”"]) == ["yes"]
