"""Which files hold the weights, and in which format: every format gives tensors under one set of names."""

from ._open import KNOWN, chosen_file, describes_itself, may_describe_itself, read_weights
from .adapters import Fit, OpenedAdapter, fit_to_base, open_adapter, place_of_adapter, sort_out
from .factored import FactorPair, find_factors, multiplied
from .interface import Weights
