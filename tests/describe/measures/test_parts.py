"""Long vectors are measured part by part: the same numbers, in memory that does not grow with the layers."""

import tracemalloc

import numpy as np
import pytest

from modelkin.describe.measures import (
    MEASURES,
    Pairs,
    Stack,
    describe_rows,
    measured,
    measured_all,
    shuffle_draws,
)

ROWS = 7


def stacks():
    rng = np.random.default_rng(3)
    a, b = (rng.normal(0.5, 0.2, (ROWS, 64)).astype(np.float32) for _ in range(2))
    a[2], b[4, 0] = 0.0, np.nan
    return Stack(a, "F32"), Stack(b, "F32")


@pytest.fixture
def two_rows_at_once(monkeypatch):
    monkeypatch.setattr("modelkin.describe.measures.stack.PART_VALUES", 2 * 64)


@pytest.mark.parametrize(
    "pairs", [Pairs.grid(ROWS, ROWS), Pairs.diagonal(ROWS), Pairs.of([6, 0, 3], [1, 5, 3])]
)
@pytest.mark.usefixtures("two_rows_at_once")
def test_parts_give_the_numbers_and_the_reasons_of_the_whole(pairs):
    a, b = stacks()
    found = measured_all(tuple(MEASURES.values()), a, b, pairs, expect=True)
    for name, measure in MEASURES.items():
        whole = measured(measure, a, b, pairs, expect=True)
        for part in ("values", "expected", "expected_sd"):
            one, other = getattr(found[name], part), getattr(whole, part)
            np.testing.assert_array_equal(np.ma.getmaskarray(one), np.ma.getmaskarray(other))
            np.testing.assert_allclose(one.filled(0.0), other.filled(0.0), rtol=1e-12, atol=1e-15)
        assert [str(item) for item in found[name].reasons] == [str(item) for item in whole.reasons]


def test_parts_change_neither_draws_nor_descriptions(monkeypatch):
    a, b = stacks()
    measures = [MEASURES["pearson"], MEASURES["spearman"], MEASURES["cosine-about-1"]]
    pairs = Pairs.diagonal(ROWS)
    before = shuffle_draws(measures, a, b, pairs, draws=3, seed=1), describe_rows(a)
    monkeypatch.setattr("modelkin.describe.measures.stack.PART_VALUES", 2 * 64)
    a, b = stacks()
    after = shuffle_draws(measures, a, b, pairs, draws=3, seed=1), describe_rows(a)
    assert before[1] == after[1]
    for measure in measures:
        one, other = before[0][measure.name], after[0][measure.name]
        np.testing.assert_allclose(one.filled(9.0), other.filled(9.0), rtol=1e-12)


def test_memory_does_not_grow_with_the_number_of_long_vectors(monkeypatch):
    monkeypatch.setattr("modelkin.describe.measures.stack.PART_VALUES", 2 * 20_000)
    rows = np.random.default_rng(0).normal(size=(80, 20_000)).astype(np.float32)
    measures = [MEASURES[name] for name in ("cosine", "pearson", "relative-l2", "cosine-about-1")]
    peaks = []
    for n_layers in (10, 40):
        a, b = Stack(rows[:n_layers]), Stack(rows[40 : 40 + n_layers])
        tracemalloc.start()
        measured_all(measures, a, b, Pairs.diagonal(n_layers))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_one_long_vector_takes_few_copies_of_itself(monkeypatch):
    n = 100_000
    for module in ("stack", "_measure", "_functions"):
        monkeypatch.setattr(f"modelkin.describe.measures.{module}.PART_VALUES", n // 10)
    rows = np.random.default_rng(0).normal(0.5, 0.2, (2, 1, n)).astype(np.float32)
    names = ("cosine", "pearson", "mean-absolute-difference", "relative-l2", "p99-difference")
    pairs = Pairs.diagonal(1)
    whole = {
        name: measured(MEASURES[name], Stack(rows[0]), Stack(rows[1]), pairs, expect=True) for name in names
    }
    tracemalloc.start()
    found = measured_all(
        [MEASURES[name] for name in names], Stack(rows[0]), Stack(rows[1]), pairs, expect=True
    )
    copies = tracemalloc.get_traced_memory()[1] / (8 * n)
    tracemalloc.stop()
    for name in names:
        np.testing.assert_allclose(found[name].values, whole[name].values, rtol=1e-12)
        np.testing.assert_allclose(found[name].expected.filled(), whole[name].expected.filled(), rtol=1e-12)
    # Both sides in double precision, without their means, and as directions.
    assert copies < 6.5
