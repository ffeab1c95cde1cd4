"""Words inside figures: told in the language of a report where a font has the letters, else in English."""

from __future__ import annotations

import io
import pickle

import pytest
from PIL import Image
from tests.document.korean import english, words_of

from modelkin.casework.replay.figures import replay_figures
from modelkin.document import load_language, write_folder
from modelkin.document.language import ENGLISH
from modelkin.figures import alt_of, pen, renderings
from modelkin.figures.comparison import comparison_figures
from modelkin.message import phrase, say

KOREAN = load_language("ko")


def test_a_phrase_is_its_english_words_and_knows_its_message():
    words = phrase("figure.evidence", a="one", b="two")
    assert words == "Evidence: one and two"
    assert words.said == say("figure.evidence", a="one", b="two")
    assert pickle.loads(pickle.dumps(words)).said == words.said


def test_words_of_figures_are_told_in_korean():
    assert KOREAN.wording(phrase("figure.effect_axis")) == "효과 크기 (0은 우연, 1은 동일)"
    assert KOREAN.wording(phrase("figure.evidence", a="one", b="two")) == "증거: one, two"
    inside = phrase("figure.one_layer", component=phrase("component.attention"), layer=3)
    assert KOREAN.wording(inside) == "어텐션, 레이어 3"
    assert KOREAN.wording("Evidence: one and two") == "Evidence: one and two"


@pytest.mark.parametrize("name", ["shared", "no-evidence", "controlled", "not-testable"])
def test_figures_of_a_comparison_have_no_english_sentence(compared, name):
    for figure in comparison_figures(compared(name)).values():
        assert english(words_of(figure)) == []
        labels = (
            figure.title,
            figure.note,
            *(axis.label for panel in figure.panels for axis in (panel.x, panel.y)),
        )
        assert [text for text in labels if text and text != "z" and KOREAN.wording(text) == text] == []


def test_figures_of_the_replay_have_no_english_sentence():
    figures = replay_figures().values()
    assert [found for figure in figures for found in english(words_of(figure))] == []
    assert len(english(figure.alt for figure in figures)) > 5


def picture(figure, language):
    drawn = renderings(figure, dpi=30, language=language)
    return Image.open(io.BytesIO(drawn["png"]))


@pytest.mark.filterwarnings("ignore:Glyph .* missing")  # of the last picture, where no font has the letters
def test_a_machine_without_hangul_draws_english_and_tells_korean(compared, tmp_path, monkeypatch):
    figure = comparison_figures(compared("no-evidence"))["controls"]
    monkeypatch.setattr(pen, "can_draw", lambda language: False)
    plain, told = (picture(figure, language) for language in (ENGLISH, KOREAN))
    assert plain.tobytes() == told.tobytes()
    assert told.info["Description"] == alt_of(figure, KOREAN) != plain.info["Description"] == figure.alt
    monkeypatch.setattr(pen, "can_draw", lambda language: True)
    monkeypatch.setattr(pen, "_has_glyph", lambda letter: True)
    assert picture(figure, KOREAN).tobytes() != plain.tobytes()


def test_descriptions_stay_english(compared, tmp_path, monkeypatch):
    monkeypatch.setattr(pen, "can_draw", lambda language: False)
    for code in ("en", "ko"):
        write_folder(compared("not-testable"), tmp_path / code, language=code, formats=("svg",), dpi=30)
    described = [(tmp_path / code / "figures/controls.json").read_bytes() for code in ("en", "ko")]
    assert described[0] == described[1]
