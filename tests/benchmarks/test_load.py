"""Concurrent comparisons on one store and a Hub that fails at random, at a size that fits in a test."""

import pytest
from benchmarks.load import measure


@pytest.mark.scale
def test_under_faults_every_comparison_says_what_it_says_alone():
    found = measure(n_processes=2, n_comparisons=4, fault_rate=0.08, models=("base", "finetune-light"))
    assert found.wrong == ()
    assert found.damaged == 0
    assert found.faults > 0, "the Hub did fail"
    assert found.n_comparisons == 4
    assert found.left == 0
    assert found.sockets <= 4 * 2 * 4 + 8
    assert found.memory < 1 << 30
