"""Centring of any two vectors: the numbers, the files they are read from, the pictures."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tests.support import llama_files, llama_tensors

import modelkin as mk
from modelkin.casework.catalogue.centring import centring_after, centring_before
from modelkin.casework.lab import EXAMPLE, VectorPair, centring, model_vectors, read_vectors, write_centring
from modelkin.errors import BadSelection, FormatError, NotFound, UsageError
from modelkin.figures import Arrow3D, TextMark
from modelkin.formats.safetensors import safetensors_bytes


def angle(a, b):
    return math.degrees(math.acos(float(a @ b) / np.linalg.norm(a) / np.linalg.norm(b)))


def gains(rng, n):
    return rng.normal(1.0, 0.1, n)


def test_the_example_has_the_published_angles():
    found = centring(EXAMPLE)
    assert (round(found.cosine, 3), round(found.angle, 1)) == (0.955, 17.2)
    assert found.pearson is not None
    assert found.centred_angle is not None
    assert (round(found.pearson, 3), round(found.centred_angle, 1)) == (-0.602, 127.0)


def test_angles_are_those_of_the_vectors_and_of_the_centred_vectors():
    rng = np.random.default_rng(0)
    a, b = gains(rng, 500), gains(rng, 500)
    found = centring(VectorPair(a=a, b=b))
    assert found.angle == pytest.approx(angle(a, b))
    assert found.centred_angle == pytest.approx(angle(a - a.mean(), b - b.mean()))
    assert found.expected == pytest.approx(
        np.mean([b_ @ a for b_ in shuffles(b, rng)]) / norms(a, b), abs=1e-3
    )
    assert found.chance == pytest.approx(1 / math.sqrt(499))


def shuffles(values, rng):
    return [rng.permutation(values) for _ in range(300)]


def norms(a, b):
    return np.linalg.norm(a) * np.linalg.norm(b)


def test_pictures_of_long_vectors_keep_their_angles():
    rng = np.random.default_rng(1)
    a, b = gains(rng, 4096), gains(rng, 4096)
    found = centring(VectorPair(a=a, b=b))
    for figure, wanted in (
        (centring_before(a, b), found.angle),
        (centring_after(a, b), found.centred_angle),
    ):
        marks = figure.panels[0].marks
        first, second = (np.array(m.tip) for m in marks if isinstance(m, Arrow3D) and m.role == "data")
        assert angle(first, second) == pytest.approx(wanted, abs=1e-6)
        (words,) = (mark.text for mark in marks if isinstance(mark, TextMark))
        assert f"angle {wanted:.0f}" in words


def test_a_constant_vector_has_an_angle_and_no_correlation(tmp_path):
    pair = VectorPair(a=np.ones(5), b=np.arange(1.0, 6.0))
    found = write_centring(pair, tmp_path, frames=4)
    assert (found.pearson, found.centred_angle) == (None, None)
    assert found.cosine == pytest.approx(found.expected)
    assert "all values are equal" in str(found.conclusion[1])


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([1.0, 2.0], [1.0, 2.0], "at least 3"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0], "equal length"),
        ([1.0, math.nan, 3.0], [1.0, 2.0, 3.0], "not finite"),
        ([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], "zero"),
    ],
)
def test_vectors_without_an_angle_are_refused(a, b, words):
    with pytest.raises(UsageError, match=words):
        VectorPair(a=np.array(a), b=np.array(b))


def test_vectors_are_read_from_every_kind_of_file(tmp_path):
    a, b = np.array([1.0, 2.0, 3.5, -1.0]), np.array([4.0, 5.0, 6.0, 0.25])
    np.save(tmp_path / "rows.npy", np.stack([a, b]))
    np.save(tmp_path / "columns.npy", np.stack([a, b], axis=1))
    (tmp_path / "names.json").write_text(json.dumps({"one": a.tolist(), "two": b.tolist()}))
    (tmp_path / "lists.json").write_text(json.dumps([a.tolist(), b.tolist()]))
    lines = [f"{x},{y}" for x, y in zip(a, b, strict=True)]
    (tmp_path / "plain.csv").write_text("\n".join(lines))
    (tmp_path / "named.csv").write_text("\n".join(["first,second", *lines, ""]))
    (tmp_path / "rows.txt").write_text("\n".join(" ".join(map(str, v)) for v in (a, b)))
    names = {}
    for path in tmp_path.iterdir():
        pair = read_vectors(path)
        np.testing.assert_array_equal(pair.a, a, err_msg=path.name)
        np.testing.assert_array_equal(pair.b, b, err_msg=path.name)
        names[path.name] = pair.names
    assert names["names.json"] == ("one", "two")
    assert names["named.csv"] == ("first", "second")
    assert names["rows.txt"] == ("A", "B")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", "1,2\n3\n", "different numbers"),
        ("x.csv", "1,2\n3,four\n", "could not convert"),
        ("x.csv", "1,2,3\n4,5,6\n7,8,9\n", "shape"),
        ("x.csv", "", "different numbers"),
        ("x.json", "{}", "two vectors"),
        ("x.json", "[[1, 2], [3]]", "two vectors"),
        ("x.json", "[1", "two vectors"),
        ("x.npy", "not numpy", "two vectors"),
        ("x.npy", "", "two vectors"),
        ("x.json", "[" * 5_000, "two vectors"),
        ("x.json", f"[[1, 2, {10**400}], [1, 2, 3]]", "two vectors"),
    ],
)
def test_files_without_two_vectors_are_refused(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(FormatError, match=words):
        read_vectors(tmp_path / name)


@pytest.mark.parametrize("kind", ["complex128", "U3", "datetime64[D]", [("a", "f8")]])
def test_arrays_of_other_things_than_numbers_are_refused(tmp_path, kind):
    np.save(tmp_path / "x.npy", np.zeros((2, 3), dtype=kind))
    with pytest.raises(FormatError, match="other things than real numbers"):
        read_vectors(tmp_path / "x.npy")


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}, {"b": 2}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match="two vectors"):
        read_vectors(tmp_path / "x.npy")


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(NotFound, match="no such file"):
        read_vectors(tmp_path / "nothing.csv")


def test_stills_animation_and_numbers_are_written(tmp_path):
    from PIL import Image

    found = write_centring(EXAMPLE, tmp_path / "out", frames=6)
    written = json.loads((tmp_path / "out" / "centring.json").read_text())
    assert (written["cosine"], written["pearson"]) == (found.cosine, found.pearson)
    for name in ("centring_before.png", "centring_before.svg", "centring_after.png", "centring_after.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    with Image.open(tmp_path / "out" / "centring_animation.gif") as gif:
        assert gif.n_frames == 6  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="at least 4"):
        write_centring(EXAMPLE, tmp_path, frames=3)


class TestModels:
    @pytest.fixture
    def models(self):
        found = []
        for seed in (0, 1):
            rng = np.random.default_rng(seed)
            tensors = {
                name: gains(rng, values.size).astype(np.float32) if values.ndim == 1 else values
                for name, values in llama_tensors(seed=seed).items()
            }
            files = {**llama_files(seed=seed), "model.safetensors": safetensors_bytes(tensors)}
            found.append(mk.open_model(mk.MemorySource(files, name=f"m{seed}")))
        return tuple(found)

    def test_two_layers_of_one_model(self, models):
        pair = model_vectors(models[:1], role="input-norm", layers="0,1")
        for layer, vector in enumerate((pair.a, pair.b)):
            stored = models[0].tensor(f"model.layers.{layer}.input_layernorm.weight")
            np.testing.assert_array_equal(vector, stored)
        assert pair.names == ("layer 0", "layer 1")

    def test_one_layer_of_two_models(self, models):
        pair = model_vectors(models, role="post-norm", layers="1")
        stored = [m.tensor("model.layers.1.post_attention_layernorm.weight") for m in models]
        np.testing.assert_array_equal(pair.a, stored[0])
        np.testing.assert_array_equal(pair.b, stored[1])
        assert pair.names == ("m0 layer 1", "m1 layer 1")

    @pytest.mark.parametrize(
        ("n", "role", "layers", "words"),
        [
            (1, "input-norm", "0", "expected two layers"),
            (2, "input-norm", "0-2", "one layer"),
            (1, "input-norm", "0,77", "layer 77"),
            (1, "router", "0,1", "there is no router"),
            (1, "nonsense", "0,1", "unknown name"),
        ],
    )
    def test_what_a_model_does_not_have_is_named(self, models, n, role, layers, words):
        with pytest.raises(BadSelection, match=words):
            model_vectors(models[:n], role=role, layers=layers)

    def test_more_than_two_models_are_refused(self, models):
        with pytest.raises(UsageError, match="one model or two"):
            model_vectors((*models, models[0]), role="input-norm", layers="0")
