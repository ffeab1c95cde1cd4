"""The report folder: files and figures that say the same."""

import csv
import errno
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import modelkin as mk
from modelkin.comparison.methods import Skipped, Tested
from modelkin.document import report_html, to_json, write_folder
from modelkin.document.evidence import evidence_row, tensors_csv
from modelkin.document.folder import report_markdown, write_files
from modelkin.errors import OutputError, UsageError
from modelkin.message import say


def rows_below(markdown, title):
    """Return the cells of the first table below a title."""
    section = markdown.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def test_the_folder_holds_the_record_the_report_and_the_table(compared, tmp_path):
    result = compared("no-evidence")
    result.write(str(tmp_path / "new" / "report"))
    folder = tmp_path / "new" / "report"
    assert sorted(path.name for path in folder.iterdir()) == [
        "REPORT.md",
        "comparison.json",
        "figures",
        "manifest.json",
        "report.html",
        "tensors.csv",
    ]
    assert mk.Comparison.from_json((folder / "comparison.json").read_text()) == result
    assert (folder / "REPORT.md").read_text() == report_markdown(result)
    assert (folder / "report.html").read_text() == report_html(result)
    assert (folder / "tensors.csv").read_text() == tensors_csv(result)


def test_the_language_changes_what_is_read_and_not_the_record(compared, tmp_path):
    result = compared("no-evidence")
    for language in ("en", "ko"):
        result.write(str(tmp_path / language), language=language)
    assert '<html lang="ko"' in (tmp_path / "ko" / "report.html").read_text()
    assert "공통 기원의 증거 없음" in (tmp_path / "ko" / "REPORT.md").read_text()
    for name in ("comparison.json", "tensors.csv"):
        assert (tmp_path / "ko" / name).read_bytes() == (tmp_path / "en" / name).read_bytes()


def test_an_unknown_language_writes_nothing(compared, tmp_path):
    with pytest.raises(UsageError, match="expected a report language"):
        write_folder(compared("no-evidence"), tmp_path / "new", language="tlh")
    assert not (tmp_path / "new").exists()


def test_an_older_report_is_replaced(compared, tmp_path):
    (tmp_path / "REPORT.md").write_text("old")
    paths = write_folder(compared("not-testable"), tmp_path)
    assert "old" not in (tmp_path / "REPORT.md").read_text()[:10]
    assert sorted(paths) == sorted(path for path in tmp_path.rglob("*") if path.is_file())


def test_a_file_in_the_place_of_the_folder_is_not_touched(compared, tmp_path):
    (tmp_path / "taken").write_text("precious")
    with pytest.raises(UsageError, match="expected a folder for the report, got a file"):
        write_folder(compared("not-testable"), tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "precious"


def test_a_folder_that_cannot_be_written_is_a_readable_error(compared, tmp_path):
    (tmp_path / "REPORT.md").mkdir()
    with pytest.raises(UsageError, match="the report cannot be written"):
        write_folder(compared("not-testable"), tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_report_answers_the_question_first_and_then_says_what_it_does_not_say(comparison):
    text = report_markdown(comparison)
    assert text.startswith(f"# Was {comparison.verdict.conclusion.value} derived from base?\n")
    assert str(comparison.verdict.headline) in text
    for sentence in comparison.verdict.limitations:
        assert f"- {sentence}" in text
    order = [text.index(f"\n## {title}\n") for title in ("Verdict", "What this verdict does not say")]
    order += [text.index(f"\n## {title}\n") for title in ("Components", "Evidence", "What was read")]
    assert order == sorted(order)
    assert "--depth standard --seed 0" in text


def test_the_report_has_every_piece_of_evidence(comparison):
    rows = rows_below(report_markdown(comparison), "Evidence")
    assert [(row[0], row[1]) for row in rows] == [
        (test.method, test.component) for test in comparison.evidence
    ]
    for row, test in zip(rows, map(evidence_row, comparison.evidence), strict=True):
        assert len(row) == 13
        assert str(test.reason or "") in row[-1]
        assert (row[7] == "-") == (test.effect is None)


def test_the_report_shows_controls(compared):
    rows = rows_below(report_markdown(compared("controlled")), "Controls")
    assert len(rows) == 6
    assert rows[0][-1] == "yes"
    assert "the hidden sizes differ" in rows[2][-1]
    assert "No control was given" in report_markdown(compared("shared"))


def test_the_report_shows_what_differs_in_the_configurations(compared):
    text = report_markdown(compared("not-testable"))
    assert "| hidden_size | 16 | 32 |" in text
    assert "No field of the configurations differs." in report_markdown(compared("shared"))


def test_the_command_names_the_commit_or_the_folder(compared):
    result = compared("not-testable")
    hub = replace(result.candidate, kind="hub", ref="hf://org/name@main", revision="a" * 40)
    local = replace(result.base, kind="local", ref="./my model", origin="/data/my model")
    text = report_markdown(replace(result, candidate=hub, base=local))
    assert f"$ modelkin compare hf://org/name@{'a' * 40} '/data/my model' --depth" in text


def test_the_table_has_the_numbers_of_the_record(comparison):
    rows = list(csv.DictReader(io.StringIO(tensors_csv(comparison))))
    evidence = json.loads(to_json(comparison))["evidence"]
    assert len(rows) == len(evidence)
    for row, test in zip(rows, evidence, strict=True):
        effect = test["effect"] or {"value": None, "low": None, "high": None}
        expected = {**test, "effect": effect["value"], "low": effect["low"], "high": effect["high"]}
        for name in ("n", "n_features", "statistic", "z", "log10_p", "log10_p_extrapolated", "effect"):
            assert (float(row[name]) if row[name] else None) == expected[name]
        for name in ("low", "high", "n_matched", "detection_limit"):
            assert (float(row[name]) if row[name] else None) == expected[name]
        assert [int(layer) for layer in row["layers"].split()] == test["layers"]
        assert row["exact"] == str(test["exact"]).lower()
        assert (row["method"], row["status"], row["reason"] or None) == (
            test["method"],
            test["status"],
            test["reason"],
        )


def quoted(text):
    return say("quoted", text=text)


def said(test, text):
    return {"reason": quoted(text)} if isinstance(test, Skipped) else {"flags": (text,)}


def test_names_are_no_markup(compared):
    evil = "a|b\n# c\x1b[0m <script>alert(1)</script> `x` *y* [z](http://e) _w_ 1 \u202e"
    result = compared("no-evidence")
    verdict = replace(
        result.verdict,
        summary=quoted(evil),
        limitations=tuple(map(quoted, (evil, "- nested", "1. numbered"))),
    )
    hostile = replace(
        result,
        verdict=verdict,
        candidate=replace(result.candidate, ref=evil, origin=evil, skipped=(say("quoted", text=evil),)),
        evidence=tuple(replace(test, method=evil, role=evil, **said(test, evil)) for test in result.evidence),
        config={evil: (evil, evil)},
        tokenizer={evil: evil},
    )
    text = report_markdown(hostile)
    assert "\x1b" not in text
    assert "\u202e" not in text
    kinds = {token.type for block in parsed(text) for token in (block, *(block.children or []))}
    assert kinds.isdisjoint({"html_inline", "html_block", "link_open"})
    assert text.count("\n![") == 1  # our own drawing
    shown = [block.content for block in parsed(text) if block.type == "inline"]
    cells = [cell for cell in shown if "script" in cell]
    assert len(cells) > 4 * sum(isinstance(test, Tested) for test in result.evidence)
    assert len(rows_below(text, "Evidence")[0]) == 13
    assert r"- \- nested" in text
    assert r"- 1\. numbered" in text
    assert re.search(r"^\$ modelkin compare 'a\|b\\n# c", text, re.MULTILINE)


def test_the_report_is_well_formed_markdown(comparison):
    tokens = parsed(report_markdown(comparison))
    titles = [tokens[n + 1].content for n, token in enumerate(tokens) if token.type == "heading_open"]
    assert titles[1:3] == ["Verdict", "What this verdict does not say"]
    rows = sum(token.type == "tr_open" for token in tokens)
    assert rows > len(comparison.evidence) + len(comparison.verdict.components) / 2


def parsed(text):
    """Read Markdown as its readers do."""
    return MarkdownIt("commonmark").enable("table").parse(text)


def test_half_a_letter_in_a_name_does_not_stop_the_report(compared, tmp_path):
    result = compared("not-testable")
    odd = replace(result, candidate=replace(result.candidate, skipped=(say("quoted", text="\ud800"),)))
    write_folder(odd, tmp_path)
    assert mk.Comparison.from_json((tmp_path / "comparison.json").read_text()) == odd


def test_a_full_disk_is_no_wrong_usage(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match="the report cannot be written: No space left on device"):
        write_files(tmp_path, {"REPORT.md": "x"})
    assert list(tmp_path.iterdir()) == []
