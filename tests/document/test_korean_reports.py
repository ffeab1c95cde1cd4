"""Reports in Korean of real pairs: nothing in them is an English sentence."""

import json
import re
from html.parser import HTMLParser

import jsonschema
import pytest
from tests.places import FORMATS, ZOO

import modelkin as mk
from modelkin.document import load_language, report_html
from modelkin.document.folder import report_markdown
from modelkin.document.results import schema
from modelkin.options import Depth

KOREAN = load_language("ko")
NAME = re.compile(r"[\w.-]*[\d_./@-][\w./@-]*")
"""A reference, a tensor, a method, a version: it has a mark or a digit in it."""
ENGLISH = re.compile(r"(?:[A-Za-z]{2,}[,;:]? ){3,}[A-Za-z]{2,}")
"""Four words in a row."""
KNOWN = re.compile(r"modelkin compare|--\w+ \w+")


class Texts(HTMLParser):
    """The texts of a page, without its script and its style."""

    def __init__(self, page):
        super().__init__()
        self.open = [""]
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.open += [tag] if tag not in {"meta", "img", "br"} else []
        self.found += [value for name, value in attrs if name in ("data-note", "title", "aria-label")]

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        self.found += [data] if self.open[-1] not in ("script", "style", "code") else []


def english(texts):
    """Return what is left of texts in English once names are taken out."""
    bare = (NAME.sub("~", KNOWN.sub("~", text)) for text in texts)
    return [found[0] for text in bare for found in ENGLISH.finditer(text)]


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


@pytest.fixture(scope="module", params=PAIRS)
def result(request):
    candidate, base, depth, controls = PAIRS[request.param]
    return mk.compare(
        candidate=model(candidate),
        base=model(base),
        controls=[model(name) for name in controls],
        options=mk.CompareOptions(depth=depth),
    )


@pytest.mark.parametrize("written", ["in memory", "read back"])
def test_no_english_sentence_is_left(result, written):
    shown = result if written == "in memory" else mk.Comparison.from_json(result.to_json())
    text = report_markdown(shown, KOREAN)
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL).replace("`", "").splitlines()
    assert english(prose) == []
    assert english(Texts(report_html(shown, KOREAN)).found) == []
    assert "(원문)" not in text


def test_its_json_follows_the_schema(result):
    jsonschema.validate(json.loads(result.to_json()), schema("modelkin.comparison/1"))


def test_the_search_finds_english_sentences(result):
    assert len(english(report_markdown(result).splitlines())) > 20
    assert english(["이 모델은 it cannot be said here", "norm-profile a/b mlp_up v_proj.weight x"]) == [
        "it cannot be said here"
    ]
