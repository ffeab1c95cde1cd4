"""Words inside figures: translated where a font has the letters, English where none has."""

from __future__ import annotations

import pytest

from modelkin.document import load_language, write_folder
from modelkin.document.figure_words import figure_words
from modelkin.document.language import ENGLISH
from modelkin.figures import pen, renderings
from modelkin.figures.comparison import comparison_figures

KOREAN = load_language("ko")


@pytest.fixture
def lettered(monkeypatch):
    """A machine that has a font with Hangul, as far as one is asked for."""
    monkeypatch.setattr(pen, "can_draw", lambda text: True)


@pytest.mark.usefixtures("lettered")
def test_words_of_figures_are_told_in_korean():
    told = figure_words(KOREAN)
    assert told("effect (0 is chance, 1 is identical)") == "효과 크기 (0은 우연, 1은 동일)"
    assert told("Evidence: one and two") == "증거: one, two"
    assert told("attention, layer 3") == "어텐션, 레이어 3"
    assert told("Layer map of mlp (mlp-map)") == "레이어 지도: MLP (mlp-map)"
    assert told("embedding") == "임베딩"
    assert told("org/name") == "org/name"


def test_english_stays_english_and_so_does_a_machine_without_hangul(monkeypatch):
    assert figure_words(ENGLISH) is str
    monkeypatch.setattr(pen, "can_draw", lambda text: text.isascii())
    assert figure_words(KOREAN) is str


@pytest.mark.usefixtures("lettered")
def test_every_text_for_figures_is_one_that_figures_use(compared):
    words = set()
    for name in ("shared", "no-evidence", "controlled"):
        for figure in comparison_figures(compared(name)).values():
            words |= {figure.title, figure.note}
            words |= {panel.x.label for panel in figure.panels} | {panel.y.label for panel in figure.panels}
    told = figure_words(KOREAN)
    assert [text for text in words if text and text != "z" and told(text) == text] == []


@pytest.mark.usefixtures("lettered")
def test_what_is_drawn_differs_and_what_is_described_does_not(compared, tmp_path, monkeypatch):
    figure = comparison_figures(compared("no-evidence"))["controls"]
    asked: list[str] = []
    monkeypatch.setattr(pen, "_has_glyph", lambda letter: True)

    def translate(text: str) -> str:
        asked.append(text)
        return text

    renderings(figure, translate=translate, dpi=30)
    assert figure.title in asked
    monkeypatch.setattr(pen, "can_draw", lambda text: False)
    for code in ("en", "ko"):
        write_folder(compared("not-testable"), tmp_path / code, language=code, formats=("svg",), dpi=30)
    assert (tmp_path / "en/figures/controls.svg").read_bytes() == (
        tmp_path / "ko/figures/controls.svg"
    ).read_bytes()
