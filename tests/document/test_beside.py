"""Tokenizers, configs and claims, as reports tell them."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from tests.support import llama_files

import modelkin as mk
from modelkin.describe import not_compared
from modelkin.document import comparison_view, load_language, render_markdown, render_terminal
from modelkin.document.views.beside import config_lines, config_rows, tokenizer_lines
from modelkin.message import say
from modelkin.source import MemorySource

ENGLISH = load_language("en")


def drawn(result):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_terminal(comparison_view(result, detail="brief")))
    return console.export_text()


@pytest.fixture(scope="module")
def plain():
    options = mk.CompareOptions(depth="quick")
    return mk.compare(
        candidate=MemorySource(llama_files()), base=MemorySource(llama_files(seed=1)), options=options
    )


def test_the_same_file_is_told_in_one_line(plain):
    result = replace(plain, tokenizer={"same_file": True})
    assert list(tokenizer_lines(result, ENGLISH)) == ["tokenizers: both are the same file"]


def test_overlap_is_never_told_without_what_strangers_show(plain):
    facts = {
        "same_file": False,
        "relation": "separate",
        "candidate_tokens": 10,
        "base_tokens": 20,
        "share_of_smaller": 0.7,
        "share_of_smaller_in_strangers": "0.31 to 0.98",
    }
    lines = list(tokenizer_lines(replace(plain, tokenizer=facts), ENGLISH))
    assert lines[0] == "tokenizers: no more in common than separately trained ones have (10 and 20 tokens)"
    assert lines[1].endswith("separately trained ones show 0.31 to 0.98")


def test_what_was_not_compared_has_its_reason(plain):
    result = replace(plain, tokenizer=not_compared(say("tokenizers-not-yet")))
    assert str(result.tokenizer["compared"]) == "no: not at this stage"
    assert list(tokenizer_lines(result, ENGLISH)) == ["tokenizers: not compared (not at this stage)"]


def test_fields_that_differ_come_with_their_meaning_and_bookkeeping_does_not(plain):
    config = {"hidden_size": ("8", "16"), "odd": ("1", "absent"), "transformers_version": ("1", "2")}
    result = replace(plain, config=config)
    assert list(config_lines(result, ENGLISH)) == [
        "configs: 2 fields differ; 1 bookkeeping field also differs"
    ]
    assert config_rows(result, ENGLISH) == [
        ("hidden_size", "8", "16", "width of the residual stream"),
        ("odd", "1", "absent", ""),
    ]
    assert "width of the residual stream" in drawn(result)


def test_a_long_config_has_a_button_on_a_page_and_no_title_of_its_own_in_markdown(plain):
    result = replace(plain, config={f"field_{number}": ("1", "2") for number in range(28)})
    text = render_markdown(comparison_view(result, detail="whole"))
    assert "field\\_27" in text or "field_27" in text
    assert "Show all" not in text
    assert "### Methods and their null hypotheses" in text


def test_equal_configs_are_told(plain):
    assert list(config_lines(replace(plain, config={}), ENGLISH)) == ["configs: no field differs"]
    assert config_rows(replace(plain, config={}), ENGLISH) == []


def test_claims_are_drawn_as_claims(plain):
    claimed = replace(plain, claims={"candidate": (say("claim-base", models=("[red]x\x1b[2J",)),)})
    assert "(claims, not checked)" in drawn(claimed)
    assert "candidate: the card says: base model [red]x\\x1b[2J" in drawn(claimed)
    assert "Declared by the makers" not in drawn(plain)
