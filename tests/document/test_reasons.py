"""What a system or a library said is told in Korean too, and not left out."""

import errno
import os
import sys

import pytest

from modelkin.document import load_language
from modelkin.errors import ConfigError, SpecError, not_written
from modelkin.formats.adapters.config import parse_adapter_config
from modelkin.message import _SYSTEM, Refusal, said_by, say, told
from modelkin.structs import Fields, read_toml

KOREAN = load_language("ko")


def failure(number):
    return OSError(number, os.strerror(number), "somewhere")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other words")
@pytest.mark.parametrize("number", _SYSTEM, ids=errno.errorcode.get)
def test_english_is_what_the_system_says(number):
    assert str(said_by(failure(number))) == os.strerror(number)


def test_a_full_disk_and_a_missing_right_differ_in_korean():
    full, denied = (
        KOREAN.tell(told(not_written("out", say("part.the-report"), failure(number))))
        for number in (errno.ENOSPC, errno.EACCES)
    )
    assert full == "out: 보고서를 쓸 수 없음: 저장 장치에 남은 공간이 없음"
    assert denied == "out: 보고서를 쓸 수 없음: 권한이 없음"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOENT, "the tape is elsewhere"), "the tape is elsewhere"),
        (failure(errno.ENOTTY), os.strerror(errno.ENOTTY)),
        (ValueError("3 is odd"), "3 is odd"),
        (TimeoutError(), "TimeoutError"),
    ],
    ids=["own words", "rare", "library", "no words"],
)
def test_other_words_are_quoted(error, words):
    assert str(said_by(error)) == words
    assert KOREAN.tell(said_by(error)) == f"“{words}”(원문)"


def test_what_we_said_ourselves_stays_a_message():
    problem = say("problem.no-model")
    assert said_by(Refusal(problem)) == problem
    assert said_by(ConfigError("", problem)) == problem
    assert said_by(ConfigError("a", problem)) == say("error.said", where="a", problem=problem)


def test_the_reason_of_a_reason_is_told_in_korean():
    with pytest.raises(ConfigError, match="expected a JSON object, but a whole number has") as caught:
        parse_adapter_config(b"[" + b"1" * 9999 + b"]")
    assert KOREAN.tell(caught.value.said) == "JSON 객체여야 함: 정수가 9999자리임"


def test_a_file_that_is_no_toml_is_told_with_what_the_parser_said():
    with pytest.raises(SpecError, match="is not TOML: Invalid") as caught:
        read_toml("a.toml", "= 1", Fields)
    assert KOREAN.tell(caught.value.said).startswith("TOML이 아님: “")
