"""Students of hidden states are told from copies of attention at the widths of real models."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from tests.comparison.expectations import DEEP
from tests.scale.guards import seen
from tests.scale.lifelike import Grown
from tests.scale.students import STUDENT, TUNED, taught
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.methods import HEADS_ALIKE, Tested
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource

pytestmark = pytest.mark.timeout(1_800)

SIZES = {
    256: Grown(width=256, layers=4, units=512, heads=8, kv_heads=4, vocab=1_000),
    1_024: Grown(width=1_024, layers=4, units=1_024, heads=16, kv_heads=4, vocab=4_000),
    4_096: Grown(width=4_096, layers=4, units=2_048, heads=32, kv_heads=8, vocab=4_000),
}
GUARD = "heads that are alike and not the same"
WIDTHS = marked(SIZES, lambda width: False, lambda width: width == 256)


@lru_cache(maxsize=1)
def teacher(width: int) -> Checkpoint:
    return SIZES[width].drawn(seed=1)


def compared(width: int, cosines: tuple[float, float]) -> mk.Comparison:
    candidate = taught(teacher(width), SIZES[width], cosines, seed=2)
    return mk.compare(
        candidate=MemorySource(candidate.files("BF16"), name="candidate"),
        base=MemorySource(teacher(width).files("BF16"), name="base"),
        options=DEEP,
    )


def heads_of(result: mk.Comparison) -> list[Tested]:
    return [test for test in result.evidence if isinstance(test, Tested) and test.method == "head-matching"]


def cosine_of_heads(one: Checkpoint, two: Checkpoint, size: Grown, layer: int) -> list[float]:
    """Return the cosine of what each head passes on, in both models."""
    width, per_group = size.width // size.heads, size.heads // size.kv_heads
    place = f"model.layers.{layer}.self_attn."
    found = []
    for head in range(size.heads):
        group = head // per_group
        products = [
            model.tensors[f"{place}o_proj.weight"][:, head * width : (head + 1) * width]
            @ model.tensors[f"{place}v_proj.weight"][group * width : (group + 1) * width]
            for model in (one, two)
        ]
        sizes = [float(np.linalg.norm(product)) for product in products]
        found.append(float(np.vdot(*products)) / (sizes[0] * sizes[1]))
    return found


@pytest.mark.parametrize("cosines", [STUDENT, TUNED], ids=["student", "copy"])
def test_heads_have_the_cosines_they_are_made_with(cosines):
    size = SIZES[256]
    made = taught(teacher(256), size, cosines, seed=2)
    found = cosine_of_heads(made, teacher(256), size, 1)
    assert float(np.mean(found)) == pytest.approx(np.mean(cosines), abs=0.05)
    assert max(found) < (0.95 if cosines == STUDENT else 1.0)  # heads of few dimensions vary


@pytest.mark.parametrize("width", WIDTHS)
def test_a_student_is_never_said_to_share_layers(width):
    result = compared(width, STUDENT)
    verdict, heads = result.verdict, heads_of(result)
    assert heads  # the trap is there: heads are found again, and the order of dimensions is no accident
    assert min(test.log10_p for test in heads) < -8
    assert all(HEADS_ALIKE in test.flags for test in heads)
    assert verdict.reading in ("coordinates-only", "coordinates-and-heads")
    assert not {name for name, item in verdict.components.items() if item.conclusion.related} & {
        "attention",
        "mlp",
    }
    assert verdict.components["mlp"].conclusion is Conclusion.NO_EVIDENCE
    seen(GUARD, width, springs=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_copied_heads_are_found_in_the_same_coordinates(width):
    result = compared(width, TUNED)
    flagged = [HEADS_ALIKE in test.flags for test in heads_of(result)]
    assert flagged
    assert 2 * sum(flagged) < len(flagged)
    assert result.verdict.components["attention"].conclusion.related
    assert result.verdict.components["mlp"].conclusion is Conclusion.NO_EVIDENCE
    assert result.verdict.reading is None
    seen(GUARD, width, springs=False)
