"""Kinds of figures. Each declares its options, and is made only from saved data."""

from modelkin.casework.studies.spec import Drawing

from . import _along_layers, _baselines, _between, _values

PLOTS: tuple[type[Drawing], ...] = (
    *_along_layers.PLOTS,
    *_between.PLOTS,
    *_baselines.PLOTS,
    *_values.PLOTS,
)
