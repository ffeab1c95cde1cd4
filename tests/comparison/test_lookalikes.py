"""Trained models that share a recipe, coordinates or tables, but no layer: none is reported as a descendant.

The models are stored in `tests/lookalikes`; ``make test-lab`` trains new ones of the same kinds.
"""

from functools import cache, partial

import numpy as np
import pytest
from tests.comparison.common_recipes import EXPERT_TREATMENTS, TREATMENTS, public_bases, public_projections
from tests.places import LOOKALIKES, ZOO
from tests.scale.lifelike import GROWN
from tests.support.amount import every, marked

import modelkin as mk
from modelkin.casework.lab import derive, load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.methods import Tested, axis
from modelkin.comparison.verdict import Conclusion, _components
from modelkin.source import MemorySource
from modelkin.stats import AxisOptions, NotTestable, axis_test


@cache
def kept(name):
    return Checkpoint.read(LOOKALIKES / name)


@cache
def compared(candidate, base, depth="deep"):
    sources = [MemorySource(kept(name).files(), name=name) for name in (candidate, base)]
    return mk.compare(candidate=sources[0], base=sources[1], options=mk.CompareOptions(depth=depth))


@pytest.mark.parametrize(
    ("pair", "tensor"),
    [(("masked-2", "masked-1"), "up_proj"), (("begun-2", "begun-1"), "down_proj")],
    ids=["mask", "beginning"],
)
def test_the_traps_are_there(pair, tensor):
    """Without what is known about masks and initial values, these strangers would be accused."""
    models = [kept(name).tensors[f"model.layers.1.mlp.{tensor}.weight"] for name in pair]
    rows = [rows.T if tensor == "down_proj" else rows for rows in models]
    found = axis_test(
        candidate=rows[0],
        base=rows[1],
        exchangeable=True,
        seed=0,
        options=AxisOptions(sign_free=True, n_permutations=999),
    )
    assert not isinstance(found, NotTestable)
    assert found.log10_p < -6


@pytest.mark.parametrize("depth", ["standard", "deep"])
def test_a_common_mask_is_told_as_a_mask(depth):
    verdict = compared("masked-2", "masked-1", depth).verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.reading == "zeros-alone"


@pytest.mark.parametrize("depth", ["standard", "deep"])
def test_a_common_beginning_is_told_as_a_beginning(depth):
    verdict = compared("begun-2", "begun-1", depth).verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.reading == "beginning-alone"


@pytest.mark.parametrize("student", ["student-last", "student-all", "student-embedding", "started"])
def test_students_of_hidden_states_have_coordinates_and_no_units(student):
    verdict = compared(student, "teacher").verdict
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.reading == "coordinates-only"
    silent = {name for name, item in verdict.components.items() if item.conclusion is Conclusion.NO_EVIDENCE}
    assert "mlp" in silent
    assert verdict.components["attention"].conclusion.related is not True  # too few dimensions for a test


def test_two_students_of_one_teacher_have_the_same_coordinates():
    assert compared("student-sibling", "student-all").verdict.reading == "coordinates-only"


@pytest.mark.parametrize("pair", [("student-blocks", "teacher"), ("teacher", "student-blocks")], ids=str)
def test_units_that_were_learned_block_by_block_are_told_as_learned_or_copied(pair):
    """What a block computes determines its units: a student of blocks finds them without having seen one."""
    assert compared(*pair, "standard").verdict.reading == "coordinates-so-far"
    result = compared(*pair, "deep")
    units = [test for test in result.evidence if test.method == "mlp-matching" and isinstance(test, Tested)]
    assert len(units) == 4
    assert all(test.log10_p < -20 for test in units)  # the trap is there
    assert result.verdict.reading == "units-found-again"
    assert "learned block by block" in str(result.verdict.headline)
    assert "do not tell them apart" in str(result.verdict.summary)


def _in_another_order(model, rng):
    return derive.permute_residual(model, rng=rng)


def _turned(model, rng):
    reordered = derive.permute_heads(derive.permute_mlp_units(model, rng=rng), rng=rng)
    return derive.rotate_residual(reordered, rng=rng)


@pytest.mark.parametrize("disguise", [_in_another_order, _turned])
def test_learned_units_in_other_coordinates_are_told_as_learned_or_copied(disguise):
    changed = disguise(kept("student-blocks"), np.random.default_rng(5))
    sources = [MemorySource(model.files(), name="model") for model in (changed, kept("teacher"))]
    verdict = mk.compare(*sources, options=mk.CompareOptions(depth="deep")).verdict
    assert verdict.related  # the trap is there
    assert verdict.reading == "layers-found-again"
    assert "learned block by block" in str(verdict.headline)


@pytest.mark.parametrize("depth", ["standard", "deep"])
def test_a_student_of_activations_shows_nothing(depth):
    """Its units do what the teacher's of the same number do, in coordinates of its own."""
    verdict = compared("student-activations", "teacher", depth).verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.reading is None


def test_a_student_of_predictions_shows_nothing():
    verdict = compared("student-logits", "teacher", "standard").verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.reading is None


@pytest.mark.parametrize("pair", [("frozen-1", "teacher"), ("frozen-2", "frozen-1")], ids=str)
def test_bodies_around_one_frozen_table_share_that_table_and_nothing_else(pair):
    assert compared(*pair, "standard").verdict.reading == "tables-so-far"
    verdict = compared(*pair, "deep").verdict
    assert verdict.reading == "token-tables-only"
    assert str(verdict.headline).startswith("The same token tables, nothing else (")


def test_what_is_read_is_in_the_saved_comparison():
    result = compared("frozen-1", "teacher", "standard")
    assert mk.Comparison.from_json(result.to_json()).verdict.reading == "tables-so-far"


# Treatments that both models had ----------------------------------------------------------------------------


DEPTHS = pytest.mark.parametrize("depth", ["standard", pytest.param("deep", marks=pytest.mark.more)])


def treated(treatment, *names, depth):
    zoo = load_zoo(ZOO)
    candidate, base = (MemorySource(treatment(zoo[name].load()).files(), name=name) for name in names)
    return mk.compare(candidate=candidate, base=base, options=mk.CompareOptions(depth=depth)).verdict


LONG = "a third of the rank, values by singular value"
"""Takes four times as long as any other."""
NOW = [name for name in TREATMENTS if name != LONG][::3]


@DEPTHS
@pytest.mark.parametrize("name", marked(TREATMENTS, lambda name: name in NOW, more=bool))
def test_strangers_who_had_the_same_treatment_are_strangers_still(name, depth):
    assert not treated(TREATMENTS[name], "base", "twin-1", depth=depth).related


@DEPTHS
@pytest.mark.parametrize("name", EXPERT_TREATMENTS)
def test_strangers_whose_experts_had_the_same_treatment_are_strangers_still(name, depth):
    assert not treated(EXPERT_TREATMENTS[name], "moe16-1", "moe16-2", depth=depth).related


def test_units_sorted_by_norm_in_both_models_have_no_arbitrary_order():
    zoo, sort = load_zoo(ZOO), TREATMENTS["units sorted by gate norm"]
    sources = [MemorySource(sort(zoo[name].load()).files(), name=name) for name in ("base", "twin-1")]
    result = mk.compare(candidate=sources[0], base=sources[1])
    gates = [test for test in result.evidence if test.role == "mlp_gate" and isinstance(test, Tested)]
    assert len(gates) == 4
    assert all("sorted" in test.flags and test.log10_p == 0.0 for test in gates)


def with_strong_gains(seed):
    """Draw a model whose gains and embedding single out the same dimensions in all layers, as large ones do.

    Models of the zoo have gains near one: sorting their dimensions leaves too little for a false finding.
    """
    model, rng = GROWN["width 256"].drawn(seed=seed), np.random.default_rng([seed, 5])
    width = model.config["hidden_size"]
    profile = rng.lognormal(-0.5, 0.3, width)
    profile[rng.choice(width, 6, replace=False)] *= 4
    changed = {
        name: profile * rng.lognormal(0, 0.12, width)
        for name, values in sorted(model.tensors.items())
        if values.ndim == 1
    }
    table = "model.embed_tokens.weight"
    changed[table] = model.tensors[table] * np.sqrt(profile)
    return model.with_tensors({name: value.astype(np.float32) for name, value in changed.items()})


@pytest.mark.more
@pytest.mark.parametrize(
    "name", every(2, ["dimensions sorted by a gain", "dimensions sorted by second moment"])
)
def test_strangers_with_strong_gains_whose_dimensions_were_sorted_are_strangers_still(name, monkeypatch):
    models = [TREATMENTS[name](with_strong_gains(seed)) for seed in (11, 12)]
    candidate, base = (MemorySource(model.files(), name=f"drawn-{n}") for n, model in enumerate(models))
    with monkeypatch.context() as patch:
        patch.setattr("modelkin.stats._axis.order_flags", lambda *_, **__: ())
        assert mk.compare(candidate=candidate, base=base).verdict.related  # the trap is there
    assert not mk.compare(candidate=candidate, base=base).verdict.related


ADAPTERS = {
    "projections": partial(public_projections, rank=64, size=0.4),
    "bases": partial(public_bases, size=0.8),
    "one pair of bases": partial(public_bases, n_bases=1),
}


@pytest.mark.more
@pytest.mark.parametrize("adapters", every(3, ADAPTERS))
@pytest.mark.parametrize("size", ["width 256", pytest.param("width 1,024", marks=pytest.mark.more)])
@DEPTHS
def test_adapters_between_public_random_matrices_are_told_as_a_common_start(
    adapters, size, depth, monkeypatch
):
    models = [ADAPTERS[adapters](GROWN[size].drawn(seed=seed)) for seed in (1, 2)]
    options = mk.CompareOptions(depth=depth)

    def judged():
        candidate, base = (MemorySource(model.files(), name=f"drawn-{n}") for n, model in enumerate(models))
        return mk.compare(candidate=candidate, base=base, options=options).verdict

    with monkeypatch.context() as patch:
        patch.setattr(axis, "common_up_to_sign", lambda *_, **__: None)
        patch.setattr(_components, "without_opposed", lambda found, *_: found)  # gates may show it, too
        assert judged().components["mlp"].conclusion.related  # the trap is there
    verdict = judged()
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.reading == "beginning-alone"
