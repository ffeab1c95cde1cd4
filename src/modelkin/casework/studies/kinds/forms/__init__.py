"""Further files of an experiment, in the forms of published analyses, so that files can be compared.

Each has the columns or keys that were published, and no others: what a number would be by chance is in the
data of the experiment, next to the same number.
"""

from ._rows import Detailed, Layerwise, Windows
from ._squares import Confusion, Within
from ._sums import Decay, MatchedLayers, Overview, WithControl
from .form import CATEGORIES
from .tokenizers import AnyTokenizerForm, BothTokenizers

AnyForm = Layerwise | Windows | Detailed | Confusion | Within | Decay | MatchedLayers | WithControl | Overview
