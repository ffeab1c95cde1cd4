"""The page as a parser sees it: complete, alone, and inert whatever the names are."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import get_args

import pytest
from tests.document.records import EVIL, hostile, with_maps

from modelkin.comparison.methods import Skipped, Tested
from modelkin.comparison.verdict import Conclusion
from modelkin.comparison.verdict.result import Reading
from modelkin.document import load_language, report_html
from modelkin.document.evidence import evidence_row
from modelkin.document.folder import report_markdown
from modelkin.document.html.markup import Html, element, own_text, powers, with_names
from modelkin.document.numbers import bound_text, effect_text, limit_text, p_text
from modelkin.document.views.states import layer_states
from modelkin.document.views.words import facing_layers, undone
from modelkin.message import say

ENGLISH, KOREAN = load_language("en"), load_language("ko")
VOID = {"meta", "br", "col", "img", "wbr"}


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What the page may be made of.
ALLOWED = words_of(
    """
    html head meta title style body header span wbr button a nav ol ul li main section h1 h2 h3 h4 div p dl dt
    dd small svg line rect path circle polyline text g table thead tbody tr th td bdi code em strong details
    summary pre figure figcaption form label select option output footer script
    """
)
ATTRIBUTES = words_of(
    """
    class id lang dir charset http-equiv content name href type title hidden tabindex role scope colspan value
    viewbox x y x1 x2 y1 y2 cx cy r rx d width height points transform text-anchor aria-label aria-live
    aria-hidden data-label data-v data-note data-x data-y data-measure data-series
    data-map data-cell data-left data-top
    """
)
SECTIONS = [
    *("verdict", "limits", "components", "layers", "relation", "controls", "missing", "models", "repeat"),
    *("evidence", "tokenizers", "config", "lineage", "reading", "glossary"),
]


class Parsed(HTMLParser):
    """What is in a page: elements, attributes, texts; and whether everything is closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.rows: dict[str, list[list[str]]] = {}
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag == "tr":
            section = next((item for item in reversed(self.ids) if item in SECTIONS), "")
            self.rows.setdefault(section, []).append([])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)
        if {"td", "th"} & set(self.open):
            section = next((item for item in reversed(self.ids) if item in SECTIONS), "")
            self.rows[section][-1].append(data)

    @property
    def text(self):
        return "".join(self.texts)

    def values(self, name):
        return [value for _, key, value in self.attributes if key == name]


def policy(parsed):
    contents = [value for tag, name, value in parsed.attributes if tag == "meta" and name == "content"]
    return next(text for text in contents if "default-src" in text)


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@pytest.fixture(params=[ENGLISH, KOREAN], ids=["en", "ko"])
def language(request):
    return request.param


def test_the_page_begins_with_the_verdict_and_its_limits(comparison, language):
    parsed = Parsed(report_html(comparison, language))
    assert [item for item in parsed.ids if item in SECTIONS] == SECTIONS
    assert parsed.values("lang") == [language.code]
    conclusion = comparison.verdict.conclusion.value
    order = [
        parsed.text.index(told)
        for told in (
            language.tell(comparison.verdict.headline),
            language.say(f"meaning.{conclusion}"),
            language.say("text.about_controls"),
            language.say("text.same_bytes"),
        )
        if told in parsed.text
    ]
    assert order == sorted(order)
    assert len(order) >= 3


def test_the_page_refers_to_nothing_outside(comparison, language):
    text = report_html(with_maps(comparison), language)
    parsed = Parsed(text)
    assert set(parsed.tags) <= ALLOWED
    assert {name for _, name, _ in parsed.attributes} <= ATTRIBUTES
    assert all(value.startswith("#") and value[1:] in parsed.ids for value in parsed.values("href"))
    assert not re.search(r"(?:https?:)?//|url\(|@import|data:", re.sub(r"//[^\n]*", "", text))
    assert "http" not in "".join(parsed.styles)


def test_the_policy_lets_only_our_style_and_script_in(compared):
    parsed = Parsed(report_html(with_maps(compared("shared"))))
    assert parsed.tags.index("meta") < parsed.tags.index("title")
    directives = dict(part.strip().split(" ", 1) for part in policy(parsed).split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["style-src"] == f"'{digest(parsed.styles[0])}'"
    *data, script = parsed.scripts
    assert directives["script-src"] == f"'{digest(script)}'"
    assert [set(json.loads(text)) for text in data] == [{"candidate", "base", "scores", "path", "words"}]
    assert directives["base-uri"] == directives["form-action"] == "'none'"
    assert len(parsed.styles) == 1
    assert [value for tag, name, value in parsed.attributes if tag == "script" and name == "type"] == [
        "application/json"
    ]


def test_every_number_of_the_verdict_is_shown(comparison, language):
    text = Parsed(report_html(comparison, language)).text
    verdict = comparison.verdict
    if verdict.log10_p is not None:
        assert powers(p_text(verdict.log10_p)) in text
    if verdict.effect is not None:
        assert effect_text(verdict.effect) in text
    if verdict.detection_limit is not None:
        assert limit_text(verdict.detection_limit) in text
    for item in verdict.components.values():
        if item.effect is not None and item.log10_p is not None:
            assert effect_text(item.effect) in text
            assert powers(bound_text(item.log10_p)) in text
    assert language.say("text.same_bytes") in text


def test_every_piece_of_evidence_has_its_row(comparison, language):
    parsed = Parsed(report_html(comparison, language))
    rows = [" ".join(row) for row in parsed.rows.get("evidence", [])[1:]]
    assert len(rows) == len(comparison.evidence)
    for row, test in zip(rows, map(evidence_row, comparison.evidence), strict=True):
        assert row.startswith(test.method)
        shown = [effect_text(test.effect)] if test.effect else []
        shown += [powers(bound_text(test.log10_p))] if test.log10_p is not None else []
        shown += [f"{test.n_matched:,}"] if test.n_matched is not None else []
        for number in shown:
            assert number in row
    sortable = {float(value) for value in parsed.values("data-v")}
    for test in comparison.evidence:
        if isinstance(test, Tested) and test.z is not None:
            assert {test.z, test.log10_p} <= sortable


def test_what_was_not_examined_and_why_is_on_the_page(comparison):
    text = Parsed(report_html(comparison)).text
    for test in comparison.evidence:
        if isinstance(test, Skipped):
            assert str(test.reason) in text
    for sentence in comparison.verdict.limitations:
        assert str(sentence) in text


def test_controls_are_shown_with_the_reason_why_one_cannot_serve(compared, language):
    parsed = Parsed(report_html(compared("controlled"), language))
    rows = [" ".join(row) for row in parsed.rows["controls"][1:]]
    assert len(rows) == 6
    assert sum(f" {language.say('word.no')} : " in row for row in rows) == 4
    assert "--control MODEL" in Parsed(report_html(compared("shared"), language)).text


def test_the_layer_map_tells_shared_from_not_shared_and_not_tested(compared):
    classes = Parsed(report_html(compared("shared"))).values("class")
    assert "cell shared" in classes
    strangers = Parsed(report_html(compared("no-evidence")))
    map_cells = [note for note in strangers.values("data-note") if "layer 0: " in note]
    assert map_cells
    assert not any("layer 0: shared" in note for note in map_cells)


def test_layers_that_were_tested_together_are_not_told_apart(compared):
    states = layer_states(compared("shared"))
    assert set(states["mlp"].values()) == {"shared"}
    assert set(states["norms"].values()) == {"together"}
    assert set(layer_states(compared("no-evidence"))["norms"].values()) == {"not_shared"}


def test_the_layers_of_a_component_that_is_shared_in_part_are_told_apart(compared):
    result = compared("shared")
    mlp = replace(result.verdict.components["mlp"], layers=(0,), other_layers=(1,))
    components = {**result.verdict.components, "mlp": mlp}
    states = layer_states(replace(result, verdict=replace(result.verdict, components=components)))
    assert states["mlp"] == {0: "shared", 1: "not_shared"}


def test_a_layer_that_nobody_tested_is_empty_and_not_unshared(compared):
    result = compared("shared")
    first = tuple(test for test in result.evidence if test.layers != (1,) and len(test.layers) < 2)
    page = Parsed(report_html(replace(result, evidence=first)))
    assert page.values("class").count("cell untested") > 1
    assert not any("layer 1: " in note for note in page.values("data-note"))


def test_the_ledger_lists_ranges_and_says_how_many_it_leaves_out(compared):
    result = compared("shared")
    parsed = Parsed(report_html(result))
    for entry in result.ledger.ranges:
        assert entry.sha256 in parsed.text
    many = replace(result, ledger=replace(result.ledger, ranges=result.ledger.ranges * 100))
    shown = Parsed(report_html(many))
    assert len(shown.rows["reading"]) < 400
    assert f"{len(many.ledger.ranges) - 300:,} more ranges" in shown.text


def test_the_command_and_everything_that_fixes_the_result_is_shown(compared):
    result = compared("shared")
    hub = replace(result.candidate, kind="hub", ref="org/name", revision="a" * 40)
    text = Parsed(report_html(replace(result, candidate=hub))).text
    assert f"modelkin compare org/name@{'a' * 40}" in text
    assert "--depth standard --seed 0" in text
    for method in result.environment.methods:
        assert method in text
    assert "log10 of p must be below -6" in text


# -- maps and other things that are not in every record ------------------------------------------------


def test_a_map_of_layers_is_drawn_with_its_numbers(compared, language):
    parsed = Parsed(report_html(with_maps(compared("shared")), language))
    data = json.loads(parsed.scripts[0])
    assert data["scores"][3][2] == 50.25
    assert data["scores"][0][8] is None
    assert [5, 3] in data["path"]
    paths = {
        dict_of["class"]: dict_of["d"]
        for dict_of in elements(parsed, "path")
        if dict_of.get("class", "").startswith("cell")
    }
    assert sum(path.count("M") for path in paths.values()) == 12 * 9
    assert paths["cell untested"] == "M8 0h1v1h-1z"
    assert paths["cell p5"].count("M") == 12
    assert language.say("title.maps") in parsed.text
    assert "50.2" in parsed.text


def elements(parsed, tag):
    """Return the attributes of each element of a kind; a class begins a new one here."""
    found: list[dict[str, str]] = []
    last: dict[str, str] | None = None
    for name, key, value in parsed.attributes:
        if name == tag:
            if last is None or key in last:
                last = {}
                found.append(last)
            last[key] = value
        else:
            last = None
    return found


def test_a_map_of_126_layers_stays_small(compared):
    alone = len(report_html(compared("shared")))
    large = len(report_html(with_maps(compared("shared"), n_candidate=126, n_base=126)))
    assert large - alone < 500_000


def test_layers_and_coordinates_are_told_where_they_are_not_those_of_the_candidate(compared):
    test = replace(compared("shared").evidence[0], layers=(4,))
    for others in ((), (4,)):
        assert facing_layers(replace(test, base_layers=others)) == ()
    assert facing_layers(replace(test, base_layers=(7,))) == (7,)
    assert (undone("identity"), undone("permutation")) == (None, "permutation")


@pytest.mark.parametrize("write", [lambda *args: Parsed(report_html(*args)).text, report_markdown])
def test_what_publishers_say_is_shown_as_a_claim(compared, language, write):
    claims = {
        "candidate": (say("claim-base", models=("org/a",)), say("claim-licence", name="mit")),
        "base": (say("claim-saved", name=EVIL),),
    }
    text = write(replace(compared("shared"), claims=claims), language)
    assert language.say("text.lineage_claim") in text
    assert language.say("message.claim-base", models="org/a") in text
    assert language.say("message.claim-licence", name="mit") in text
    assert language.say("text.no_lineage") in write(compared("shared"), language)


@pytest.mark.parametrize("write", [lambda *args: Parsed(report_html(*args)).text, report_markdown])
def test_signs_that_are_no_part_of_the_verdict_are_told_apart_from_it(compared, language, write):
    text = write(replace(compared("no-evidence"), flags=(say("lacks-tensor"),)), language)
    assert text.index(language.say("text.about_flags")) > text.index(language.say("title.limits"))
    assert language.say("message.lacks-tensor") in text
    assert language.say("text.about_flags") not in write(compared("no-evidence"), language)


def test_maps_of_the_residual_stream_are_shown(compared, language):
    rows = Parsed(report_html(with_maps(compared("shared")), language)).rows["relation"]
    learned = language.tell(say("quoted", text="mlp"))
    assert ["mlp", learned, "77", "0.500", "0.250"] in rows
    text = report_markdown(with_maps(compared("shared")), language)
    assert f"| mlp | {learned} | 77 | 0.500 | 0.250 |" in text
    assert language.say("text.frame", frame=language.say("frame.rotation")) in text


def test_tables_of_any_form_are_shown(compared, language):
    tokenizer = {
        "overlap": 0.75,
        "same_file": False,
        "sizes": {"candidate": 640, "base": 512},
        "offsets": [{"shift": 3, "tokens": 17}, {"shift": 0, "tokens": 4}],
        "classes": {"hangul": {"candidate": 10, "base": 12}, "latin": {"candidate": 5, "base": 5}},
        "nothing": None,
    }
    rows = Parsed(report_html(replace(compared("shared"), tokenizer=tokenizer), language)).rows["tokenizers"]
    assert ["overlap", "0.75"] in rows
    assert ["sizes", "640", "512"] in rows
    assert ["3", "17"] in rows
    assert ["hangul", "10", "12"] in rows
    assert ["nothing", "-"] in rows


# -- names of strangers --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shared", "no-evidence", "not-testable"])
def test_hostile_names_add_nothing_to_the_page(compared, language, kind):
    result = compared(kind)
    plain = Parsed(report_html(with_maps(hostile(result, "plain")), language))
    evil = Parsed(report_html(with_maps(hostile(result), text=EVIL), language))
    assert set(evil.tags) - {"wbr"} == set(plain.tags) - {"wbr"}  # long names may break at their marks
    assert set(evil.tags) <= ALLOWED
    assert {name for _, name, _ in evil.attributes} <= ATTRIBUTES
    assert evil.tags.count("script") == 2
    assert evil.tags.count("style") == 1
    assert digest(evil.scripts[1]) in policy(evil)


def test_hostile_names_cannot_reorder_the_page(compared, language):
    text = report_html(with_maps(hostile(compared("shared")), text=EVIL), language)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\x00-\x09\x0b-\x1f]", text)
    assert "\\u202e" in text


def test_names_from_right_to_left_are_kept_apart(compared):
    result = compared("shared")
    named = replace(result.candidate, ref="שלום")
    text = report_html(replace(result, candidate=named))
    assert "<h1>Was <bdi>שלום</bdi> derived" in text


def test_half_a_letter_does_not_stop_the_page(compared):
    result = compared("shared")
    text = report_html(replace(result, candidate=replace(result.candidate, ref="\ud800")))
    text.encode("utf-8")
    assert "\\ud800" in text


# -- markup --------------------------------------------------------------------------------------------


def test_a_text_becomes_markup_only_escaped():
    assert element("p", "<b>", class_='"x"') == '<p class="&quot;x&quot;">&lt;b&gt;</p>'
    assert element("p", Html("<b>")) == "<p><b></p>"
    assert element("p", Html("<b>") + "<i>") == "<p>&lt;b&gt;&lt;i&gt;</p>"
    assert element("rect", x=1.0, y=2.256, hidden=True, title=None) == '<rect x="1" y="2.26" hidden/>'


def test_names_in_a_sentence_are_isolated_and_escaped():
    assert with_names("a<b and c", ["a<b", "c"]) == "<bdi>a&lt;b</bdi> and <bdi>c</bdi>"
    assert with_names("x", []) == "x"


def test_our_own_texts_may_emphasise_but_carry_no_markup():
    assert own_text("*a* `b` <i>") == "<em>a</em> <code>b</code> &lt;i&gt;"


def test_powers_stay_powers_when_copied():
    assert powers("p < 10^-282") == "p < 10⁻²⁸²"
    assert powers("0.38") == "0.38"


def test_every_conclusion_has_a_headline_and_a_meaning(language):
    for conclusion in Conclusion:
        assert f"headline.{conclusion.value}" in language.texts
        for table in ("short", "strength", "meaning"):
            assert language.say(f"{table}.{conclusion.value}")
    for reading in get_args(Reading):
        assert f"headline.{reading}" in language.texts
