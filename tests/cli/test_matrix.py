"""``modelkin matrix`` as a user meets it."""

import json
import re

import jsonschema
import pytest
from huggingface_hub import constants
from tests.support import HubServer, LlamaShape, llama_files

import modelkin as mk
from modelkin.describe.matrix import BASELINES
from modelkin.describe.measures import MEASURES, PAIRINGS, table_from_csv
from modelkin.document.results import schema


@pytest.fixture(scope="module")
def zoo(small_zoo):
    return small_zoo(0.002)


@pytest.fixture(autouse=True)
def _in_the_zoo(zoo, monkeypatch):
    monkeypatch.chdir(zoo)


def test_every_number_stands_beside_its_null_and_nothing_is_judged(run):
    status, out, err = run("matrix", "base=./base", "other=./stranger", "--metric", "cosine")
    assert status == 0
    assert "reading ./base: local path" in err
    header = next(line for line in out.splitlines() if line.strip().startswith("layer"))
    assert header.split() == ["layer", "cosine", "rho", "x", "rho", "r"]
    assert "attention_norm: base x other\n32 values each" in out
    assert re.search(r"\b0\.999\d \(0\.999\d ± [0-9.e-]+\)", out)
    assert "no number here is a verdict" in out
    assert "modelkin compare CANDIDATE BASE" in out
    for word in ("copied", "derived from", "proof", "sigma"):
        assert word not in out


def test_json_is_the_only_thing_on_stdout_and_is_read_back(run):
    status, out, _ = run("matrix", "./base", "./child", "--json", "--seed", "7")
    assert status == 0
    jsonschema.Draft202012Validator(schema("modelkin.matrix/1")).validate(json.loads(out))
    result = mk.MatrixResult.from_json(out)
    assert result.options.seed == 7
    assert [model.name for model in result.models] == ["./base", "./child"]
    pearson = result.table.where(measure="pearson", role="attention_norm")
    assert min(row.value for row in pearson if row.value is not None) > 0.9


def test_the_folder_has_the_numbers_and_the_document_repeats_them(run, tmp_path):
    arguments = [
        "matrix",
        "a=./base",
        "b=./stranger",
        "--role",
        "input-norm",
        "--role",
        "k-proj",
        "--layers",
        "1",
    ]
    status, out, err = run(*arguments, "--measure", "all", "--out", str(tmp_path / "new"))
    assert status == 0
    assert str(tmp_path / "new" / "report.html") in err
    result = mk.MatrixResult.from_json((tmp_path / "new" / "matrix.json").read_text())
    written = table_from_csv((tmp_path / "new" / "matrix.csv").read_text())
    assert list(written.cells()) == list(result.table.cells())
    text = (tmp_path / "new" / "MATRIX.md").read_text()
    command = next(line for line in text.splitlines() if line.startswith("$ modelkin "))
    again = run(*command.split()[2:], "--json")
    assert mk.MatrixResult.from_json(again[1]).table == result.table
    assert "max ulps" in out


def test_options_reach_the_result(run):
    arguments = ["a=./base", "b=./child", "c=./stranger", "--pairs", "within", "--pairs", "mixed"]
    arguments += ["--layers", "a=1", "--layers", "0-1", "--group", "kin=a,b", "--group", "rest=c"]
    arguments += ["--known", "independent=a,c", "--baseline", "within", "--mtp", "--truncation"]
    arguments += ["--sample", "100", "--draws", "7", "--tokens", "9", "--role", "input-minus-post"]
    _, out, _ = run("matrix", *arguments, "--json")
    options = mk.MatrixResult.from_json(out).options
    assert options.pairs == ("within", "mixed")
    assert (options.layers, dict(options.layers_of)) == ("0-1", {"a": "1"})
    assert dict(options.groups) == {"kin": ("a", "b"), "rest": ("c",)}
    assert options.baselines == ("within", "groups", "independent")
    assert (options.mtp, options.truncation, options.sample) == (True, True, 100)
    assert (options.draws, options.tokens) == (7, 9)


def test_all_baselines_or_none(run):
    _, out, _ = run("matrix", "./base", "./child", "--baseline", "all", "--json", "--draws", "3")
    assert {item["baseline"] for item in json.loads(out)["baselines"]} == set(BASELINES)
    _, out, _ = run("matrix", "./base", "./child", "--baseline", "none", "--json")
    assert json.loads(out)["baselines"] == []


def test_what_was_not_measured_is_told(run):
    _, out, _ = run("matrix", "a=./base", "b=./narrow", "--role", "input-norm", "--role", "router")
    assert "attention_norm, layers 0-1: shapes differ: 32 and 16" in out
    assert "router" in out
    assert "there is no router" in out
    assert "not measured" in out


def test_the_help_names_every_measure_baseline_and_pairing(run):
    status, out, _ = run("matrix", "--help")
    assert status == 0
    for name in (*MEASURES, *BASELINES, *PAIRINGS):
        assert name in out, name


def test_models_of_a_hub_are_read_by_few_requests(run, monkeypatch):
    shape = LlamaShape(layers=8, hidden=128, mlp=512, vocab=4000)
    repos = {f"org/{name}": llama_files(shape, seed=seed) for seed, name in enumerate("ab")}
    with HubServer(repos) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        status, out, _ = run("matrix", "org/a", "org/b", "--json", "--baseline", "none")
        requests, sent = hub.n_requests(), hub.bytes_sent()
        commit = hub.commit("org/a")
    document = json.loads(out)
    assert status == 0
    assert document["models"][0]["revision"] == commit
    assert len(document["table"]["rows"]) == 2 * 8 * 5
    assert requests <= 2 * (16 + 6)  # at most one for each tensor, and a few to find them
    assert sent < sum(len(data) for files in repos.values() for data in files.values()) / 5


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["matrix"], 2, "Missing argument 'MODEL...'"),
        (["matrix", "./base", "./base"], 2, "given twice"),
        (["matrix", "./base", "--measure", "cosin"], 2, "Did you mean 'cosine'?"),
        (["matrix", "./base", "--role", "atention-norm"], 2, "Did you mean"),
        (["matrix", "./base", "--layers", "3-1"], 2, "from low to high"),
        (["matrix", "./base", "--layers", "77"], 2, "no model has a layer in '77'"),
        (["matrix", "./base", "--pairs", "diagonal"], 2, "'diagonal' is not one of"),
        (["matrix", "./base", "--baseline", "luck"], 2, "unknown name 'luck'"),
        (["matrix", "./base", "--group", "nonsense"], 2, "expected NAME=MODEL,MODEL"),
        (["matrix", "./base", "--group", "g=./other"], 2, "no model called './other'"),
        (["matrix", "./base", "--known", "derived=./base"], 2, "expected two models"),
        (["matrix", "./base", "--known", "cousins=./base,./base"], 2, "unknown name 'cousins'"),
        (["matrix", "./base", "--sample", "2"], 2, "2 is not in the range"),
        (["matrix", "./base", "--budget", "10"], 2, "the request was not sent"),
        (["matrix", "./nothing"], 3, "no such file or folder"),
    ],
)
def test_mistakes_get_their_exit_code_and_a_line(run, arguments, status, words):
    got, out, err = run(*arguments)
    assert (got, out) == (status, "")
    assert words in err
    assert "Traceback" not in err


def test_a_measure_may_also_be_asked_for_as_a_metric(run):
    names = ("--measure", "--metric")
    told = [run("matrix", "base=./base", "other=./stranger", name, "cosine", "--json") for name in names]
    assert [status for status, _, _ in told] == [0, 0]
    tables = [json.loads(out)["table"] for _, out, _ in told]
    assert tables[0] == tables[1]
