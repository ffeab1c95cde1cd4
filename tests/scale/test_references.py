"""Published methods at the width of a 7B model (make scale)."""

import pytest
from tests.support import LlamaShape, llama_files

from modelkin.reference import ReferenceOptions, reference_scores
from modelkin.source import MemorySource

SHAPE = LlamaShape(layers=1, hidden=4096, mlp=512, heads=32, kv_heads=8, vocab=6000)


@pytest.mark.scale
@pytest.mark.timeout(900)
def test_strangers_of_width_4096_score_as_published():
    """AWM reports 0.00375 with a spread of 0.0028 for its unrelated pairs of 7B and 13B."""
    sides = [MemorySource(llama_files(SHAPE, seed=seed, dtype="BF16"), name=f"org/{seed}") for seed in (0, 1)]
    asked = ReferenceOptions(methods=("awm", "huref-ics", "sampled-cosine", "anchors", "phi-match"))
    found = {item.method: item for item in reference_scores(sides[0], sides[1], asked)}
    awm = found["awm"]
    assert awm.score is not None
    assert abs(awm.score) < 0.00375 + 3 * 0.0028
    assert awm.says == "unrelated"
    assert found["huref-ics"].says == found["phi-match"].says == "unrelated"
    for name in ("huref-ics", "sampled-cosine"):
        assert found[name].score == pytest.approx(0.0, abs=0.01)
    anchors = found["anchors"].score
    assert anchors == pytest.approx(0.5, abs=0.05)
