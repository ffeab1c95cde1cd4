"""Published fingerprints as reference methods: shown next to our evidence, never part of the verdict.

One file per method; ``run`` prices, reads and runs them, ``catalogue`` knows their names. A score is a
`modelkin.comparison.ReferenceScore`, which is not `Evidence`: a comparison has its verdict before any of this
runs, and `modelkin.comparison` imports nothing from here.
"""

from ._interface import ReferenceCard, RunMemory
from .catalogue import chosen_references, load_reference, load_reference_cards
from .run import (
    ReferenceOptions,
    each_reference_score,
    read_prompts,
    reference_costs,
    reference_scores,
    with_references,
)
