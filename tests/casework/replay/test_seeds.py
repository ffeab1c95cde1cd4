"""The table of what the published analyses do: each row has a command that runs, each figure a function."""

import json
import re
import shlex
from dataclasses import replace

import click
import pytest
from tests.casework.catalogue.examples import FUNCTIONS
from tests.casework.studies.conftest import one_of_each_layout, with_fewer_draws
from tests.places import DOCS, ZOO

from modelkin.casework.lab import NormsOptions
from modelkin.casework.lab.norms_train import CORPORA, cycle
from modelkin.casework.studies import load_study, run_study
from modelkin.casework.studies.files import parse_study
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
TRAINING = [command for command in COMMANDS if command.startswith("modelkin lab norms")]
"""What needs torch, and minutes."""
ELSEWHERE = (
    # The table is about models of many layers on the Hub; these have four, and no revisions.
    ("0-10,20,30-35", "0-1,3"),
    ("--layers 10", "--layers 2"),
    ("@main", ""),
    ("@v1", ""),
    ("@v2", ""),
    ("--count 300", "--count 100"),
    # Enough to see that it works.
    ("lab cosines", "lab cosines --pairs 20"),
    ("study run original-claim", "study run original-claim --dpi 30"),
    ("study draw DIR", "study draw RUN --dpi 30 --format svg"),
)
STUDY = """
format: 1
name: small
title: Small
about: Two models.
models: {a: {ref: ./A}, b: {ref: ./B}}
experiments:
  - {id: gains, kind: vectors, title: Gains, roles: [input-norm]}
  - {id: shuffle, kind: shuffle, title: Shuffled, from: gains, pair: [a, b], roles: [input-norm], draws: 4}
figures:
  - {file: plots/shuffled, figure: shuffle-summary, data: shuffle}
  - {file: plots/statistics, figure: vector-statistics, data: gains}
"""


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


@pytest.fixture(scope="module")
def finished(models):
    """Run a study, so that there is one whose figures can be drawn again; forget the figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(models)
        run_study(parse_study(STUDY.encode()), models / "RUN", dpi=30, formats=("svg",))
    for picture in (models / "RUN").rglob("*.svg"):
        picture.unlink()
    return models / "RUN"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in TRAINING])
def test_every_command_works_as_it_is_written(run, models, finished, tmp_path, monkeypatch, command):
    monkeypatch.chdir(models)
    experts = "-experts" if "--role router" in command else ""
    for published, here in ELSEWHERE:
        command = command.replace(published, here)
    group, *words = shlex.split(command)[1:]
    alias = (lambda letter: f"{letter}=") if group == "matrix" else (lambda letter: "")
    words = [f"{alias(word)}./{word}{experts}" if word in LETTERS else word for word in words]
    words = [str(tmp_path) if word == "DIR" else word for word in words]
    if "original-claim" in words:
        monkeypatch.setattr("modelkin.casework.studies._run.draw", one_of_each_layout())
        few = parse_study(with_fewer_draws(load_study("original-claim").text).encode(), "original-claim")
        monkeypatch.setattr("modelkin.casework.studies.load_study", lambda name: few)
        words += ["--model", "solar=./A-experts", "--model", "glm=./B-experts", "--model", "phi=./C"]
    status, out, _ = run(group, *words)
    assert status == 0
    assert out.strip()
    assert any(tmp_path.iterdir()) == ("--out" in words)
    if "draw" in words:
        drawn = sorted(path.relative_to(finished).as_posix() for path in finished.rglob("plots/*"))
        assert drawn == ["plots/shuffled.svg", "plots/statistics.svg"]
        assert "2 of 2 figures" in out


@pytest.mark.lab
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", TRAINING)
def test_every_command_that_trains_works_in_few_steps(run, tmp_path, monkeypatch, command):
    pytest.importorskip("torch")
    whole = NormsOptions.published
    monkeypatch.setattr(
        NormsOptions,
        "published",
        lambda self: replace(whole(self), layers=2, width=48, units=64, n_permutations=499),
    )
    words = [*shlex.split(command)[1:], "--steps", "4", "--init", "ones", "--out", str(tmp_path)]
    status, _, err = run(*words)
    assert status == 0, err
    options = json.loads((tmp_path / "norms.json").read_text())["options"]
    assert (options["text"], options["window"], options["rows"]) == ("cyclic", 128, 1)


def test_the_published_toy_experiment_has_its_published_size():
    options = NormsOptions().published()
    assert (options.layers, options.width, options.units, options.vocabulary) == (12, 512, 2048, 256)
    assert (options.steps, options.learning_rate, options.seeds) == (300, 1e-3, 2)
    first, second = (cycle(name, 300) for name in CORPORA)
    assert first[:3].tolist() == [0, 1, 2]
    assert first[256] == 0
    assert second[0] == 100


def test_studies_and_disputes_of_the_table_ship():
    from modelkin.casework.studies import shipped_studies

    named = [command.split()[2:4] for command in COMMANDS if command.startswith("modelkin study")]
    assert named
    for what, name in named:
        assert name in {"run": shipped_studies(), "replay": ("solar-glm",), "draw": ("DIR",)}[what]


def test_measures_roles_and_baselines_of_the_table_exist():
    from modelkin.describe.matrix import BASELINES, parse_role
    from modelkin.describe.measures import find_measure

    for command in COMMANDS:
        for name in re.findall(r"--measure (\S+)", command):
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
            assert name in FUNCTIONS


def test_the_page_of_the_replay_counts_its_checks_rightly():
    from modelkin.casework.replay import replay_solar_glm

    page = (DOCS / "replay.md").read_text()
    counted = {kind: int(n) for kind, n in re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE)}
    story = replay_solar_glm()
    assert counted == {kind: len(story.checks_of(kind)) for kind in counted}
    assert sum(counted.values()) == len(story.checks)
