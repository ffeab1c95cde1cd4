"""What a newcomer types: commands and Python in README and tutorial run as they are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.places import DOCS, ROOT
from tests.support.amount import every

from modelkin.casework.story import COMMANDS

PAGES = {"README": ROOT / "README.md", "tutorial": DOCS / "tutorial.md", "pipelines": DOCS / "ci.md"}
CASE = DOCS / "report.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[tuple[str, int]]:
    """Return the commands of a page, each with the exit code that the page says it has."""
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    found = []
    for line in lines:
        command, _, remark = line.partition("  #")
        code = re.search(r"exit code (\d+)$", remark.strip())
        if command.startswith("$ modelkin "):
            found.append((command.removeprefix("$ modelkin ").strip(), int(code[1]) if code else 0))
    return found


@pytest.mark.parametrize("name", every(len(PAGES), PAGES))
def test_every_command_runs_as_it_is_printed(name, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = commands(PAGES[name])
    assert len(printed) >= 6
    for command, expected in printed:
        words = shlex.split(command)
        file = words.index(">") if ">" in words else len(words)
        code, out, err = run(*words[:file])
        for name in words[file + 1 :]:
            Path(name).write_text(out)
        assert (command, code) == (command, expected), err
        assert out.strip() or expected, command
        assert ("error: " in err) == (expected > 1), err


@pytest.mark.parametrize("name", every(2, ["README", "tutorial"]))
def test_every_line_of_python_runs_as_it_is_printed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for block in blocks(PAGES[name], "python"):
        exec(compile(block, str(PAGES[name]), "exec"), scope)
    assert "mk" in scope


def test_the_commands_of_a_case_run_in_their_order(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command, expected in commands(CASE)[-3:-1]:
        code, _, err = run(*shlex.split(command))
        assert (command, code) == (command, expected), err


def test_no_command_of_these_pages_needs_a_network():
    for page in PAGES.values():
        for command, _ in commands(page):
            named = [word for word in shlex.split(command) if "/" in word or word.startswith("demo:")]
            assert all(word.startswith(("demo:", "zoo/")) for word in named), command


@pytest.mark.more
def test_the_demo_ends_with_commands_that_run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("demo", "--quiet")
    assert code == 0
    assert len(COMMANDS) == 3
    for command in COMMANDS.values():
        assert command in out
        assert run(*shlex.split(command)[1:])[0] == 0, command
    assert (tmp_path / "report" / "report.html").exists()
