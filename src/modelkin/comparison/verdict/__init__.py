"""From evidence to an answer: a versioned rule, applied without looking at anything else."""

from modelkin.comparison.verdict._decide import Identity, decide
from modelkin.comparison.verdict._rule import load_rule
from modelkin.comparison.verdict.result import ComponentVerdict, Conclusion, Verdict
from modelkin.comparison.verdict.words import (
    GUESSED,
    NEVER,
    resting_on_samples,
    retold_by_difference,
    retold_by_equality,
    rounded_up,
)
