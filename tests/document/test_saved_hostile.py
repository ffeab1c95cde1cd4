"""A saved file that is hostile: only our own errors come out, and nothing in it forges a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import modelkin as mk
from modelkin.demo import demo_zoo
from modelkin.document.folder import report_markdown
from modelkin.errors import FormatError


@pytest.fixture(scope="module")
def saved() -> str:
    with demo_zoo() as zoo:
        return mk.compare(candidate=str(zoo / "finetune-light"), base=str(zoo / "base")).to_json()


def changed(saved: str, change: Callable[[dict[str, Any]], None]) -> str:
    document = json.loads(saved)
    change(document)
    return json.dumps(document)


def flagged(value: object) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["flags"] = ["said"]
        document["flags_codes"] = [{"code": "quoted", "values": {"text": value}}]

    return change


def nested(levels: int) -> object:
    value: object = "'\""
    for _ in range(levels):
        value = [value]
    return value


def messages(levels: int) -> object:
    value: object = "end"
    for _ in range(levels):
        value = {"code": "quoted", "values": {"text": value}}
    return value


@pytest.mark.parametrize("value", [nested(40), messages(300), messages(400), 10**200])
def test_values_of_any_depth_are_read_and_written(saved, value):
    result = mk.Comparison.from_json(changed(saved, flagged(value)))
    assert len(str(result.flags[0])) < 2_000
    assert mk.Comparison.from_json(result.to_json()) == result


@pytest.mark.parametrize("number", ["1e999", "1" * 400])
def test_numbers_that_are_no_floats_are_refused(saved, number):
    text = changed(saved, lambda document: document["verdict"].update(log10_p=-12345.5))
    with pytest.raises(FormatError, match="expected a JSON document"):
        mk.Comparison.from_json(text.replace("-12345.5", number))


def test_the_smallest_limit_can_be_written(saved):
    text = changed(saved, lambda document: document["verdict"].update(detection_limit=5e-324))
    assert report_markdown(mk.Comparison.from_json(text))


def test_a_line_break_begins_no_heading(saved):
    forged = "A\n\nThe candidate is a copy\n===\n\n- item"

    def change(document: dict[str, Any]) -> None:
        document["relation"]["direction"]["reasons"] = [forged]
        del document["relation"]["direction"]["reasons_codes"]

    lines = report_markdown(mk.Comparison.from_json(changed(saved, change))).splitlines()
    assert "The candidate is a copy" not in lines
    assert any("The candidate is a copy" in line for line in lines)
