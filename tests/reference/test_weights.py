"""Every published method on weights: a copy, what it survives by its card, and what is known to defeat it."""

import math

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model
from tests.reference.models import asked, rng, score, under
from tests.support.amount import every

from modelkin.casework.lab import derive
from modelkin.reference import load_reference_cards

COPY = {"phi-u": 1129.2, "phi-match": 1129.2}
WEIGHTS = [name for name, card in load_reference_cards().items() if card.needs == "weights"]
SURVIVES = {
    "anchors": ("residual-permutation", "residual-rotation", "residual-scale", "tokens"),
    "sampled-cosine": ("tokens",),
    "mdir": ("residual-permutation", "residual-signs", "residual-scale", "tokens"),
    "huref-ics": ("residual-permutation", "units", "heads", "unit-scales", "mixed-values", "rope-pairs"),
    "awm": ("residual-permutation", "residual-signs", "residual-scale", "units", "tokens"),
    "phi-u": ("residual-scale", "tokens", "heads"),
    "phi-match": ("units", "tokens", "heads"),
    "pdf": ("residual-permutation", "residual-signs", "units", "tokens"),
    "spectra": ("residual-permutation", "mixed-values", "residual-signs", "units"),
    "huref-pcs": ("tokens",),
}
DEFEATED = {
    "anchors": None,
    "sampled-cosine": "units",
    "mdir": "residual-rotation",
    "huref-ics": "rotation-and-gains",
    "awm": "residual-rotation",
    "phi-u": "units",
    "phi-match": "residual-permutation",
    "pdf": "head-scales",
    "spectra": None,
    "huref-pcs": "residual-permutation",
}


@pytest.mark.parametrize("method", WEIGHTS)
def test_a_copy_has_the_highest_score(method):
    found = asked(method, zoo_model("base"), zoo_model("base"))
    expected = COPY.get(method, 1.0)
    assert found.score is not None
    if method == "mdir":
        assert found.score > 4000
        assert found.details["matched_share"] == pytest.approx(1.0)
    else:
        assert found.score == pytest.approx(expected, rel=1e-3)
    assert found.says in ("related", None)
    assert min(found.bytes_read) > 0


@pytest.mark.parametrize(
    ("method", "change"), every(2, [(m, c) for m, changes in SURVIVES.items() for c in changes])
)
def test_what_a_card_says_is_survived(method, change):
    if (method, change) in {("sampled-cosine", "tokens"), ("huref-pcs", "tokens")}:
        # Rows of the embeddings move; all other matrices stay.
        assert 0.5 < score(method, under(change)) < 0.99
        return
    copy = score(method, "base")
    found = score(method, under(change))
    if method == "mdir":
        assert found > 1000  # the bound has no end; rounding decides how far it goes
    else:
        assert found == pytest.approx(copy, rel=0.02)


@pytest.mark.parametrize(("method", "change"), [(m, c) for m, c in DEFEATED.items() if c])
def test_what_a_card_says_defeats_it(method, change):
    copy, found = score(method, "base"), score(method, under(change))
    assert found < 0.75 * copy, f"{found} is hardly less than {copy}"
    card = load_reference_cards()[method]
    if card.level is not None and method not in ("awm",):
        assert found < card.level


def test_a_rotation_brings_awm_to_the_level_of_a_stranger():
    assert score("awm", under("residual-rotation")) < 2 * score("awm", "twin-1")


def test_anchors_and_spectra_of_strangers_look_like_relatives():
    """Their documented false alarm: strangers that learnt the same text."""
    assert score("anchors", "gpt2-twin", "gpt2-base") > 0.98
    assert score("spectra", "twin-1") > score("spectra", "finetune-heavy")


def test_curves_of_a_shared_recipe_correlate_between_strangers():
    assert score("pdf", "gpt2-twin", "gpt2-base") > 0.95


def test_published_levels_of_large_models_do_not_hold_for_small_ones():
    assert asked("awm", zoo_model("twin-1"), zoo_model("base")).says == "related"


@pytest.mark.parametrize("method", ["phi-u", "phi-match"])
def test_the_other_sign_of_up_and_down_defeats_both_independence_tests(method):
    """The change leaves every output bit for bit the same."""
    assert score(method, under("unit-signs")) < 3


def test_strangers_are_strangers_to_methods_of_places():
    for method in ("sampled-cosine", "huref-ics", "phi-u", "phi-match", "mdir"):
        found = asked(method, zoo_model("twin-1"), zoo_model("base"))
        assert found.says in ("unrelated", None)
        assert found.score is not None
        assert found.score < 1.5 if found.level and found.level > 1 else found.score < 0.05


def test_layers_are_aligned_where_depths_differ():
    base = zoo_model("base")
    deeper = derive.reorder_layers(base, [0, 1, 2, 1, 2, 3])
    for method in ("awm", "spectra"):
        found = asked(method, deeper, base)
        assert found.score == pytest.approx(1.0, abs=1e-3)
        assert sorted(second for _, second in found.layers) == [0, 1, 2, 3]
    assert score("phi-match", deeper) > 200
    assert str(asked("phi-u", deeper, base).reason).startswith("the models differ in the number of layers")


def test_a_narrower_model_is_matched_by_the_methods_that_can():
    narrower = derive.prune_residual(zoo_model("base"), n_kept=48)
    assert score("awm", narrower) == pytest.approx(1.0, abs=1e-3)
    for method in ("mdir", "phi-match"):
        found = asked(method, narrower, zoo_model("base"))
        assert (found.score, str(found.reason)) == (None, "the models differ in width")


def test_layouts_of_files_do_not_matter():
    """GPT-2 stores inputs first and queries, keys and values as one tensor."""
    for method in ("awm", "huref-ics", "phi-u", "pdf"):
        assert score(method, "gpt2-tuned", "gpt2-base") > score(method, "gpt2-twin", "gpt2-base")


def test_experts_are_matched_one_by_one():
    found = asked("phi-u", zoo_model("moe-tuned"), zoo_model("moe-base"))
    assert found.details["tests"] == 12
    assert found.score is not None
    assert found.score > 500


def test_curves_of_two_layers_say_nothing():
    found = asked("pdf", zoo_model("moe16-tuned"), zoo_model("moe16-1"))
    assert found.score is None
    assert str(found.reason) == "2 layers are fewer than the 3 that make a curve"


def test_noise_lowers_parameter_cosine_by_its_size():
    base = zoo_model("base")
    noisy = derive.add_noise(base, size=1.0, rng=rng())
    assert score("huref-pcs", noisy) > 1 / math.sqrt(2)  # gains keep their mean and raise it
    assert score("sampled-cosine", noisy) == pytest.approx(1 / math.sqrt(2), abs=0.03)


def test_scores_do_not_depend_on_which_model_is_the_candidate():
    for method in ("anchors", "huref-ics", "awm", "pdf", "spectra", "huref-pcs"):
        there, back = score(method, "finetune-heavy", "base"), score(method, "base", "finetune-heavy")
        np.testing.assert_allclose(there, back, rtol=1e-4)


@pytest.mark.parametrize("method", WEIGHTS)
@pytest.mark.parametrize("filled", every(2, [np.nan, np.inf, 0.0, 3e38]))
def test_weights_without_numbers_are_a_reason_or_a_finite_score(method, filled):
    base = zoo_model("base")
    broken = base.with_tensors(
        {name: np.full_like(values, filled) for name, values in base.tensors.items() if "norm" not in name}
    )
    found = asked(method, broken, base)
    assert (found.score is None) == (found.reason is not None)
    if found.score is not None:
        assert math.isfinite(found.score)
        assert found.says != "related"


@pytest.mark.parametrize(
    ("child", "base", "stranger"),
    [("new-tokenizer", "base", "twin-1"), ("new-embeddings", "deep-1", "deep-2")],
)
def test_new_embeddings_defeat_what_hangs_on_them(child, base, stranger):
    """Every layer is kept, as phi_U sees, and the child scores below a stranger that learnt the same text."""
    for method in ("anchors", "awm"):
        assert score(method, child, base) < score(method, stranger, base)
    assert asked("mdir", zoo_model(child), zoo_model(base)).says == "unrelated"
    assert asked("phi-u", zoo_model(child), zoo_model(base)).says == "related"


def test_long_training_defeats_spectra_and_invariant_terms():
    """A child scores below a stranger of the same recipe, or below the level."""
    assert score("spectra", "finetune-heavy") < score("spectra", "twin-1")
    for name in ("finetune-heavy", "continued"):
        assert asked("huref-ics", zoo_model(name), zoo_model("base")).says == "unrelated"
