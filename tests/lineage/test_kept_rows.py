"""Rows that no training touched tell a parent from a sibling, to the last bit."""

import numpy as np
import pytest
from tests.lineage.models import loaded, source

from modelkin.casework.lab import derive
from modelkin.lineage.kept_rows import KeptRows, kept_rows, lost_rows
from modelkin.lineage.tree_samples import read_sample
from modelkin.lineage.turned import frame_between, in_common_coordinates
from modelkin.model import open_model


def sample(model, name="made", **rest):
    with open_model(source(model, name, **rest)) as opened:
        return read_sample(name, opened, "standard", 0)


def held(child, parent):
    found = kept_rows(child, parent)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("child", "parent", "sibling", "table"),
    [
        ("depth-up", "base", "finetune-sibling", "embedding"),
        ("qwen2-depth-up", "qwen2-base", "qwen2-tuned", "embedding"),
        ("gpt2-depth-up", "gpt2-base", "gpt2-tuned", "position_embedding"),
    ],
)
def test_decayed_rows_are_exact_multiples_of_the_parents_and_of_no_siblings(child, parent, sibling, table):
    mine = sample(child)
    of_parent, of_sibling = held(mine, sample(parent)), held(mine, sample(sibling))
    assert of_parent.kept
    assert of_parent.n == of_parent.of
    assert of_parent.table == table
    assert 0.9 < of_parent.factor < 0.998
    assert of_sibling.n == 0
    assert lost_rows(of_sibling, of_parent)
    assert not lost_rows(of_parent, of_parent)


def test_seen_from_the_parent_the_rows_of_a_child_are_not_held():
    backwards = held(sample("base"), sample("finetune-sibling"))
    assert not backwards.kept


def test_untouched_tables_are_the_same_bit_for_bit():
    kept = held(sample("lora"), sample("base"))
    assert (kept.factor, kept.n) == (1.0, kept.of)


def test_in_float32_a_sibling_cannot_be_told_and_nothing_is_said():
    rng = np.random.default_rng(1)
    wide = [derive.add_noise(loaded(name), size=1e-4, rng=rng) for name in ("depth-up", "base")]
    assert kept_rows(*(sample(model, dtype="F32") for model in wide)) is None


@pytest.mark.parametrize("dtype", ["F16", "F32"])
def test_values_of_bfloat16_in_a_wider_file_are_what_they_were(dtype):
    kept = held(sample("depth-up", dtype=dtype), sample("base"))
    assert kept.n == kept.of > 8


def test_what_was_never_held_was_not_lost():
    few = KeptRows(table="embedding", n=7, of=64, factor=1.0)
    assert not lost_rows(None, few)
    assert not lost_rows(few, None)


def test_models_of_one_training_each_hold_no_row_of_the_other():
    kept = held(sample("twin-1"), sample("base"))
    assert kept.n == 0


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("permute_residual", "permutation"),
        ("flip_residual_signs", "signed-permutation"),
        ("rotate_residual", "rotation"),
    ],
)
def test_turned_streams_are_brought_into_common_coordinates(change, kind):
    made = getattr(derive, change)(loaded("finetune-light"), rng=np.random.default_rng(1))
    members = [sample("base", "base"), sample(made, "turned"), sample("finetune-heavy", "heavy")]
    frame = frame_between(members[1], members[0])
    assert frame is not None
    assert frame.kind == kind
    related = {"base": {"turned", "heavy"}, "turned": {"base", "heavy"}, "heavy": {"base", "turned"}}
    base, turned, heavy = in_common_coordinates(members, related)
    assert (base.turned, turned.turned, heavy.turned) == (None, kind, None)
    table = next(site for site in turned.values if site.module == "embedding")
    plain = sample("finetune-light").values[table]
    # What a map that was learned from a relative leaves: nothing of a permutation, some of a rotation.
    assert np.corrcoef(turned.values[table], plain)[0, 1] > (0.99 if kind == "rotation" else 0.999_99)
    if kind != "rotation":
        assert held(turned, base).kept


def test_a_narrower_stream_is_measured_where_it_has_a_counterpart():
    members = [sample("base", "base"), sample("fewer-dimensions", "thin"), sample("finetune-light", "light")]
    related = {"base": {"thin", "light"}, "thin": {"base", "light"}, "light": {"base", "thin"}}
    _, thin, _ = in_common_coordinates(members, related)
    table = next(site for site in thin.values if site.module == "embedding")
    assert np.isfinite(thin.values[table]).mean() == pytest.approx(72 / 96, abs=0.01)
    assert held(thin, members[0]).kept


def test_where_everybody_has_coordinates_of_his_own_those_of_one_are_taken():
    rng = np.random.default_rng(1)
    made = {
        name: derive.permute_residual(loaded(name), rng=rng)
        for name in ("base", "finetune-light", "finetune-sibling")
    }
    members = [sample(model, name) for name, model in made.items()]
    related = {name: made.keys() - {name} for name in made}
    base, light, sibling = in_common_coordinates(members, related)
    assert (base.turned, light.turned, sibling.turned) == (None, "permutation", "permutation")
    assert held(light, base).kept
    assert held(sibling, light).n == 0
