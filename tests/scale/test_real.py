"""Published weights at real width: copies are found whatever was done to them, strangers never."""

from __future__ import annotations

import pytest
from tests.scale.measured import measure, problems
from tests.scale.real_rows import DEPTHS, Expected, folder_of, models, rows_of

MOST_MEMORY_MB = 2_000
"""Of the process that compares, deriving included."""
TURNED_MB = {"rotation": 800, "everything": 800}
"""What candidates hold whose residual stream was turned: all that writes into it, in four wide layers."""
ROWS = [(model, row) for model in models() for row in rows_of(model)]


@pytest.mark.scale
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("model", "row"), ROWS, ids=[f"{model}-{row.name}" for model, row in ROWS])
def test_what_was_done_to_published_weights_is_told(model, row, depth):
    for needed in {model, row.of or model}:
        folder_of(needed)  # skips where it is not there
    found = measure(model, row.name, depth)
    assert problems(row.expected[depth], found) == []
    assert found["peak_mb"] < MOST_MEMORY_MB + TURNED_MB.get(row.name, 0)


FOUND = {
    "related": True,
    "components": {"mlp": {"conclusion": "shared", "layers": [0, 1]}},
    "faces": {"0": 0, "1": 2},
    "residual": "identity",
}


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        (Expected(related=False), "related is True"),
        (Expected(related=True, shared={"attention": 0}), "attention was not found"),
        (Expected(related=True, shared={"mlp": frozenset({0, 3})}), "mlp was found in layers"),
        (Expected(related=True, shared={"mlp": 3}), "expected 3 of them"),
        (Expected(related=True, absent=frozenset({"mlp"})), "mlp was found, and is not there"),
        (Expected(related=True, faces={1: 1}), "layer 1 faces 2"),
        (Expected(related=True, residual="rotation"), "paired by identity"),
    ],
)
def test_a_wrong_answer_is_noticed(expected, problem):
    (found,) = problems(expected, FOUND)
    assert problem in found


def test_a_right_answer_is_no_problem():
    right = Expected(
        related=True, shared={"mlp": frozenset({0}), }, absent=frozenset({"attention"}), faces={1: 2}
    )  # fmt: skip
    assert problems(right, FOUND) == []


def test_every_base_has_strangers_and_relatives():
    for model in models():
        related = {row.expected["deep"].related for row in rows_of(model)}
        assert related == {True, False}
        names = [row.name for row in rows_of(model)]
        assert len(names) == len(set(names))
