"""The language of the terminal: asked for, or that of the locale."""

import json
from pathlib import Path

import jsonschema
import pytest
from tests.document.korean import TERMS, foreign
from tests.places import ZOO

from modelkin.cli.options import locale_language
from modelkin.document.results import schema


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


@pytest.mark.more
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


IN_KOREAN = {
    "inspect demo:base": "아키텍처",
    "inspect demo:moe-base --tensors": "텐서",
    "configs demo:moe-base demo:base": "다름",
    "tokenizers demo:continued demo:base -v": "공통점",
    "embeddings demo:continued demo:base": "같은 토큰의 행",
    "repositories demo:twin-1 demo:base": "읽는 법",
    "matrix demo:twin-1 demo:base --baseline all": "기준선",
    "diff demo:finetune-light demo:base": "미세 조정",
    "compare demo:continued demo:base -v": "공유",
    "lab cosines": "정규화",
    "merge demo:continued demo:base demo:finetune-light": "가중치",
    "tree demo:base demo:twin-1 demo:finetune-light": "방향에 대한 사실",
    "check demo:base": "검정",
    "cache info": "보관 중",
    "methods": "귀무가설",
    "methods --published": "발표된 기준값",
    "fingerprint demo:base": "다이제스트",
    "registry init": "지문",
    "registry add demo:base demo:twin-1": "추가함",
    "registry info": "제작법",
    "registry verify": "커밋된 그대로임",
    "registry pairs": "공통 기원",
    "scan demo:finetune-light": "공통 기원을 보임",
    "compare demo:twin-1 demo:base --control demo:norms-only --dry-run": "최대",
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return tmp_path_factory.mktemp("registry") / "r"


PIECES = {"ght", "ight"}
"""Of a name that a narrow column cuts."""
LONGER = ("registry", "scan", "diff", "merge", "tree")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=pytest.mark.more if command.split()[0] in LONGER else ())
        for command in IN_KOREAN
    ],
)
def test_every_command_speaks_korean(command, run, registry, tmp_path):
    words = command.split()
    if words[0] in ("registry", "scan"):
        words += ["--registry", str(registry)]
    if words[0] == "fingerprint":
        words += ["-o", str(tmp_path / "f.json")]
    status, told, beside = run(*words, "--lang", "ko")
    assert status == 0, beside
    assert IN_KOREAN[command] in told
    lines = [line for line in (told + beside).splitlines() if "출판물" not in line]  # titles of papers
    assert foreign(lines, TERMS | PIECES) == []


def test_a_gate_that_tested_nothing_warns_in_korean(run):
    pair = (str(ZOO / "narrow"), str(ZOO / "base"))
    status, _, beside = run("compare", *pair, "--fail-on", "shared", "--depth", "quick", "--lang", "ko")
    assert status == 0
    warning = next(line for line in beside.splitlines() if "--fail-on" in line)
    assert warning.startswith("경고: --fail-on shared 조건은 통과했으나 검정할 수 있는 것이 없었음.")


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs a place where nothing can be written")
def test_why_a_report_cannot_be_written_is_told_in_korean(run):
    pair = ("demo:base", "demo:base")
    for language, reason in (("ko", "그런 파일이나 디렉터리가 없음"), ("en", "No such file or directory")):
        status, _, beside = run("compare", *pair, "--out", "/proc/x", "--depth", "quick", "--lang", language)
        assert status == 2
        assert reason in beside


def test_a_report_is_verified_in_korean(run, tmp_path):
    run("compare", "demo:twin-1", "demo:base", "--out", str(tmp_path / "r"), "--depth", "quick")
    status, told, _ = run("verify", str(tmp_path / "r"), "--lang", "ko")
    assert status == 0
    assert "확인한 것이 모두 맞음" in told
    assert "판정, 증거" in told
    status, told, _ = run("verify", str(tmp_path / "r"), "--lang", "ko", "--json")
    assert "ranges" in told
    (tmp_path / "r" / "REPORT.md").write_text("")
    _, told, _ = run("verify", str(tmp_path / "r"), "--lang", "ko")
    assert "REPORT.md가 바뀜" in told


@pytest.mark.parametrize(
    ("command", "code", "told", "advice"),
    [
        (
            "compare demo:nonsense demo:base",
            "problem.no-demo",
            "오류: 'demo:nonsense'",
            "도움말: 있는 것: demo:",
        ),
        ("inspect ./nowhere", "problem.no-file-or-folder", "오류: './nowhere'", "도움말: org/name"),
        ("inspect org/", "problem.no-repository", "오류: 'org/'", "도움말: org/name"),
        (
            "inspect demo:base --budget 10",
            "problem.budget",
            "오류: ",
            "도움말: 예산을 늘리거나",
        ),
    ],
)
def test_errors_are_told_in_korean_and_have_a_code(run, command, code, told, advice):
    english = run(*command.split(), "--json")
    status, _, korean = run(*command.split(), "--lang", "ko")
    head, hint = korean.splitlines()[-2:]
    assert head.startswith(told)
    assert hint.startswith(advice)
    assert foreign([head]) == []
    document = json.loads(english[1])
    assert document["problem_code"] == code
    assert document["exit_code"] == status == english[0]
    assert run(*command.split(), "--json", "--lang", "ko")[1] == english[1]
    jsonschema.validate(document, schema("modelkin.error/1"))


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("compare demo:base", "problem.usage-missing", "오류: 'BASE'가 없음"),
        (
            "compare demo:base demo:base --dept quick",
            "problem.usage-no-option",
            "오류: 그런 옵션이 없음: '--dept'",
        ),
        (
            "compare demo:base demo:base --depth all",
            "problem.usage-expected",
            "quick, standard, deep, full 중 하나",
        ),
        ("compare demo:base demo:base --seed x", "problem.usage-expected", "4,294,967,295까지의 정수"),
        ("compare demo:base demo:base --budget x", "problem.usage-value", "64MB, 1GiB, 4096 같은 크기"),
        ("compare demo:base demo:base --seed", "problem.usage-option", "오류: 옵션 --seed의 쓰임"),
        ("verify ./nowhere", "problem.usage-expected", "경로"),
        ("inspect demo:base demo:twin-1 --json", "problem.usage-one-model", "MODEL을 하나만"),
        ("matrix demo:base --known x", "problem.usage-value", "NAME=MODEL,MODEL 형식"),
        ("cache info more", "problem.usage-other", "인자나 옵션이 사용법과 다름"),
    ],
)
def test_wrong_usage_is_told_in_korean_and_has_a_code(run, command, code, told):
    words = command.split()
    status, _, beside = run(*words[:2], "--lang", "ko", *words[2:])
    assert status == 2
    assert any(told in line for line in beside.splitlines()[-2:])
    words = [word for word in words if word != "--json"]
    status, document, english = run(*words[:2], "--json", *words[2:])
    found = json.loads(document)
    assert (status, found["problem_code"]) == (2, code)
    assert found["problem"] in english
    assert found["problem"] not in beside
    jsonschema.validate(found, schema("modelkin.error/1"))


def test_an_unknown_command_is_told_in_korean(run, monkeypatch):
    monkeypatch.setenv("LANG", "ko_KR.UTF-8")
    status, _, beside = run("comparr")
    assert status == 2
    *_, head, hint = beside.splitlines()
    assert head == "오류: 그런 명령이 없음: 'comparr'"
    assert hint == "도움말: compare를 뜻하셨습니까?"
    assert foreign(beside.splitlines(), TERMS | {"compare"}) == []


def test_a_study_that_breaks_its_rules_is_refused_in_korean(run, tmp_path):
    (tmp_path / "s.yaml").write_text("name: mine\ntitle: t\nabout: a\nmodels: []\nexperiments: []\n")
    status, _, beside = run(
        "study", "run", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "o"), "--lang", "ko"
    )
    assert status == 4
    assert "이름별 항목" in beside
    assert foreign(beside.splitlines(), TERMS | {"models"}) == []
