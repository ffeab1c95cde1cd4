"""Units of every layout end up as the same rows, at the cost of just the bytes needed."""

import numpy as np
import pytest

from modelkin.architecture import Role, RoleEntry, Segment
from modelkin.comparison.methods.blocks import UnitChoice, n_features, n_units, spread, unit_axis, unit_block
from modelkin.tensors import TensorInfo, plan_slice

MATRIX = np.arange(24 * 10, dtype=np.float32).reshape(24, 10)  # 24 units, 10 features


def entry(axes, segment=None, *, transposed=False):
    return RoleEntry(
        tensor="w",
        role=Role.MLP_GATE,
        part="weight",
        component="mlp",
        stack="decoder",
        layer=0,
        expert=None,
        axes=axes,
        segment=segment,
        transposed=transposed,
        fixed=False,
    )


def info_of(stored):
    return TensorInfo(name="w", dtype="F32", shape=stored.shape, file="f", start=0, stop=stored.nbytes)


def read(block, stored):
    plan = plan_slice(block.slice, info_of(stored))
    data = stored.tobytes()
    flat = np.concatenate([np.frombuffer(data[r.start : r.stop], np.float32) for r in plan.ranges["f"]])
    return block.matrix(flat), sum(r.length for r in plan.ranges["f"])


CHOICE = UnitChoice(first_unit=5, n_units=7, first_feature=0, n_features=10)
WINDOW = UnitChoice(first_unit=5, n_units=7, first_feature=2, n_features=4)


def test_plain_rows():
    block = unit_block(entry((("mlp",), ("residual",))), info_of(MATRIX), space="mlp", choice=CHOICE)
    rows, cost = read(block, MATRIX)
    np.testing.assert_array_equal(rows, MATRIX[5:12])
    assert cost == 7 * 10 * 4


def test_both_layouts_give_the_same_window_of_features():
    block = unit_block(entry((("mlp",), ("residual",))), info_of(MATRIX), space="mlp", choice=WINDOW)
    np.testing.assert_array_equal(read(block, MATRIX)[0], MATRIX[5:12, 2:6])


def test_units_along_columns_are_read_by_features():
    stored = np.ascontiguousarray(MATRIX.T)
    block = unit_block(entry((("residual",), ("mlp",))), info_of(stored), space="mlp", choice=WINDOW)
    rows, cost = read(block, stored)
    np.testing.assert_array_equal(rows, MATRIX[5:12, 2:6])
    assert cost == 4 * 24 * 4


def test_a_concatenated_part_is_read_alone():
    stored = np.concatenate([np.zeros_like(MATRIX), MATRIX])
    segment = Segment(axis=0, offset=24, length=24, stride=48, n_groups=1)
    block = unit_block(entry((("mlp",), ("residual",)), segment), info_of(stored), space="mlp", choice=CHOICE)
    rows, cost = read(block, stored)
    np.testing.assert_array_equal(rows, MATRIX[5:12])
    assert cost == 7 * 10 * 4


def test_interleaved_columns_are_taken_apart():
    stored = np.zeros((10, 48), np.float32)
    stored[:, 1::2] = MATRIX.T
    segment = Segment(axis=1, offset=1, length=1, stride=2, n_groups=24)
    block = unit_block(entry((("residual",), ("mlp",)), segment), info_of(stored), space="mlp", choice=WINDOW)
    np.testing.assert_array_equal(read(block, stored)[0], MATRIX[5:12, 2:6])


def test_interleaved_rows_are_taken_apart():
    stored = np.zeros((48, 10), np.float32)
    stored[1::2] = MATRIX
    segment = Segment(axis=0, offset=1, length=1, stride=2, n_groups=24)
    block = unit_block(entry((("mlp",), ("residual",)), segment), info_of(stored), space="mlp", choice=CHOICE)
    np.testing.assert_array_equal(read(block, stored)[0], MATRIX[5:12])


@pytest.mark.parametrize("expert", [0, 2])
def test_one_of_stacked_experts(expert):
    stored = np.stack([MATRIX + 1000 * number for number in range(3)])
    layout = entry((("experts",), ("expert_mlp",), ("residual",)))
    block = unit_block(layout, info_of(stored), space="expert_mlp", choice=CHOICE, expert=expert)
    rows, cost = read(block, stored)
    np.testing.assert_array_equal(rows, MATRIX[5:12] + 1000 * expert)
    assert cost == 7 * 10 * 4


def test_stacked_experts_need_a_name():
    layout = entry((("experts",), ("expert_mlp",), ("residual",)))
    with pytest.raises(ValueError, match="an expert must be named"):
        unit_block(layout, info_of(np.zeros((2, 24, 10))), space="expert_mlp", choice=CHOICE)


def test_a_space_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no axis 'v_dim'"):
        unit_block(entry((("mlp",), ("residual",))), info_of(MATRIX), space="v_dim", choice=CHOICE)
    assert unit_axis(entry((("mlp",), ("residual",))), "v_dim") is None


def test_counts_follow_the_part_not_the_tensor():
    segment = Segment(axis=0, offset=0, length=8, stride=24, n_groups=1)
    layout = entry((("mlp",), ("residual",)), segment)
    assert n_units(layout, info_of(MATRIX), "mlp") == 8
    assert n_features(layout, info_of(MATRIX), "mlp") == 10


def test_layers_are_spread_over_the_depth():
    assert spread(32, 4) == (0, 10, 21, 31)
    assert spread(2, 4) == (0, 1)
    assert spread(9, 1) == (4,)
    assert spread(0, 4) == ()
