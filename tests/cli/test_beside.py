"""``modelkin configs``, ``modelkin embeddings`` and ``modelkin study draw``."""

from __future__ import annotations

import json

import jsonschema
import pytest
from tests.places import ZOO

from modelkin.document.results import schema


def test_configs_show_every_field_and_what_the_tensors_say(run):
    status, out, _ = run("configs", str(ZOO / "moe-tuned"), str(ZOO / "base"))
    assert status == 0
    for text in (
        "width of the residual stream",
        "num_key_value_heads",
        "Names of tensors",
        "Experts, counted",
    ):
        assert text in out
    assert "DISAGREE" not in out
    status, shorter, _ = run("configs", str(ZOO / "moe-tuned"), str(ZOO / "base"), "--different")
    assert status == 0
    assert " equal " not in shorter.partition("\n")[2]
    assert len(shorter) < len(out)


def test_configs_and_embeddings_are_documents(run):
    for command, name in (("configs", "modelkin.configs/1"), ("embeddings", "modelkin.embeddings/1")):
        status, out, _ = run(command, str(ZOO / "finetune-light"), str(ZOO / "base"), "--json")
        assert status == 0
        jsonschema.validate(json.loads(out), schema(name))


def test_embeddings_stand_beside_wrong_pairings(run):
    status, out, _ = run("embeddings", str(ZOO / "twin-1"), str(ZOO / "base"), "--count", "64")
    assert status == 0
    assert "other tokens' rows instead" in out
    assert "same id in both" in out
    assert "Nearest" in out


@pytest.mark.parametrize("role", ["embeddings", "head"])
def test_rows_that_cannot_be_compared_say_why(run, role):
    flags = ["--head"] if role == "head" else []
    status, out, _ = run("embeddings", str(ZOO / "narrow"), str(ZOO / "base"), *flags)
    assert status == 0
    assert "not compared: " in out


def test_an_unknown_kind_of_tokens_is_wrong_usage(run):
    status, _, err = run("embeddings", str(ZOO / "twin-1"), str(ZOO / "base"), "--tokens", "nouns")
    assert status == 2
    assert "expected one of all, ASCII words" in err


def test_a_folder_without_a_run_has_no_figures(run, tmp_path):
    status, _, err = run("study", "draw", str(tmp_path))
    assert status == 3
    assert "manifest.json" in err


@pytest.mark.parametrize(
    "manifest",
    ["[]", "{", '{"schema": "modelkin.comparison/1"}', '{"schema": "modelkin.study/1", "models": 3}'],
)
def test_a_manifest_of_something_else_is_refused_or_read_without_harm(run, tmp_path, manifest):
    (tmp_path / "manifest.json").write_text(manifest)
    status, _, _ = run("study", "draw", str(tmp_path))
    assert status in (3, 4)  # malformed, or no study beside it
