"""LoRA adapters in PEFT's layout: applied to their base on the fly, or read alone."""

from ._fit import Fit, fit_to_base, sort_out
from ._open import OpenedAdapter, open_adapter, place_of_adapter
from .reading import AdapterRecord
