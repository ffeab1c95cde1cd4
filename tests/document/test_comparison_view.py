"""What a person reads about a comparison."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from modelkin.comparison.methods import Effect, Likeness, Skipped
from modelkin.comparison.verdict import ComponentVerdict, Conclusion
from modelkin.document import comparison_view, render_terminal, report_markdown
from modelkin.document.views.names import with_short_names
from modelkin.message import say


def drawn(result, *, width=120, verbose=False, encoding="utf-8", **console):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(width=width, file=file, highlight=False, **console).print(
        render_terminal(comparison_view(result, detail="verbose" if verbose else "brief"))
    )
    file.flush()
    return file.buffer.getvalue().decode(encoding)


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
