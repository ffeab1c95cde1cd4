"""Small things that a user trips over: wording, hints, remarks."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.support import HubOptions, HubServer, llama_files

import modelkin as mk
from modelkin.architecture._sizes import ConfigView
from modelkin.comparison.methods import Skipped
from modelkin.demo import demo_path
from modelkin.errors import HeaderError, NotFound, SourceError
from modelkin.source.http_client import busy_hint

QUICK = ("--depth", "quick", "--no-progress")


def test_a_number_of_a_config_that_makes_no_sense_is_shown():
    view = ConfigView({"num_nextn_predict_layers": -1, "hidden_size": 10**60, "zero": 0})
    assert [view.number(name) for name in view.data] == [None] * 3
    notes = [str(note) for note in view.notes.values()]
    assert "should be a positive number, got -1;" in notes[0]
    assert "got a number of more than" in notes[1]
    assert "got 0;" in notes[2]


def test_an_error_of_a_file_names_the_model(tmp_path):
    shutil.copytree(demo_path("base"), tmp_path / "mine")
    data = (tmp_path / "mine" / "model.safetensors").read_bytes()
    (tmp_path / "mine" / "model.safetensors").write_bytes(data[:-1000])
    with (
        mk.open_model(str(tmp_path / "mine")) as model,
        pytest.raises(HeaderError, match=r"mine: model\.safetensors: .*cut short"),
    ):
        _ = model.weights


@pytest.mark.parametrize(("status", "word"), [(429, "Too many requests"), (503, "try again later")])
def test_a_busy_server_comes_with_a_hint(status, word):
    assert word in str(busy_hint(status))
    assert busy_hint(404) is None


def test_an_unknown_revision_and_a_token_without_access_come_with_hints():
    with HubServer({"org/a": llama_files()}, HubOptions(tokens={"hf_some": set()})) as hub:
        fetch = mk.FetchOptions(endpoint=hub.url, token="hf_some", use_store=False)
        with pytest.raises(NotFound, match="no revision 'nothing'") as caught:
            _ = mk.open_model("org/a@nothing", fetch).location
        assert "without @ the newest is used" in (caught.value.hint or "")
        with pytest.raises(SourceError, match="no such model") as refused:
            _ = mk.open_model("org/other", fetch).location
        assert "Your token was sent" in (refused.value.hint or "")
        assert "Log in" not in (refused.value.hint or "")
        without = mk.FetchOptions(endpoint=hub.url, token=False, use_store=False)
        with pytest.raises(SourceError, match=r"token|no such model") as nobody:
            _ = mk.open_model("org/other", without).location
        assert "Log in" in (nobody.value.hint or "")


def test_one_field_that_differs_is_one_field(run, tmp_path):
    shutil.copytree(demo_path("base"), tmp_path / "mine")
    config = json.loads((tmp_path / "mine" / "config.json").read_text())
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config | {"rope_theta": 5.0}))
    _, out, _ = run("compare", str(tmp_path / "mine"), "demo:base", *QUICK)
    assert "one field differs" in out
    assert "1 fields" not in out


def test_parts_that_a_dense_model_cannot_have_are_no_gaps(run):
    _, out, _ = run("compare", "demo:twin-1", "demo:base", "--no-progress")
    gaps = out.partition("What was not examined")[2]
    assert "router" not in gaps
    assert "experts" not in gaps
    evidence = mk.compare("demo:twin-1", "demo:base").evidence
    reasons = {item.reason.code for item in evidence if isinstance(item, Skipped)}
    assert "no-part" in reasons  # the record keeps it


def test_a_model_compared_with_itself_is_remarked(run):
    _, out, _ = run("compare", "demo:base", "demo:base", *QUICK)
    assert "Candidate and base are the same model" in " ".join(out.split())
    assert "are the same model" not in run("compare", "demo:twin-1", "demo:base", *QUICK)[1]


def test_a_path_is_said_once(run):
    _, _, err = run("compare", str(demo_path("twin-1")), "demo:base", *QUICK)
    assert err.count(str(demo_path("twin-1"))) == 1
