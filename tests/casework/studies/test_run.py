"""Running studies: what is missing, what is skipped, and what the command says."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.casework.studies.test_files import GOOD
from tests.casework.studies.tiny import Tiny, files
from tests.document.korean import KOREAN, TERMS, Texts, foreign, prose

from modelkin.casework.studies import plan_study, run_study
from modelkin.casework.studies.files import parse_study
from modelkin.casework.studies.folder import Folder
from modelkin.casework.studies.kinds.claim import sigmas
from modelkin.describe.measures import MeasureRow, MeasureTable
from modelkin.message import Message, say

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def two(tmp_path: Path) -> dict[str, str]:
    refs = {}
    for alias, seed in (("a", 1), ("b", 2)):
        folder = tmp_path / alias
        folder.mkdir()
        for name, data in files(Tiny(family="llama", layers=3, seed=seed)).items():
            (folder / name).write_bytes(data)
        refs[alias] = str(folder)
    return refs


def test_local_models_take_the_place_of_those_of_the_study(two: dict[str, str], tmp_path: Path):
    result = run_study(parse_study(GOOD.encode()), tmp_path / "out", models=two, dpi=30)
    assert [(model.alias, model.replaced) for model in result.models] == [("a", True), ("b", True)]
    assert result.done
    assert {step.status for step in (*result.experiments, *result.figures)} == {"done"}
    assert (tmp_path / "out/plots/cosine.svg").is_file()


@pytest.mark.more
def test_a_stand_in_is_never_called_by_the_name_of_the_model_it_replaces(two: dict[str, str], tmp_path: Path):
    text = GOOD.replace("name: A,", "name: Famous-Model,")
    out = tmp_path / "out"
    result = run_study(parse_study(text.encode()), out, models=two, dpi=30, formats=("svg", "png"))
    assert [model.name for model in result.models] == ["a = a", "b = b"]
    for name in ("REPORT.md", "report.html", "plots/cosine.svg"):
        assert "Famous-Model" not in (out / name).read_text(), name
    report = (out / "REPORT.md").read_text()
    assert report.index("other models stand in for these names") < report.index("The answer first")


def test_the_same_seed_gives_the_same_files(two: dict[str, str], tmp_path: Path):
    runs = [run_study(parse_study(GOOD.encode()), tmp_path / name, models=two, dpi=30) for name in ("x", "y")]
    digests = [
        {item.path: item.sha256 for item in run.files if item.path.startswith(("data/", "plots/"))}
        for run in runs
    ]
    assert digests[0] == digests[1]
    assert "data/norms.csv" in digests[0]


def test_a_missing_model_has_its_reason_and_its_experiments_are_skipped(two: dict[str, str], tmp_path: Path):
    models = {**two, "b": str(tmp_path / "nowhere")}
    result = run_study(parse_study(GOOD.encode()), tmp_path / "out", models=models, dpi=30)
    assert [item.alias for item in result.missing] == ["b"]
    assert result.answer is None
    assert {step.id: step.status for step in result.experiments} == {"gains": "done", "norms": "skipped"}
    assert result.done
    report = (tmp_path / "out/REPORT.md").read_text()
    assert "No answer: b is missing" in report


def test_why_a_model_is_missing_is_told_in_the_language_of_the_report(two: dict[str, str], tmp_path: Path):
    models = {**two, "b": str(tmp_path / "nowhere")}
    study = parse_study(GOOD.encode())
    result = run_study(study, tmp_path / "out", models=models, formats=("svg",), language="ko")
    assert [item.reason.code for item in result.missing] == ["error.said"]
    report = (tmp_path / "out/REPORT.md").read_text()
    assert "없는 파일 또는 폴더임" in report
    assert "no such file" not in report


def test_what_was_left_out_is_told_in_the_language_of_the_report(two: dict[str, str], tmp_path: Path):
    text = GOOD.replace(
        "title: Gains, roles: [input-norm]", "title: Gains, roles: [input-norm, mtp.input-norm]"
    )
    result = run_study(parse_study(text.encode()), tmp_path / "out", models=two, dpi=30, language="ko")
    assert {item.reason.code for item in result.left_out} == {"study.no-such-tensor"}
    assert str(result.left_out[0].what) == "gains: mtp.attention_norm of a"
    report = (tmp_path / "out/REPORT.md").read_text()
    told = "- gains: a의 mtp.attention_norm, gains: b의 mtp.attention_norm: 요청한 레이어에 그런 텐서가 없음"
    assert told in report
    assert "it has no such tensor" not in report
    own = TERMS | {"title", "one", "gains", "norms"}  # words of the file
    assert foreign(prose(report), own) == []
    assert foreign(Texts((tmp_path / "out/report.html").read_text()).found, own) == []
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["left_out"][0]["reason"] == "it has no such tensor in the layers requested"
    assert manifest["left_out"][0]["reason_code"] == "study.no-such-tensor"


def test_the_steps_of_a_study_are_told_in_korean(two: dict[str, str], tmp_path: Path):
    notes: list[Message] = []
    progress = Mock(note=notes.append)
    study = parse_study(GOOD.encode())
    run_study(study, tmp_path / "out", models=two, dpi=30, progress=progress)
    plan_study(study, models=two, progress=progress)
    told = [KOREAN.tell(note) for note in notes]
    assert {"실험 gains", "그림 plots/cosine"} <= set(told)
    assert any(text.endswith("계획을 세우는 중") for text in told)
    assert str(say("step-planning", name="x")) == "planning x"
    reads = {KOREAN.tell(call.args[0]) for call in progress.start.call_args_list}
    assert foreign([*told, *reads], TERMS | {"gains", "norms"}) == []


def test_a_folder_opened_again_knows_what_its_tables_say(tmp_path: Path):
    reason = say("matrix-no-layer", model="a", layer=3)
    row = MeasureRow(
        measure="pearson",
        role="attention_norm",
        view="whole",
        model_a="a",
        layer_a=3,
        model_b="b",
        layer_b=3,
        reason=reason,
    )
    table = MeasureTable.of_rows([row])
    Folder(tmp_path).table("data/x.csv", table)
    assert Folder(tmp_path).read_table("data/x.csv") == table


def test_names_of_strangers_do_not_run_in_the_page(two: dict[str, str], tmp_path: Path):
    text = GOOD.replace("name: A,", f'name: "{EVIL}",').replace("org/a", two["a"]).replace("org/b", two["b"])
    run_study(parse_study(text.encode()), tmp_path / "out", dpi=30)
    page = (tmp_path / "out/report.html").read_text()
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page


def test_the_command_runs_a_file_and_prints_the_manifest(run, two: dict[str, str], tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD)
    out = tmp_path / "out"
    models = [word for alias, ref in two.items() for word in ("--model", f"{alias}={ref}")]
    status, printed, _ = run("study", "run", str(file), "--out", str(out), *models, "--json", "--dpi", "30")
    assert status == 0
    document = json.loads(printed)
    assert (document["schema"], document["study"]) == ("modelkin.study/1", "mine")
    assert document == json.loads((out / "manifest.json").read_text())


def test_nothing_done_is_exit_code_3(run, tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD)
    gone = [word for alias in "ab" for word in ("--model", f"{alias}={tmp_path / 'gone'}")]
    status, printed, _ = run("study", "run", str(file), "--out", str(tmp_path / "out"), *gone)
    assert status == 3
    assert "missing: a" in printed


def test_a_bad_file_is_one_line_with_its_place(run, tmp_path: Path):
    file = tmp_path / "bad.yaml"
    file.write_text(GOOD.replace("format: 1", "format: one"))
    status, _, err = run("study", "run", str(file), "--out", str(tmp_path / "out"))
    assert status == 4
    assert "bad.yaml: format: expected a whole number from 1 to 1, got 'one'" in err
    assert not (tmp_path / "out").exists()


def test_studies_are_listed_and_shown(run):
    status, printed, _ = run("study", "list", "--json")
    assert status == 0
    assert len(json.loads(printed)["studies"]) == 7
    status, printed, _ = run("study", "show", "sanity-check")
    assert status == 0
    assert parse_study(printed.encode()).name == "sanity-check"


@pytest.mark.parametrize("value", ["solar", "=x", "a="])
def test_a_replacement_needs_alias_and_reference(run, tmp_path: Path, value: str):
    status, _, err = run("study", "run", "sanity-check", "--out", str(tmp_path), "--model", value)
    assert status == 2
    assert "expected ALIAS=REF" in err


def test_the_published_argument_is_reproduced_from_its_eight_numbers():
    within = [0.375810, 0.375664, 0.377255, 0.379035]
    across = [0.981094, 0.991792, 0.991429, 0.991635]
    found = sigmas(within, across)
    assert found["d"] == pytest.approx(181.9, abs=0.2)
    assert found["difference"] == pytest.approx(0.612, abs=5e-4)
    assert sigmas([], across)["d"] is None
    assert sigmas([0.5, 0.5], [0.9, 0.9])["d"] is None
