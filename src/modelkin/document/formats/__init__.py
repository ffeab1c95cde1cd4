"""Results in the formats of other programs: code scanning, bills of materials, model cards, badges."""

from .claims import sarif_json
from .comparison import comparison_as
