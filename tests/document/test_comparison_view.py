"""What a person reads about a comparison."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from tests.document.records import by_own_layers, by_rank

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Contrast, Effect, Likeness, Rank, Skipped, Tested
from modelkin.comparison.verdict import ComponentVerdict, Conclusion
from modelkin.document import comparison_view, render_terminal, report_html
from modelkin.document.folder import report_markdown
from modelkin.document.formats.comparison import comparison_as
from modelkin.document.language import load_language
from modelkin.document.views import words
from modelkin.document.views.names import with_short_names
from modelkin.message import say


def drawn(result, *, width=120, verbose=False, encoding="utf-8", **console):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(width=width, file=file, highlight=False, **console).print(
        render_terminal(comparison_view(result, detail="verbose" if verbose else "brief"))
    )
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def korean_names(components):
    return [load_language("ko").word("component", name) for name in sorted(components)]


def flat(text):
    """Undo the wrapping of lines."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("width", [80, 100, 120])
def test_every_verdict_says_what_why_and_what_not(comparison, width):
    text = drawn(comparison, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert str(comparison.verdict.headline) in flat(text)
    assert str(with_short_names(comparison).verdict.summary) in flat(text)
    assert "What this verdict does not say" in text
    for sentence in comparison.verdict.limitations:
        assert str(sentence) in flat(text)
    assert "seed 0" in text
    assert "depth standard" in text
    assert "p = 0 " not in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shared", ["p < 10^-", "norms", "embedding", "copy with noise", "0 is chance, 1 is identical"]),
        ("shared-partial", ["norms from", "mlp from", "in norms"]),
        (
            "no-evidence",
            ["would have been found", "mlp from 0.", "norms from 0.", "not enough for a finding"],
        ),
        ("identical", ["copy", "1.000 [1.000, 1.000]"]),
        ("not-testable", ["the hidden sizes differ (16 and 32)", "neither kinship nor independence"]),
    ],
)
def test_the_essentials_of_each_conclusion(compared, name, words):
    text = flat(drawn(compared(name)))
    # In the partial case norms are shared, so nothing is said about what would have been found there.
    absent = {"norms from"} if name == "shared-partial" else set()
    assert [word for word in words if word not in text] == sorted(absent)


def test_what_was_skipped_is_listed_with_its_reason(compared):
    text = flat(drawn(compared("shared")))
    assert "attention (layers 0-1): 8 units are too few for a test" in text
    assert "router, experts" not in text  # a dense model cannot have them: not a gap


def test_controls_are_shown_with_the_reason_why_they_do_not_serve(compared):
    text = drawn(compared("controlled"), width=160)
    assert "Controls" in text
    assert text.count("cannot serve as a negative") == 2
    assert "the hidden sizes differ" in flat(text)


def test_extrapolations_are_shown_only_when_asked_for(compared):
    assert "extrapolated" not in drawn(compared("shared"))
    text = drawn(compared("shared"), verbose=True)
    assert "extrapolated" in text
    assert text.count("mlp-units") == 6


def test_a_measure_without_a_p_value_is_shown_as_such(compared):
    result = compared("not-testable")
    test = Likeness(
        method="same-names",
        version="1",
        component="unknown",
        axis="none",
        null=say("null-none"),
        role="a.weight",
        n=4096,
        share_equal=0.0,
        cosine=0.99996,
    )
    text = flat(drawn(replace(result, evidence=(test,)), verbose=True))
    assert "(no p-value): tensor a.weight; values 4,096; share equal 0; cosine 0.99996" in text


def test_methods_that_were_not_used_at_quick_depth_are_named(compared):
    assert "methods not used at stage quick: embedding-rows" in flat(drawn(compared("controlled")))
    assert "methods not used" not in drawn(compared("shared"))


def test_a_part_shared_in_some_layers_says_in_which(compared):
    result = compared("shared")
    mlp = replace(
        result.verdict.components["mlp"],
        conclusion=Conclusion.SHARED_PARTIAL,
        layers=(0,),
        other_layers=(1,),
    )
    verdict = replace(result.verdict, components={**result.verdict.components, "mlp": mlp})
    assert "0 shared, 1 not" in drawn(replace(result, verdict=verdict))


def test_both_p_values_are_explained_where_both_are_shown(compared):
    text = flat(drawn(compared("shared")))
    assert "The p-value above is that of" in text
    assert "corrected for the" in text


def test_an_effect_below_zero_is_told_in_other_words(compared):
    result = compared("shared")
    name = next(
        key for key, item in result.verdict.components.items() if item.effect is result.verdict.effect
    )
    flipped = Effect(value=-0.3, low=-0.4, high=-0.2)
    item = replace(result.verdict.components[name], effect=flipped)
    components = {**result.verdict.components, name: item}
    verdict = replace(result.verdict, effect=flipped, components=components)
    text = flat(drawn(replace(result, verdict=verdict)))
    assert "parts point away from each other, as flipped or rotated copies do" in text
    assert "1 is identical" not in text


def test_limits_are_those_of_one_layer_too_and_hold_in_equal_numbering(compared):
    text = flat(drawn(compared("no-evidence")))
    assert "(in one layer alone from " in text
    assert "in equal numbering: reordered or rotated weights hide more" in text


def every_text(result):
    """Return what a terminal, a document and a model card say."""
    return (
        flat(drawn(result, verbose=True)),
        flat(report_markdown(result)),
        flat(comparison_as(result, "card")),
    )


def test_a_share_of_units_is_not_called_a_cosine(compared):
    result = by_own_layers(compared("no-evidence"))
    shares = "that agree in layers that face each other; at most 0.024 in layers that do not"
    for text in every_text(result):
        assert f"share of directions of attention heads {shares}" in text
        assert "excess cosine; 0 is chance" not in text
    korean = flat(report_markdown(result, load_language("ko")))
    assert "마주하지 않는 레이어에서는 최대 0.024" in korean
    for text in every_text(by_rank(compared("no-evidence"), packaged=0)):
        assert "share of units that agree; at most 0.031 on average over the layers of a control pair" in text


def test_an_extrapolation_of_exact_tests_is_not_shown_beside_another_p_value(compared):
    result = by_own_layers(compared("no-evidence"))
    old = replace(result, verdict=replace(result.verdict, log10_p_extrapolated=-0.3))  # older records
    for record in (result, old):
        assert "p about" not in report_markdown(record)
        assert "p about" not in drawn(record, verbose=True)
    assert "p about" in report_markdown(compared("shared"))


def test_both_p_values_are_explained_where_no_test_is_exact(compared):
    result = by_own_layers(compared("no-evidence"))
    counted = {test.component for test in result.evidence if isinstance(test, Tested | Contrast)}
    told = f"corrected for the {len(counted)} components that were tested"
    assert told in flat(drawn(result))
    assert told in flat(report_markdown(result))
    assert "The p-value above" not in flat(drawn(by_rank(compared("no-evidence"), packaged=0)))


def test_components_that_a_p_value_is_corrected_for_are_in_the_table_or_named_below_it(compared):
    result = by_own_layers(compared("no-evidence"))
    counted = {test.component for test in result.evidence if isinstance(test, Tested | Contrast)}
    shown = {name for name, _ in words.tested_components(result)}
    assert shown == {"attention", "mlp"}
    rest = ", ".join(sorted(counted - shown))
    told = f"not in this table, because nothing follows from their tests: {rest}."
    assert told in flat(drawn(result))
    assert f"이 표에는 없지만 개수에 포함한 구성 요소: {', '.join(korean_names(counted - shown))}." in flat(
        report_markdown(result, load_language("ko"))
    )
    assert "not in this table" not in flat(drawn(compared("shared")))


@pytest.mark.parametrize("part", ["layers", "controls"])
def test_the_largest_of_many_averages_is_called_that(compared, part):
    archive = Rank(log10_p=-3.0, control_pairs=999, largest_control=0.04)
    result = by_own_layers(compared("no-evidence"))
    evidence = tuple(
        replace(test, archive=archive, rank=archive) if isinstance(test, Contrast) else test
        for test in result.evidence
    )
    text = flat(report_markdown(replace(result, evidence=evidence)))
    assert {
        "layers": "largest average of an archived pair over its layers",
        "controls": "largest average of a control pair",
    }[part] in text


@pytest.mark.parametrize("packaged", [0, 9])
def test_controls_that_come_with_the_package_are_said_to_be_that(compared, packaged):
    result = by_rank(compared("no-evidence"), packaged=packaged)
    told = "rank among 27 control pairs, 9 of them with models that come with the package"
    for text in every_text(result):
        assert ("rank among 27 control pairs" in text, told in text) == (True, packaged > 0)
    korean = flat(report_markdown(result, load_language("ko")))
    assert ("그중 9개는 패키지에 들어 있는 모델과의 쌍" in korean) == (packaged > 0)
    rows = [item for item in json.loads(result.to_json())["evidence"] if item["method"] == "unit-agreement"]
    assert [item["details"].get("packaged_pairs", 0) for item in rows] == [packaged] * 3
    assert Comparison.from_json(result.to_json()).evidence == result.evidence


def test_a_limit_that_no_effect_reaches_is_said_to_be_none(compared):
    result = compared("no-evidence")
    limits = {"embedding": 1.21, "mlp": 0.05}
    components = {
        name: replace(item, detection_limit=limits.get(name, item.detection_limit))
        for name, item in result.verdict.components.items()
    }
    components["mlp"] = replace(components["mlp"], layer_detection_limit=1.5)
    verdict = replace(result.verdict, components=components)
    text = flat(drawn(replace(result, verdict=verdict)))
    assert "embedding at no size, as too little was compared" in text
    assert "mlp from 0.05 (in one layer alone at no size, as too little was compared)" in text
    whole = report_markdown(replace(result, verdict=verdict))
    assert not {"1.2", "1.21", "1.3"} & set(whole.replace("|", " ").split())
    nowhere = {name: replace(item, detection_limit=1.21) for name, item in components.items()}
    verdict = replace(result.verdict, components=nowhere, detection_limit=1.21)
    page = report_html(replace(result, verdict=verdict))
    assert "too little was compared to find anything reliably" in page


def test_a_changed_form_has_its_words(compared):
    changed = Conclusion.SHARED_REPARAMETRISED
    verdict = replace(
        compared("shared").verdict, conclusion=changed, headline=say("headline.shared-reparametrised")
    )
    assert "in a changed form" in drawn(replace(compared("shared"), verdict=verdict))


def test_a_verdict_from_published_digests_needs_no_test(compared):
    result = compared("identical")
    verdict = replace(
        result.verdict,
        log10_p=None,
        log10_p_extrapolated=None,
        effect=None,
        detection_limit=None,
        components={},
    )
    untested = replace(result, verdict=verdict, evidence=())
    text = drawn(untested)
    assert "Identical weights" in text
    assert "strength" not in text
    assert "Components" not in text
    assert "No test was run" in report_markdown(untested)


def test_colour_carries_no_meaning_of_its_own(compared):
    plain = drawn(compared("shared"), force_terminal=True, no_color=True)
    coloured = drawn(compared("shared"), force_terminal=True, color_system="truecolor")
    assert "\x1b[35m" not in plain
    assert "\x1b[1;35m" in coloured
    assert "Common origin: shared weights" in plain


def test_a_terminal_without_our_letters_gets_plain_ones(compared):
    text = drawn(compared("shared"), encoding="ascii")
    bars = text.partition("\nComponents\n")[2]
    assert "#######." in bars
    assert "########" not in bars
    assert "########" in drawn(compared("identical"), encoding="ascii")
    assert "Common origin: shared weights" in text


def test_names_cannot_control_the_terminal_or_use_markup(compared):
    evil = "[red]x[/]\x1b[2J\r\u202e|`<b>"
    result = compared("no-evidence")
    component = ComponentVerdict(
        conclusion=Conclusion.NO_EVIDENCE, log10_p=-0.1, effect=None, n_tests=1, detection_limit=0.5
    )
    verdict = replace(
        result.verdict,
        summary=say("quoted", text=f"{evil} says"),
        components={evil: component},
        limitations=(say("quoted", text=evil),),
    )
    hostile = replace(
        result,
        verdict=verdict,
        candidate=replace(result.candidate, ref=evil, skipped=(say("quoted", text=evil),), family=evil),
        evidence=tuple(
            replace(
                test,
                method=evil,
                role=evil,
                **({"reason": say("quoted", text=evil)} if isinstance(test, Skipped) else {}),
            )
            for test in result.evidence
        ),
    )
    text = drawn(hostile, width=200, verbose=True)
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\u202e" not in text
    assert r"[red]x[/]\x1b[2J\r\u202e|`<b>" in text
