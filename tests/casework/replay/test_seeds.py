"""The table of what the published analyses do: each row has a command that parses, each figure a function."""

import re
import shlex

import click
import pytest
from tests.places import DOCS, ZOO

from modelkin.casework import catalogue
from modelkin.cli.app import app

PAGE = (DOCS / "seeds.md").read_text()
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
    command.make_context(
        path[-1], words, help_option_names=["-h", "--help"]
    )  # as the app does; click keeps them
    return command


def test_there_are_73_rows_in_order():
    assert [int(number) for number, *_ in ROWS] == list(range(1, 74))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_exists(command):
    assert parsed(command) is not None


LETTERS = {"A": "base", "B": "twin-1", "C": "finetune-light", "D": "twin-2"}
CHEAP = [
    command for command in COMMANDS if command.split()[1] in ("cache", "inspect", "matrix", "tokenizers")
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Make a folder in which the letters of the table are models."""
    folder = tmp_path_factory.mktemp("letters")
    for letter, name in LETTERS.items():
        (folder / letter).symlink_to(ZOO / name)
    for letter, name in (("A", "moe16-1"), ("B", "moe16-2")):
        (folder / f"{letter}-experts").symlink_to(ZOO / name)
    (folder / "model.safetensors").symlink_to(ZOO / "base" / "model.safetensors")
    return folder


def test_there_is_something_to_run():
    assert len(CHEAP) >= 30


@pytest.mark.parametrize("command", CHEAP)
def test_a_command_that_only_reads_works_as_it_is_written(run, models, monkeypatch, command):
    monkeypatch.chdir(models)
    experts = "-experts" if "--role router" in command else ""
    # The table is about models of many layers on the Hub; these have four, and no revisions.
    for published, here in (("0-10,20,30-35", "0-1,3"), ("--layers 10", "--layers 2"), ("@main", "")):
        command = command.replace(published, here)
    group, *words = shlex.split(command)[1:]
    alias = (lambda letter: f"{letter}=") if group == "matrix" else (lambda letter: "")
    words = [f"{alias(word)}./{word}{experts}" if word in LETTERS else word for word in words]
    status, out, _ = run(group, *words)
    assert status == 0
    assert out.strip()


def test_studies_and_disputes_of_the_table_ship():
    from modelkin.casework.studies import shipped_studies

    named = [command.split()[2:4] for command in COMMANDS if command.startswith("modelkin study")]
    assert named
    for what, name in named:
        assert name in {"run": shipped_studies(), "replay": ("solar-glm",)}[what]


def test_measures_roles_and_baselines_of_the_table_exist():
    from modelkin.describe.matrix import BASELINES, parse_role
    from modelkin.describe.measures import find_measure

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
    from modelkin.casework.replay import replay_solar_glm

    page = (DOCS / "replay.md").read_text()
    counted = {kind: int(n) for kind, n in re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE)}
    story = replay_solar_glm()
    assert counted == {kind: len(story.checks_of(kind)) for kind in counted}
    assert sum(counted.values()) == len(story.checks)
