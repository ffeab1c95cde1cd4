"""Figures: descriptions as data first, drawing second. Chance is in every one of them."""

from ._draw import Animation, Format, animate, draw, rendered, renderings
from ._figure import Axis, Figure, Panel
from ._inputs import Chance, pearson_chance
from ._json import figure_from_json, figure_to_json
from ._marks import (
    Arrow3D,
    Bars,
    BarSeries,
    HeatMap,
    Histogram,
    Intervals,
    Lines,
    Plane3D,
    ReferenceLine,
    Ridges,
    Scatter,
    Surface3D,
    Table,
    Text,
    Trajectory3D,
)
from ._scale import Scale, sequential_scale, signed_scale
from ._style import Style, Styles, series_styles

__all__ = [
    "Animation",
    "Arrow3D",
    "Axis",
    "BarSeries",
    "Bars",
    "Chance",
    "Figure",
    "Format",
    "HeatMap",
    "Histogram",
    "Intervals",
    "Lines",
    "Panel",
    "Plane3D",
    "ReferenceLine",
    "Ridges",
    "Scale",
    "Scatter",
    "Style",
    "Styles",
    "Surface3D",
    "Table",
    "Text",
    "Trajectory3D",
    "animate",
    "draw",
    "figure_from_json",
    "figure_to_json",
    "pearson_chance",
    "rendered",
    "renderings",
    "sequential_scale",
    "series_styles",
    "signed_scale",
]
