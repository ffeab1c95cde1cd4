"""A config that claims a fixed sinusoid switches no test off unless the stored table is one."""

import json

import numpy as np
import pytest
from safetensors.numpy import save
from tests.places import ROOT

import modelkin as mk
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource

FIXTURE = json.loads((ROOT / "tests" / "architecture" / "data" / "distilbert.json").read_text())
POSITIONS = "distilbert.embeddings.position_embeddings.weight"


def weights(seed):
    rng = np.random.default_rng(seed)
    return {
        name: (1.0 + 0.1 * rng.standard_normal(shape) if "orm.weight" in name else rng.standard_normal(shape))
        for name, shape in FIXTURE["shapes"].items()
    }


def sinusoid(rows, width):
    angles = np.outer(np.arange(rows), 10000.0 ** (-np.arange(0, width, 2) / width))
    table = np.empty((rows, width))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


def model(tensors, *, sinusoidal, name):
    stored = {key: value.astype(np.float32) for key, value in tensors.items()}
    config = {**FIXTURE["config"], "sinusoidal_pos_embds": sinusoidal}
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": save(stored)}
    return MemorySource(files, name=name)


@pytest.fixture
def base():
    return weights(0)


@pytest.fixture
def child(base):
    rng = np.random.default_rng(1)
    return {
        name: value + 0.1 * value.std() * rng.standard_normal(value.shape) for name, value in base.items()
    }


@pytest.mark.parametrize("depth", ["standard", "deep"])
def test_a_false_claim_hides_no_copy(base, child, depth):
    result = mk.compare(
        candidate=model(child, sinusoidal=True, name="child"),
        base=model(base, sinusoidal=False, name="base"),
        options=mk.CompareOptions(depth=depth),
    )
    shared = {name for name, item in result.verdict.components.items() if item.conclusion.related}
    assert shared >= {"embedding", "mlp", "norms"}
    assert any("treated as learned" in str(note) for note in result.candidate.skipped)
    assert not any("treated as learned" in str(note) for note in result.base.skipped)


def test_a_true_sinusoid_still_fixes_the_order_of_dimensions(base, child):
    rows, width = FIXTURE["shapes"][POSITIONS]
    table = sinusoid(rows, width)
    result = mk.compare(
        candidate=model({**child, POSITIONS: table}, sinusoidal=True, name="child"),
        base=model({**base, POSITIONS: table}, sinusoidal=True, name="base"),
    )
    assert result.verdict.components["norms"].conclusion is Conclusion.NOT_TESTABLE
    assert "fixed sinusoid" in str(result.verdict.components["norms"].reason)


def test_a_dry_run_reads_no_table_and_plans_for_the_dearer_case(base, child):
    from modelkin.comparison import price_comparison

    told, true = (
        price_comparison(
            candidate=model(child, sinusoidal=claimed, name="child"),
            base=model(base, sinusoidal=False, name="base"),
        ).plans
        for claimed in (True, False)
    )
    assert told[0].bytes_needed == true[0].bytes_needed > 0
