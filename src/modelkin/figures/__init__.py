"""Figures: descriptions as data first, drawing second. Chance is in every one of them."""

from ._alt import alt_of
from ._draw import Format, animate, draw, rendered, renderings
from ._figure import Animation, Axis, Figure, Panel
from ._inputs import WITHIN, Chance, binned, edges_of, pearson_chance, words
from ._json import figure_from_json, figure_to_json
from ._scale import Scale, sequential_scale, signed_scale
from ._style import EXPECTATION, NULL, Style, Styles, Tone, complete, series_styles
from .marks import (
    Arrow3D,
    Bars,
    BarSeries,
    HeatMap,
    Lines,
    Mark,
    Plane3D,
    Point,
    ReferenceLine,
    Ridges,
    Role,
    Scatter,
    TextMark,
    Trajectory3D,
    shows_chance,
)
from .values import Matrix, Numbers, Series, array, brief, digits_for, grid, known, mean, numbers, spread
