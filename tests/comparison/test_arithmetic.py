"""What arithmetic does to a model without moving its coordinates: the verdict stays right."""

import numpy as np
import pytest
from tests.places import ZOO
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab import derive, load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison import ControlResult
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource


@pytest.fixture(scope="module")
def zoo():
    return load_zoo(ZOO)


@pytest.fixture(scope="module")
def base(zoo):
    return zoo["base"].load()


def compared(candidate: Checkpoint, base: Checkpoint, *, dtype="BF16", base_dtype="BF16"):
    return mk.compare(
        candidate=MemorySource(candidate.files(dtype), name="candidate"),
        base=MemorySource(base.files(base_dtype), name="base"),
    )


def rng():
    return np.random.default_rng(5)


CHANGES = {
    "int8": lambda base, zoo: derive.round_to_int8(base),
    "int4": lambda base, zoo: derive.round_to_int4(base),
    "magnitude pruning": lambda base, zoo: derive.prune_by_magnitude(base, fraction=0.5),
    "noise": lambda base, zoo: derive.add_noise(base, size=0.3, rng=rng()),
    "linear merge": lambda base, zoo: derive.merge_linear([base, zoo["finetune-heavy"].load()], [0.5, 0.5]),
    "slerp merge": lambda base, zoo: derive.merge_slerp(base, zoo["finetune-light"].load(), t=0.4),
    "merge with a stranger": lambda base, zoo: derive.merge_linear([base, zoo["twin-1"].load()], [0.7, 0.3]),
    "vocabulary extension": lambda base, zoo: derive.extend_vocabulary(base, n_new=40, rng=rng()),
}


@pytest.mark.parametrize("change", every(4, CHANGES))
def test_a_changed_copy_is_still_known(change, base, zoo):
    verdict = compared(CHANGES[change](base, zoo), base).verdict
    assert verdict.conclusion is Conclusion.SHARED


@pytest.mark.parametrize("change", [change for change in CHANGES if "merge" not in change])
def test_the_same_change_does_not_make_a_stranger_a_relative(change, zoo, base):
    verdict = compared(CHANGES[change](base, zoo), zoo["twin-2"].load()).verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE


def test_a_cast_is_a_precision_copy(base):
    result = compared(base, base, dtype="F16", base_dtype="BF16")
    assert result.verdict.conclusion is Conclusion.SHARED
    assert result.relation.kind in ("copy", "precision-copy")


def test_a_partial_copy_is_partial_and_its_layers_are_named(base, zoo):
    child = derive.copy_parts(zoo["twin-1"].load(), base, parts=["mlp"], layers=(1, 2))
    verdict = compared(child, base).verdict
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.components["mlp"].layers == (1, 2)
    assert verdict.components["mlp"].other_layers == (0, 3)
    assert verdict.components["norms"].conclusion is Conclusion.NO_EVIDENCE


def test_folded_gains_are_not_applicable_never_evidence(base, zoo):
    one, other = derive.fold_gains(base), derive.fold_gains(zoo["twin-1"].load())
    result = compared(one, other)
    norms = [test for test in result.evidence if test.method == "norm-profile"]
    assert [test.status for test in norms] == ["skipped"]
    assert "constant" in str(norms[0].reason)
    assert result.verdict.conclusion is Conclusion.NO_EVIDENCE


@pytest.mark.parametrize("disguise", ["permute_residual", "rotate_residual"])
def test_a_disguise_is_not_undone_at_standard_depth_and_the_limits_say_so(disguise, base):
    verdict = compared(getattr(derive, disguise)(base, rng=rng()), base).verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert any("--depth deep undoes most of them" in str(line) for line in verdict.limitations)


def test_a_control_is_shown_and_a_relative_among_them_is_flagged(base, zoo):
    result = mk.compare(
        candidate=zoo["finetune-light"].folder.as_posix(),
        base=zoo["base"].folder.as_posix(),
        controls=[zoo[name].folder.as_posix() for name in ("twin-1", "finetune-heavy", "narrow")],
        options=mk.CompareOptions(depth="quick"),
    )
    by_control: dict[str, list[ControlResult]] = {}
    for item in result.controls:
        by_control.setdefault(item.pair[1].rsplit("/", 1)[-1], []).append(item)
    assert [item.usable for item in by_control["twin-1"]] == [True, True]
    assert all("relative itself" in str(item.reason) for item in by_control["finetune-heavy"])
    assert all("hidden sizes differ" in str(item.reason) for item in by_control["narrow"])
    assert all(item.effect is None for item in by_control["narrow"])


def test_a_budget_forbids_the_walk_over_all_values_and_not_the_answer(zoo):
    folder = str(ZOO / "base")
    size = mk.open_model(folder).index.n_bytes
    for budget, conclusion in ((2 * size, "shared"), (8 * size, "identical")):
        options = mk.CompareOptions(fetch=mk.FetchOptions(byte_budget=budget))
        result = mk.compare(candidate=folder, base=folder, options=options)
        assert result.relation.kind == "copy"
        assert result.verdict.conclusion.value == conclusion
        assert result.ledger.bytes_fetched <= 2 * budget


def test_the_walk_for_copies_is_in_the_ledger(base):
    result = compared(base, base, dtype="F16", base_dtype="BF16")
    read = {side: 0 for side in ("candidate", "base")}
    for item in result.ledger.ranges:
        read[item.model] += item.stop - item.start
    assert min(read.values()) > 0.9 * result.candidate.n_bytes
