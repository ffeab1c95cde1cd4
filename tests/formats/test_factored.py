"""Matrices stored as two factors: multiplied when read where a matrix is expected, and only there."""

import numpy as np
import pytest
from tests.architecture.handwritten_cases import recorded
from tests.comparison.factored import WORDS, factored
from tests.places import ZOO

import modelkin as mk
from modelkin.casework.lab import load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.verdict import Conclusion
from modelkin.formats import find_factors
from modelkin.model import Model
from modelkin.options import FetchOptions
from modelkin.source import Fetcher, MemorySource
from modelkin.tensors import TensorIndex, TensorInfo

ZOO_MODELS = load_zoo(ZOO)


def opened(checkpoint):
    return Model(Fetcher(MemorySource(checkpoint.files("F32")), FetchOptions()), FetchOptions())


def compared(candidate, base, depth="standard"):
    sources = [MemorySource(model.files(), name=f"model-{n}") for n, model in enumerate((candidate, base))]
    return mk.compare(candidate=sources[0], base=sources[1], options=mk.CompareOptions(depth=depth))


@pytest.mark.parametrize("words", WORDS, ids=str)
@pytest.mark.parametrize("name", ["base", "gpt2-base", "moe-base"])
def test_factors_of_full_rank_give_the_matrices_back(name, words):
    plain = ZOO_MODELS[name].load()
    model = opened(factored(plain, 1.0, words=words))
    assert sorted(model.index) == sorted(plain.tensors)
    for tensor, value in plain.tensors.items():
        np.testing.assert_allclose(model.tensor(tensor), value, atol=1e-5)
    assert not model.architecture.unknown
    assert [note.code for note in model.weights.notes] == ["format.factored"]


def test_single_rows_are_multiplied_alone():
    plain = ZOO_MODELS["base"].load()
    model, name = opened(factored(plain, 1.0)), "model.layers.2.mlp.up_proj.weight"
    np.testing.assert_allclose(model.tensor(name, [5, 6, 90]), plain.tensors[name][[5, 6, 90]], atol=1e-5)


@pytest.mark.more
@pytest.mark.parametrize(("part", "both"), [(1.0, False), (0.25, True)], ids=["full", "quarter"])
def test_a_factored_child_is_found(part, both):
    child, base = ZOO_MODELS["finetune-light"].load(), ZOO_MODELS["base"].load()
    result = compared(factored(child, part), factored(base, part) if both else base)
    assert result.verdict.conclusion is Conclusion.SHARED
    assert result.verdict.components["mlp"].conclusion.related
    assert result.verdict.components["attention"].conclusion.related


@pytest.mark.parametrize("depth", ["standard", pytest.param("deep", marks=pytest.mark.more)])
@pytest.mark.parametrize("part", [1.0, 0.25])
def test_factored_strangers_are_strangers(part, depth):
    one, two = (factored(ZOO_MODELS[name].load(), part) for name in ("base", "twin-1"))
    result = compared(one, two, depth)
    assert result.verdict.conclusion is Conclusion.NO_EVIDENCE
    assert "mlp" in {test.component for test in result.evidence}


def test_factors_that_nobody_knows_are_named_and_left_out():
    """Nothing is said about these parts, and the record says that."""
    models = [
        factored(ZOO_MODELS[name].load(), 0.25, words=".p .q", of=("mlp",)) for name in ("base", "twin-1")
    ]
    result = compared(*models)
    assert not result.verdict.related
    assert result.verdict.components["mlp"].conclusion is Conclusion.NOT_TESTABLE
    (said,) = [item for item in result.candidate.skipped if item.code == "no-role"]
    given = dict(said.values)
    assert given["n"] == 24
    assert given["share"] == pytest.approx(0.27, abs=0.02)
    assert "model.layers.*.mlp.down_proj.p.weight" in given["names"][0]


def index_of(**shapes):
    return TensorIndex(
        TensorInfo(
            name=name.replace("__", "."),
            dtype="F32",
            shape=shape,
            file="f",
            start=0,
            stop=4 * shape[0] * shape[-1],
        )
        for name, shape in shapes.items()
    )


OTHER_WAY = {"down__A__weight": (8, 3), "down__B__weight": (3, 12)}


def test_square_factors_are_ordered_as_the_same_words_elsewhere():
    clear = {"up__A__weight": (3, 8), "up__B__weight": (12, 3)}
    square = {"q__A__weight": (8, 8), "q__B__weight": (8, 8)}
    assert find_factors(index_of(**square)) == []  # A and B are used both ways
    orders = {found.name: found.left.name for found in find_factors(index_of(**clear, **square))}
    assert orders == {"up.weight": "up.B.weight", "q.weight": "q.B.weight"}
    turned = {"up__A__weight": (12, 3), "up__B__weight": (3, 8)}
    orders = {found.name: found.left.name for found in find_factors(index_of(**turned, **square))}
    assert orders["q.weight"] == "q.A.weight"
    assert "q.weight" not in {found.name for found in find_factors(index_of(**clear, **square, **OTHER_WAY))}


def test_modules_in_a_row_are_numbered_as_they_are_applied():
    (found,) = find_factors(index_of(q__0__weight=(8, 8), q__1__weight=(8, 8)))
    assert (found.left.name, found.right.name) == ("q.1.weight", "q.0.weight")


@pytest.mark.parametrize(
    "shapes",
    [
        {"q__A__weight": (3, 8), "q__B__weight": (8, 4)},
        {"q__A__weight": (3, 8), "q__B__weight": (8, 3), "q__C__weight": (3, 3)},
        {"q__A__weight": (3, 8), "q__B__weight": (8, 3), "q__S": (3,)},
        {"q__A__weight": (3, 8), "q__B__weight": (8, 3), "q__weight": (8, 8)},
        {"q__A__weight": (3, 8), "q__A__bias": (3,), "q__B__weight": (8, 3)},
        {"q__lora_A__weight": (3, 8), "q__lora_B__weight": (8, 3)},
    ],
    ids=["shapes", "three", "between", "whole", "inner bias", "update"],
)
def test_what_is_not_two_factors_is_left_alone(shapes):
    assert find_factors(index_of(**shapes)) == []


def test_a_bias_after_the_second_factor_is_that_of_the_product():
    (found,) = find_factors(index_of(q__0__weight=(3, 8), q__1__weight=(8, 3), q__1__bias=(8,)))
    assert [info.name for info in found.tensors] == ["q.weight", "q.bias"]


def test_two_matrices_where_none_is_expected_are_not_multiplied():
    """A bottleneck has a nonlinearity between its matrices, which no file shows."""
    plain = ZOO_MODELS["base"].load()
    more = {"model.layers.0.adapter.0.weight": (8, 96), "model.layers.0.adapter.1.weight": (96, 8)}
    model = opened(plain.with_tensors({name: np.ones(shape, np.float32) for name, shape in more.items()}))
    assert {*more} <= {*model.index}
    assert {*more} == {item.name for item in model.architecture.unknown}
    assert not model.weights.notes


def test_a_model_with_latent_attention_is_read_as_it_is_stored():
    """Queries are compressed with q_a_proj and expanded with q_b_proj, with a norm between them."""
    config, shapes = recorded("deepseek_v3")
    assert config is not None
    rng = np.random.default_rng(0)
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = opened(Checkpoint(config=config, tensors=tensors, tokenizer=None))
    assert find_factors(model.index)
    assert sorted(model.index) == sorted(shapes)
