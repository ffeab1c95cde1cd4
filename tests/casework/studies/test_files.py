"""Study files: what is refused, and how it is said."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from modelkin.casework.studies import files as files_module
from modelkin.casework.studies import load_study
from modelkin.casework.studies.files import parse_study
from modelkin.casework.studies.kinds import KINDS
from modelkin.casework.studies.plots import PLOTS, VIEWED
from modelkin.casework.studies.report import study_language
from modelkin.casework.studies.spec import replace_models
from modelkin.errors import NotFound, StudyError, UsageError

GOOD = """
format: 1
name: mine
title: A title
about: {en: About, ko: 소개}
models:
  a: {ref: org/a, name: A, group: one}
  b: {ref: org/b}
compare: {candidate: a, base: b}
experiments:
  - {id: gains, kind: vectors, title: Gains, roles: [input-norm]}
  - {id: norms, kind: measures, title: Norms, roles: [input-norm], layers: "0-3,7"}
figures:
  - {file: plots/cosine, figure: pair, view: layer-curves, data: norms, pair: [a, b]}
"""

WIDE = (
    GOOD.replace(
        'layers: "0-3,7"',
        "layers: 1, layers_of: {a: 1}, pairs: [same], "
        "write: [{form: matched-layers, file: x.json, models: [a, b], distance: 2}]",
    )
    .replace(
        "figures:\n",
        """  - {id: drawn, kind: synthetic-cosines, title: T, means: [[0, 1.5]], sigmas: [1], dimensions: [8]}
  - {id: three, kind: centring, title: T, a: [1, 2, 3], b: [3, 2, 1]}
relations: [{relation: independent, models: [a, b], why: Said}]
results: results.md
figures:
  - file: c/{model}
    figure: models
    view: confusion
    data: norms
    measure: cosine
    layers_of: {a: 1}
    each: {model: [a]}
  - {file: d, figure: models, view: layer-pairs, data: norms, layer_pairs: [[0, 1]], zoom: true, caption: W}
""",
    )
    .replace("file: c/{model}", "file: 'c/{model}'")
)


def test_a_good_file_is_read():
    study = parse_study(GOOD.encode())
    assert (study.name, study.title["ko"], study.about["ko"]) == ("mine", "A title", "소개")
    assert {alias: model.name for alias, model in study.models.items()} == {"a": "A", "b": "b"}
    assert study.groups == {"one": ("a",)}
    assert getattr(study.experiments[1], "layers", None) == "0-3,7"
    assert [(item.file, item.data) for item in study.figures] == [("plots/cosine", "norms")]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format: 1", "format: 2", r"study\.yaml: format: expected a whole number from 1 to 1, got 2"),
        ("format: 1", "format: true", r"format: expected a whole number"),
        ("name: mine", "name: ../up", r"name: expected a name of the form .*got '\.\./up'"),
        ("title: A title", "titel: A title", r"titel: there is no such key"),
        ("about: {en: About, ko: 소개}", "", r"about: it is required, but missing"),
        ("ko: 소개", "fr: Texte", r"about\.fr: there is no such key"),
        ("ref: org/b", "ref: 7", r"models\.b\.ref: expected a text"),
        ("  b: {", "  B!: {", r"models\.B!: expected a name of the form"),
        ("base: b}", "base: c}", r"compare\.base: expected one of a, b, got 'c'"),
        ("base: b}", "base: a}", r"compare: expected a candidate, a base and controls that all differ"),
        ("kind: vectors", "kind: vector", r"experiments\[0\]\.kind: expected one of"),
        ("[input-norm], layers", "[imput-norm], layers", r"experiments\[1\]\.roles\[0\]: expected"),
        ('"0-3,7"', '"3-0"', r"experiments\[1\]\.layers: expected layers such as"),
        ("layers: \"0-3,7\"", "sample: 1", r"experiments\[1\]\.sample: expected a whole number from 16"),
        ("layers: \"0-3,7\"", "sampel: 99", r"experiments\[1\]\.sampel: there is no such key"),
        ("id: norms", "id: gains", r"experiments\[1\]\.id: expected an id that no other experiment has"),
        ("data: norms", "data: gains",
         r"figures\[0\]\.data: expected an experiment of the kind measures, which the figure "
         r"pair \(layer-curves\) is drawn from, got 'gains' of the kind vectors"),
        ("pair, view: layer-curves, data: norms, pair: [a, b]", "claimed-evidence, data: norms",
         r"\.data: .*kind claim, .*claimed-evidence .*got 'norms' of the kind measures"),
        ("layer-curves, data", "intuition, vectors: norms, data", r"\.vectors: .*kind vectors, got 'norms'"),
        ("kind: measures, title: Norms, roles: [input-norm], layers: \"0-3,7\"",
         "kind: precision, title: N, from: gains}\n"
         "  - {id: more, kind: shuffle, title: M, from: norms, pair: [a, b]",
         r"experiments\[2\]\.from: expected .* of the kind vectors, got 'norms' of the kind precision"),
        ("data: norms", "data: nothing", r"figures\[0\]\.data: expected one of gains, norms"),
        ("pair: [a, b]", "pair: [a]", r"figures\[0\]\.pair: expected a list of 2, got a list of 1"),
        ("pair: [a, b]", "pair: [a, a]", r"figures\[0\]\.pair: expected each name once"),
        ("file: plots/cosine", "file: ../cosine", r"figures\[0\]\.file: expected a path"),
        ("file: plots/cosine", "file: /etc/passwd", r"figures\[0\]\.file: expected a path"),
        ("file: plots/cosine", "file: plots/.hidden", r"figures\[0\]\.file: expected a path"),
        ("figure: pair", "figure: pie", r"figures\[0\]\.figure: expected one of"),
        ("view: layer-curves", "view: pie", r"figures\[0\]\.view: expected one of layer-curves"),
        ("view: layer-curves, ", "", r"figures\[0\]\.view: .*missing"),
        ("view: layer-curves", "view: with-controls", r"figures\[0\]\.controls: .*missing"),
        ("view: layer-curves", "view: layer-curves, distance: 7", r"figures\[0\]\.distance: .*no such key"),
        ("format: 1", "format:", r"format: it is required, but missing"),
        ("ref: org/b", "ref: null", r"models\.b\.ref: it is required, but missing"),
        ("b: {ref: org/b}", "b:", r"models\.b: expected fields \(ref, name, group\), got nothing"),
        ("kind: vectors,", "", r"experiments\[0\]\.kind: it is required, but missing"),
        ("kind: vectors", "kind: 7", r"experiments\[0\]\.kind: expected one of centring, .*got 7"),
        ("roles: [input-norm]}", "roles: null}", r"experiments\[0\]\.roles: it is required, but missing"),
        ("roles: [input-norm]}", "roles: input-norm}", r"\[0\]\.roles: expected a list of 1 to 40"),
        ('"0-3,7"', f"{10**400}", r"experiments\[1\]\.layers: expected .*got a number of very many digits"),
        ('layers: "0-3,7"', f"draws: {10**400}", r"\[1\]\.draws: .*a number of very many digits"),
        ('layers: "0-3,7"', "mtp: 1", r"experiments\[1\]\.mtp: expected true or false, got 1"),
        ('layers: "0-3,7"', "pairs: [some]", r"experiments\[1\]\.pairs\[0\]: expected one of all, mixed"),
        ('layers: "0-3,7"', "layers_of: {a: x}", r"experiments\[1\]\.layers_of\.a: expected layers such as"),
        ('layers: "0-3,7"', "layers_of: {c: 1}", r"experiments\[1\]\.layers_of\.c: there is no such key"),
        ('layers: "0-3,7"', "write: [{form: decay, models: [a, b]}]", r"\.write\[0\]\.file: it is required"),
        ('layers: "0-3,7"', "write: [{form: decay, file: x, models: [a, c]}]", r"write\[0\]\.models\[1\]"),
        ("pair: [a, b]", "pair: [a, b], 7: 1", r"figures\[0\]: expected keys that are texts"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_place(old: str, new: str, said: str):
    assert old in GOOD
    with pytest.raises(StudyError, match=said):
        parse_study(GOOD.replace(old, new, 1).encode(), "study.yaml")


def test_a_misspelt_key_has_a_hint():
    with pytest.raises(StudyError, match="there is no such key") as caught:
        parse_study(GOOD.replace("title: A title", "titel: A title").encode())
    assert caught.value.hint == "Did you mean 'title'?"
    assert caught.value.exit_code == 4


def test_data_of_the_wrong_kind_is_answered_with_the_experiments_of_the_right_one():
    with pytest.raises(StudyError, match="of the kind vectors") as caught:
        parse_study(GOOD.replace("data: norms", "data: gains").encode())
    assert caught.value.hint == "Available: norms."


def test_every_view_is_drawn_from_a_kind_of_experiment_that_there_is():
    kinds = {kind.__struct_config__.tag for kind in KINDS}
    read = {view.reads for kind in VIEWED for view in kind.VIEWS.values()}
    assert read | {kind.READS for kind in PLOTS if kind not in VIEWED} <= kinds


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [
        ("kind: vectors", "kind: vector", "vectors"),
        ("figure: pair", "figure: pear", "pair"),
        ("view: layer-curves", "view: layer-curve", "layer-curves"),
        ("data: norms", "data: norm", "norms"),
        ('layers: "0-3,7"', "sampel: 99", "sample"),
        ('layers: "0-3,7"', "pairs: [sam]", "same"),
        ('layers: "0-3,7"', "baselines: [shufle]", "shuffle"),
    ],
)
def test_a_misspelt_word_has_a_hint(old: str, new: str, meant: str):
    with pytest.raises(StudyError) as caught:
        parse_study(GOOD.replace(old, new, 1).encode())
    assert caught.value.hint == f"Did you mean {meant!r}?"


ODD: tuple[object, ...] = (
    None,
    True,
    -1,
    7,
    10**400,
    1.5,
    float("nan"),
    "",
    "x",
    "\x00",
    [],
    ["x", "x"],
    [None],
    {},
    {"x": None},
    {7: 7},
)


def mutations(value: Any) -> Iterator[object]:
    """Yield the document with an odd value in each place."""
    yield from ODD
    for key, item in value.items() if isinstance(value, dict) else ():
        for odd in mutations(item):
            yield {**value, key: odd}
    for number, item in enumerate(value) if isinstance(value, list) else ():
        for odd in mutations(item):
            yield [*value[:number], odd, *value[number + 1 :]]


@pytest.mark.more
def test_whatever_stands_in_a_file_is_read_or_refused_in_its_own_words(monkeypatch: pytest.MonkeyPatch):
    document = yaml.safe_load(WIDE)
    parse_study(WIDE.encode())
    refused = 0
    for odd in mutations(document):
        monkeypatch.setattr(files_module, "strict_yaml", lambda data, odd=odd: odd)
        try:
            parse_study(b"")
        except StudyError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "expected fields"),
        (b"- 1\n- 2\n", "expected fields"),
        (b"a: &x [1]\nb: *x\n", "uses references"),
        (b"a: 1\na: 2\n", "a key occurs twice"),
        (b"[" * 200 + b"]" * 200, "nested more than"),
        (b"a: !!python/object/apply:os.system [true]\n", "uses tags"),
        (b"format: !!bool x\n", "uses tags"),
        (b"format: !!int ''\n", "uses tags"),
        (b"format: !!timestamp x\n", "uses tags"),
        (b"format: 2024-13-01\n", "not valid YAML"),
        (b"format: " + b"1:" * 100_000 + b"1\n", "more than 1,000 characters"),
        (b"a: \x00\n", "not valid YAML"),
        (b"#" * 300_000, "expected at most 262,144 bytes"),
    ],
)
def test_hostile_yaml_is_refused(data: bytes, said: str):
    with pytest.raises(StudyError, match=said):
        parse_study(data, "evil.yaml")


def test_names_with_control_characters_are_refused():
    with pytest.raises(StudyError, match="without control characters"):
        parse_study(GOOD.replace("name: A,", 'name: "A\\u202e",').encode())


def test_a_study_that_is_nowhere_names_those_that_are_there():
    with pytest.raises(NotFound, match="no study or file") as caught:
        load_study("no-such-study")
    assert "sanity-check" in (caught.value.hint or "")


def test_only_aliases_of_the_study_can_be_replaced():
    study = parse_study(GOOD.encode())
    assert replace_models(study, {"a": "./here"}).models["a"].ref == "./here"
    with pytest.raises(UsageError, match="no model called 'z'"):
        replace_models(study, {"z": "./here"})


def test_a_view_may_be_named_as_a_figure_as_in_earlier_versions():
    earlier = GOOD.replace("figure: pair, view: layer-curves", "figure: layer-curves")
    assert earlier != GOOD
    assert parse_study(earlier.encode()).figures == parse_study(GOOD.encode()).figures


def test_a_figure_can_be_repeated_for_each_measure_and_layer():
    text = GOOD.replace(
        "- {file: plots/cosine, figure: pair, view: layer-curves, data: norms, pair: [a, b]}",
        "- {file: 'x/{measure}_{layer}', figure: models, view: confusion, data: norms, "
        "each: {measure: [rel-l2, cosine], layer: [1, 2]}}",
    )
    study = parse_study(text.encode())
    assert [item.file for item in study.figures] == ["x/rel_l2_1", "x/rel_l2_2", "x/cosine_1", "x/cosine_2"]
    assert [getattr(item, "layer", None) for item in study.figures] == [1, 2, 1, 2]


def test_too_many_drawn_numbers_are_refused():
    text = GOOD.replace(
        "- {id: gains, kind: vectors, title: Gains, roles: [input-norm]}",
        "- {id: gains, kind: random-vectors, title: x, dimension: 99999, trials: 999999, normal: [[0, 1]]}",
    )
    with pytest.raises(StudyError, match="numbers to be drawn"):
        parse_study(text.encode())


def test_both_languages_have_the_same_texts_and_places():
    english, korean = study_language("en").texts, study_language("ko").texts
    assert list(english) == list(korean)
    for key, text in english.items():
        places = [set(re.findall(r"{(\w+)}", told)) for told in (text, korean[key])]
        assert places[0] == places[1], key


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to everything in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def test_nothing_at_any_place_of_a_study_is_read_or_refused():
    document = yaml.safe_load(GOOD)
    refused = 0
    for path in places(document):
        changed = copy.deepcopy(document)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = None
        try:
            parse_study(yaml.safe_dump(changed).encode(), "study.yaml")
        except StudyError:
            refused += 1
    assert refused > 10


@pytest.mark.parametrize("letter", ["\t", "\x1b", "\u202e"])
def test_a_key_of_the_author_is_shown_escaped(letter):
    with pytest.raises(StudyError, match="there is no such key") as caught:
        parse_study(f'"a{letter}b": 1\n'.replace("\x1b", "\\x1b").encode())
    assert str(caught.value).isprintable()
