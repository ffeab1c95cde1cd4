"""Actually trained models of known ancestry: the verdict is right on every one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.comparison.zoo_pairs import derived_pairs, members
from tests.places import ZOO
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.casework.lab.derive import reorder_layers
from modelkin.comparison.methods import Tested
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource

EXPECTED = {
    "fine-tune": ("shared", set()),
    "continued-pretraining": ("shared", set()),
    "vocabulary-extension": ("shared", set()),
    "low-rank": ("shared", set()),
    "new-tokenizer": ("shared-partial", {"embedding", "head"}),
    "new-attention": ("shared-partial", {"attention"}),
    "norms-only": ("shared-partial", {"embedding", "head", "mlp", "attention"}),
    "embeddings-only": ("shared-partial", {"mlp", "attention", "norms"}),
    "half-of-layers": ("shared-partial", set()),
    "third-of-layers": ("shared-partial", {"embedding", "norms"}),
    "mlps-only": ("shared-partial", {"embedding", "norms"}),
    "new-embeddings": ("shared-partial", {"embedding"}),
    "new-heads": ("shared", set()),
}
"""Relation -> conclusion, and the components that must not be called shared."""
LIMITED = {"same-initialisation"}
"""Relations that look like descent but are not: the limitation is printed, the weights are shared."""


def compared(candidate, base, **options):
    return mk.compare(
        candidate=members()[candidate].path,
        base=members()[base].path,
        options=mk.CompareOptions(**options),
    )


@pytest.mark.parametrize(("child", "parent", "relation"), every(4, derived_pairs()))
def test_a_child_is_recognised_with_the_parts_it_kept(child, parent, relation):
    verdict = compared(child, parent).verdict
    if relation in LIMITED:
        assert verdict.related
        assert any("same initialisation" in str(line) for line in verdict.limitations)
        return
    conclusion, not_shared = EXPECTED[relation]
    assert verdict.conclusion.value == conclusion
    found = {name for name, part in verdict.components.items() if part.conclusion is Conclusion.NO_EVIDENCE}
    assert found == not_shared
    assert verdict.log10_p is not None
    assert verdict.log10_p < -6


def test_half_of_the_layers_are_told_apart():
    verdict = compared("half-of-layers", "base").verdict
    assert verdict.components["mlp"].layers == (0, 1)
    assert verdict.components["mlp"].other_layers == (2, 3)
    assert "layers 0, 1" in str(verdict.summary)


@pytest.mark.parametrize("stranger", ["twin-1", "order-1", "corpus-1", "tokenizer-1", "distilled"])
def test_a_stranger_is_never_accused(stranger):
    verdict = compared(stranger, "base").verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.detection_limit is not None


def test_siblings_share_weights_and_the_limits_say_that_parenthood_is_not_decided():
    verdict = compared("finetune-sibling", "finetune-light").verdict
    assert verdict.conclusion is Conclusion.SHARED
    assert any("which came from which" in str(line) for line in verdict.limitations)


def test_another_width_is_not_testable_and_says_why():
    verdict = compared("narrow", "base").verdict
    assert verdict.conclusion is Conclusion.NOT_TESTABLE
    assert "hidden sizes differ" in str(verdict.summary)


def test_quick_depth_reads_gains_only_and_still_knows_a_child():
    result = compared("finetune-heavy", "base", depth="quick")
    assert result.verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert result.verdict.reading == "norm-gains-alone"
    assert "nothing else was tested" in str(result.verdict.headline)
    assert set(result.verdict.components) == {"norms"}
    assert result.verdict.stage == "quick"


def test_a_copy_is_identical_and_every_value_was_compared():
    result = compared("base", "base")
    assert result.verdict.conclusion is Conclusion.IDENTICAL
    assert result.relation.kind == "copy"


@pytest.mark.parametrize("depth", ["standard", "deep"])
def test_shared_norm_gains_stay_a_small_finding_at_every_depth(depth):
    verdict = compared("norms-only", "base", depth=depth).verdict
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.reading == "norm-gains-only"
    assert str(verdict.headline) == "Only the norm gains are shared (0.212% of the parameters)"
    silent = {name for name, part in verdict.components.items() if part.conclusion is Conclusion.NO_EVIDENCE}
    assert silent >= {"attention", "embedding", "head", "mlp"}


def without_last_layer(name):
    shorter = reorder_layers(Checkpoint.read(Path(members()[name].path)), [0, 1, 2])
    return mk.compare(candidate=MemorySource(shorter.files()), base=members()["base"].path)


def test_where_only_gains_are_shared_no_change_of_shape_is_named():
    """Fewer layers and other tokens belong to the other model, and are not a change of this one."""
    assert compared("norms-only", "base").relation.kind == "parts-replaced"
    result = without_last_layer("norms-only")
    assert result.verdict.reading == "norm-gains-only"
    assert result.relation.kind in ("unknown", "parts-replaced")


def test_where_weights_are_shared_a_change_of_depth_is_named():
    assert without_last_layer("finetune-light").relation.kind == "depth-change"


def drawn(result):
    return [test.z for test in result.evidence if isinstance(test, Tested)]


def test_two_runs_with_one_seed_are_equal_and_another_seed_reads_other_units():
    first, again = (compared("twin-2", "base", seed=3) for _ in range(2))
    assert first.evidence == again.evidence
    other = compared("twin-2", "base", seed=4)
    assert drawn(first) != drawn(other)


@pytest.mark.parametrize("depth", ["standard", "deep"])
@pytest.mark.parametrize("weight", every(2, [0.12, 0.3]))
def test_one_weakly_copied_layer_of_a_stranger_is_found_and_named(weight, depth):
    base, stranger = (Checkpoint.read(ZOO / name) for name in ("base", "twin-1"))
    mixed = {
        name: ((1 - weight) * values + weight * base.tensors[name]).astype(np.float32)
        for name, values in stranger.tensors.items()
        if ".layers.2.mlp." in name
    }
    verdict = mk.compare(
        candidate=MemorySource(
            replace(stranger, tensors={**stranger.tensors, **mixed}).files(), name="mixed"
        ),
        base=MemorySource(base.files(), name="base"),
        options=mk.CompareOptions(depth=depth),
    ).verdict
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert str(verdict.headline).endswith(": mlp (layer 2)")
    assert (verdict.components["mlp"].layers, verdict.components["mlp"].other_layers) == ((2,), (0, 1, 3))
    assert [name for name, item in verdict.components.items() if item.conclusion.related] == ["mlp"]
    # Of the one layer that is claimed: over all four it would be a quarter of that.
    assert verdict.effect is not None
    assert verdict.effect.low > weight / 2
