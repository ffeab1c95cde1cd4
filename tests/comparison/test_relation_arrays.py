"""What arrays say about a change: directions, levels, steps, factors. At the widths of real models."""

from __future__ import annotations

import numpy as np
import pytest

from modelkin.comparison.alignment import match_units
from modelkin.comparison.relation.facing import FacingTensors
from modelkin.comparison.relation.lattice import find_lattice, level_steps
from modelkin.comparison.relation.measure import Block, measure
from modelkin.comparison.relation.orders import matched_rows
from modelkin.comparison.relation.scales import mixed_in_heads, with_factors
from modelkin.comparison.relation.spectrum import leading_direction, spectrum
from modelkin.comparison.relation.steps import effective_format, stored_steps
from modelkin.tensors import decode, encode

ROWS, WIDTH = 128, 4096


def bf16(values: np.ndarray) -> np.ndarray:
    return decode(encode(values, "BF16"), "BF16", values.size).reshape(values.shape)


@pytest.fixture(scope="module")
def weights() -> np.ndarray:
    return bf16(np.random.default_rng(0).standard_normal((ROWS, WIDTH), dtype=np.float32) * np.float32(0.02))


@pytest.mark.parametrize("rank", [1, 8, 32])
def test_the_rank_of_a_merged_adapter_is_counted_though_the_sum_was_rounded(weights, rank):
    rng = np.random.default_rng(rank)
    change = rng.standard_normal((ROWS, rank)) @ rng.standard_normal((rank, WIDTH))
    tuned = bf16((weights + 0.002 * change / np.sqrt(rank)).astype(np.float32))
    found = spectrum(tuned - weights, stored_steps(tuned, "BF16"), seed=0)
    assert found.rank == rank
    assert found.left < 1.2


def test_noise_has_no_rank_and_no_direction(weights):
    noise = np.random.default_rng(1).standard_normal(weights.shape).astype(np.float32)
    tuned = bf16(weights + np.float32(0.001) * noise)
    found = spectrum(tuned - weights, stored_steps(tuned, "BF16"), seed=0)
    assert found.rank is None
    assert found.over_chance == pytest.approx(1.0, abs=0.05)
    assert found.over_marchenko_pastur == pytest.approx(1.0, abs=0.05)


def test_noise_of_uneven_size_is_no_direction_either(weights):
    """Noise in proportion to each weight: random signs keep the sizes, the edge for equal sizes does not."""
    noise = np.random.default_rng(2).standard_normal(weights.shape).astype(np.float32)
    rows = np.exp(np.random.default_rng(3).standard_normal((ROWS, 1))).astype(np.float32)
    found = spectrum(rows * weights * noise, 1e-9, seed=0)
    assert found.over_chance == pytest.approx(1.0, abs=0.06)
    assert found.over_marchenko_pastur > 1.5


def test_many_directions_of_falling_size_are_neither_few_nor_chance(weights):
    rng = np.random.default_rng(4)
    sizes = 1 / np.sqrt(1 + np.arange(ROWS))
    change = (rng.standard_normal((ROWS, ROWS)) * sizes) @ rng.standard_normal((ROWS, WIDTH))
    tuned = bf16((weights + 0.0005 * change).astype(np.float32))
    found = spectrum(tuned - weights, stored_steps(tuned, "BF16"), seed=0)
    assert found.rank is None
    assert found.over_chance > 1.3


def test_the_leading_direction_is_the_one_that_was_put_in():
    rng = np.random.default_rng(5)
    direction = rng.standard_normal(ROWS)
    direction /= np.linalg.norm(direction)
    change = np.outer(direction, rng.standard_normal(WIDTH)) + 0.01 * rng.standard_normal((ROWS, WIDTH))
    assert abs(leading_direction(change.astype(np.float32)) @ direction) > 0.999


def quantised(values: np.ndarray, bits: int, group: int, *, symmetric: bool) -> np.ndarray:
    blocks = values.reshape(len(values), -1, group)
    if symmetric:
        step = np.abs(blocks).max(axis=2, keepdims=True) / (2 ** (bits - 1) - 1)
        made = np.round(blocks / step) * step
    else:
        low = blocks.min(axis=2, keepdims=True)
        step = (blocks.max(axis=2, keepdims=True) - low) / (2**bits - 1)
        made = np.round((blocks - low) / step) * step + low
    return np.asarray(made.reshape(values.shape), np.float32)


@pytest.mark.parametrize("dtype", ["F32", "F16"])
@pytest.mark.parametrize(("bits", "group"), [(4, 128), (4, 32), (3, 64), (8, WIDTH)])
@pytest.mark.parametrize("symmetric", [True, False])
def test_bits_group_and_symmetry_are_read_off_the_values(weights, bits, group, symmetric, dtype):
    made = quantised(weights[:16], bits, group, symmetric=symmetric)
    stored = decode(encode(made, dtype), dtype, made.size).reshape(made.shape).astype(np.float32)
    found = find_lattice(stored, lambda some: stored_steps(some, dtype))
    assert found is not None
    assert (found.bits, found.group) == (bits, group)
    assert found.levels == ("symmetric" if symmetric else "asymmetric")
    assert (np.abs(stored - weights[:16]) <= 1.02 * level_steps(stored, found)).mean() > 0.99


def test_groups_of_any_size_that_divides_a_line_are_found():
    values = np.random.default_rng(9).standard_normal((16, 96)).astype(np.float32)
    made = quantised(values, 4, 24, symmetric=False)
    found = find_lattice(made, lambda some: stored_steps(some, "F32"))
    assert found is not None
    assert (found.bits, found.group) == (4, 24)


def test_four_bits_are_seen_in_bf16_too(weights):
    stored = bf16(quantised(weights[:16], 4, 128, symmetric=True))
    found = find_lattice(stored, lambda some: stored_steps(some, "BF16"))
    assert found is not None
    assert (found.bits, found.group) == (4, 128)


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_plain_weights_lie_on_no_levels(dtype):
    values = np.random.default_rng(6).standard_normal((24, WIDTH)).astype(np.float32)
    stored = decode(encode(values, dtype), dtype, values.size).reshape(values.shape).astype(np.float32)
    assert find_lattice(stored, lambda some: stored_steps(some, dtype)) is None


@pytest.mark.parametrize("border", [0.02, 0.032])
def test_plain_weights_with_zeros_lie_on_no_levels(weights, border):
    made = np.where(np.abs(weights) < border, 0, weights).astype(np.float32)
    assert find_lattice(made, lambda some: stored_steps(some, "BF16")) is None


def test_values_of_a_coarse_format_stay_so_in_a_finer_one(weights):
    assert effective_format(weights, "F32") == "BF16"
    assert effective_format(weights, "BF16") == "BF16"
    fine = (weights * np.float32(1.0001)).astype(np.float32)
    assert effective_format(fine, "F32") == "F32"


def test_a_step_grows_with_the_number():
    """A gain of 0.6 in BF16 needs a change of 0.002 to become another number, one of 0.4 half of that."""
    steps = stored_steps(np.array([0.4, 0.6, 1.5, -0.4], np.float32), "BF16")
    np.testing.assert_allclose(steps, [2.0**-9, 2.0**-8, 2.0**-7, 2.0**-9])


def test_factors_of_rows_and_columns_are_undone_and_training_is_not():
    rng = np.random.default_rng(7)
    base = rng.standard_normal((64, 512)).astype(np.float32)
    factors = np.exp(0.5 * rng.standard_normal((64, 1))), np.exp(0.5 * rng.standard_normal(512))
    scaled = (factors[0] * base * factors[1]).astype(np.float32)
    fitted, better = with_factors(scaled, base)
    assert better
    np.testing.assert_allclose(fitted, scaled, rtol=1e-3)
    trained = base + 0.3 * rng.standard_normal(base.shape).astype(np.float32)
    assert with_factors(trained, base)[1] is False


def test_mixtures_inside_of_heads_are_undone():
    rng = np.random.default_rng(8)
    base = rng.standard_normal((64, 512)).astype(np.float32)
    mixed = np.concatenate(
        [rng.standard_normal((16, 16)) @ base[start : start + 16] for start in range(0, 64, 16)]
    ).astype(np.float32)
    fitted, better = mixed_in_heads(mixed, base, 16)
    assert better
    np.testing.assert_allclose(fitted, mixed, atol=1e-3)
    assert mixed_in_heads(rng.standard_normal(base.shape).astype(np.float32), base, 16)[1] is False


@pytest.mark.parametrize("noise", [0.05, 0.8, 3.0])
def test_rows_are_matched_by_some_numbers_as_by_all(noise):
    """Little noise leaves no doubt, more of it some, and most of it nothing that is found at once."""
    rng = np.random.default_rng(3)
    base = rng.standard_normal((96, 2048), dtype=np.float32)
    order = rng.permutation(96)
    mine = base[order] + np.float32(noise) * rng.standard_normal((96, 2048), dtype=np.float32)
    mine[5] = 0.0
    mine[:48] *= -1.0
    found, by_all = matched_rows(mine, base, seed=0), match_units(mine, base, seed=0, sign_free=True)
    assert np.array_equal(found.places, by_all.places)
    assert np.array_equal(np.delete(found.places, 5), np.delete(order, 5))
    assert np.allclose(found.cosines, by_all.cosines, atol=1e-5)
    assert found.places[5] == -1


def test_rows_that_are_all_in_place_are_not_searched_for(monkeypatch):
    rng = np.random.default_rng(3)
    base = rng.standard_normal((96, 2048), dtype=np.float32)
    mine = base + np.float32(0.5) * rng.standard_normal((96, 2048), dtype=np.float32)
    mine[:48] *= -1.0
    by_all = match_units(mine, base, seed=0, sign_free=True)
    with monkeypatch.context() as patched:
        patched.setattr("modelkin.comparison.relation.orders.match_units", None)
        found = matched_rows(mine, base, seed=0)
    assert np.array_equal(found.places, by_all.places)
    assert np.allclose(found.cosines, by_all.cosines, atol=1e-5)


def test_steps_are_those_of_numbers_taken_apart():
    values = np.array([2.0**-126, 1.0, -1.5, 0.75, 3e38, np.inf], np.float32)
    for dtype, digits in (("BF16", 8), ("F32", 24)):
        apart = np.ldexp(np.float32(1.0), np.frexp(values)[1] - digits)
        assert np.array_equal(stored_steps(values, dtype), apart.astype(np.float32))


def test_steps_are_smallest_at_zero():
    values = np.array([0.0, -0.0, 1e-40, 2.0**-126], np.float32)
    for dtype, least in (("BF16", 2.0**-133), ("F32", 2.0**-149), ("F16", 2.0**-24), ("F8_E4M3", 2.0**-9)):
        assert stored_steps(values, dtype).tolist() == [least] * 4


@pytest.mark.parametrize(("noise", "rank"), [(1.2, 4), (1.9, None)])
def test_a_rank_counts_if_no_more_than_rounding_is_left(noise, rank):
    """Uniform numbers within a step have the size that rounding leaves; here they are larger by a factor."""
    rng = np.random.default_rng(6)
    change = rng.standard_normal((ROWS, 4)) @ rng.standard_normal((4, 1024))
    left = noise * rng.uniform(-0.5, 0.5, change.shape)
    assert spectrum((20 * change + left).astype(np.float32), 1.0, seed=0).rank == rank


def changed(candidate: np.ndarray, base: np.ndarray) -> str:
    facing = FacingTensors(
        candidate="a", base="b", role="mlp_up", component="mlp", layer=0, base_layer=0, expert=None
    )
    block = Block(
        facing=facing,
        candidate=candidate.astype(np.float32),
        base=base.astype(np.float32),
        dtypes=("F32", "F32"),
        whole=False,
    )
    found = measure(block, seed=0)
    assert found is not None
    return found.what


@pytest.mark.parametrize(("share", "what"), [(0.01, "edited"), (0.04, "sparse"), (0.25, "sparse")])
def test_more_zeros_than_levels_leave_are_sparse(weights, share, what):
    kept = np.random.default_rng(7).random(weights.shape) >= share
    assert changed(weights * kept, weights) == what


@pytest.mark.parametrize(("correlation", "is_unlike"), [(0.15, True), (0.25, False)])
def test_tensors_are_unlike_below_a_correlation_of_a_fifth(weights, correlation, is_unlike):
    other = np.random.default_rng(8).standard_normal(weights.shape) * weights.std()
    mixed = correlation * weights + np.sqrt(1 - correlation**2) * other
    assert (changed(mixed, weights) == "unlike") == is_unlike


@pytest.mark.parametrize(("along", "what"), [(0.06, "noise"), (0.08, "trained")])
def test_a_direction_above_chance_is_no_noise(weights, along, what):
    """The largest singular value exceeds that of random signs by 9 and by 20 percent."""
    rng = np.random.default_rng(9)
    noise = rng.standard_normal(weights.shape)
    ways = [side / np.linalg.norm(side) for side in (rng.standard_normal(n) for n in weights.shape)]
    change = noise + along * np.linalg.norm(noise) * np.outer(*ways)
    assert changed(weights + 0.001 * change, weights) == what


def test_a_matrix_is_held_no_longer_than_it_is_used(monkeypatch):
    """Whole layers of wide models take gigabytes: what is held at a time is a few matrices, not a layer."""
    from tests.support import LlamaShape, llama_config, llama_tensors

    import modelkin as mk
    from modelkin.casework.lab import derive
    from modelkin.casework.lab.checkpoint import Checkpoint
    from modelkin.comparison.relation import orders
    from modelkin.source import MemorySource

    shape = LlamaShape(layers=2, hidden=64, mlp=128, heads=4, kv_heads=4, vocab=128)
    base = Checkpoint(config=llama_config(shape), tensors=llama_tensors(shape, seed=1))
    copy = derive.permute_mlp_units(base, rng=np.random.default_rng(5))
    held: list[int] = []
    one = orders.Matrices.one

    def counted(self, *arguments):
        found = one(self, *arguments)
        held.append(len(self.kept))
        return found

    monkeypatch.setattr(orders.Matrices, "one", counted)
    sides = [MemorySource(item.files("F32"), name=name) for name, item in (("c", copy), ("b", base))]
    found = mk.diff(candidate=sides[0], base=sides[1], options=mk.CompareOptions(depth="deep"))
    assert {item.what for item in found.tensors} == {"equal"}
    assert held
    assert max(held) <= 8  # three pairs that orders were found from, and the one that is compared
