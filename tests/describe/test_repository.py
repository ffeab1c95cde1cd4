"""Code of two repositories as text: headers, shares of lines, commits; none of it is run or trusted."""

from __future__ import annotations

import json

import jsonschema
import pytest
from tests.support import HubRepo, HubServer

import modelkin as mk
from modelkin.describe.repository import MAX_FILE_BYTES
from modelkin.document import render_markdown, repositories_view, to_json
from modelkin.document.results import schema
from modelkin.errors import ListingError
from modelkin.options import FetchOptions
from modelkin.source import MemorySource
from modelkin.source.hub import parse_history

HEAD = """# coding=utf-8
# Copyright 2025 {who}. All rights reserved.
#
# Licensed under the Apache License, Version 2.0 (the "License");
"""
BODY = """
import torch
# This file was automatically generated from src/transformers/models/{file}/modular_{file}.py.


class {name}PreTrainedModel(PreTrainedModel):
    _keys_to_ignore_on_load_unexpected = [r"model\\.layers\\.92.*", r"model\\.layers\\.46.*"]

    # Copied from transformers.models.llama.modeling_llama.LlamaModel.forward
    def forward(self, hidden_states):
        return self.{file}_norm(hidden_states) + self.bias
"""


def code(name: str, file: str, who: str, more: str = "") -> dict[str, bytes]:
    text = HEAD.format(who=who) + BODY.format(name=name, file=file) + more
    return {f"modeling_{file}.py": text.encode(), "config.json": b"{}"}


SOLAR = code("SolarOpen", "solar_open", "Upstage", "    own_line = 'of this model alone'\n")
GLM = code("Glm4Moe", "glm4_moe", "The GLM4 & ZhipuAI team")
OTHER = {"modeling_other.py": b"class OtherModel:\n    nothing = 'in common with anybody'\n"}


def test_files_face_each_other_by_kind_with_and_without_names():
    found = mk.compare_repositories(MemorySource(SOLAR), MemorySource(GLM), controls=[MemorySource(OTHER)])
    (pair,) = found.pairs
    assert (pair.candidate, pair.base) == ("modeling_solar_open.py", "modeling_glm4_moe.py")
    assert not pair.identical
    # Of five lines two name the model, and one is its own.
    assert pair.of_candidate == pytest.approx(2 / 5)
    assert pair.renamed_of_candidate == pytest.approx(4 / 5)
    assert pair.renamed_of_base == 1.0
    assert pair.longest_run == 4
    (control,) = found.controls
    assert control.pairs[0].renamed_of_candidate == 0.0


def test_heads_say_licence_copyright_origin_and_layers():
    (file,) = mk.compare_repositories(MemorySource(GLM), MemorySource(SOLAR)).candidate.files
    assert file.licence == "Apache-2.0"
    assert file.copyrights == ("Copyright 2025 The GLM4 & ZhipuAI team. All rights reserved.",)
    assert file.generated_from == "src/transformers/models/glm4_moe/modular_glm4_moe.py"
    assert file.copied_from == ("transformers.models.llama.modeling_llama.LlamaModel.forward",)
    assert file.layer_numbers == (46, 92)


def test_a_header_that_changed_between_revisions_is_seen_with_its_commits():
    later = {
        **SOLAR,
        "modeling_solar_open.py": SOLAR["modeling_solar_open.py"] + b"# Copyright 2025 ZhipuAI\n",
    }
    with HubServer({"org/model": HubRepo(files=later, revisions={"v1": SOLAR})}) as hub:
        fetch = FetchOptions(endpoint=hub.url, token=False, use_store=False)
        found = mk.compare_repositories("org/model@main", "org/model@v1", fetch)
    assert found.candidate.files[0].copyrights[1:] == ("Copyright 2025 ZhipuAI",)
    assert len(found.base.files[0].copyrights) == 1
    assert found.pairs[0].renamed_of_candidate == 1.0
    assert found.candidate.commits is not None
    assert found.candidate.commits[0].id == found.candidate.revision
    assert found.candidate.commits[0].authors == ("org",)


def test_a_history_that_cannot_be_read_is_a_note_and_not_the_end():
    with HubServer({"org/model": SOLAR}) as hub:
        fetch = FetchOptions(endpoint=hub.url, token=False, use_store=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.support.hub_api.commits", lambda state, commit: {"no": "list"})
            found = mk.compare_repositories("org/model", MemorySource(GLM), fetch)
    assert found.candidate.commits is None
    assert "commits were not read" in str(found.candidate.notes[0])
    assert found.pairs


@pytest.mark.parametrize("body", [b"{}", b"[3]", b'[{"id": "short"}]', b"[", b'[{"title": "x"}]'])
def test_a_list_of_commits_is_checked(body):
    with pytest.raises(ListingError, match="list of commits"):
        parse_history(body, where="org/model")


def test_code_is_text_and_nothing_more(tmp_path):
    """A file that would write when run or imported, and whose names would act on a terminal."""
    trap = tmp_path / "trap"
    hostile = f"open({str(trap)!r}, 'w')\n# Copyright 2025 \x1b[31mred\x1b[0m\n".encode() + b"\xff" * 10
    files = {"modeling_x.py": hostile, "setup.py": hostile, "long.py": b"x" * (MAX_FILE_BYTES + 1)}
    found = mk.compare_repositories(MemorySource(files), MemorySource(OTHER))
    assert not trap.exists()
    told = render_markdown(repositories_view(found, verbose=True))
    assert "\x1b" not in told
    assert any("long.py" in str(note) for note in found.candidate.notes)


def test_the_result_is_a_document_and_says_that_it_is_no_evidence():
    found = mk.compare_repositories(MemorySource(SOLAR), MemorySource(GLM), controls=[MemorySource({})])
    jsonschema.validate(json.loads(to_json(found)), schema("modelkin.repositories/1"))
    assert str(found.controls[0].reason).endswith("has no code and no licence files of its own")
    assert "no verdict uses" in str(found.limits[0])
    assert "not evidence about weights" in render_markdown(repositories_view(found))
