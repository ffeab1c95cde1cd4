"""The cosine study: draws agree with the closed forms, and the closed forms with independent computations."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from modelkin.casework.lab import CosineStudyOptions, cosine_study, exact_cosine, write_cosines
from modelkin.casework.lab.cosines import published_cosines
from modelkin.casework.lab.cosines_files import cosine_figures
from modelkin.errors import UsageError
from modelkin.figures import Lines
from modelkin.stats import cosine_decomposition, limit_cosine


@pytest.fixture(scope="module")
def study():
    return cosine_study(CosineStudyOptions(dimensions=(16, 64, 512), pairs=4000))


def test_drawn_means_agree_with_the_closed_form(study):
    for cell in study.cells:
        assert abs(cell.error) < 4.5, cell
        assert cell.cosine == pytest.approx(cell.exact, abs=4.5 * cell.exact_spread / math.sqrt(cell.pairs))
        assert cell.spread == pytest.approx(cell.exact_spread, rel=0.08)
    assert {(c.sigma_1 == c.sigma_2) for c in study.cells} == {True, False}


def test_long_vectors_are_at_the_published_limit():
    found = cosine_study(CosineStudyOptions(dimensions=(4096,), pairs=500, ratios=(1.0, 0.5)))
    for cell in found.cells:
        assert cell.cosine == pytest.approx(cell.limit, abs=2e-3)
        assert cell.exact == pytest.approx(cell.limit, abs=1e-4)
        assert cell.positive_1 == pytest.approx(cell.exact_positive_1, abs=1e-3)
        assert cell.positive_2 == pytest.approx(cell.exact_positive_2, abs=1e-3)


def test_draws_are_those_of_plain_vectors():
    """The sums from which all kinds are made give what the vectors themselves would give."""
    options = CosineStudyOptions(
        means=((0.5, -1.0),), sigmas=(0.75,), ratios=(2.0,), dimensions=(32,), pairs=200
    )
    (cell,) = cosine_study(options).cells
    rng = np.random.default_rng([42, 32])
    x, y = 0.5 + 0.75 * rng.standard_normal((200, 32)), -1.0 + 1.5 * rng.standard_normal((200, 32))
    cosines = [float(cosine_decomposition(candidate=a, base=b).cosine) for a, b in zip(x, y, strict=True)]
    assert (cell.sigma_2, cell.exact < 0) == (1.5, True)
    assert cell.cosine == pytest.approx(np.mean(cosines), abs=1e-12)
    assert (cell.least, cell.largest) == pytest.approx((min(cosines), max(cosines)), abs=1e-12)
    assert cell.positive_1 == pytest.approx(np.mean(x > 0), abs=1e-12)
    assert cell.positive_2 == pytest.approx(np.mean(y > 0), abs=1e-12)


@pytest.mark.parametrize("length", [0.3, 2.0, 9.0])
def test_in_three_dimensions_the_mean_direction_is_elementary(length):
    """A point at distance t from the origin, moved by a standard normal vector of three dimensions."""
    t = length
    known = (1 - 1 / t**2) * math.erf(t / math.sqrt(2)) + math.sqrt(2 / math.pi) * math.exp(-t * t / 2) / t
    # The second vector hardly varies, so its direction is that of the ones.
    found = exact_cosine(means=(t / math.sqrt(3), 1.0), sigmas=(1.0, 1e-9), dimension=3)
    assert found.mean == pytest.approx(known, abs=1e-12)


def test_vectors_without_means_have_the_spread_of_random_directions():
    found = exact_cosine(means=(0.0, 0.0), sigmas=(1.0, 3.0), dimension=64)
    assert found.mean == 0.0
    assert found.spread == pytest.approx(1 / 8, abs=1e-12)


@pytest.mark.parametrize(
    ("sigma", "mean", "spread"), [(0.1, 0.9901, 0.0002), (0.01, 0.999900, 2.213e-6)], ids=["0.1", "0.01"]
)
def test_published_draws_around_one_have_the_exact_mean_and_spread(sigma, mean, spread):
    """Two published baselines of random vectors of 4096 values, as far as their digits go."""
    found = exact_cosine(means=(1.0, 1.0), sigmas=(sigma, sigma), dimension=4096)
    assert found.mean == pytest.approx(mean, abs=6e-6)
    assert found.spread == pytest.approx(spread, rel=0.1)


def test_only_mean_over_sigma_counts():
    one = exact_cosine(means=(1.0, 2.0), sigmas=(0.1, 0.3), dimension=100)
    other = exact_cosine(means=(10.0, 0.2), sigmas=(1.0, 0.03), dimension=100)
    turned = exact_cosine(means=(-1.0, 2.0), sigmas=(0.1, 0.3), dimension=100)
    assert other.mean == pytest.approx(one.mean, abs=1e-14)
    assert turned.mean == pytest.approx(-one.mean, abs=1e-14)
    assert limit_cosine(means=(1.0, 2.0), sigmas=(0.1, 0.3)) == pytest.approx(one.mean, abs=1e-3)


def test_published_cosines_follow_from_published_means_and_deviations():
    rows = published_cosines()
    assert len(rows) == 16
    for row in rows:
        limit = limit_cosine(means=(row.mean_a, row.mean_b), sigmas=(row.std_a, row.std_b))
        room = math.sqrt(
            (1 - (row.mean_a / math.hypot(row.mean_a, row.std_a)) ** 2)
            * (1 - (row.mean_b / math.hypot(row.mean_b, row.std_b)) ** 2)
        )
        assert row.cosine == pytest.approx(limit + row.pearson * room, abs=1e-6)
        assert row.expected == pytest.approx(limit, abs=2e-4)


def test_the_conclusion_is_made_of_the_numbers(study):
    highest = max(cell.cosine for cell in study.cells)
    assert f"to {highest:.4f}" in str(study.conclusion[0])
    other = cosine_study(CosineStudyOptions(means=((0.1, 0.1),), sigmas=(1.0,), dimensions=(16,), pairs=50))
    assert study.conclusion[0] != other.conclusion[0]


def test_equal_seeds_give_equal_studies():
    options = CosineStudyOptions(dimensions=(8,), pairs=20)
    assert cosine_study(options) == cosine_study(options)
    assert (
        cosine_study(options).cells
        != cosine_study(CosineStudyOptions(dimensions=(8,), pairs=20, seed=1)).cells
    )


def test_figures_show_the_closed_form_beside_every_curve(study):
    figures = cosine_figures(study)
    assert figures.keys() == {"cosines", "cosines_unequal", "cosines_published"}
    assert len(figures["cosines"].panels) == 4
    for figure in figures.values():
        assert all(panel.shows_chance for panel in figure.panels)
    (panel, *_) = figures["cosines_unequal"].panels
    drawn = [mark for mark in panel.marks if isinstance(mark, Lines) and mark.role == "data"]
    ratios = study.options.ratios
    assert len(drawn) == len(ratios)
    for mark, ratio in zip(drawn, ratios, strict=True):
        cells = [
            c
            for c in study.cells
            if (c.mean_1, c.mean_2, c.dimension) == (0.1, 0.5, 512) and c.sigma_2 == c.sigma_1 * ratio
        ]
        assert set(mark.y) == {cell.cosine for cell in cells}


def test_a_study_is_written(study, tmp_path):
    write_cosines(study, tmp_path / "out")
    written = json.loads((tmp_path / "out" / "cosines.json").read_text())
    assert written["cells"] == json.loads(json.dumps([asdict(cell) for cell in study.cells]))
    rows = list(csv.DictReader((tmp_path / "out" / "cosines.csv").read_text().splitlines()))
    assert [float(row["cosine"]) for row in rows] == [cell.cosine for cell in study.cells]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"cosines.png", "cosines.svg", "cosines_unequal.png", "cosines_published.svg"} <= names


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sigmas": ()}, "at least one"),
        ({"sigmas": (1.0, 0.0)}, "above zero"),
        ({"ratios": (-1.0,)}, "above zero"),
        ({"dimensions": (1,)}, "two dimensions"),
        ({"pairs": 1}, "two pairs"),
    ],
)
def test_studies_that_make_no_sense_are_refused(change, words):
    with pytest.raises(UsageError, match=words):
        CosineStudyOptions(**change)


def test_the_closed_form_refuses_vectors_that_do_not_vary():
    with pytest.raises(UsageError, match="above 0"):
        exact_cosine(means=(1.0, 1.0), sigmas=(0.0, 1.0), dimension=8)
