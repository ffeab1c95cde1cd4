"""Kinds of figures, by name. Each is made from saved data alone."""

from collections.abc import Mapping

from . import _along_layers, _baselines, _between, _values
from ._plot import Plot

PLOTS: Mapping[str, Plot] = {
    plot.name: plot for plot in (*_along_layers.PLOTS, *_between.PLOTS, *_baselines.PLOTS, *_values.PLOTS)
}

__all__ = ["PLOTS", "Plot"]
