"""A report for a court: its case, its manifest, and whether everything it states holds."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil

import jsonschema
import pytest
from tests.support import HubServer

import modelkin as mk
from modelkin.casework import paper
from modelkin.casework.paper import print_folder
from modelkin.casework.verify import verify_folder
from modelkin.comparison.case import with_case
from modelkin.demo import demo_path
from modelkin.document import print_html
from modelkin.document.results import schema
from modelkin.errors import MissingExtra, UsageError
from modelkin.options import FetchOptions


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with copies of two models, and one with the report of their case."""
    place = tmp_path_factory.mktemp("case")
    for name in ("finetune-light", "base"):
        shutil.copytree(demo_path(name), place / name)
    result = mk.compare(str(place / "finetune-light"), str(place / "base"), controls=["demo:twin-1"])
    with mk.open_model(str(place / "finetune-light")) as mine, mk.open_model(str(place / "base")) as theirs:
        result = with_case(result, candidate=mine, base=theirs, id="17/2026", command=["modelkin", "compare"])
    result.write(str(place / "report"))
    return place


@pytest.fixture
def place(made, tmp_path):
    """Return a copy of the report, next to the models it is about."""
    shutil.copytree(made / "report", tmp_path / "report")
    return tmp_path


def statuses(found):
    return {part.name: part.status for part in found.parts}


def test_a_case_has_time_command_versions_and_digests(made):
    text = (made / "report" / "comparison.json").read_text()
    result = mk.Comparison.from_json(text)
    jsonschema.Draft202012Validator(schema("modelkin.comparison/1")).validate(json.loads(text))
    case = result.case
    assert case is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", case.made_at)
    assert (case.id, case.command) == ("17/2026", "modelkin compare")
    assert {"numpy", "huggingface_hub"} <= case.packages.keys()
    digest = hashlib.sha256((made / "base" / "model.safetensors").read_bytes()).hexdigest()
    assert [(item.sha256, item.how) for item in case.weights if item.model == "base"] == [
        (digest, "computed")
    ]
    for name in ("report.html", "REPORT.md"):
        page = (made / "report" / name).read_text()
        assert "17/2026" in page
        assert digest in page


def test_digests_that_a_source_publishes_are_taken_and_others_are_unknown():
    files = {path.name: path.read_bytes() for path in demo_path("base").iterdir()}
    with HubServer({"org/a": files}) as hub:
        fetch = FetchOptions(endpoint=hub.url, token=False, use_store=False)
        with mk.open_model("org/a", fetch) as model:
            digest, how = model.fetcher.digest("model.safetensors")
            assert (digest, how) == (hashlib.sha256(files["model.safetensors"]).hexdigest(), "published")
        with mk.open_model(f"{hub.url}/org/a/resolve/main/model.safetensors", fetch) as model:
            _ = model.index
            assert model.fetcher.digest("model.safetensors") == (None, "unknown")


def test_the_manifest_lists_every_file_of_the_report(made):
    listed = json.loads((made / "report" / "manifest.json").read_text())["files"]
    files = {path.relative_to(made / "report").as_posix() for path in (made / "report").rglob("*.*")}
    assert listed.keys() == files - {"manifest.json"}
    for name, item in listed.items():
        assert hashlib.sha256((made / "report" / name).read_bytes()).hexdigest() == item["sha256"]


def test_an_untouched_report_holds_in_all_its_parts(place, run):
    code, out, _ = run("verify", str(place / "report"), "--json", "--quiet")
    found = json.loads(out)
    assert (code, found["holds"]) == (0, True)
    assert {part["name"]: part["status"] for part in found["parts"]} == dict.fromkeys(
        (
            *("files", "documents", "bytes of the candidate", "bytes of the base"),
            *("weights of the candidate", "weights of the base", "numbers"),
        ),
        "ok",
    )


def test_a_changed_document_is_found_even_with_a_changed_manifest(place, run):
    page = place / "report" / "REPORT.md"
    page.write_text(page.read_text().replace("finetune-light", "somebody"))
    assert statuses(verify_folder(place / "report", with_models=False))["files"] == "failed"
    manifest = json.loads((place / "report" / "manifest.json").read_text())
    manifest["files"]["REPORT.md"]["sha256"] = hashlib.sha256(page.read_bytes()).hexdigest()
    (place / "report" / "manifest.json").write_text(json.dumps(manifest))
    found = statuses(verify_folder(place / "report", with_models=False))
    assert (found["files"], found["documents"], found["models"]) == ("ok", "failed", "skipped")
    assert run("verify", str(place / "report"), "--files-only", "--quiet")[0] == 1


def test_numbers_that_do_not_follow_from_the_weights_are_found(place):
    result = mk.Comparison.from_json((place / "report" / "comparison.json").read_text())
    text = (place / "report" / "comparison.json").read_text()
    assert result.verdict.effect is not None
    value = result.verdict.effect.value
    shutil.rmtree(place / "report")
    forged = mk.Comparison.from_json(text.replace(repr(value), "0.123456"))
    assert forged != result
    forged.write(str(place / "report"))
    found = statuses(verify_folder(place / "report"))
    assert (found["files"], found["documents"], found["numbers"]) == ("ok", "ok", "failed")


def test_weights_that_were_exchanged_are_found(made, place):
    mine = made / "base" / "model.safetensors"
    data = mine.read_bytes()
    try:
        mine.write_bytes(data[:-2000] + bytes(2000))
        found = statuses(verify_folder(place / "report"))
    finally:
        mine.write_bytes(data)
    assert found["weights of the base"] == "failed"
    assert found["weights of the candidate"] == "ok"


def test_what_is_no_report_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="expected a report folder"):
        verify_folder(tmp_path)
    with pytest.raises(UsageError, match="expected a report folder"):
        print_folder(tmp_path)


def test_the_printed_page_has_a_cover_numbers_and_an_annex(made):
    result = mk.Comparison.from_json((made / "report" / "comparison.json").read_text())
    for language in ("en", "ko"):
        page = print_html(result, language=language)
        assert "counter(pages)" in page
        assert page.index('id="cover"') < page.index('id="annex"')
        assert result.ledger.ranges[0].sha256 in page
        assert "<details>" not in page
        policy = html.unescape(page.partition('Content-Security-Policy" content="')[2].partition('"')[0])
        styles = policy.partition("style-src ")[2].partition(";")[0].split()
        digests = [
            base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            for text in re.findall("<style>(.*?)</style>", page, re.DOTALL)
        ]
        assert {f"'sha256-{digest}'" for digest in digests} <= set(styles)


def test_a_report_becomes_a_pdf_of_several_pages(place, run):
    if not any(map(shutil.which, paper.BROWSERS)):
        pytest.skip("no browser is installed here")
    code, out, _ = run("print", str(place / "report"))
    data = (place / "report" / "report.pdf").read_bytes()
    assert (code, "report.pdf" in out) == (0, True)
    assert data.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", data)) > 2
    boxes = {tuple(float(x) for x in box.split()) for box in re.findall(rb"/MediaBox\s*\[([^\]]+)\]", data)}
    assert all(abs(box[2] - 595) < 2 and abs(box[3] - 842) < 2 for box in boxes)


def test_without_a_browser_and_without_weasyprint_it_is_said_what_to_do(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "weasyprint", None)
    with pytest.raises(MissingExtra, match="neither a browser nor WeasyPrint") as caught:
        paper.pdf_of("<p>")
    assert "modelkin[print]" in (caught.value.hint or "")
