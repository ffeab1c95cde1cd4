"""Korean texts call one thing by one word."""

import re

import pytest

from modelkin.document import read_texts

OTHER_WORDS = {
    "정규화 게인": r"노름 게인|노름 이득|정규화 이득|정규화 계수|norm 가중치|(?<![가-힣])이득",
    "정규화": r"(?:입력|어텐션 뒤|접힌) 노름",
    "유닛": r"(?:MLP|은닉|전문가) 단위|전문가의 단위|단위 수|단위 번호|단위들",
    "레이어": r"(?<![가-힣])층|계층",
    "파라미터": r"매개변수",
    "잔차 스트림": r"잔차 흐름",
}


@pytest.mark.parametrize("room", ["document", "casework.replay", "casework.studies"])
@pytest.mark.parametrize("word", OTHER_WORDS)
def test_one_thing_has_one_name(room, word):
    texts = read_texts(f"modelkin.{room}", "texts", "ko.toml")
    assert [key for key, text in texts.items() if re.search(OTHER_WORDS[word], text)] == []
