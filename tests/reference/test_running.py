"""Published methods that run models, on small trained ones (make test-lab)."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model
from tests.places import ZOO
from tests.reference.models import source, under

from modelkin.casework.bench import BenchOptions, read_pairs, run_bench
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.reference import ReferenceOptions, read_prompts, reference_scores
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


def test_controls_of_other_data_make_a_stranger_rank_first():
    """The documented false alarm: a twin learnt the base's text, its controls learnt other texts."""
    places = [str(ZOO / name) for name in ("corpus-1", "corpus-2", "tokenizer-1")]
    asked = ReferenceOptions(methods=("behaviour",), prompts=PROMPTS)
    (found,) = reference_scores(str(ZOO / "twin-1"), str(ZOO / "base"), asked, controls=places)
    assert found.details["p"] == pytest.approx(1 / 4)
    assert found.details["agreement"] > found.details["largest_control"] + 0.2


def test_rank_does_not_see_rotations_and_a_model_is_no_control_of_itself():
    places = [str(ZOO / name) for name in ("twin-1", "twin-2", "order-1", "base")]
    asked = ReferenceOptions(methods=("behaviour",), prompts=PROMPTS)
    turned = source(under("residual-rotation"), "turned")
    (found,) = reference_scores(turned, str(ZOO / "base"), asked, controls=places)
    assert found.details["controls"] == 3
    assert found.details["p"] == pytest.approx(1 / 4)
    sizes = [Path(place, "model.safetensors").stat().st_size for place in places[:3]]
    assert found.details["control_bytes"] == pytest.approx(sum(sizes), rel=0.02)


def test_a_benchmark_ranks_behaviour_among_controls_that_are_run_once(tmp_path, monkeypatch):
    """A control that is part of a pair is none for it: with three left of four the smallest p is 1/4."""
    names = {"distilled": "related", "order-1": "independent"}
    table = tmp_path / "pairs.tsv"
    lines = [f"zoo\t{ZOO / 'base'}\t{ZOO / name}\t{label}\t\t\n" for name, label in names.items()]
    table.write_text("source\tmodel_a\tmodel_b\tlabel\trelation\tnote\n" + "".join(lines))
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join(PROMPTS))
    ran: Counter[str] = Counter()
    real = Runner.load

    def counted(self):
        ran[self._reader.model.location.ref.rpartition("/")[2]] += 1
        return real(self)

    monkeypatch.setattr(Runner, "load", counted)
    controls = tuple(str(ZOO / name) for name in ("twin-1", "twin-2", "order-1", "order-2"))
    options = BenchOptions(
        methods=("behaviour", "logits"), controls=controls, prompts=read_prompts(prompts), side_by_side=2
    )
    result = run_bench(read_pairs(str(table)), tmp_path, options)
    found = {(row.method, row.pair.label): row for row in result.rows}
    assert found["behaviour", "related"].score == pytest.approx(math.log10(5))
    stranger = found["behaviour", "independent"].score
    assert stranger is not None
    assert stranger <= math.log10(4) + 1e-9
    assert {row.says for row in result.rows} == {None}
    # order-1 runs once as a control and once as a candidate; no method runs a model again.
    assert ran == {"base": 2, "distilled": 1, "twin-1": 1, "twin-2": 1, "order-1": 2, "order-2": 1}
    sizes = [Path(place, "model.safetensors").stat().st_size for place in controls]
    assert result.bytes_read > sum(sizes)


def test_a_config_that_makes_transformers_give_up_is_a_reason():
    base = zoo_model("base")
    broken = Checkpoint(
        config={**base.config, "rope_scaling": {"rope_type": "nonsense", "factor": -1.0}},
        tensors=base.tensors,
        tokenizer=base.tokenizer,
    )
    found = scores(broken, methods=("logits",))["logits"]
    assert found.score is None
    assert "transformers gave up" in str(found.reason)


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
