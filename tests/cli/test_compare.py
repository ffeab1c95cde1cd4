"""``modelkin compare`` as a user meets it."""

import json
from dataclasses import replace

import jsonschema
import pytest
from tests.support import HubServer, LlamaShape, llama_files

import modelkin as mk
from modelkin.cli.output import Output
from modelkin.comparison.verdict import Conclusion
from modelkin.document import schema
from modelkin.message import say

QUICK = ("--depth", "quick", "--no-progress")


@pytest.fixture(scope="module")
def zoo(small_zoo):
    return small_zoo(0.005)


@pytest.fixture(autouse=True)
def _in_the_zoo(zoo, monkeypatch):
    monkeypatch.chdir(zoo)


def test_a_verdict_is_printed_and_the_exit_code_is_0_whatever_it_is(run):
    status, out, err = run("compare", "./stranger", "./base", *QUICK)
    assert status == 0
    assert "No evidence of a common origin" in out
    assert "What this verdict does not say" in out
    assert "reading ./stranger: local path" in err
    assert "reading ./base: local path" in err


@pytest.mark.parametrize(
    ("candidate", "word", "status"),
    [
        ("./child", "shared", 1),
        ("./child", "no-evidence", 0),
        ("./child", "not-testable", 0),
        ("./stranger", "shared", 0),
        ("./stranger", "no-evidence", 1),
        ("./narrow", "not-testable", 1),
        ("./narrow", "no-evidence", 0),
    ],
)
def test_fail_on_sets_the_exit_code(run, candidate, word, status):
    got, out, _ = run("compare", candidate, "./base", "--fail-on", word, *QUICK)
    assert got == status
    assert out


def test_fail_on_shared_means_every_kind_of_common_origin(run, monkeypatch):
    made = mk.compare(candidate="./narrow", base="./base", options=mk.CompareOptions(depth="quick"))
    for conclusion in Conclusion:
        verdict = replace(made.verdict, conclusion=conclusion, related=conclusion.related)
        result = replace(made, verdict=verdict)
        monkeypatch.setattr(mk, "compare", lambda result=result, **_: result)
        status, _, _ = run("compare", "./narrow", "./base", "--fail-on", "shared")
        assert status == int(conclusion.value.startswith(("identical", "shared")))


def test_json_is_the_only_thing_on_stdout_and_is_read_back(run):
    status, out, _ = run("compare", "./child", "./base", "--control", "./stranger", "--json", *QUICK)
    jsonschema.Draft202012Validator(schema("modelkin.comparison/1")).validate(json.loads(out))
    result = mk.Comparison.from_json(out)
    assert status == 0
    assert result.verdict.related is True
    assert [control.pair for control in result.controls] == [
        ("./child", "./stranger"),
        ("./base", "./stranger"),
    ]


def test_the_report_folder_is_written_and_named_on_stderr(run, tmp_path):
    status, out, err = run("compare", "./child", "./base", "--out", str(tmp_path / "new"), "--json", *QUICK)
    assert status == 0
    assert str(tmp_path / "new" / "report.html") in err
    assert (tmp_path / "new" / "comparison.json").read_text() == out
    assert "derived from ./base" in (tmp_path / "new" / "REPORT.md").read_text()


def test_reports_are_written_in_the_language_that_was_asked_for(run, tmp_path):
    arguments = ("compare", "./child", "./base", "--out", str(tmp_path), "--lang", "ko", "--json", *QUICK)
    status, out, _ = run(*arguments)
    assert status == 0
    assert (tmp_path / "comparison.json").read_text() == out
    assert "share weights of common origin" in out
    for name in ("REPORT.md", "report.html"):
        assert "공통 기원" in (tmp_path / name).read_text()


def test_an_answer_survives_a_folder_that_cannot_be_written(run, tmp_path):
    (tmp_path / "REPORT.md").mkdir()
    status, out, err = run("compare", "./child", "./base", "--out", str(tmp_path), *QUICK)
    assert status == 2
    assert "Common origin" in out
    assert "the report cannot be written" in err


def test_quiet_says_nothing_beside_the_result(run, tmp_path):
    _, out, err = run("compare", "./child", "./base", "-q", "--out", str(tmp_path), *QUICK)
    assert err == ""
    assert "Common origin" in out


def test_steps_of_the_deep_stage_are_told_while_they_are_made(run):
    deep = ("compare", "./stranger", "./base", "--depth", "deep")
    told = "comparing all layers with all layers\n"
    assert told in run(*deep)[2]
    assert told not in run(*deep, "--no-progress")[2]
    assert run(*deep, "--quiet")[2] == ""


def test_steps_are_written_above_the_bar(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Output() as output:
        output.start("reading", 10)
        output.note(say("step-control", model="[red]control"))
    assert "comparing with the control [red]control\n" in capsys.readouterr().err


def test_the_seed_is_recorded(run):
    _, out, _ = run("compare", "./stranger", "./base", "--seed", "7", "--json", *QUICK)
    assert json.loads(out)["environment"]["seed"] == 7


def test_a_dry_run_shows_the_plan_of_both_models(run):
    status, out, _ = run("compare", "./child", "./base", "--dry-run", "--json")
    document = json.loads(out)
    jsonschema.Draft202012Validator(schema("modelkin.comparison-plan/1")).validate(document)
    assert status == 0
    assert document["candidate"]["bytes_needed"] > 10_000
    status, out, err = run("compare", "./child", "./base", "--dry-run", "--control", "./narrow")
    assert status == 0
    assert "candidate: ./child" in out
    assert "base: ./base" in out
    assert "controls are not part of this plan" in err


def test_a_dry_run_requests_no_tensor(run):
    shape = LlamaShape(layers=4, hidden=128, mlp=512, vocab=1000)
    with HubServer({"org/big": llama_files(shape)}) as hub:
        url = f"{hub.url}/org/big/resolve/main/model.safetensors"
        _, out, _ = run("compare", url, url, "--dry-run", "--no-store", "--json")
        read = sum(record.bytes_sent for record in hub.log)
    document = json.loads(out)
    heads = 2 * mk.FetchOptions().head_bytes
    assert 2 * document["candidate"]["bytes_needed"] > 3 * heads
    assert read < 1.1 * heads


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["compare", "./child"], 2, "Missing argument 'BASE'"),
        (["compare", "./child", "./base", "--depth", "bottomless"], 2, "'bottomless' is not one of"),
        (["compare", "./child", "./base", "--seed", "-1"], 2, "-1 is not in the range"),
        (["compare", "./child", "./base", "--lang", "tlh"], 2, "'tlh' is not one of"),
        (["compare", "./child", "./base", "--fail-on", "guilty"], 2, "'guilty' is not one of"),
        (["compare", "./child", "./base", "--out", "base/config.json"], 2, "is a file"),
        (["compare", "./child", "./base", "--budget", "10"], 2, "the request was not sent"),
        (["compare", "./child", "./nothing"], 3, "no such file or folder"),
        (["compare", "./child", "./base", "--control", "./nothing"], 3, "no such file or folder"),
    ],
)
def test_mistakes_get_their_exit_code_and_a_line(run, arguments, status, words):
    got, out, err = run(*arguments)
    assert (got, out) == (status, "")
    assert words in err
    assert "Traceback" not in err


def test_a_malformed_model_gets_exit_code_4(run, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    status, out, err = run("compare", str(tmp_path), "./base")
    assert (status, out) == (4, "")
    assert "model.safetensors" in err
