"""Both languages say the same, and every sentence that modelkin makes has a form in both."""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
from tests.document.families import FAMILIES
from tests.document.said import HOLE, said_in

import modelkin
from modelkin.cli.options import LANGUAGES as OFFERED
from modelkin.comparison.methods import Effect, load_cards
from modelkin.comparison.verdict import ComponentVerdict, Conclusion, load_rule
from modelkin.comparison.verdict.words import limitations, summary
from modelkin.document import LANGUAGES, load_language
from modelkin.document.folder import report_markdown
from modelkin.document.views.words import not_examined
from modelkin.errors import UsageError
from modelkin.message import joined, say, told

ROOT = Path(modelkin.__file__).parent
ENGLISH, KOREAN = load_language("en"), load_language("ko")
QUOTED = "(원문)"
HANGUL = re.compile("[가-힣]")


def test_the_languages_have_the_same_keys_and_places():
    assert LANGUAGES == OFFERED == ("en", "ko")
    assert ENGLISH.texts.keys() == KOREAN.texts.keys()
    for key, text in ENGLISH.texts.items():
        assert places_of(KOREAN.texts[key]) == places_of(text), key
    assert all(text.strip() for text in KOREAN.texts.values())


def test_korean_texts_are_korean():
    """Words that are the same in both languages are listed; anything else was forgotten."""
    same = {key for key, text in KOREAN.texts.items() if not HANGUL.search(text)}
    assert same == {
        "alt.curve",
        "block.mlp",
        "catalogue.lines",
        "catalogue.measure-where",
        "catalogue.overlap-of",
        "catalogue.shuffle-note",
        "component.mlp",
        "error.said",
        "figure.bar",
        "figure.because",
        "figure.of_role",
        "glossary.z.word",
        "label.z",
        "matrix.quantiles",
        "matrix.reach",
        "measures.l2.title",
        "measures.mean-direction.title",
        "measures.pearson.title",
        "measures.relative-l2.title",
        "message.joined",
        "message.sentences",
        "norms.both",
        "norms.chance-of",
        "norms.p-range",
        "norms.panel",
        "norms.verdict-count",
        "part.word",
        "place.hub",
        "place.of",
        "scope.model",
        "scope.pair",
        "study.part",
        "text.in_no_component",
        "text.limit_of",
        "text.no_layers_of",
        "text.of_side",
    }


def test_english_texts_hold_no_korean():
    assert [key for key, text in ENGLISH.texts.items() if HANGUL.search(text)] == []


def test_every_text_is_used():
    """Tables that the record chooses from are used as a whole; of the others, each key stands in the code."""
    code = "\n".join(path.read_text() for path in (ROOT / "document").rglob("*.py"))
    written = {"title", "label", "word", "text"}
    unused = [
        key
        for key in (text.removesuffix("-one") for text in ENGLISH.texts)
        if key.split(".")[0] in written
        and not re.search(rf"['\"]({re.escape(key)}|{re.escape(key.partition('.')[2])})['\"]", code)
    ]
    assert unused == []


def test_an_unknown_language_is_a_readable_error():
    with pytest.raises(UsageError, match="expected a report language, one of en, ko"):
        load_language("tlh")


def component(conclusion, **rest):
    effect = Effect(value=0.5, low=0.4, high=0.6)
    return ComponentVerdict(conclusion=conclusion, log10_p=-9.0, effect=effect, n_tests=1, **rest)


SHARED, NOTHING = component(Conclusion.SHARED), component(Conclusion.NO_EVIDENCE)
RANKED = component(Conclusion.SHARED_REPARAMETRISED, basis="rank")
SOME = component(Conclusion.SHARED_PARTIAL, layers=(0, 1), other_layers=(2, 3))
UNTESTED = ComponentVerdict(
    conclusion=Conclusion.NOT_TESTABLE,
    log10_p=None,
    effect=None,
    n_tests=0,
    reason=say("hidden-sizes", n=8, m=16),
)
SUMMARIES = [
    (Conclusion.IDENTICAL, {}, say("every-value"), {}, "모든 텐서의 모든 값"),
    (Conclusion.SHARED, {"mlp": SHARED, "norms": SHARED}, None, {}, "MLP, 정규화(norm)."),
    (Conclusion.SHARED, {}, None, {}, "비교한 모든 값"),
    (
        Conclusion.SHARED_PARTIAL,
        {"mlp": SHARED, "head": NOTHING},
        None,
        {},
        "MLP. 증거가 없는 부분: 출력 헤드.",
    ),
    (Conclusion.SHARED_PARTIAL, {"norms": SHARED, "mlp": SOME}, None, {}, "MLP(검정한 레이어 중 0, 1)."),
    (
        Conclusion.SHARED_PARTIAL,
        {"attention": SOME, "head": NOTHING},
        None,
        {},
        "어텐션(검정한 레이어 중 0, 1).",
    ),
    (Conclusion.SHARED_REPARAMETRISED, {"mlp": SHARED}, None, {}, "회전)로 공유합니다: MLP."),
    (Conclusion.SHARED_REPARAMETRISED, {"mlp": RANKED}, None, {}, "어떤 대조 쌍보다도"),
    (
        Conclusion.NO_EVIDENCE,
        {"mlp": NOTHING},
        None,
        {"mlp": 0.081, "head": 0.72},
        "MLP에서 0.081, 출력 헤드에서 0.72",
    ),
    (Conclusion.NO_EVIDENCE, {"mlp": NOTHING}, "", {"mlp": 0.081}, "MLP에서 0.081보다"),
    (Conclusion.NO_EVIDENCE, {"mlp": NOTHING}, None, {}, "증거는 없습니다."),
    (Conclusion.NOT_TESTABLE, {"mlp": UNTESTED}, None, {}, "은닉 차원이 다름(8, 16)"),
    (Conclusion.NOT_TESTABLE, {}, None, {}, "적용할 수 있는 방법이 없음"),
]


@pytest.mark.parametrize(("conclusion", "components", "how", "limits", "words"), SUMMARIES)
@pytest.mark.parametrize(
    "candidate", ["org/b", "a; no evidence in b. {pair}", "No evidence that x and y share weights"]
)
def test_every_summary_has_a_korean_form(conclusion, components, how, limits, words, candidate):
    ranked = any(not item.is_exact for item in components.values())
    english = summary(
        conclusion,
        components,
        how,
        candidate=candidate,
        base="org/a",
        limits=limits,
        stage="deep",
        ranked=ranked,
    )
    told = KOREAN.tell(english)
    assert told.startswith(f"후보 모델({candidate})과 기준 모델(org/a)")
    assert words in told
    assert f"{candidate} and org/a" in str(english)


LIMITATIONS = {
    text
    for conclusion in Conclusion
    for stage in load_rule().stages
    for ranked in (False, True)
    for text in limitations(conclusion, stage=stage, ranked=ranked)
}


@pytest.mark.parametrize("limitation", sorted(LIMITATIONS, key=str), ids=lambda message: message.code)
def test_every_limitation_has_a_korean_form(limitation):
    assert HANGUL.search(KOREAN.tell(limitation))


@pytest.mark.parametrize("card", load_cards().values(), ids=lambda card: card.name)
def test_every_card_is_told_in_korean(card):
    for message in (card.claim, card.null, card.needs, card.defeated_by):
        assert HANGUL.search(KOREAN.tell(message))


def test_every_told_method_has_a_card():
    for language in (ENGLISH, KOREAN):
        assert {key.split(".")[0] for key in language.table("methods")} == load_cards().keys()


MESSAGES = [
    key
    for key in ENGLISH.texts
    if key.split(".")[0]
    in {
        *(
            "message",
            "summary",
            "limitation",
            "study",
            "problem",
            "part",
            "figure",
            "alt",
            "catalogue",
            "hint",
        ),
        "norms",
    }
]


def sample(spec):
    """Return a value for a place: a number or several messages if the text says how to write them."""
    message = say("nothing-to-test")
    joins = not spec.strip("; .\n") or spec.startswith(" ")
    return message if not spec else (message, message) if joins else 3


@pytest.mark.parametrize("key", MESSAGES)
def test_every_message_is_told_in_both_languages(key):
    values = {name: sample(spec) for _, name, spec, _ in Formatter().parse(ENGLISH.texts[key]) if name}
    message = say(key.removeprefix("message."), **values)
    english, korean = str(message), KOREAN.tell(message)
    assert not HANGUL.search(english)
    assert HANGUL.search(korean)  # of a message in it, where the text itself has only signs
    assert "{" not in english + korean


REPLAY = "casework/replay/"
"""The replay has a table of its own, all of which its tests tell (tests/casework/replay/test_telling.py)."""


@cache
def said():
    """Return everything that the code says; looked for when a test asks, not when tests are collected."""
    found = {
        item
        for path in ROOT.rglob("*.py")
        for item in said_in(path, path.relative_to(ROOT).as_posix())
        if not item.file.startswith(REPLAY)
    }
    return sorted(found)


def known():
    return [item for item in said() if HOLE not in item.code]


def computed():
    return [item for item in said() if HOLE in item.code]


def text_of(code):
    return ENGLISH.texts[code if "." in code else f"message.{code}"]


def places_of(text):
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.more
def test_every_message_is_said_somewhere():
    """A code stands in the core as it is, or a part of it is filled in: f"tokens-{relation}"."""
    words = {card.null.code for card in load_cards().values()} | {item.code for item in known()}
    for path in ROOT.rglob("*.py"):
        words |= set(re.findall(r'"([^"\n]+)"', path.read_text()))
    patterns = {re.escape(item.code).replace(re.escape(HOLE), ".+") for item in computed()}
    patterns.discard(".+")
    codes = [code.removesuffix("-one") for code in ENGLISH.table("message")]
    filled_in = re.compile("|".join(patterns))
    assert [code for code in codes if code not in words and not filled_in.fullmatch(code)] == []


@pytest.mark.more
def test_every_text_of_figures_is_drawn_somewhere():
    code = "\n".join(path.read_text() for path in ROOT.rglob("*.py"))
    drawn = {item.code for item in known()} | set(re.findall(r'"((?:figure|alt)\.\w+)"', code))
    patterns = "|".join(re.escape(item.code).replace(re.escape(HOLE), ".+") for item in computed())
    texts = [key for key in ENGLISH.texts if key.split(".")[0] in ("figure", "catalogue", "norms")]
    unused = [key for key in texts if key.removesuffix("-one") not in drawn]
    assert [key for key in unused if not re.fullmatch(patterns, key)] == []


def test_the_search_for_messages_finds_them(tmp_path):
    assert len(known()) > 500
    assert ("hidden-sizes", ("m", "n")) in {(item.code, item.names) for item in known()}
    module = tmp_path / "module.py"
    module.write_text(
        "from modelkin.message import say\n"
        "_TABLE = {'x': 'of-table'}\n"
        "def f(kind, flag, items):\n"
        "    code = 'one' if flag else 'two'\n"
        "    say(code, n=1)\n"
        "    say(_TABLE[kind])\n"
        "    [say(f'item.{name}') for name in ('a', 'b')]\n"
        "    [say(f'held.{name}') for name in items]\n"
        "    _g('three', m=2)\n"
        "def _g(code, **values):\n"
        "    say(f'under.{code}', n=1, **values)\n"
    )
    assert [(item.code, item.names) for item in sorted(said_in(module, "module.py"))] == [
        ("one", ("n",)),
        ("two", ("n",)),
        ("of-table", ()),
        ("item.a", ()),
        ("item.b", ()),
        ("held.{}", ()),
        ("under.three", ("m", "n")),
    ]


def test_what_the_code_says_has_a_text_with_the_same_places():
    """For a new message add a line to [message] of en.toml and of ko.toml."""
    calls = Counter((item.file, item.line) for item in said())
    wrong = [
        f"{item.file}:{item.line} says {item.code} with {item.names}"
        for item in known()
        # Of several texts that one call chooses from, some may leave out what others tell.
        if not (given := set(item.names)) >= (told := places_of(text_of(item.code)))
        or (given != told and calls[item.file, item.line] == 1)
    ]
    assert wrong == []


@pytest.mark.parametrize("pattern", FAMILIES)
def test_every_code_that_is_computed_is_of_a_family_that_is_told(pattern):
    """For a new pattern add its words to tests/document/families.py."""
    names = {item.names for item in computed() if item.code == pattern}
    assert {family.names for family in FAMILIES[pattern]} == names
    for family in FAMILIES[pattern]:
        for member in family.members:
            for code in filled(pattern, member):
                assert places_of(text_of(code)) <= set(family.names), code
    matching = re.compile(re.escape(pattern).replace(re.escape(HOLE), "(.+)"))
    wholes = [family for family in FAMILIES[pattern] if family.whole]
    for family in wholes:
        told = {
            found[1] for key in ENGLISH.texts if (found := matching.fullmatch(key.removeprefix("message.")))
        }
        assert told == set(family.members)


def filled(pattern, member):
    """Return the codes of a member: of cards, one for each thing that they tell."""
    if pattern == "reference.{}.{}":
        return [f"reference.{member}.{key}" for key in ("measures", "survives", "defeated_by", "level_from")]
    return [pattern.replace(HOLE, member)]


def test_every_pattern_has_its_family():
    assert {item.code for item in computed()} == FAMILIES.keys()


def test_an_error_that_says_a_message_is_told_in_full_in_both_languages():
    error = UsageError("org/model", say("problem.no-model"))
    assert str(error) == str(told(error)) == "org/model: no such model, or it is private"
    assert KOREAN.tell(told(error)) == "org/model: 없는 모델이거나 비공개 모델임"


def test_reasons_side_by_side_are_told_one_by_one():
    reasons = joined([say("lacks-tensor"), say("hidden-sizes", n=8, m=16)])
    assert str(reasons) == "one of the models lacks this tensor; the hidden sizes differ (8 and 16)"
    told = KOREAN.tell(reasons)
    assert told == "이 텐서가 없는 모델이 있음; 은닉 차원이 다름(8, 16)"


def test_what_a_newer_version_said_is_quoted():
    assert str(say("quoted", text="the moon was full")) == "the moon was full"
    assert KOREAN.tell(say("quoted", text="the moon was full")) == f"“the moon was full”{QUOTED}"


def test_a_report_in_korean_has_no_english_sentence_left(comparison):
    text = report_markdown(comparison, KOREAN)
    assert QUOTED not in text
    assert KOREAN.tell(comparison.verdict.headline) in text
    for key in ("verdict", "limits", "components", "evidence", "missing", "repeat", "glossary"):
        assert f"\n## {KOREAN.say(f'title.{key}')}\n" in text
    sentences = re.findall(
        r"\b(?:[A-Za-z]+ ){4,}[A-Za-z]+\b", re.sub(r"`[^`]*`|```.*?```", "", text, flags=re.DOTALL)
    )
    assert sentences == []


def test_both_languages_show_the_same_numbers(comparison):
    def numbers(language):
        text = report_markdown(comparison, language).split(f"## {language.say('title.glossary')}")[0]
        return sorted(re.findall(r"(?<![\w.])-?\d(?:[\d.,^-]*\d)?(?!\w)", text, re.ASCII))

    assert numbers(ENGLISH) == numbers(KOREAN)


def test_controls_and_what_was_left_out_are_told_in_korean(compared):
    text = report_markdown(compared("controlled"), KOREAN)
    assert QUOTED not in text
    assert "은닉 차원이 다름(32, 16)" in text
    assert "이 대조 모델은 비교하는 두 모델 가운데 하나이거나 파일이 같으므로 음성 대조로 쓸 수 없음" in text
    odd = replace(compared("controlled"), verdict=replace(compared("controlled").verdict, stage="quick"))
    assert any("쓰지 않은 방법" in line for line in not_examined(odd, KOREAN))


def test_telling_a_message_loads_nothing_heavy():
    code = (
        "import sys; from modelkin.message import say; print(say('lacks-tensor'))\n"
        "print(*[name for name in ('numpy', 'rich', 'matplotlib', 'click') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "one of the models lacks this tensor\n\n"
