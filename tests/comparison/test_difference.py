"""What changed, tensor by tensor: records, every value, and bounded memory."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from tests.places import ZOO

import modelkin as mk
from modelkin.comparison.relation.tally import kernels
from modelkin.comparison.verdict import Conclusion
from modelkin.document import diff_view, load_language, render_markdown
from modelkin.document.results import schema
from modelkin.errors import FormatError, UsageError
from modelkin.formats.safetensors import RawTensor, safetensors_bytes
from modelkin.source import MemorySource
from modelkin.tensors import decode, encode


@pytest.fixture(scope="module")
def adapted() -> mk.ModelDiff:
    options = mk.CompareOptions(depth="full")
    return mk.diff(candidate=str(ZOO / "lora"), base=str(ZOO / "base"), options=options)


def test_a_diff_follows_its_schema_and_comes_back_equal(adapted):
    text = adapted.to_json()
    jsonschema.validate(json.loads(text), schema("modelkin.diff/1"))
    assert mk.ModelDiff.from_json(text) == adapted
    with pytest.raises(FormatError, match=r"expected the schema modelkin\.diff/1"):
        mk.ModelDiff.from_json('{"schema": "modelkin.comparison/1"}')


def test_every_value_is_counted(adapted):
    with mk.open_model(str(ZOO / "lora")) as mine, mk.open_model(str(ZOO / "base")) as theirs:
        assert {item.tensor for item in adapted.counts} == set(mine.index)
        for item in adapted.counts[::7]:
            left, right = mine.tensor(item.tensor), theirs.tensor(item.tensor)
            assert item.values == left.size
            assert item.equal == np.count_nonzero(left == right)
            expected = np.linalg.norm(left - right) / np.linalg.norm(right)
            assert item.relative_change == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kernel", kernels().values(), ids=kernels())
@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_steps_between_values_are_those_of_the_next_numbers(dtype, kernel):
    """Against a walk over neighbours: a step up or down changes the stored bits of a magnitude by one."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal(150_000).astype(np.float32)
    unsigned: Any = np.uint32 if dtype == "F32" else np.uint16
    bits = np.frombuffer(encode(base, dtype), unsigned).copy()
    moved = rng.integers(0, 40, bits.size).astype(unsigned)
    other = bits + moved
    found = kernel(other, bits, dtype)
    assert found.values == bits.size
    assert found.equal == np.count_nonzero(moved == 0)
    assert found.near == np.count_nonzero(moved <= 1)
    assert found.nearby == np.count_nonzero(moved <= 16)
    left, right = (decode(side.tobytes(), dtype, side.size).astype(np.float64) for side in (other, bits))
    assert found.difference == pytest.approx(np.sum((left - right) ** 2), rel=1e-4)
    assert found.base == pytest.approx(np.sum(right**2), rel=1e-5)
    assert found.largest == pytest.approx(np.abs(left - right).max(), rel=1e-6)


@pytest.mark.parametrize("kernel", kernels().values(), ids=kernels())
def test_zero_has_two_signs_which_are_neighbours(kernel):
    bits = np.array([0x0000, 0x8000], np.uint16)
    found = kernel(bits[:1], bits[1:], "BF16")
    assert (found.equal, found.near, found.zeros, found.base_zeros) == (0, 1, 1, 1)


@pytest.mark.parametrize("kernel", kernels().values(), ids=kernels())
@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("what", ["equal", "some", "across zero", "infinite", "odd"])
def test_every_way_of_counting_agrees_with_numbers_taken_one_by_one(kernel, dtype, what):
    rng = np.random.default_rng(3)
    unsigned: Any = np.uint32 if dtype == "F32" else np.uint16
    n = 9_001 if what == "odd" else 12_288
    base = np.frombuffer(encode(rng.standard_normal(n).astype(np.float32), dtype), unsigned).copy()
    base[5:50] = 0
    other = base.copy()
    if what != "equal":
        other[4096:4100] += unsigned(3)  # one block of several differs
    if what == "across zero":
        sign = unsigned(1 << (8 * base.itemsize - 1))
        other[10:40] = sign | rng.integers(0, 20, 30).astype(unsigned)
    if what == "infinite":
        other[7_000] = np.frombuffer(encode(np.array([np.inf], np.float32), dtype), unsigned)[0]
    if what == "odd":
        other[-1] += unsigned(1)
    found = kernel(other, base, dtype)
    bits = 8 * base.itemsize - 1
    signed = [side.astype(np.int64) for side in (other, base)]
    ordered = [np.where(side >> bits, -1 - (side & ((1 << bits) - 1)), side) for side in signed]
    apart = np.abs(ordered[0] - ordered[1])
    left, right = (decode(side.tobytes(), dtype, n).astype(np.float64) for side in (other, base))
    assert (found.values, found.equal) == (n, np.count_nonzero(apart == 0))
    assert (found.near, found.nearby) == tuple(np.count_nonzero(apart <= reach) for reach in (1, 16))
    assert (found.zeros, found.base_zeros) == (np.count_nonzero(left == 0), np.count_nonzero(right == 0))
    assert found.base == pytest.approx(np.sum(right**2), rel=1e-5)
    assert found.difference == pytest.approx(np.sum((left - right) ** 2), rel=1e-4)
    assert found.largest == pytest.approx(np.abs(left - right).max(), rel=1e-6)


def test_the_record_says_which_bytes_have_no_digest(adapted):
    bare = [item for item in adapted.ledger.ranges if not item.sha256]
    assert {item.file for item in bare} == {"model.safetensors"}
    notes = [note for note in adapted.notes if note.code == "without-digest"]
    assert [note["n"] for note in notes] == [sum(item.n_bytes for item in bare)]


def test_digests_are_there_when_asked_for():
    options = mk.CompareOptions(depth="full")
    found = mk.diff(candidate=str(ZOO / "lora"), base=str(ZOO / "base"), options=options, digests=True)
    assert all(item.sha256 for item in found.ledger.ranges)
    data = (ZOO / "lora" / "model.safetensors").read_bytes()
    mine = [
        item for item in found.ledger.ranges if item.model == "candidate" and item.file == "model.safetensors"
    ]
    assert all(hashlib.sha256(data[item.start : item.stop]).hexdigest() == item.sha256 for item in mine)
    assert "without-digest" not in [note.code for note in found.notes]


def test_files_that_are_equal_to_the_last_bit_are_walked_over_once_to_know_it(monkeypatch):
    def again(*models: object) -> bool:
        raise AssertionError("every value was counted before")

    monkeypatch.setattr("modelkin.comparison.identity.same_bits", again)
    options = mk.CompareOptions(depth="full")
    found = mk.diff(candidate=str(ZOO / "base"), base=str(ZOO / "base"), options=options)
    assert found.verdict.conclusion is Conclusion.IDENTICAL


def test_a_diff_needs_more_than_gains():
    with pytest.raises(UsageError, match="nothing is subtracted at depth quick"):
        mk.diff(candidate=str(ZOO / "lora"), base=str(ZOO / "base"), options=mk.CompareOptions(depth="quick"))


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_report_names_the_kind_and_every_component(adapted, language, tmp_path):
    texts = load_language(language)
    text = render_markdown(diff_view(adapted, texts))
    assert texts.word("relation", "low-rank").lower() in text.lower()
    for component in ("attention", "mlp", "embedding"):
        assert texts.word("component", component) in text
    adapted.write(str(tmp_path), language=language)
    assert {path.name for path in tmp_path.iterdir()} >= {
        "diff.json",
        "report.html",
        "REPORT.md",
        "tensors.csv",
    }
    assert (tmp_path / "figures" / "change.svg").stat().st_size > 1000


def large(changed: bool) -> MemorySource:
    rng = np.random.default_rng(0)
    shape = (4096, 4096)
    tensors, bits = {}, rng.integers(0x3C00, 0x3E00, shape, dtype=np.uint16)
    for layer in range(6):
        other = bits + np.uint16(changed and layer % 2)
        tensors[f"model.layers.{layer}.mlp.down_proj.weight"] = RawTensor("BF16", shape, other.tobytes())
    return MemorySource({"model.safetensors": safetensors_bytes(tensors), "config.json": b"{}"})


@pytest.mark.more
def test_counting_every_value_takes_bounded_memory():
    from modelkin.comparison.relation import count_tensors

    with mk.open_model(large(False)) as mine, mk.open_model(large(True)) as theirs:
        _ = mine.index, theirs.index
        tracemalloc.start()
        counts = count_tensors(theirs, mine)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert [item.equal for item in counts] == [4096 * 4096, 0] * 3
    assert [item.within_1_ulp for item in counts] == [4096 * 4096] * 6
    assert peak < 230_000_000  # both models are 403 MB; what is read ahead is most of it


def test_changes_of_codes_are_not_told_in_steps(adapted):
    """How far apart codes are depends on their scales; steps of a float would be hundreds of thousands."""
    coded = replace(adapted, tensors=tuple(replace(item, dtype="INT8") for item in adapted.tensors))
    plain, told = (render_markdown(diff_view(item, load_language("en"))) for item in (adapted, coded))

    def steps(text):
        rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line]
        titles = next(row for row in rows if "in steps" in row)
        told = [row for row in rows if row[1] in ("mlp", "attention") and len(row) == len(titles)]
        return {row[titles.index("in steps")] for row in told}

    assert "-" not in steps(plain)
    assert steps(told) == {"-"}
