"""Published methods that run models, on small trained ones (make test-lab)."""

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model
from tests.places import ZOO
from tests.reference.models import source, under

from modelkin.casework.lab import Checkpoint
from modelkin.reference import ReferenceOptions, reference_scores
from modelkin.reference.reading import SideReader
from modelkin.reference.running import Runner, Trace, shipped_prompts, traced

pytestmark = pytest.mark.lab
PROMPTS = shipped_prompts()[:40]


def scores(candidate, base="base", *, methods=("reef", "phi-h", "logits"), **options):
    sides = [
        source(item if isinstance(item, Checkpoint) else zoo_model(item), name)
        for item, name in ((candidate, "candidate"), (base, "base"))
    ]
    asked = ReferenceOptions(methods=methods, prompts=PROMPTS, **options)
    return {found.method: found for found in reference_scores(sides[0], sides[1], asked)}


def test_a_copy_agrees_in_everything_and_counts_its_bytes_for_each_method():
    found = scores("base", methods=("reef", "phi-h", "phi-match-activations", "logits"))
    assert found["reef"].score == pytest.approx(1.0)
    assert found["logits"].score == pytest.approx(1.0)
    assert found["phi-h"].says == found["phi-match-activations"].says == "related"
    assert len({item.bytes_read for item in found.values()}) == 1


@pytest.mark.parametrize("change", ["residual-permutation", "residual-rotation", "heads", "rope-pairs"])
def test_what_computes_the_same_scores_the_same(change):
    found = scores(under(change))
    assert found["reef"].score == pytest.approx(1.0, abs=1e-3)
    assert found["logits"].score == pytest.approx(1.0, abs=1e-3)
    assert found["phi-h"].says == "related"


def test_a_permutation_of_units_hides_from_phi_h_and_not_from_phi_match():
    found = scores(under("units"), methods=("phi-h", "phi-match-activations"))
    assert found["phi-h"].says == "unrelated"
    assert found["phi-match-activations"].says == "related"


def test_the_other_sign_of_up_and_down_hides_from_phi_match():
    assert (
        scores(under("unit-signs"), methods=("phi-match-activations",))["phi-match-activations"].says
        == "unrelated"
    )


def test_reef_calls_strangers_related_and_a_child_unrelated():
    """Its documented failure: what was learnt from the same text has the same geometry."""
    assert scores("twin-1", methods=("reef",))["reef"].says == "related"
    assert scores("finetune-heavy", methods=("reef",))["reef"].says == "unrelated"


def test_logits_take_a_heavily_trained_child_for_more_of_a_stranger_than_a_stranger():
    child, stranger = scores("finetune-heavy")["logits"], scores("twin-1")["logits"]
    assert child.score is not None
    assert stranger.score is not None
    assert child.score < stranger.score


def test_any_two_states_can_be_compared():
    found = scores("base", methods=("reef",), layers=(0, 4))["reef"]
    assert found.layers == ((0, 4),)
    assert found.score is not None
    assert found.score < 0.99
    wrong = scores("base", methods=("reef",), layers=(0, 9))["reef"]
    assert str(wrong.reason) == "the models have no states 0 and 9"


def test_a_student_of_the_base_ranks_first_among_controls_and_its_weights_show_nothing():
    places = [str(ZOO / name) for name in ("twin-1", "twin-2", "order-1", "order-2")]
    asked = ReferenceOptions(methods=("behaviour", "phi-u", "awm"), prompts=PROMPTS)
    found = {
        item.method: item
        for item in reference_scores(str(ZOO / "distilled"), str(ZOO / "base"), asked, controls=places)
    }
    assert found["behaviour"].details["p"] == pytest.approx(1 / 5)
    assert found["behaviour"].says is None
    assert found["phi-u"].says == "unrelated"


def test_a_stranger_does_not_rank_first_among_its_like():
    places = [str(ZOO / name) for name in ("distilled", "twin-2", "order-1", "order-2")]
    asked = ReferenceOptions(methods=("behaviour",), prompts=PROMPTS)
    (found,) = reference_scores(str(ZOO / "twin-1"), str(ZOO / "base"), asked, controls=places)
    assert found.details["p"] > 1 / 5


def test_models_are_built_as_transformers_builds_them():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from modelkin import open_model

    for name in ("base", "gpt2-base", "moe-base"):
        with open_model(str(ZOO / name)) as model:
            trace = traced(SideReader(model), PROMPTS[:3])
            runner = Runner(SideReader(model))
            assert runner.load() is None
            numbers = runner.encoded(PROMPTS[0])
        known = transformers.AutoModelForCausalLM.from_pretrained(str(ZOO / name), dtype=torch.float32).eval()
        with torch.no_grad():
            expected = known(torch.tensor([numbers])).logits[0, -1].numpy()
        assert isinstance(trace, Trace)
        assert trace.logits is not None
        np.testing.assert_allclose(trace.logits[0], expected, atol=1e-4)


def test_code_that_a_config_names_is_never_loaded():
    base = zoo_model("base")
    hostile = Checkpoint(
        config={
            **base.config,
            "auto_map": {"AutoModelForCausalLM": "evil--code.Evil"},
            "_attn_implementation": "org/evil-kernel",
            "experts_implementation": "org/evil-kernel",
        },
        tensors=base.tensors,
        tokenizer=base.tokenizer,
    )
    assert scores(hostile, methods=("logits",))["logits"].score == pytest.approx(1.0)
    unknown = Checkpoint(
        config={**base.config, "model_type": "evil"}, tensors=base.tensors, tokenizer=base.tokenizer
    )
    reason = str(scores(unknown, methods=("logits",))["logits"].reason)
    assert "cannot be run" in reason or "unknown" in reason
