"""What faces what: layers, coordinates and units are reported, and nothing is concluded from a fit."""

import json
import re
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from tests.comparison.disguises import disguised, zoo_model
from tests.document.test_comparison_view import drawn, flat

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.comparison import ControlResult
from modelkin.comparison.methods import Agreement, Contrast, Effect, Mismatched, Rank, Skipped, Tested
from modelkin.comparison.verdict import Conclusion
from modelkin.document import load_language, report_html
from modelkin.document.folder import report_markdown
from modelkin.document.results import schema
from modelkin.document.views.alignment import layer_rows
from modelkin.document.views.words import not_examined, ranked_among, ranked_text
from modelkin.errors import FormatError
from modelkin.message import say
from modelkin.source import MemorySource

pytestmark = pytest.mark.timeout(240)
ENGLISH, KOREAN = load_language("en"), load_language("ko")
DEEP = mk.CompareOptions(depth="deep")


def compared(candidate, base):
    return mk.compare(
        candidate=MemorySource(candidate.files("F32"), name="org/candidate"),
        base=MemorySource(base.files("F32"), name="org/base"),
        options=DEEP,
    )


@pytest.fixture(scope="module")
def taller():
    """Return a comparison with a model whose layers and units were moved."""
    base = zoo_model("base")
    return compared(disguised(derive.reorder_layers(base, [0, 1, 2, 1, 2, 3]), "units"), base)


@pytest.fixture(scope="module")
def rotated():
    """Return a comparison with a model whose residual stream was turned."""
    return compared(disguised(zoo_model("base"), "residual-rotation"), zoo_model("base"))


@pytest.fixture(scope="module")
def strangers():
    """Return a comparison of models without a common origin."""
    return compared(zoo_model("deep-2"), zoo_model("deep-1"))


@pytest.fixture(scope="module")
def ranked(rotated):
    """Return a comparison whose MLPs rest on 27 control pairs."""
    mlp = replace(
        rotated.verdict.components["mlp"],
        conclusion=Conclusion.SHARED_REPARAMETRISED,
        log10_p=np.log10(1 / 28),
        basis="rank",
    )
    found = next(test for test in rotated.evidence if test.component == "mlp" and isinstance(test, Tested))
    agreeing = Agreement(
        method="unit-agreement",
        version="1",
        component="mlp",
        axis="mlp",
        null=say("null-rank"),
        layers=found.layers,
        statistic=found.effect.value,
        effect=found.effect,
        n=found.n,
        rank=Rank(log10_p=float(np.log10(1 / 28)), control_pairs=27, largest_control=0.03),
    )
    verdict = replace(
        rotated.verdict,
        log10_p=np.log10(1 / 28),
        components={"mlp": mlp},
        headline=say("headline.shared-ranked"),
    )
    return replace(rotated, verdict=verdict, evidence=(agreeing,))


def test_layers_that_were_moved_are_told_in_runs(taller):
    rows = layer_rows(taller, ENGLISH)
    assert [row[:2] for row in rows] == [("0-2", "0-2"), ("3-5", "1-3")]
    assert all(re.fullmatch(r"\d\.\d{3}(?: to \d\.\d{3})?", row[2]) for row in rows)
    text = drawn(taller)
    assert "Which parts face each other" in text
    assert re.search(r"3-5 +1-3 +\d\.\d{3}", text)
    assert "| 3-5 | 1-3 | " in report_markdown(taller)
    assert "mlp: units in another order (layers 0-5)" in flat(text)


def test_where_nothing_faces_anything_there_is_no_heading_for_it(rotated):
    bare = replace(rotated.alignment, maps=(), layers=())
    text = report_markdown(replace(rotated, alignment=bare, evidence=()))
    assert "Which parts face each other" not in text
    assert ENGLISH.say("title.frames") in text


def test_coordinates_are_told_with_their_fit_and_that_it_is_no_evidence(rotated):
    assert rotated.alignment.residual == "rotation"
    text = flat(drawn(rotated))
    assert "A good fit is not evidence by itself" in text
    assert re.search(r"a rotation +(?:embeddings|the output head) of shared tokens", text)
    document = report_markdown(rotated)
    frame = rotated.alignment.frames[0]
    assert f"| {frame.n_rows} | {frame.fit:.3f} | {frame.chance:.3f} |" in document
    assert "not evidence by itself" in document
    assert "not evidence by itself" in report_html(rotated)


def test_what_was_tested_in_the_wrong_coordinates_is_said_to_be_not_examined(rotated):
    text = flat(drawn(rotated))
    assert "embedding, head, residual: it was tested only in coordinates that the models do not share" in text
    components = text.partition("Components")[2].partition("Which parts")[0]
    assert "not testable" not in components


@pytest.mark.more
def test_what_another_test_examined_is_no_gap():
    narrow = compared(zoo_model("fewer-dimensions"), zoo_model("base"))
    assert {"mlp", "attention"} <= {test.component for test in narrow.evidence if isinstance(test, Skipped)}
    gaps = [line for line in not_examined(narrow, ENGLISH) if "hidden sizes differ" in line]
    assert gaps
    assert not any("mlp" in line or "attention" in line for line in gaps)
    assert all("norms" in line for line in gaps)


@pytest.mark.more
def test_of_strangers_no_pairing_of_layers_is_shown(strangers):
    assert strangers.verdict.conclusion is Conclusion.NO_EVIDENCE
    assert strangers.alignment.layers
    assert layer_rows(strangers, ENGLISH) == []
    for text in (flat(drawn(strangers)), report_markdown(strangers), report_html(strangers)):
        assert "none of 36 pairs of layers stands out" in text
    assert any("until the old directions are gone" in str(line) for line in strangers.verdict.limitations)
    assert not any("--depth deep" in str(line) for line in strangers.verdict.limitations)


def test_what_rests_on_controls_is_marked_everywhere(ranked):
    mark = "rank among 27 control pairs, not an exact p-value"
    assert ranked_among(ranked) == ranked_among(ranked, "mlp") == 27
    assert ranked_among(ranked, "norms") is None
    for text in (flat(drawn(ranked)), report_markdown(ranked), report_html(ranked)):
        assert text.count(mark) == 2  # beside the verdict's p-value, and beside the component's
        assert "Common origin in a changed form, by comparison with controls" in text
        assert "Common origin: shared weights" not in text
        assert "only a common origin explains" not in text


CONTRAST = Contrast(
    method="own-layers",
    version="1",
    component="mlp",
    axis="mlp",
    null=say("null-rank"),
    layers=(1,),
    frame="rotation",
    statistic=0.9,
    log10_p=-120.0,
    effect=Effect(value=0.9, low=0.85, high=0.93),
    n=512,
    n_matched=461,
    mismatched=Mismatched(n_pairs=12, largest=0.02, limit=0.05),
    rank=Rank(log10_p=-1.0, control_pairs=9, largest_control=0.02),
)


@pytest.mark.parametrize("archive", [None, Rank(log10_p=-3.0, control_pairs=999, largest_control=0.04)])
def test_a_contrast_of_layers_is_read_back_equal_and_says_what_it_rests_on(rotated, archive):
    result = replace(rotated, evidence=(replace(CONTRAST, archive=archive),))
    document = json.loads(result.to_json())
    jsonschema.validate(document, schema("modelkin.comparison/1"))
    assert document["evidence"][0]["class"] == "own-layers"
    assert mk.Comparison.from_json(result.to_json()).evidence == result.evidence


def test_a_contrast_of_layers_that_calls_itself_exact_is_refused(rotated):
    document = json.loads(replace(rotated, evidence=(CONTRAST,)).to_json())
    document["evidence"][0]["class"] = "exact"
    with pytest.raises(FormatError):
        mk.Comparison.from_json(json.dumps(document))


def test_controls_are_not_said_to_be_beside_the_point_where_the_verdict_rests_on_them(ranked, rotated):
    control = ControlResult(
        pair=("org/base", "org/other"),
        revision=None,
        conclusion="no-evidence",
        effect=None,
        log10_p=None,
        usable=True,
    )
    beside = "The verdict does not depend on controls"
    for result, said in ((ranked, False), (rotated, True)):
        shown = replace(result, controls=(control,))
        assert (beside in report_markdown(shown)) is said
        assert (beside in report_html(shown)) is said


def test_exact_p_values_have_no_such_mark(rotated):
    assert ranked_text(rotated, ENGLISH) is None
    assert "control pairs, not an exact" not in drawn(rotated) + report_markdown(rotated)


def test_flags_are_worth_a_closer_look_and_no_part_of_the_verdict(strangers):
    flag = say("flag-agreement", share=0.64, n=3, m=20)
    flagged = replace(strangers, flags=(flag,))
    assert f"Worth a closer look (not part of the verdict) - {flag}" in flat(drawn(flagged))
    assert "Worth a closer look" not in drawn(strangers)


@pytest.mark.parametrize("name", ["taller", "rotated", "strangers", "ranked"])
def test_all_of_it_is_told_in_korean(name, request):
    result = request.getfixturevalue(name)
    text = report_markdown(result, KOREAN)
    assert "(원문)" not in text
    assert KOREAN.say("title.alignment") in text
    assert "(원문)" not in report_html(result, KOREAN)


@pytest.mark.parametrize("name", ["taller", "rotated", "strangers", "ranked"])
def test_a_deep_comparison_follows_its_schema_and_comes_back_equal(name, request):
    result = request.getfixturevalue(name)
    document = result.to_json()
    jsonschema.validate(json.loads(document), schema("modelkin.comparison/1"))
    assert mk.Comparison.from_json(document) == result


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_is_wide_enough(taller, rotated, ranked, width):
    for result in (taller, rotated, ranked):
        for verbose in (False, True):
            lines = drawn(result, width=width, verbose=verbose).splitlines()
            assert max(map(len, lines)) <= width
