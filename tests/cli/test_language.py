"""The language of the terminal: asked for, or that of the locale."""

import pytest
from tests.places import ZOO

from modelkin.cli.options import locale_language


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ({}, "en"),
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_GB.UTF-8", "LC_MESSAGES": "ko"}, "ko"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": ""}, "ko"),
        ({"LANG": "fr_FR.UTF-8"}, "en"),
    ],
)
def test_the_locale_chooses_a_language_that_there_is(monkeypatch, locale, expected):
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    assert locale_language() == expected


def test_a_comparison_is_told_in_korean(run, monkeypatch):
    monkeypatch.setenv("LANG", "ko_KR.UTF-8")
    models = (str(ZOO / "twin-1"), str(ZOO / "base"))
    _, told, _ = run("compare", *models)
    assert "공통 기원의 증거 없음" in told
    assert "No evidence" not in told
    _, asked, _ = run("compare", *models, "--lang", "en")
    assert "No evidence of a common origin" in asked


def test_the_demo_is_told_in_korean_and_its_record_is_not(run):
    _, told, _ = run("demo", "--lang", "ko")
    assert "복사본처럼 보이는 두 남남" in told
    assert "A raw cosine" not in told
    _, record, _ = run("demo", "--lang", "ko", "--json")
    assert "Two strangers that look like a copy" in record


def test_the_list_of_studies_is_told_in_korean(run):
    _, told, _ = run("study", "list", "--lang", "ko")
    assert "연구" in told.splitlines()[0]
    assert run("study", "list", "--lang", "ko", "--json") == run("study", "list", "--json")
