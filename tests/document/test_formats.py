"""Results in the formats of other programs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import jsonschema
import pytest
import yaml
from tests.document.records import EVIL, by_own_layers, hostile
from tests.document.standards import sarif_schema
from tests.places import DOCS, ROOT

import modelkin as mk
from modelkin.cli.compare import FORMS
from modelkin.document import comparison_as
from modelkin.document.formats.comparison import FORMATS, badge_svg, comparison_sarif, model_card
from modelkin.document.formats.cyclonedx import ml_bom
from modelkin.document.formats.home import HOME
from modelkin.document.formats.sarif import SarifFinding, SarifRule, sarif_log
from modelkin.document.results import schema
from modelkin.message import say


@pytest.fixture(scope="module")
def child():
    return mk.compare("demo:continued", "demo:base", depth="quick")


@pytest.fixture(scope="module")
def stranger():
    return mk.compare("demo:twin-1", "demo:base", depth="quick")


def test_the_words_of_the_option_are_the_formats():
    assert tuple(FORMATS) == FORMS


def test_sarif_has_rules_and_findings_that_refer_to_them():
    rules = [SarifRule(id=f"X{n}", name=f"Name{n}", text="t", help_text="h") for n in (1, 2)]
    found = [
        SarifFinding(rule="X2", kind="fail", text="bad", model="./folder/with space", level="error"),
        SarifFinding(rule="X1", kind="pass", text="good", model="org/name"),
    ]
    (run,) = sarif_log(rules, found, properties={"seed": 1})["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["X1", "X2"]
    assert [(r["ruleId"], r["ruleIndex"], r["kind"], r["level"]) for r in run["results"]] == [
        ("X2", 1, "fail", "error"),
        ("X1", 0, "pass", "none"),
    ]
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == "folder/with%20space"
    assert run["properties"] == {"seed": 1}


def test_a_common_origin_fails_in_sarif_and_nothing_found_passes(child, stranger):
    (fails,) = comparison_sarif(child)["runs"][0]["results"]
    (passes,) = comparison_sarif(stranger)["runs"][0]["results"]
    assert (fails["kind"], fails["level"], fails["ruleId"]) == ("fail", "warning", "MK001")
    assert (passes["kind"], passes["level"]) == ("pass", "none")
    assert fails["message"]["text"] == str(child.verdict.summary)
    flagged = replace(stranger, strong_flags=(say("flag-agreement", share=0.9, n=3, m=20),))
    kinds = [(item["ruleId"], item["kind"]) for item in comparison_sarif(flagged)["runs"][0]["results"]]
    assert kinds == [("MK001", "pass"), ("MK002", "review")]


@pytest.mark.skipif(sarif_schema() is None, reason="no schema of SARIF is installed (tests/real/small.txt)")
@pytest.mark.parametrize("name", ["child", "stranger", "hostile"])
def test_sarif_follows_the_schema_of_the_standard(name, child, stranger):
    known = sarif_schema()
    assert known is not None
    result = {"child": child, "stranger": stranger, "hostile": hostile(child)}[name]
    flagged = replace(result, strong_flags=(say("flag-agreement", share=0.9, n=3, m=20),))
    log = json.loads(comparison_as(flagged, "sarif"))
    jsonschema.Draft7Validator(known).validate(log)
    log["runs"][0]["results"][0]["kind"] = "guilty"
    with pytest.raises(jsonschema.ValidationError, match="guilty"):
        jsonschema.Draft7Validator(known).validate(log)


@pytest.mark.parametrize("name", ["child", "stranger", "hostile"])
def test_a_bill_of_materials_follows_the_schema_of_the_standard(name, child, stranger):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    result = {"child": child, "stranger": stranger, "hostile": hostile(child)}[name]
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(comparison_as(result, "cyclonedx")) is None
    wrong = ml_bom(result)
    wrong["metadata"]["component"]["type"] = "mind"
    assert "mind" in str(validator.validate_str(json.dumps(wrong)))


def test_the_address_of_the_project_is_written_in_one_place():
    """Until there is one it is a reserved name: none of our links leads to someone else's page."""
    assert f"{HOME}/modelkin" in (DOCS / "ci.md").read_text()
    files = [*(ROOT / "src").rglob("*.py"), *DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "action.yml"]
    named = [file.name for file in files if HOME in file.read_text(encoding="utf-8")]
    assert sorted(named) == ["ci.md", "home.py"]
    owned = [file.name for file in files if "github.com/modelkin" in file.read_text(encoding="utf-8")]
    assert owned == []


def test_a_bill_of_materials_has_the_base_as_ancestor_only_where_it_was_found(child, stranger):
    found, none = ml_bom(child), ml_bom(stranger)
    component = found["metadata"]["component"]
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert component["type"] == "machine-learning-model"
    assert [ancestor["name"] for ancestor in component["pedigree"]["ancestors"]] == ["demo:base"]
    assert "ancestors" not in none["metadata"]["component"]["pedigree"]
    assert found["serialNumber"] != none["serialNumber"]
    assert ml_bom(child) == found


def test_a_card_names_the_base_where_the_hub_knows_it(child, stranger):
    assert model_card(child).startswith("## Origin of the weights")
    hub = replace(child.base, kind="hub", origin="https://huggingface.co/org/base", revision="c0ffee")
    front = model_card(replace(child, base=hub)).split("---")[1]
    assert yaml.safe_load(front) == {"base_model": "org/base"}
    assert "no-evidence" in model_card(stranger)
    assert not model_card(stranger).startswith("---")


@pytest.mark.parametrize(("basis", "words"), [("exact", "exact"), ("own-layers", "(24 mismatched")])
def test_every_format_with_a_p_value_says_what_it_rests_on(stranger, basis, words):
    result = stranger if basis == "exact" else by_own_layers(stranger)
    row = next(line for line in model_card(result).splitlines() if line.startswith("| basis"))
    assert words in row
    properties = ml_bom(result)["metadata"]["component"]["properties"]
    assert {"name": "modelkin:basis", "value": basis} in properties
    assert comparison_sarif(result)["runs"][0]["results"][0]["properties"]["basis"] == basis


def test_a_badge_is_a_picture_with_words(child, stranger):
    for result, word in ((child, "found"), (stranger, "no evidence")):
        root = ET.fromstring(badge_svg(result))
        texts = [item.text for item in root.iter("{http://www.w3.org/2000/svg}text")]
        assert texts == ["common origin", word]


@pytest.mark.parametrize("name", FORMS)
def test_hostile_names_break_no_format(child, name):
    text = comparison_as(hostile(child), name)
    if name in ("sarif", "cyclonedx"):
        json.loads(text)
    if name == "badge":
        ET.fromstring(text)
    if name in ("badge", "card"):
        assert "<script" not in text.replace("\\<", "")
    assert EVIL not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("name", FORMS)
def test_the_command_prints_the_format_and_nothing_else(run, name, child):
    code, out, _ = run("compare", "demo:continued", "demo:base", "--depth", "quick", "--format", name)
    assert code == 0
    assert out == comparison_as(child, name) + "\n"
    assert run("compare", "demo:continued", "demo:base", "--format", name, "--json")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("inspect", "demo:nobody"), 3, "NotFound"),
        (("inspect", "demo:base", "--budget", "10"), 2, "BudgetExceeded"),
        (("inspect",), 2, "MissingParameter"),
    ],
)
def test_an_error_is_a_document_where_one_was_asked_for(run, arguments, code, error):
    status, out, err = run(*arguments, "--json")
    document = json.loads(out)
    jsonschema.Draft202012Validator(schema("modelkin.error/1")).validate(document)
    assert (status, document["exit_code"], document["error"]) == (code, code, error)
    assert document["problem"] in err
    assert run(*arguments)[1] == ""


def test_an_error_after_the_result_adds_no_second_document(run, tmp_path):
    (tmp_path / "REPORT.md").mkdir()
    where = ("--out", str(tmp_path), "--json", "--depth", "quick")
    status, out, err = run("compare", "demo:continued", "demo:base", *where)
    assert status == 2
    assert json.loads(out)["schema"] == "modelkin.comparison/1"
    assert "error: " in err


def test_the_action_and_the_hooks_use_options_that_there_are():
    from modelkin.cli.app import app

    known = {option for parameter in app.commands["compare"].params for option in parameter.opts}
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    script = action["runs"]["steps"][-1]["run"]
    assert {word.strip("()") for word in script.split() if word.strip("(").startswith("--")} - {"--"} <= {
        *known,
        *(f"arguments+=({option}" for option in known),
    }
    assert "${{" not in script  # inputs are no text of a script
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for hook in hooks:
        name, *options = hook["entry"].split()[1:]
        opts = {option for parameter in app.commands[name].params for option in parameter.opts}
        assert {word for word in options if word.startswith("--")} <= opts
