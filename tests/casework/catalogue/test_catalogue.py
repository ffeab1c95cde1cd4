"""What the figures say about their data: read from the descriptions, not from pixels."""

import math
from dataclasses import replace

import numpy as np
import pytest

from modelkin.casework.catalogue import centring, claim, models, pair, pairs, rows, tokens, vectors
from modelkin.casework.catalogue.pair import sampled_dimensions
from modelkin.document import ENGLISH
from modelkin.errors import UsageError
from modelkin.figures import (
    Bars,
    HeatMap,
    Lines,
    ReferenceLine,
    Ridges,
    Scatter,
    TextMark,
    Trajectory3D,
    pearson_chance,
)
from modelkin.figures.clipping import remarks
from modelkin.figures.comparison import z_histogram
from modelkin.figures.marks import Histogram
from modelkin.message import say

from . import examples
from .examples import COSINE, EXPECTED, KINDS, PEARSON, TABLES, curve, expected_cosine, shuffle_spread


def marks(figure, kind, panel=None):
    panels = figure.panels if panel is None else [figure.panels[panel]]
    return [mark for item in panels for mark in item.marks if isinstance(mark, kind)]


def by_name(figure, kind, panel=None):
    return {mark.name: mark for mark in marks(figure, kind, panel)}


# --- chance ---


def test_the_range_of_chance_is_that_of_shuffles():
    rng = np.random.default_rng(0)
    a, b = rng.gamma(2.0, size=200), rng.gamma(2.0, size=200)
    r = [np.corrcoef(a, rng.permutation(b))[0, 1] for _ in range(4000)]
    chance = pearson_chance(200)
    assert isinstance(chance.high, float)
    assert np.std(r) == pytest.approx(1 / math.sqrt(199), rel=0.05)
    assert np.mean(np.abs(r) < chance.high) == pytest.approx(0.95, abs=0.02)


def test_expected_cosine_and_its_spread_are_those_of_shuffles():
    rng = np.random.default_rng(1)
    a, b = rng.normal(1.0, 0.4, 300), rng.normal(0.5, 0.3, 300)
    shuffled = [a @ rng.permutation(b) / np.linalg.norm(a) / np.linalg.norm(b) for _ in range(4000)]
    sides = ([a.mean()], [a.std()], [b.mean()], [b.std()])
    assert expected_cosine(*sides)[0] == pytest.approx(np.mean(shuffled), abs=0.002)
    assert shuffle_spread(*sides, n=300)[0] == pytest.approx(np.std(shuffled), rel=0.06)


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_cosines_follow_from_mean_spread_and_correlation(kind):
    table = TABLES[kind]
    sides = [table[f"{side}_std"] / np.hypot(table[f"{side}_mean"], table[f"{side}_std"]) for side in "AB"]
    again = np.array(EXPECTED[kind], float) + PEARSON[kind] * sides[0] * sides[1]
    np.testing.assert_allclose(again, COSINE[kind], atol=1e-6)


def test_too_few_values_have_no_range_of_chance():
    with pytest.raises(UsageError, match="at least 3"):
        pearson_chance(2)


# --- curves ---


def pair_of(*, measure="cosine", **curves):
    """Return two models with curves of one measure."""
    return pair.TwoModels(names=("A", "B"), measure=measure, curves={measure: curves})


def test_curves_without_chance_are_refused():
    with pytest.raises(UsageError, match="chance or expected"):
        pair.layer_curves(pair_of(a=curve([0.1, 0.2])))


def test_gaps_stay_gaps():
    figure = pair.layer_curves(pair_of(measure="pearson", a=curve([0.1, None, 0.3])))
    assert by_name(figure, Lines)["a"].y == (0.1, None, 0.3)


def test_excess_is_cosine_minus_expectation():
    figure = examples.norm_cosines()
    drawn = by_name(figure, Lines, 1)["input norm"].y
    np.testing.assert_allclose(drawn, COSINE["input norm"] - np.array(EXPECTED["input norm"], float))


def test_matched_rows_count_the_layers_above_the_search_in_noise():
    null: rows.Columns = {"null_mean": [0.04, 0.04], "null_low": [0.03, 0.03], "null_high": [0.05, 0.05]}
    table: rows.Columns = {"layer": [0, 1], "matched": [0.02, 0.5], **null}
    figure = rows.router_matches(table, names=("A", "B"), repeats=9)
    assert "1 of 2 layers exceed" in figure.note
    drawn = next(mark for mark in marks(figure, Lines) if mark.role == "null")
    assert (drawn.low, drawn.high) == ((0.03, 0.03), (0.05, 0.05))


def test_published_router_rows_match_no_better_than_noise():
    assert "0 of 45 layers exceed" in examples.router_matches().note


def test_a_missing_control_is_named_and_nothing_is_drawn_for_it():
    figure = examples.with_controls()
    for i in range(2):
        gone = by_name(figure, Lines, i)["A | D: missing (hidden size 2048, not 4096)"]
        assert set(gone.y) == {None}
    assert "missing (hidden size 2048, not 4096) (line) nothing measured" in figure.alt


def test_without_any_control_the_figure_says_that_it_cannot_be_judged():
    alone = replace(pair_of(norm=curve([0.9])), controls={"norm": {"x": say("quoted", text="not found")}})
    assert "cannot be judged" in pair.with_controls(alone).panels[0].without_null


def test_the_band_of_pairs_is_mean_and_deviation():
    figure = pairs.layer_range({"p": curve([1.0], [2.0]), "q": curve([3.0], [2.0])}, measure="cosine")
    band = next(mark for mark in marks(figure, Lines) if mark.low)
    assert band.y == (2.0,)
    assert band.high[0] == pytest.approx(2 + math.sqrt(2))


# --- distributions ---


def test_an_empty_kind_says_why():
    figure = examples.distribution_by_type()
    place = [panel.title for panel in figure.panels].index("query projection")
    assert "8192 rows against 12288" in marks(figure, TextMark, place)[0].text


def test_histograms_hold_every_value():
    for mark in marks(examples.distribution_by_type(), Histogram):
        assert sum(mark.counts) + mark.below + mark.above in (45, 46)


def test_the_null_of_embedding_rows_is_permuted_pairs():
    figure = examples.row_similarity()
    nulls = [mark for mark in marks(figure, Histogram) if mark.role == "null"]
    assert [mark.name for mark in nulls] == ["permuted pairs (3000)"]
    with pytest.raises(UsageError, match="permuted pairs"):
        tokens.row_similarity([1, 2], [0.1, 0.2], [], names=("A", "B"))


def test_ridges_count_what_is_outside_and_keep_the_area():
    values = np.array([[0.5] * 60 + [5.0] * 40])
    figure = vectors.ridges({"norm": {"m": values}}, limits=(0.0, 1.0), bins=10)
    ridge = marks(figure, Ridges)[0]
    assert ridge.outside == (40,)
    assert sum(ridge.heights[0]) * 0.1 == pytest.approx(0.6)
    assert "40 values outside" in remarks(figure.panels[0], ENGLISH)[0]


def test_by_default_ridges_leave_nothing_outside():
    figure = vectors.ridges({"norm": {"m": examples.made_up(0)}})
    assert set(marks(figure, Ridges)[0].outside) == {0}


def test_z_scores_are_drawn_against_the_normal_distribution():
    figure = z_histogram([0.1, -0.5, 30.0])
    null = next(mark for mark in marks(figure, Histogram) if mark.role == "null")
    assert sum(null.counts) == pytest.approx(1)
    data = next(mark for mark in marks(figure, Histogram) if mark.role == "data")
    assert (sum(data.counts), data.above) == (3, 0)


def test_chance_keeps_its_width_beside_the_z_scores_of_relatives():
    figure = z_histogram([0.1, -0.5, 900.0])
    (panel,) = figure.panels
    null = next(mark for mark in marks(figure, Histogram) if mark.role == "null")
    assert sum(count > 0.01 for count in null.counts if count) > 8
    assert dict(panel.x.ticks)[np.arcsinh(500)] == "500"
    assert not z_histogram([0.1, 3.0]).panels[0].x.ticks


# --- bars ---


def test_the_claim_is_computed_and_refuted_beside_it():
    figure = examples.claimed_evidence()
    claim, answer, rest = figure.panels
    told = [mark.text for mark in claim.marks if isinstance(mark, TextMark)]
    assert told == ["difference 0.612, “182 sigma”"]
    assert [mark.text for mark in answer.marks if isinstance(mark, TextMark)] == ["expected difference 0.617"]
    bars = next(mark for mark in rest.marks if isinstance(mark, Bars))
    assert np.abs(np.array(bars.series[0].values, float)).max() < 0.01


def test_a_claim_needs_a_baseline():
    alone = [claim.Claim(label="x", cosine=0.9, expected=0.9, served="evidence")]
    with pytest.raises(UsageError, match="baseline"):
        claim.claimed_evidence(alone, difference=0.0, expected_difference=0.0)


def test_what_the_argument_does_not_name_is_not_called_evidence():
    claims = [
        claim.Claim(label="layer 0", cosine=0.4, expected=0.4, served="baseline"),
        claim.Claim(label="pair", cosine=0.99, expected=0.99, served="evidence"),
        claim.Claim(label="control", cosine=0.98, expected=0.98, served="beside"),
    ]
    figure = claim.claimed_evidence(claims, difference=0.59, expected_difference=0.59)
    (bars,) = (mark for mark in figure.panels[0].marks if isinstance(mark, Bars))
    assert {series.name: series.values for series in bars.series} == {
        "called baseline": (0.4, None, None),
        "called evidence": (None, 0.99, None),
        "not in the argument": (None, None, 0.98),
    }
    assert len({series.style.tone for series in bars.series}) == 3


def test_zoomed_pairs_are_points():
    figure = examples.near_layers()
    assert not marks(figure, Bars)
    assert {mark.role for mark in marks(figure, Scatter)} == {"data", "expectation"}


@pytest.mark.parametrize("n_models", [3, 4])
def test_many_models_are_points_which_have_room_beside_each_other(n_models):
    found = {f"model {number}": curve([0.4, 0.9], [0.4, 0.9]) for number in range(n_models)}
    figure = models.layer_pairs(["0 and 1", "1 and 2"], found, title="Layers")
    drawn = marks(figure, Scatter)
    assert len(marks(figure, Bars)) == (n_models == 3)
    assert len(drawn) == (0 if n_models == 3 else 2 * n_models)
    assert len({x for mark in drawn if mark.role == "data" for x in mark.x}) == len(drawn)


def test_groups_show_every_pair():
    figure = models.group_means({"g": curve((0.9, 0.8, None), (0.9, 0.9, None))}, measure="cosine")
    points = by_name(figure, Scatter)["one value"]
    assert points.y == (0.9, 0.8, None)
    assert "n = 2, mean 0.850" in figure.panels[0].x.ticks[0][1]


# --- matrices ---


def test_cosine_and_correlation_share_nothing_but_layers():
    cosine, excess, pearson = (marks(examples.cosine_and_pearson(), HeatMap, i)[0] for i in range(3))
    assert (cosine.scale.kind, excess.scale.kind, pearson.scale.kind) == ("sequential", "signed", "signed")
    assert pearson.clipped() == (0, 0)
    # Layer 0 has a cosine of 0.13, and all others more than 0.9 or so: the colours are for the others.
    below, above = cosine.clipped()
    assert 0 < below < 46 * 46 / 4
    assert above == 0
    assert cosine.scale.low > 0.85
    assert 0 < sum(excess.clipped()) < 46 * 46 / 4
    assert excess.scale.high < 0.002
    assert any(
        f"{below} cells below" in remark
        for remark in remarks(examples.cosine_and_pearson().panels[0], ENGLISH)
    )
    assert pearson.scale.chance == 0
    assert len(pearson.path) == 46


def test_the_sign_of_a_correlation_is_kept():
    figure = pairs.pair_matrices({"A | B": [[0.5, -0.5], [0.0, 0.1]]})
    heat = marks(figure, HeatMap)[0]
    assert heat.scale.kind == "signed"
    assert heat.values[0] == (0.5, -0.5)
    assert figure.panels[0].title.endswith("same layer 0.300, others \u22120.250")


def test_a_mean_of_some_cells_says_that_it_is_one():
    figure = pairs.pair_matrices({"A | B": [[1.0, np.nan, 0.95], [np.nan, 1.0, np.nan]]})
    assert figure.panels[0].title.endswith("same layer 1.00, others 0.950, where known (3 of 6)")


def test_strangers_share_a_scale_that_relatives_do_not_blank():
    matrices = {"A | child": [[1.0]], "A | B": [[0.05]], "A | C": [[-0.1]], "B | C": [[0.08]]}
    figure = pairs.pair_matrices(matrices)
    scales = [heat.scale.high for i in range(4) for heat in marks(figure, HeatMap, i)]
    assert scales == [1.0, 0.1, 0.1, 0.1]
    assert "Scales differ" in figure.note
    del matrices["A | child"]
    assert "Scales differ" not in pairs.pair_matrices(matrices).note


def test_correlations_of_relatives_have_a_panel_of_their_own():
    figure = examples.input_minus_post()
    drawn = [{mark.name for mark in marks(figure, Lines, i) if mark.role == "data"} for i in (2, 3)]
    assert drawn == [{"a | b"}, {"a | a-tuned"}]


def test_each_kind_of_tensor_has_the_chance_of_its_own_length():
    norm, router = curve([0.01, 0.02]), curve([0.004, 0.006], n=2**19)
    figure = pair.layer_curves(
        pair_of(measure="pearson", **{"norm": norm, "router": router, "other norm": norm})
    )
    names = [{mark.name for mark in marks(figure, Lines, i)} for i in (0, 1)]
    assert names == [{"norm", "other norm"}, {"router"}]
    bands = [marks(figure, ReferenceLine, i)[0].high for i in (0, 1)]
    assert bands == pytest.approx([1.96 / np.sqrt(4095), 1.96 / np.sqrt(2**19 - 1)])


def test_the_overview_says_what_random_vectors_have():
    figure = examples.comprehensive()
    assert "random vectors, N(1, 0.01): 0.9999" in [mark.label for mark in marks(figure, ReferenceLine, 0)]
    (text,) = (mark.text for mark in figure.panels[3].marks if isinstance(mark, TextMark))
    assert "-23," in text


def test_layers_face_each_other_by_number():
    cosine, pearson = (
        pair.Cells(values=[[value] * 3] * 2, n=99, layers=((1, 2), (0, 1, 2))) for value in (1.0, 0.1)
    )
    cells = {"cosine": cosine, "pearson": pearson}
    figure = pair.cosine_and_pearson(pair.TwoModels(names=("A", "B"), cells=cells))
    assert marks(figure, HeatMap)[0].path == ((0, 1), (1, 2))


def test_a_raw_cosine_without_expectation_says_that_it_cannot_be_judged():
    norm = models.Square(names="AB", values=[[1.0, 0.98], [0.98, 1.0]])
    figure = models.confusion({"norm": norm}, measure="cosine", where="layer 1", chance=None)
    assert "no chance level" in figure.panels[0].without_null


def test_the_diagonal_of_a_small_matrix_does_not_shout():
    norm = models.Square(names="AB", values=[[1.0, 0.2], [0.2, 1.0]])
    figure = models.confusion({"norm": norm}, measure="r", where="layer 1")
    (heat,) = marks(figure, HeatMap)
    assert heat.values == ((None, 0.2), (0.2, None))
    assert "each with itself" in figure.note
    norm = replace(norm, values=[[0.3, 0.2], [0.2, 1.0]])
    mixed = models.confusion({"norm": norm}, measure="r", where="layer 1")
    assert marks(mixed, HeatMap)[0].values == ((0.3, 0.2), (0.2, None))


def test_cells_carry_their_expectation():
    heat = marks(examples.confusion_cosine(), HeatMap, 0)[0]
    assert heat.expected[0][1] == pytest.approx(0.981, abs=0.001)


def test_distances_start_at_zero_and_refusals_are_told():
    figure = examples.distances()
    assert {mark.scale.low for mark in marks(figure, HeatMap)} == {0.0}
    assert figure.note.endswith("v_proj left out: a mean of zero")


def test_groups_stand_together_and_cells_follow():
    square = models.Square(names="abc", values=[[1.0, 0.1, 0.2], [0.1, 1.0, 0.3], [0.2, 0.3, 1.0]])
    groups, related = ("x", "y", "x"), [("a", "c")]
    figure = models.model_matrix(square, measure="m", title="t", groups=groups, related=related)
    heat = marks(figure, HeatMap)[0]
    assert heat.rows == ("a", "c", "b")
    assert heat.values[0] == (1.0, 0.2, 0.1)
    assert heat.separators == (2,)
    assert heat.path == ((0, 1), (1, 0))


def test_cells_too_small_to_read_promise_no_numbers():
    values = np.eye(11)
    square = models.Square(names=[str(i) for i in range(11)], values=values, expected=values * 0.9)
    raw, excess = models.model_matrix(square, measure="m", title="t").panels
    assert "no chance level" in raw.without_null
    assert excess.shows_chance
    assert {mark.digits for panel in (raw, excess) for mark in panel.marks if isinstance(mark, HeatMap)} == {
        None
    }


def decay(values, pearson, n):
    curves = {"pearson": {"norm": curve(pearson, n=n)}}
    cells = {"cosine": pair.Cells(values=values)}
    return pair.layer_decay(pair.TwoModels(names=("A", "B"), curves=curves, cells=cells))


def test_the_facing_layer_is_compared_with_its_row():
    figure = decay([[0.9, 0.1, 0.2], [0.3, 0.2, 0.1]], [0.1, 0.2], n=50)
    assert "best of its row in 1 of 2 layers; by chance in 0.7" in marks(figure, TextMark)[0].text


def test_one_layer_cannot_be_compared_with_others():
    with pytest.raises(UsageError, match="two layers"):
        decay([[0.4]], [0.3], n=9)


# --- space ---


def test_components_are_those_of_the_covariance():
    models = {"a": examples.made_up(1, 12, 40), "b": examples.made_up(2, 12, 40)}
    view = vectors.principal_components(models, scaled=False)
    stacked = np.concatenate(list(models.values()))
    values = np.sort(np.linalg.eigvalsh(np.cov(stacked.T)))[::-1]
    np.testing.assert_allclose(view.shares, values[:3] / values.sum(), rtol=1e-9)
    assert view.mean_share > 0.95
    assert vectors.principal_components(models, scaled=True).mean_share < 0.9


def test_vectors_of_different_length_are_not_padded():
    models = {"a": examples.made_up(1, 4, 8), "b": examples.made_up(2, 4, 9)}
    with pytest.raises(UsageError, match="equal length"):
        vectors.trajectories(models, what="norm")


def test_trajectories_tell_how_much_of_the_first_component_is_the_mean():
    figure = examples.trajectories()
    assert "of PC1 is the mean of the layer" in figure.note
    assert len(marks(figure, Trajectory3D, 0)) == 4


def test_surfaces_share_one_scale():
    drawn = marks(examples.surfaces(), HeatMap)
    assert len(drawn) == 2
    assert len({mark.scale for mark in drawn}) == 1


def test_centring_shows_cosine_then_correlation():
    before, after = examples.centring_before(), examples.centring_after()
    assert "cosine +0.955\nangle 17°" in marks(before, TextMark)[0].text
    assert "-0.602\nangle 127°" in marks(after, TextMark)[0].text


def test_long_vectors_are_shown_with_their_true_angles():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 0.5, 500), rng.normal(1, 0.4, 500)
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert f"cosine {cosine:+.3f}" in marks(centring.centring_before(a, b), TextMark)[0].text
    assert (
        f"(Pearson) {np.corrcoef(a, b)[0, 1]:+.3f}" in marks(centring.centring_after(a, b), TextMark)[0].text
    )


@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        ([1, 2], [1, 2], "at least 3"),
        ([1, 2, 3], [0, 0, 0], "not zero"),
        ([1, 2, None], [1, 2, 3], "missing"),
    ],
)
def test_vectors_that_cannot_be_centred_are_refused(a, b, problem):
    with pytest.raises(UsageError, match=problem):
        centring.centring_before(a, b)


def test_a_constant_vector_has_no_angle_after_centring():
    assert "no angle" in marks(centring.centring_after([1, 1, 1], [1, 2, 3]), TextMark)[0].text


def test_frames_of_an_animation_have_one_frame_of_reference():
    frames = examples.centring_animation(steps=4, turn=2).frames
    assert len({tuple(type(mark) for mark in frame.panels[0].marks) for frame in frames}) == 1
    assert len({frame.panels[0].x for frame in frames[:4]}) == 1


# --- the rest ---


def test_sampled_dimensions_are_not_repeated_and_come_from_all_quarters():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=400), rng.normal(size=400)
    picked = sampled_dimensions(a, b, 50, 42)
    assert len(set(picked)) == 50
    ranks = np.argsort(np.argsort(a + b))[picked] // 100
    assert sorted(np.bincount(ranks)) == [12, 12, 13, 13]
    assert len(sampled_dimensions(a[:10], b[:10], 50, 0)) == 10


def test_centred_bars_use_the_mean_of_all_values():
    figure = examples.intuition()
    raw, centred = (marks(figure, Bars, i)[0].series[0].values for i in range(2))
    mean = examples.made_up(1, dimensions=1024)[20].mean()
    np.testing.assert_allclose(np.array(raw, float) - mean, np.array(centred, float))


def test_layers_without_change_are_not_on_a_log_axis_and_said_so():
    steps: rows.Columns = {"mean_ulps": [1.0, None], "one_ulp": [1e-3, 1e-3]}
    difference: rows.Columns = {"mean_absolute_difference": [1e-4, 0.0]}
    table: rows.Columns = {"layer": [0, 1], "percent": [5, 0], **difference, **steps}
    figure = rows.changed_values(table, names=("A", "B"), what="N")
    assert by_name(figure, Lines, 1)["mean |difference|"].y == (1e-4, None)
    assert "1 layers without any difference" in figure.panels[1].note


def test_an_overlap_without_background_is_not_judged():
    ids = ([1, 2, 3], [1, 5, 9])
    figure = tokens.vocabulary_mapping(ids, names=("A", "B"), own={}, high={}, overlap=0.7)
    assert "cannot be judged" in figure.note
    assert figure.panels[1].title == "Shift of ids (1 equal)"


def test_many_tokens_are_thinned_and_said_so():
    ids = np.arange(30_000)
    figure = tokens.vocabulary_mapping((ids, ids[::-1]), names=("A", "B"), own={"x": 1}, high={"y": 1})
    assert len(marks(figure, Scatter)[0].x) == 20_000
    assert "20000 of 30000 points" in figure.panels[0].note


def test_cosines_of_random_vectors_follow_the_closed_form():
    figure = examples.synthetic_cosines(pairs=60)
    assert [panel.title for panel in figure.panels][-1] == "Positive values"
    assert len(figure.panels) == 4
    assert not any(panel.x.reverse for panel in figure.panels)
    for panel in figure.panels:
        exact, seen = (
            [mark.y for mark in panel.marks if isinstance(mark, Lines) and mark.role == role]
            for role in ("expectation", "data")
        )
        np.testing.assert_allclose(np.array(seen, float), np.array(exact, float), atol=0.04)


def test_every_reference_line_says_what_it_is():
    for make in examples.EXAMPLES.values():
        for mark in marks(make(), ReferenceLine):
            assert mark.label
