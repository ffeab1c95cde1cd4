"""Reference scores are shown next to a verdict and cannot affect it."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from tests.places import DOCS, ZOO
from tests.support.imports import imports_of

import modelkin as mk
from modelkin.comparison.methods import Evidence
from modelkin.document import report_html
from modelkin.document.folder import report_markdown
from modelkin.document.language import load_language
from modelkin.document.results import schema
from modelkin.errors import SpecError, UsageError
from modelkin.reference import (
    ReferenceOptions,
    chosen_references,
    load_reference,
    load_reference_cards,
    reference_costs,
    reference_scores,
    with_references,
)
from modelkin.reference.catalogue import read_reference_cards

ROOT = Path(mk.__file__).parent
HEADINGS = [
    "What it measures",
    "What it survives",
    "What defeats it",
    "Known false alarms",
    "Cost in bytes",
    "Where this differs from the publication",
    "References",
    "Version history",
]


@pytest.fixture(scope="module")
def compared():
    names = [str(ZOO / name) for name in ("finetune-light", "base")]
    plain = mk.compare(candidate=names[0], base=names[1], options=mk.CompareOptions(depth="quick"))
    options = ReferenceOptions(methods=("awm", "mdir", "pdf"), byte_limit=190_000)
    scores = reference_scores(names[0], names[1], options)
    return plain, with_references(plain, scores)


def test_a_score_is_no_evidence():
    assert not issubclass(mk.ReferenceScore, Evidence.__args__)
    fields = set(mk.ReferenceScore.__dataclass_fields__)
    assert not fields & {"log10_p", "effect", "exact", "null", "z"}


def test_what_decides_cannot_import_what_only_accompanies():
    importing = [
        str(path.relative_to(ROOT))
        for layer in ("comparison", "stats", "describe")
        for path in (ROOT / layer).rglob("*.py")
        if any("modelkin.reference" in f"{item.module}.{item.name}" for item in imports_of(path))
    ]
    assert importing == []


def test_the_verdict_and_the_evidence_stay_as_they_are(compared):
    plain, told = compared
    assert replace(told, reference=()) == plain
    assert told.verdict == plain.verdict
    assert [item.method for item in told.reference] == ["mdir", "awm", "pdf"]


def test_what_costs_too_much_is_told_with_its_price(compared):
    _, told = compared
    awm = told.reference[1]
    assert (awm.score, awm.says, awm.bytes_read) == (None, None, (0, 0))
    assert "it would read" in str(awm.reason)
    assert "190,000" in str(awm.reason)


def test_a_record_with_scores_is_read_back_equal_and_follows_the_schema(compared):
    _, told = compared
    text = told.to_json()
    assert mk.Comparison.from_json(text) == told
    document = json.loads(text)
    jsonschema.Draft202012Validator(schema("modelkin.comparison/1")).validate(document)
    assert document["reference"][0]["method"] == "mdir"


def test_records_of_before_are_read_too(compared):
    plain, _ = compared
    document = json.loads(plain.to_json())
    del document["reference"]
    assert mk.Comparison.from_json(json.dumps(document)) == plain


@pytest.mark.parametrize("language", ["en", "ko"])
def test_reports_show_scores_below_the_verdict(compared, language):
    plain, told = compared
    texts = load_language(language)
    title = texts.say("title.reference")
    for made in (report_markdown(told, texts), report_html(told, texts)):
        assert made.index(texts.say("title.verdict")) < made.index(title)
        assert "mdir" in made
    assert title not in report_markdown(plain, texts)


def test_prices_are_known_before_anything_is_read():
    names = [str(ZOO / name) for name in ("finetune-light", "base")]
    methods = ("awm", "phi-u", "huref-pcs", "anchors", "sampled-cosine", "huref-ics", "pdf", "phi-match")
    with mk.open_model(names[0]) as candidate, mk.open_model(names[1]) as base:
        prices = reference_costs(candidate, base, methods)
    found = reference_scores(names[0], names[1], ReferenceOptions(methods=methods))
    for score in found:
        price = prices[score.method]
        assert isinstance(price, tuple)
        # What is read in several passes is joined less.
        assert score.bytes_read == pytest.approx(price, rel=0.02), score.method


def test_all_is_what_reads_weights_and_names_are_checked():
    assert {method.card.needs for method in chosen_references(["all"])} == {"weights"}
    assert [method.card.name for method in chosen_references(["awm", "anchors"])] == ["anchors", "awm"]
    with pytest.raises(UsageError, match="no such published method") as caught:
        load_reference("huref-isc")
    assert caught.value.hint == "Did you mean huref-ics?"


def test_a_card_with_another_key_is_refused():
    with pytest.raises(SpecError, match="expected exactly the keys"):
        read_reference_cards("[awm]\nversion = '1'\n")


def test_every_published_method_has_its_page():
    pages = {page.stem: page.read_text() for page in (DOCS / "reference").glob("*.md")}
    assert pages.keys() == load_reference_cards().keys()
    for card in load_reference_cards().values():
        text = pages[card.name]
        found = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
        assert found == HEADINGS, card.name
        assert f"- {card.version}: " in text
        assert card.reference == f"docs/reference/{card.name}.md"
