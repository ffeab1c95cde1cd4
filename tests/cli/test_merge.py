"""``modelkin merge`` on small models."""

import json

import numpy as np
import pytest
from tests.support import llama_files, llama_tensors

from modelkin.formats.safetensors import safetensors_bytes


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    first, second = llama_tensors(seed=1), llama_tensors(seed=2)
    made = {
        name: np.float32(0.25) * values + np.float32(0.75) * second[name] for name, values in first.items()
    }
    for name, tensors in (("first", first), ("second", second), ("made", made)):
        (tmp_path / name).mkdir()
        files = {**llama_files(), "model.safetensors": safetensors_bytes(tensors)}
        for file, data in files.items():
            (tmp_path / name / file).write_bytes(data)
    monkeypatch.chdir(tmp_path)


def test_a_merge_is_shown_with_its_weights_and_recipe(run):
    status, out, err = run("merge", "./made", "./first", "./second")
    assert status == 0
    assert "is a mixture of these models" in out
    assert "0.750" in out
    assert "merge_method: linear" in out
    assert "reading ./made" in err


def test_a_parent_of_the_mixture_is_said_to_lie_beyond_it(run, tmp_path):
    status, out, _ = run("merge", "./first", "./made", "./second", "--json", "--out", "report")
    assert status == 0
    found = json.loads(out)
    assert found["schema"] == "modelkin.merge/1"
    assert found["conclusion"] == "undetermined"
    assert found["weights"][0]["value"] == pytest.approx(4, abs=0.01)
    assert found["summary_code"] == "merge-beyond"
    assert (tmp_path / "report" / "report.html").exists()


def test_one_model_alone_is_wrong_usage(run):
    status, _, err = run("merge", "./made", "./first")
    assert status == 2
    assert "expected at least two models to mix" in err
