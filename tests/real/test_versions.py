"""Versions of one published model: a DistilBERT in int8, trained anew for 0.3.1, and stored anew for 0.3.2.

Its makers say that each was fine-tuned from distilbert-base-cased. 0.3.0 and 0.3.1 have dynamic quantisation,
0.3.2 has static quantisation and codes with a sign: another graph and other bytes, and the same numbers.
"""

from __future__ import annotations

import pytest
from tests.real.published import published

import modelkin as mk
from modelkin.comparison.verdict import Conclusion

# A minute of one core; a machine that does other things as well is slow.
pytestmark = pytest.mark.timeout(900)

VERSIONS = ("quire_3_0", "quire_3_1", "quire_3_2")
FROZEN = {"embedding", "position_embedding", "embedding_norm", "embedding_norm_bias"}


def compared(candidate, base, depth="standard"):
    options = mk.CompareOptions(depth=depth)
    return mk.compare(candidate=str(published(candidate)), base=str(published(base)), options=options)


def conclusions(verdict):
    return {name: part.conclusion for name, part in verdict.components.items() if part.n_tests}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_graph_without_a_config_tells_every_tensor_and_the_heads(version):
    with mk.open_model(str(published(version))) as model:
        assert model.architecture.family == "distilbert"
        assert {
            name: model.architecture.sizes[name] for name in ("layers", "residual", "heads", "v_dim")
        } == {
            "layers": 6,
            "residual": 768,
            "heads": 12,
            "v_dim": 64,
        }
        assert mk.inspect_model(model).unknown == ()


@pytest.mark.parametrize("depth", ["standard", "deep"])
def test_what_was_stored_anew_is_a_copy(depth):
    result = compared("quire_3_2", "quire_3_1", depth)
    assert result.verdict.conclusion is Conclusion.SHARED  # the formats differ: not identical
    assert result.relation.kind == "copy"
    assert result.relation.direction.parent is None
    details = result.relation.details
    assert details["values_equal"] == details["values_compared"] > 3_000_000


@pytest.mark.parametrize("depth", ["standard", "deep"])
@pytest.mark.parametrize("turned", [False, True])
def test_what_was_trained_again_shares_every_part_and_is_no_copy(depth, turned):
    pair = ("quire_3_0", "quire_3_1") if turned else ("quire_3_1", "quire_3_0")
    result = compared(*pair, depth)
    assert result.verdict.conclusion is Conclusion.SHARED
    parts = conclusions(result.verdict)
    assert {"norms", "embedding", "mlp", "attention"} <= parts.keys()
    assert set(parts.values()) == {Conclusion.SHARED}
    assert result.verdict.log10_p < -1000
    assert result.relation.kind == "fine-tune"
    assert result.relation.direction.parent is None


def test_every_value_of_the_tables_was_frozen_and_every_layer_trained():
    found = mk.diff(
        candidate=str(published("quire_3_1")),
        base=str(published("quire_3_0")),
        options=mk.CompareOptions(depth="full"),
    )
    changes = {item.role: item for item in found.tensors if item.role in FROZEN}
    assert changes.keys() == FROZEN
    assert {item.what for item in changes.values()} == {"equal"}
    counted = {item.tensor: item for item in found.counts}
    (table,) = (item for name, item in counted.items() if name.endswith("word_embeddings.weight"))
    assert table.equal == table.values == 28_996 * 768
    layers = [item for name, item in counted.items() if ".layer." in name and name.endswith("lin.weight")]
    assert len(layers) == 6 * 4
    assert all(item.equal < 0.1 * item.values for item in layers)


@pytest.mark.parametrize(
    ("other", "depth", "conclusion"),
    [
        ("minilm", "standard", "not-testable"),
        ("rx_pre", "standard", "not-testable"),
        ("minilm_int8", "deep", "no-evidence"),
        ("rx_pre", "deep", "not-testable"),
    ],
)
def test_encoders_of_other_makers_are_not_accused(other, depth, conclusion):
    """None has its width: at deep depth units of the layers are matched where that is possible."""
    verdict = compared("quire_3_1", other, depth).verdict
    assert verdict.conclusion.value == conclusion
    assert not verdict.related
