"""``modelkin demo``: the story, on models of the same names that are made here."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
from tests.support import llama_files, llama_tensors

import modelkin as mk
import modelkin.demo
from modelkin.casework import story as _story
from modelkin.formats.safetensors import safetensors_bytes


def gains(tensors, seed):
    """Give norms a spread as training does."""
    rng = np.random.default_rng(seed)
    return {
        name: (values * rng.lognormal(sigma=0.15, size=values.shape)).astype(np.float32)
        if values.ndim == 1
        else values
        for name, values in tensors.items()
    }


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    base, twin = gains(llama_tensors(), 10), gains(llama_tensors(seed=1), 11)
    rng = np.random.default_rng(2)
    child = {name: (v + rng.normal(scale=0.002, size=v.shape)).astype(np.float32) for name, v in base.items()}
    models = {
        "base": base,
        "twin-1": twin,
        "finetune-light": child,
        "norms-only": {name: child[name] if "norm" in name else twin[name] for name in base},
    }
    folder = tmp_path_factory.mktemp("zoo")
    for name, tensors in models.items():
        (folder / name).mkdir()
        files = {**llama_files(), "model.safetensors": safetensors_bytes(tensors)}
        for file, data in files.items():
            (folder / name / file).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def story(zoo):
    return _story.tell_story(zoo)


@pytest.fixture(autouse=True)
def _embedded(monkeypatch, zoo, story):
    monkeypatch.setattr(modelkin.demo, "demo_zoo", lambda: nullcontext(zoo), raising=False)
    monkeypatch.setattr(_story, "tell_story", lambda folder, **_: story if folder == zoo else None)


def test_the_story_tells_a_stranger_from_a_child(run, tmp_path):
    status, out, err = run("demo", "--json", "--out", str(tmp_path))
    story = json.loads(out)
    assert status == 0
    assert str(tmp_path) in err
    chapters = story["chapters"]
    assert [chapter["comparison"]["verdict"]["conclusion"] for chapter in chapters] == [
        "no-evidence",
        "shared",
        "shared-partial",
    ]
    assert "norm gains; no evidence" in chapters[2]["comparison"]["verdict"]["summary"]
    for chapter in chapters:
        parts = chapter["gains"]
        assert parts["cosine"] > 0.95
        np.testing.assert_allclose(
            parts["mean_direction_part"] + parts["correlated_part"], parts["cosine"], rtol=1e-12
        )
        assert "report.html" in {path.name for path in (tmp_path / chapter["name"]).iterdir()}
        written = mk.Comparison.from_json((tmp_path / chapter["name"] / "comparison.json").read_text())
        assert written == mk.Comparison.from_json(json.dumps(chapter["comparison"]))
    assert abs(chapters[0]["gains"]["pearson"]) < 0.3 < 0.9 < chapters[1]["gains"]["pearson"]


def test_the_story_is_readable(run):
    status, out, _ = run("demo")
    assert status == 0
    for words in (
        "Two strangers",
        "A true child",
        "copied norm gains",
        "cosine of the norm gains",
        "Pearson r",
    ):
        assert words in out
    assert len(out.splitlines()) < 100
