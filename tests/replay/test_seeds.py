"""The table of what the published analyses do: each row has a command that parses, each figure a function."""

import re
import shlex
from pathlib import Path

import click
import pytest

from modelkin._cli.app import app
from modelkin.figures import catalogue

PAGE = (Path(__file__).parents[2] / "docs" / "seeds.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| `(modelkin .+?)` \| (.*)\|$", PAGE, re.MULTILINE)
COMMANDS = sorted({command for row in ROWS for command in (row[2], *re.findall("`(modelkin .+?)`", row[3]))})
FIGURES = re.findall(
    r"^\| (.+?) \| ((?:`\w+`(?:, )?)+) \|$", PAGE.partition("## Every figure")[2], re.MULTILINE
)


def parsed(line):
    """Parse a command line as click would, without running it; return its command."""
    words = shlex.split(line)[1:]
    command: click.Command = app
    path = ["modelkin"]
    while isinstance(command, click.Group):
        name = words.pop(0)
        path.append(name)
        if name not in command.commands:
            raise LookupError(" ".join(path))
        command = command.commands[name]
    command.make_context(path[-1], words)
    return command


def test_there_are_73_rows_in_order():
    assert [int(number) for number, *_ in ROWS] == list(range(1, 74))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_exists(command):
    assert parsed(command) is not None


def test_measures_roles_and_baselines_of_the_table_exist():
    from modelkin._matrix import BASELINES
    from modelkin._matrix._selection import parse_role
    from modelkin.measures import find_measure

    for command in COMMANDS:
        for name in re.findall(r"--metric (\S+)", command):
            assert find_measure(name).name == name
        for name in re.findall(r"--baseline (\S+)", command):
            assert name in BASELINES
        for name in re.findall(r"--role (\S+)", command):
            parse_role(name)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("modelkin nonsense", LookupError),
        ("modelkin compare A", click.MissingParameter),
        ("modelkin matrix A B --nonsense", click.NoSuchOption),
        ("modelkin compare A B --depth nonsense", click.BadParameter),
    ],
)
def test_the_check_of_commands_can_fail(line, error):
    with pytest.raises(error, match=r"(?i)nonsense|base"):
        parsed(line)


def test_every_figure_has_its_function():
    assert len(FIGURES) == 32
    for _, functions in FIGURES:
        for name in re.findall(r"`(\w+)`", functions):
            assert callable(getattr(catalogue, name)), name


def test_the_page_of_the_replay_counts_its_checks_rightly():
    from modelkin.replay import replay_solar_glm

    page = (Path(__file__).parents[2] / "docs" / "replay.md").read_text()
    counted = {kind: int(n) for kind, n in re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE)}
    story = replay_solar_glm()
    assert counted == {kind: len(story.checks_of(kind)) for kind in counted}
    assert sum(counted.values()) == len(story.checks)
