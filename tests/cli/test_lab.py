"""``modelkin lab``."""

import json
import re
import sys

import numpy as np
import pytest
from tests.document.korean import english, prose
from tests.support import llama_files

from modelkin.casework.lab import NormsOptions, norms_from_json
from modelkin.casework.lab.norms import FAMILIES, INITS
from modelkin.cli import lab as command
from modelkin.document import to_json
from modelkin.message import phrase


def test_help_lists_the_experiments(run):
    status, out, _ = run("lab", "--help")
    assert status == 0
    for word in ("norms", "cosines", "centring", "build", "embed"):
        assert f"\n  {word} " in out


def test_the_choices_are_those_of_the_lab():
    assert command.INITS == INITS
    assert command.FAMILIES == FAMILIES


def test_help_of_norms_states_the_defaults(run):
    _, out, _ = run("lab", "norms", "--help")
    for name in ("seeds", "steps"):
        assert f"[default: {getattr(NormsOptions(), name)}]" in out


def test_cosines_are_printed_and_written(run, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("modelkin.figures.draw", lambda figure, out, name, **_: drawn.append(name))
    status, out, err = run("lab", "cosines", "--pairs", "20", "--out", str(tmp_path / "o"), "--json")
    document = json.loads(out)
    assert status == 0
    assert document["schema"] == "modelkin.cosines/1"
    assert (len(document["cells"]), document["options"]["pairs"]) == (135, 20)
    assert str(tmp_path / "o") in err
    assert drawn == ["cosines", "cosines_unequal", "cosines_published"]
    assert json.loads((tmp_path / "o" / "cosines.json").read_text()) == document


def test_cosines_are_readable(run):
    status, out, _ = run("lab", "cosines", "--pairs", "5")
    assert status == 0
    assert "The vectors are independent in all 135 kinds" in " ".join(out.split())
    assert sum(line.split()[:1] == ["4096"] for line in out.splitlines()) == 45


def test_centring_shows_the_example(run):
    status, out, _ = run("lab", "centring")
    assert status == 0
    assert "17.2 degrees" in out
    assert "127.0 degrees" in out
    assert "\\n" not in out


def test_centring_and_cosines_are_told_in_korean(run):
    for arguments, words in (
        (("centring",), "평균을 빼면"),
        (("cosines", "--pairs", "20"), "표준오차의 최대"),
    ):
        status, out, _ = run("lab", *arguments, "--lang", "ko")
        assert status == 0
        assert words in out
        assert not re.search(r"degrees|independent|\\n", out)


def test_centring_of_a_file(run, tmp_path):
    (tmp_path / "two.csv").write_text("x,y\n1,2\n2,1\n3,5\n")
    out_dir = tmp_path / "out"
    arguments = ("--vectors", str(tmp_path / "two.csv"), "--out", str(out_dir), "--frames", "4", "--json")
    status, out, _ = run("lab", "centring", *arguments)
    document = json.loads(out)
    assert status == 0
    assert document["names"] == ["x", "y"]
    assert document["pearson"] == pytest.approx(np.corrcoef([1, 2, 3], [2, 1, 5])[0, 1])
    assert (out_dir / "centring_animation.gif").exists()
    assert json.loads((out_dir / "centring.json").read_text()) == document


def test_centring_of_models(run, tmp_path):
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        for name, data in llama_files(seed=seed).items():
            (tmp_path / str(seed) / name).write_bytes(data)
    models = [word for seed in (0, 1) for word in ("--model", str(tmp_path / str(seed)))]
    status, out, err = run("lab", "centring", *models, "--role", "k-proj", "--layer", "1", "--json")
    document = json.loads(out)
    assert status == 0
    assert "reading" in err
    assert abs(document["pearson"]) < 5 * document["chance"]
    assert document["names"][0].endswith("layer 1")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["centring", "--vectors", "nothing.csv"], 3, "no such file"),
        (["centring", "--vectors", "x.csv", "--model", "y"], 2, "not both"),
        (["centring", "--model", "y"], 2, "needs --layer"),
        (["centring", "--frames", "2"], 2, "range"),
        (["norms", "--seeds", "1"], 2, "range"),
        (["norms", "--init", "twos"], 2, "not one of"),
        (["norms", "--results", "nothing.json"], 2, "does not exist"),
        (["build"], 2, "--out"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_mistakes_get_their_exit_code_and_a_line(run, arguments, status, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    got, out, err = run("lab", *arguments)
    assert (got, out) == (status, "")
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["norms", "--small"], ["build", "--out", "zoo", "--only", "base"]])
def test_without_torch_training_says_what_to_install(run, arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("torch", "tokenizers"):
        monkeypatch.setitem(sys.modules, name, None)
    status, out, err = run("lab", *arguments)
    assert (status, out) == (3, "")
    assert "pip install 'modelkin[lab]'" in err


def test_options_of_norms_reach_the_experiment(run, monkeypatch, tmp_path):
    from tests.casework.lab.test_norms import result

    asked = []

    def experiment(options, *, report):
        asked.append(options)
        report(phrase("norms.compared", init="ones", pairs=4))
        return result()

    monkeypatch.setattr("modelkin.casework.lab.norms_experiment", experiment)
    monkeypatch.setattr("modelkin.casework.lab.norms_report.draw", lambda figure, out, name, language: None)
    arguments = ("--small", "--init", "random", "--init", "ones", "--init", "random", "--steps", "9")
    status, out, err = run("lab", "norms", *arguments, "--family", "llama", "--out", str(tmp_path / "o"))
    assert status == 0
    assert "ones: 4 pairs compared so far" in err
    assert "common origin" in out
    (options,) = asked
    small = NormsOptions().small()
    assert (options.inits, options.steps, options.family) == (("random", "ones"), 9, "llama")
    assert (options.seeds, options.width) == (small.seeds, small.width)
    assert norms_from_json((tmp_path / "o" / "norms.json").read_text()) == result()


def test_results_are_told_anew_without_training(run, tmp_path, monkeypatch):
    from tests.casework.lab.test_norms import result

    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "norms.json").write_text(to_json(result()))
    status, out, _ = run("lab", "norms", "--results", str(tmp_path / "norms.json"), "--json")
    assert status == 0
    assert json.loads(out)["conclusion"] == list(map(str, result().conclusion))


def test_an_experiment_is_told_in_korean(run, monkeypatch, tmp_path):
    from tests.casework.lab.test_norms import result

    def experiment(options, *, report):
        report(phrase("norms.compared", init="ones", pairs=4))
        return result()

    drawn = []
    monkeypatch.setattr("modelkin.casework.lab.norms_experiment", experiment)
    monkeypatch.setattr(
        "modelkin.casework.lab.norms_report.draw", lambda figure, out, name, language: drawn.append(language)
    )
    status, out, err = run("lab", "norms", "--out", str(tmp_path / "o"), "--lang", "ko")
    assert status == 0
    assert "ones: 지금까지 4쌍 비교" in err
    assert english(out.splitlines()) == []
    assert english(prose((tmp_path / "o" / "NORMS.md").read_text())) == []
    assert {language.code for language in drawn} == {"ko"}


def test_a_zoo_is_built_by_the_command(run, monkeypatch, tmp_path):
    built = []

    def build_zoo(book, out, *, only, report):
        built.append((out, only))
        report({"name": "base", "first_loss": 6.35})

    monkeypatch.setattr("modelkin.casework.lab.build_zoo", build_zoo)
    status, out, _ = run("lab", "build", "--out", str(tmp_path), "--only", "base", "--only", "twin-1")
    assert (status, built) == (0, [(tmp_path, ("base", "twin-1"))])
    assert "base" in out
    assert '"first_loss": 6.35' in out
