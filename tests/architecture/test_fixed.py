"""Computed tables are told apart from trained numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkin.architecture import is_fixed_table, looks_fixed


def sinusoid(rows: int, columns: int, *, interleaved: bool) -> np.ndarray:
    angles = np.arange(rows)[:, None] * 10000.0 ** (-np.arange(columns // 2) / (columns // 2))
    if not interleaved:
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    table = np.empty((rows, columns))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


def as_bfloat16(values: np.ndarray) -> np.ndarray:
    """Cut to the precision of bfloat16."""
    bits = values.astype(np.float32).view(np.uint32) + np.uint32(0x8000)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


FREQUENCIES = 10000.0 ** (-np.arange(0, 64, 2) / 64)

TABLES: dict[str, tuple[np.ndarray, str]] = {
    "ones": (np.ones(16), "constant 1"),
    "zeros": (np.zeros((3, 4)), "constant 0"),
    "one value": (np.array([-1e4], dtype=np.float32), "constant -10000"),
    "position ids": (np.arange(64)[None], "consecutive integers"),
    "counting from two": (np.arange(2, 66), "consecutive integers"),
    "mask of zeros and ones": (np.tril(np.ones((1, 1, 8, 8), dtype=bool)), "causal mask"),
    "mask of infinities": (np.triu(np.full((8, 8), -np.inf), 1), "causal mask"),
    "frequencies": (FREQUENCIES, "geometric sequence (RoPE frequencies)"),
    "frequencies, half precision": (FREQUENCIES.astype(np.float16), "geometric sequence (RoPE frequencies)"),
    "frequencies, bfloat16": (as_bfloat16(FREQUENCIES), "geometric sequence (RoPE frequencies)"),
    "whisper": (sinusoid(50, 32, interleaved=False), "sinusoid table (sines first, then cosines)"),
    "whisper, bfloat16": (
        as_bfloat16(sinusoid(50, 32, interleaved=False)),
        "sinusoid table (sines first, then cosines)",
    ),
    "marian": (sinusoid(50, 32, interleaved=True), "sinusoid table (sines and cosines alternating)"),
}


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_told(table):
    values, what = TABLES[table]
    assert str(looks_fixed(values)) == what


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 40),
    columns=st.integers(4, 40),
    kind=st.sampled_from(["normal", "gain", "small"]),
)
def test_random_numbers_are_not_told(seed, rows, columns, kind):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, columns))
    if kind == "gain":
        values = 1 + 0.05 * values
    elif kind == "small":
        values *= 0.02
    assert looks_fixed(values) is None
    assert looks_fixed(values[0]) is None


def test_a_sinusoid_that_was_trained_is_no_table():
    table = sinusoid(50, 32, interleaved=False)
    assert looks_fixed(table + 0.2 * np.random.default_rng(0).normal(size=table.shape)) is None


def test_too_few_numbers_are_only_told_if_constant():
    assert looks_fixed(np.array([1.0, 0.5, 0.25])) is None
    assert str(looks_fixed(np.array([2.0, 2.0]))) == "constant 2"


@pytest.mark.parametrize(
    "values", [np.array([]), np.array(["a", "b"]), np.array([np.nan, 1, 2, 3]), np.full(5, np.nan)]
)
def test_odd_arrays_are_survived(values):
    assert looks_fixed(values) is None


@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("model.layers.0.self_attn.rotary_emb.inv_freq", True),
        ("embeddings.position_ids", True),
        ("position_ids", True),
        ("model.layers.0.self_attn.q_proj.weight", False),
        ("model.my_position_ids", False),
        ("", False),
    ],
)
def test_tables_are_told_by_name(name, fixed):
    assert is_fixed_table(name) is fixed
