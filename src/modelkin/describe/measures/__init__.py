"""Measures of pairs of vectors, what each is by chance, and tables of results. Pure arrays and names.

Nothing here decides anything: measures describe. For a decision with an error rate there is
`modelkin.compare`.
"""

from ._describe import Description, describe
from ._distribution import Baseline, Distribution, distribution
from ._draws import (
    Draws,
    draws_for,
    gaussian_cosine,
    generator,
    permuted_pairs,
    random_draws,
    random_pairs,
    shuffle_draws,
)
from ._layer_pairs import PAIRINGS, LayerPairing, layer_pairs
from ._measure import Measure, Measured, measured
from ._pairs import Pairs
from ._profiles import LayerZero, layer_zero, off_diagonal, offset_profile
from ._registry import BESIDE_COSINE, DEFAULT, MEASURES, chosen_measures, find_measure
from ._stack import LEAST_RHO, Fault, Stack, row_ranks
from ._table import COLUMNS, LayerMatrix, Row, Table
from ._table_text import table_from_cells, table_from_csv, table_to_csv

__all__ = [
    "BESIDE_COSINE",
    "COLUMNS",
    "DEFAULT",
    "LEAST_RHO",
    "MEASURES",
    "PAIRINGS",
    "Baseline",
    "Description",
    "Distribution",
    "Draws",
    "Fault",
    "LayerMatrix",
    "LayerPairing",
    "LayerZero",
    "Measure",
    "Measured",
    "Pairs",
    "Row",
    "Stack",
    "Table",
    "chosen_measures",
    "describe",
    "distribution",
    "draws_for",
    "find_measure",
    "gaussian_cosine",
    "generator",
    "layer_pairs",
    "layer_zero",
    "measured",
    "off_diagonal",
    "offset_profile",
    "permuted_pairs",
    "random_draws",
    "random_pairs",
    "row_ranks",
    "shuffle_draws",
    "table_from_cells",
    "table_from_csv",
    "table_to_csv",
]
