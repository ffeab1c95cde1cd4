"""Cards that tell the truth are not contradicted, whatever kind the weights look like."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from tests.lineage.models import loaded

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.subtracted import Changed, subtracted
from modelkin.lineage.cards.kinds import derivative_status, is_certain_copy, relation_status
from modelkin.lineage.cards.result import CheckedClaim
from modelkin.options import Depth
from modelkin.source import MemorySource

Floats = npt.NDArray[np.float32]
Change = Callable[[Floats, np.random.Generator], npt.NDArray[np.floating]]
HERE = mk.FetchOptions(use_store=False, offline=True)
MATRICES = "proj"


def changed(model: Checkpoint, change: Change, names: str = MATRICES) -> Checkpoint:
    """Change the matrices whose names have a pattern."""
    rng = np.random.default_rng(5)
    made = {
        name: change(array, rng).astype(np.float32)
        for name, array in model.tensors.items()
        if array.ndim == 2 and re.search(names, name)
    }
    return model.with_tensors({**model.tensors, **made})


def sized(change: npt.NDArray[np.floating], array: Floats, size: float) -> npt.NDArray[np.floating]:
    return np.asarray(change * (size * np.linalg.norm(array) / np.linalg.norm(change)))


def drawn(array: Floats, rank: int, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    return rng.standard_normal((array.shape[0], rank)) @ rng.standard_normal((rank, array.shape[1]))


def lora(rank: int) -> Change:
    return lambda array, rng: array + sized(drawn(array, rank, rng), array, 0.1)


def dora(array: Floats, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """Add a low rank, and give the rows lengths of their own."""
    made = lora(4)(array, rng)
    lengths = np.linalg.norm(array, axis=1) * (1 + 0.02 * rng.standard_normal(len(array)))
    return np.asarray(made * (lengths / np.linalg.norm(made, axis=1))[:, None])


def loha(array: Floats, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """Add the product, number by number, of two low ranks."""
    return array + sized(drawn(array, 8, rng) * drawn(array, 8, rng), array, 0.1)


def oft(array: Floats, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """Rotate inputs a little, in blocks of sixteen."""
    made = array.astype(np.float64)
    for start in range(0, array.shape[1] - 15, 16):
        skew = 0.05 * rng.standard_normal((16, 16))
        skew -= skew.T
        turn = np.linalg.solve(np.eye(16) + skew, np.eye(16) - skew)
        made[:, start : start + 16] = made[:, start : start + 16] @ turn
    return made


def ia3(array: Floats, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    return array * (1 + 0.05 * rng.standard_normal((len(array), 1)))


def on_levels(bits: int) -> Change:
    """Round to even levels in groups of 32 along lines."""

    def rounded(array: Floats, _: np.random.Generator) -> npt.NDArray[np.floating]:
        groups = array.reshape(-1, 32)
        step = np.abs(groups).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
        step = np.where(step > 0, step, 1)
        return (np.round(groups / step) * step).reshape(array.shape)

    return rounded


def vector_codes(array: Floats, rng: np.random.Generator) -> npt.NDArray[np.floating]:
    """Take the nearest of 256 vectors for every two numbers, where some inputs count more than others.

    What is dequantised from such codes lies on no levels.
    """
    weights = np.exp(1.5 * rng.standard_normal(array.shape[1])).reshape(-1, 2)
    rows = array.reshape(len(array), -1, 2)
    vectors = rows.reshape(-1, 2)
    heavy = np.broadcast_to(weights, rows.shape).reshape(-1, 2)
    book = vectors[rng.choice(len(vectors), 256, replace=len(vectors) < 256)].copy()
    for _ in range(4):
        apart = (heavy @ (book.T**2)) - 2 * (heavy * vectors) @ book.T
        nearest = apart.argmin(axis=1)
        for code in np.unique(nearest):
            at = nearest == code
            book[code] = (heavy[at] * vectors[at]).sum(axis=0) / heavy[at].sum(axis=0)
    return np.asarray(book[nearest].reshape(array.shape))


def padded(model: Checkpoint, units: int) -> Checkpoint:
    """Add units of zeros to every MLP, as quantisers do whose groups have to divide the width."""
    made = dict(model.tensors)
    for name, array in model.tensors.items():
        if "gate_proj" in name or "up_proj" in name:
            made[name] = np.pad(array, ((0, units), (0, 0)))
        elif "down_proj" in name:
            made[name] = np.pad(array, ((0, 0), (0, units)))
    size = model.config["intermediate_size"]
    assert isinstance(size, int)
    config = {**model.config, "intermediate_size": size + units}
    return replace(model, config=config).with_tensors(made)


def with_head(model: Checkpoint) -> Checkpoint:
    """Add a trained head to weights that were frozen."""
    head = np.random.default_rng(1).standard_normal((2, 96)).astype(np.float32)
    return model.with_tensors({**model.tensors, "score.weight": head})


def with_tables_of(model: Checkpoint, other: str) -> Checkpoint:
    tables = {
        name: array for name, array in loaded(other).tensors.items() if re.search("embed|lm_head", name)
    }
    return model.with_tensors({**model.tensors, **tables})


def with_permuted_units(model: Checkpoint) -> Checkpoint:
    return derive.permute_mlp_units(model, rng=np.random.default_rng(1))


HONEST: dict[str, tuple[str, Callable[[Checkpoint], Checkpoint]]] = {
    "lora-4": ("adapter", lambda base: changed(base, lora(4))),
    "lora-40": ("adapter", lambda base: changed(base, lora(40))),
    "lora-40-with-tables": (
        "adapter",
        lambda base: with_tables_of(changed(base, lora(40)), "finetune-heavy"),
    ),
    "lora-of-queries": ("adapter", lambda base: changed(base, lora(4), "q_proj|v_proj")),
    "dora": ("adapter", lambda base: changed(base, dora)),
    "loha": ("adapter", lambda base: changed(base, loha)),
    "oft": ("adapter", lambda base: changed(base, oft)),
    "ia3": ("adapter", lambda base: changed(base, ia3, "k_proj|v_proj|up_proj")),
    "lora-on-levels": ("adapter", lambda base: changed(changed(base, lora(4)), on_levels(4))),
    "lora-padded": ("adapter", lambda base: padded(changed(base, lora(4)), 32)),
    "levels-4": ("quantized", lambda base: changed(base, on_levels(4))),
    "levels-2": ("quantized", lambda base: changed(base, on_levels(2))),
    "vector-codes": ("quantized", lambda base: changed(base, vector_codes)),
    "levels-padded": ("quantized", lambda base: changed(padded(base, 32), on_levels(4))),
    "levels-reordered": ("quantized", lambda base: with_permuted_units(changed(base, on_levels(4)))),
    "light": ("finetune", lambda _: loaded("finetune-light")),
    "light-on-levels": ("finetune", lambda _: changed(loaded("finetune-light"), on_levels(4))),
    "slight-on-levels": (
        "finetune",
        lambda base: changed(changed(base, lambda a, g: a + sized(drawn(a, 96, g), a, 0.002)), on_levels(4)),
    ),
    "frozen-with-head": ("finetune", with_head),
}
"""What was done -> the relation that an honest card declares, and the model."""


def relation_of(how: str, made: Checkpoint, base: Checkpoint, depth: Depth = "standard") -> CheckedClaim:
    card = f"---\nbase_model: org/base\nbase_model_relation: {how}\n---\n".encode()
    found = mk.check_card(
        MemorySource({**made.files("BF16"), "README.md": card}, name="candidate"),
        mk.CompareOptions(depth=depth, fetch=HERE),
        known={"org/base": MemorySource(base.files("BF16"), name="base")},
    )
    (claim,) = (item for item in found.claims if item.kind == "relation")
    return claim


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_card_is_not_contradicted(name):
    how, make = HONEST[name]
    base = loaded("base")
    claim = relation_of(how, make(base), base)
    assert claim.status != "contradicted", (claim.reason.code, claim.relation)


@pytest.mark.more
@pytest.mark.parametrize("name", ["dora", "lora-padded", "levels-padded", "levels-reordered", "vector-codes"])
def test_an_honest_card_is_not_contradicted_at_deep_depth(name):
    how, make = HONEST[name]
    base = loaded("base")
    claim = relation_of(how, make(base), base, "deep")
    assert claim.status != "contradicted", (claim.reason.code, claim.relation)


@pytest.fixture(scope="module")
def trained() -> mk.Comparison:
    """A model all of which was trained."""
    return mk.compare(
        MemorySource(loaded("finetune-light").files("BF16"), name="candidate"),
        MemorySource(loaded("base").files("BF16"), name="base"),
        options=mk.CompareOptions(fetch=HERE),
    )


def with_facts(found: mk.Comparison, **facts: object) -> mk.Comparison:
    """Return a comparison in which other facts about what was subtracted are known."""
    assert found.relation.subtracted is not None
    taken = replace(found.relation.subtracted, **facts)  # type: ignore[arg-type]
    return replace(found, relation=replace(found.relation, subtracted=taken))


STILL = Changed(n=9, changed=0)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, "check-kind-other"),
        ({"tables": STILL}, "check-perhaps-adapter"),
        ({"norms": STILL}, "check-perhaps-adapter"),
        ({"tables": Changed(n=0, changed=0)}, "check-perhaps-adapter"),
        ({"matrices": Changed(n=28, changed=8)}, "check-perhaps-adapter"),
        ({"directions": 16, "beyond_adapters": 0}, "check-few-directions"),
    ],
)
def test_a_fine_tune_is_no_adapter_only_if_everything_changed_and_enough_directions_were_searched(
    trained, facts, reason
):
    assert relation_status("adapter", with_facts(trained, **facts))[1].code == reason


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, "check-kind-other"),
        ({"structure": 1.4}, "check-perhaps-codes"),
        ({"structure": None}, "check-perhaps-codes"),
        ({"on_levels": 3}, "check-perhaps-codes"),
    ],
)
def test_a_fine_tune_is_no_quantised_copy_only_if_no_quantiser_leaves_its_change(trained, facts, reason):
    assert relation_status("quantized", with_facts(trained, **facts))[1].code == reason


def test_codes_of_the_candidate_leave_open_what_changed(trained):
    coded = replace(trained, candidate=replace(trained.candidate, dtypes={"BF16": 9, "I32": 28}))
    assert relation_status("quantized", coded)[1].code == "check-perhaps-codes"


@pytest.mark.parametrize(("layers", "reason"), [(3, "check-kind-other"), (4, "check-perhaps-moved")])
@pytest.mark.parametrize("how", ["quantized", "adapter"])
def test_another_number_of_layers_is_a_fact_and_moved_layers_may_be_an_error(trained, how, layers, reason):
    cut = replace(
        trained,
        relation=replace(trained.relation, kind="depth-change"),
        candidate=replace(trained.candidate, layers=layers),
    )
    assert relation_status(how, cut)[1].code == reason


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("fine-tune", "contradicted"),
        ("vocabulary-change", "untestable"),
        ("width-change", "untestable"),
        ("parts-replaced", "untestable"),
        ("moe-upcycling", "contradicted"),
    ],
)
def test_a_derivative_is_one_only_if_nothing_else_explains_it(trained, kind, status):
    found = derivative_status(replace(trained, relation=replace(trained.relation, kind=kind)))
    assert found is not None
    assert found[0] == status


@pytest.mark.parametrize("kind", ["copy", "quantised-copy"])
def test_copies_are_no_derivatives(trained, kind):
    assert derivative_status(replace(trained, relation=replace(trained.relation, kind=kind))) is None


def test_a_mixture_that_was_quantised_is_no_copy_of_a_parent(trained):
    relation = replace(trained.relation, kind="quantised-copy", subtracted=None)
    assert not is_certain_copy(replace(trained, relation=relation))
    assert is_certain_copy(replace(trained, relation=replace(relation, kind="copy")))


@pytest.mark.parametrize(
    ("whole", "searched", "rank", "beyond"),
    [(False, 16, None, 0), (False, 128, None, 1), (True, 32, None, 1), (True, 32, 4, 0)],
)
def test_directions_beyond_adapters_are_those_of_whole_matrices_or_of_many(whole, searched, rank, beyond):
    found = mk.diff(
        candidate=MemorySource(loaded("finetune-light").files("BF16"), name="candidate"),
        base=MemorySource(loaded("base").files("BF16"), name="base"),
        options=mk.CompareOptions(fetch=HERE),
    )
    item = next(item for item in found.tensors if item.what == "trained" and item.layer is not None)
    with mk.open_model(MemorySource(loaded("base").files("BF16"), name="base")) as model:
        one = replace(item, whole=whole, rank_most=searched, rank=rank)
        assert subtracted([one], model.architecture).beyond_adapters == beyond
