"""Measures of pairs of vectors, what chance gives for each, and tables of results. Pure arrays and names.

Nothing here decides anything: measures describe. For a decision with an error rate there is
`modelkin.compare`.
"""

from ._baselines import (
    Baseline,
    Distribution,
    distribution,
    layer_zero,
    measured_mean,
    off_diagonal,
    offset_profile,
)
from ._draws import (
    Draws,
    draws_for,
    gaussian_cosine,
    generator,
    permuted_pairs,
    random_draws,
    random_pairs,
    shuffle_draws,
    too_many_to_draw,
)
from ._measure import Measure, MeasuredPairs, measured, measured_all
from ._pairs import PAIRINGS, LayerPairing, Pairs, layer_pairs
from ._registry import DEFAULT, MEASURES, chosen_measures, find_measure
from ._table import (
    COLUMNS,
    NO_LAYER,
    NOTHING,
    LayerMatrix,
    MeasureRow,
    MeasureTable,
)
from ._table_files import (
    PLACED_COLUMNS,
    placed_cells,
    table_from_cells,
    table_from_csv,
    table_to_csv,
)
from .stack import PART_VALUES, Stack, describe_rows
