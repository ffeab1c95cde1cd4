"""``modelkin compare`` as a user meets it."""

import errno
import json
from dataclasses import replace

import jsonschema
import pytest
from tests.support import HubServer, LlamaShape, llama_files

import modelkin as mk
from modelkin.cli.output import Output
from modelkin.comparison import price_comparison
from modelkin.comparison.verdict import Conclusion
from modelkin.document import folder
from modelkin.document.results import schema
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


def gated(run, monkeypatch, *words, related=None, strong=()):
    """Return the exit code and what goes to stderr, for a kind of result."""
    conclusion = {True: Conclusion.SHARED, False: Conclusion.NO_EVIDENCE, None: Conclusion.NOT_TESTABLE}
    with mk.open_model("./narrow") as candidate, mk.open_model("./base") as base:
        made = mk.compare(candidate=candidate, base=base, options=mk.CompareOptions(depth="quick"))
    verdict = replace(made.verdict, conclusion=conclusion[related], related=related)
    result = replace(made, verdict=verdict, flags=strong, strong_flags=strong)
    with monkeypatch.context() as patched:
        patched.setattr(mk, "compare", lambda **_: result)
        arguments = [part for word in words for part in ("--fail-on", word)]
        status, out, err = run("compare", "./narrow", "./base", "--quiet", *arguments)
    return status, out, err


FLAG = say("flag-agreement", share=0.9, n=3, m=20)


@pytest.mark.parametrize(
    ("words", "related", "strong", "status"),
    [
        (["shared,not-testable"], None, (), 1),
        (["shared,not-testable"], True, (), 1),
        (["shared", "no-evidence"], False, (), 1),
        (["any-but-no-evidence"], None, (), 1),
        (["any-but-no-evidence"], True, (), 1),
        (["any-but-no-evidence"], False, (), 0),
        (["any-but-no-evidence"], False, (FLAG,), 1),
        (["shared"], False, (FLAG,), 0),
        (["shared,flag"], False, (FLAG,), 1),
        (["flag"], False, (), 0),
    ],
)
def test_fail_on_takes_several_words_and_strong_flags(run, monkeypatch, words, related, strong, status):
    assert gated(run, monkeypatch, *words, related=related, strong=strong)[0] == status


def test_a_gate_does_not_pass_silently_where_nothing_was_tested(run, monkeypatch):
    status, _, err = gated(run, monkeypatch, "shared")
    assert status == 0
    assert "nothing could be tested; add not-testable, or use any-but-no-evidence" in err
    assert gated(run, monkeypatch, "shared", related=False)[2] == ""


def test_a_strong_flag_stands_on_the_card(run, monkeypatch):
    out = " ".join(gated(run, monkeypatch, related=False, strong=(FLAG,))[1].replace("│", " ").split())
    card, _, rest = out.partition("╯")
    assert "look closer" in card
    assert "look alike once coordinates are removed (agreement 90%)" in card
    assert "look alike once coordinates are removed" not in rest


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
    assert "derived from base" in (tmp_path / "new" / "REPORT.md").read_text()


def test_reports_are_written_in_the_language_that_was_asked_for(run, tmp_path):
    arguments = ("compare", "./child", "./base", "--out", str(tmp_path), "--lang", "ko", "--json", *QUICK)
    status, out, _ = run(*arguments)
    assert status == 0
    assert (tmp_path / "comparison.json").read_text() == out
    assert "agree in their norm gains" in out
    for name in ("REPORT.md", "report.html"):
        assert "공통 기원" in (tmp_path / name).read_text()


def test_an_answer_survives_a_folder_that_cannot_be_written(run, tmp_path):
    (tmp_path / "REPORT.md").mkdir()
    status, out, err = run("compare", "./child", "./base", "--out", str(tmp_path), *QUICK)
    assert status == 2
    assert "The norm gains are shared" in out
    assert "the report cannot be written" in err


def test_quiet_says_nothing_beside_the_result(run, tmp_path):
    _, out, err = run("compare", "./child", "./base", "-q", "--out", str(tmp_path), *QUICK)
    assert err == ""
    assert "The norm gains are shared" in out


def test_steps_of_the_deep_stage_are_told_while_they_are_made(run):
    deep = ("compare", "./stranger", "./base", "--depth", "deep")
    told = "comparing all layers with all layers\n"
    assert told in run(*deep)[2]
    assert told not in run(*deep, "--no-progress")[2]
    assert run(*deep, "--quiet")[2] == ""


def test_one_line_of_status_says_the_step_and_never_more_bytes_than_wanted(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Output() as output:
        output.count(1, 2, say("step-opening"))
        output.start(say("step-reading"), 3_000_000)
        output.start(say("step-reading"), 2_000_000)  # of the other model, at the same time
        output.advance(4_000_000)
        assert output.status.text() == "opening 1/2 · reading 4.0/5.0 MB · 0 s"
        output.advance(1_000_000)
        output.start(say("step-reading"), None)
        output.advance(2_500_000)
        output.note(say("step-control", model="[red]control"))
        assert output.status.text() == "comparing with the control [red]control · 7.5 MB read · 0 s"
        output.count(3, 8)
        assert output.status.text().startswith("comparing with the control [red]control 3/8 · ")
        output.remark("[red]beside")
    err = capsys.readouterr().err
    assert "[red]beside\n" in err
    assert "comparing with the control [red]control\n" not in err


def test_where_there_is_no_terminal_steps_are_lines(capsys):
    with Output() as output:
        output.count(1, 2, say("step-opening"))
        output.note(say("step-maps"))
        output.start(say("step-reading"), 10)
    assert capsys.readouterr().err == "comparing all layers with all layers\n"


def test_redirected_text_is_not_padded(run):
    _, out, _ = run("compare", "./stranger", "./base", *QUICK)
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_a_budget_that_is_reached_ends_in_the_verdict_of_the_last_stage(run):
    price = price_comparison("./stranger", "./base", options=mk.CompareOptions(depth="quick"))
    budget = max(bound.total - bound.walk for bound in price.at_most)
    bounded = ("compare", "./stranger", "./base", "--budget", str(budget))
    status, out, _ = run(*bounded, "--json")
    result = mk.Comparison.from_json(out)
    assert (status, result.verdict.stage, result.verdict.related) == (0, "quick", False)
    assert "limitation.budget" in [item.code for item in result.verdict.limitations]
    assert [item.code for item in result.strong_flags] == ["flag-budget"]
    most = {side: 0 for side in ("candidate", "base")}
    for item in result.ledger.ranges:
        most[item.model] += item.n_bytes
    assert max(most.values()) <= budget
    gate = ("--fail-on", "any-but-no-evidence", "--quiet")
    assert run(*bounded, *gate)[0] == 1
    assert run("compare", "./stranger", "./base", *gate)[0] == 0


def test_the_folder_of_a_report_is_checked_before_the_work(run, tmp_path, monkeypatch):
    def work(**_):
        raise AssertionError("the work was begun")

    assert run("compare", "./child", "./base", "--out", str(tmp_path / "r"), *QUICK)[0] == 0
    assert run("compare", "./child", "./base", "--out", str(tmp_path / "r"), *QUICK)[0] == 0
    written = (tmp_path / "r" / "comparison.json").read_text()
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "comparison.json").write_text("[]")
    monkeypatch.setattr(mk, "compare", work)
    for place, told in (
        ("r", "contains the report of another pair"),
        ("other", "not a record of a comparison"),
        ("file/below", "cannot be made"),
    ):
        status, _, err = run("compare", "./stranger", "./base", "--out", str(tmp_path / place), *QUICK)
        assert (status, told in err) == (2, True), err
    assert (tmp_path / "r" / "comparison.json").read_text() == written


@pytest.mark.parametrize(("code", "status"), [(errno.ENOSPC, 74), (errno.EROFS, 2)])
def test_a_place_that_cannot_be_written_is_noticed_before_the_work(run, tmp_path, monkeypatch, code, status):
    def work(**_):
        raise AssertionError("the work was begun")

    def refuse(*_):
        raise OSError(code, "it is not possible")

    monkeypatch.setattr(mk, "compare", work)
    monkeypatch.setattr(folder, "_replace", refuse)
    place = tmp_path / "new" / "report"
    found, out, err = run("compare", "./child", "./base", "--out", str(place), *QUICK)
    assert (found, out) == (status, "")
    assert "the report cannot be written: it is not possible" in err
    assert not place.parent.exists()


def test_a_comparison_that_fails_leaves_no_folder(run, tmp_path):
    (tmp_path / "kept").mkdir()
    for place in ("new/report", "kept"):
        assert run("compare", "./child", "./nowhere", "--out", str(tmp_path / place))[0] == 3
    assert [(path.name, list(path.iterdir())) for path in tmp_path.iterdir()] == [("kept", [])]


@pytest.mark.parametrize(
    "command", [("compare", "./child", "./base"), ("demo",), ("study", "replay", "solar-glm")]
)
def test_figures_need_a_folder(run, command):
    status, out, err = run(*command, "--figures")
    assert (status, out) == (2, "")
    assert "--figures needs --out" in err


def test_the_seed_is_recorded(run):
    _, out, _ = run("compare", "./stranger", "./base", "--seed", "7", "--json", *QUICK)
    assert json.loads(out)["environment"]["seed"] == 7


def test_a_dry_run_shows_the_plan_of_both_models(run):
    status, out, _ = run("compare", "./child", "./base", "--dry-run", "--json")
    document = json.loads(out)
    jsonschema.Draft202012Validator(schema("modelkin.comparison-plan/1")).validate(document)
    assert status == 0
    assert document["candidate"]["bytes_needed"] > 10_000
    status, out, _ = run("compare", "./child", "./base", "--dry-run", "--control", "./narrow")
    assert status == 0
    assert "candidate: ./child" in out
    assert "base: ./base" in out
    assert "control: ./narrow" in out
    _, out, _ = run("compare", "./child", "./base", "--dry-run", "--json", "--control", "./stranger")
    document = json.loads(out)
    jsonschema.Draft202012Validator(schema("modelkin.comparison-plan/1")).validate(document)
    assert document["controls"][0]["at_most"]["total"] > 0
    assert document["at_most"]["candidate"]["controls"] > 0


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
        (["compare", "./child", "./base", "--fail-on", "shared,guilty"], 2, "got 'guilty'"),
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


def test_the_help_says_that_a_scrambled_copy_is_looked_for_without_controls(run):
    _, out, _ = run("compare", "--help")
    assert "layers that face each other are compared with layers that do not" in " ".join(out.split())
