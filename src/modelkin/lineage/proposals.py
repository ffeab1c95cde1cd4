"""Which pairs of a collection are worth a comparison: what their fingerprints say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from modelkin.fingerprint import Fingerprint, FingerprintRows, fingerprint_product

_LOG10_PRICE = 8.0
"""Every pair is corrected for a hundred million models, as in a scan, however small the collection."""
_LOG10_FOUND = -6.0
"""Worth a comparison, which decides: a million unrelated pairs give one."""
_ALIKE = 0.6
"""Cosine of token Gram matrices. Unrelated models of the zoo reach 0.46, students of one teacher 0.66: it
only says where to look."""
_PERHAPS = 0.3
"""The same for models that are alone: a heavy fine-tune of the zoo has 0.53 with its relatives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Two models whose fingerprints show a common origin, or whose tokens look alike."""

    first: str
    second: str
    log10_p: float
    token_gram: float | None

    @property
    def strength(self) -> tuple[float, float]:
        """Sort key: the strongest first."""
        return self.log10_p, -(self.token_gram or 0.0)

    @property
    def is_found(self) -> bool:
        """Whether the pair is worth a comparison by its fingerprints alone."""
        alike = self.token_gram is not None and self.token_gram >= _ALIKE
        return self.log10_p < _LOG10_FOUND or alike

    @property
    def is_guess(self) -> bool:
        """Whether a model that is alone may be compared with the other, for want of a better one."""
        return not self.is_found and self.token_gram is not None and self.token_gram >= _PERHAPS

    def other(self, name: str) -> str:
        """Return the other one's name."""
        return self.second if name == self.first else self.first


def proposed_pairs(prints: Mapping[str, Fingerprint]) -> dict[frozenset[str], Proposal]:
    """Compare all fingerprints with each other and return the pairs that are found, or may be guessed."""
    rows = {name: FingerprintRows(made) for name, made in prints.items()}
    found: dict[frozenset[str], Proposal] = {}
    for first, second in combinations(rows, 2):
        made = fingerprint_product(rows[second], rows[first])
        log10_p = min(0.0, float(made.log10_p) + _LOG10_PRICE)
        gram = None if made.token_gram is None else float(made.token_gram)
        proposal = Proposal(first=second, second=first, log10_p=log10_p, token_gram=gram)
        if proposal.is_found or proposal.is_guess:
            found[frozenset((first, second))] = proposal
    return found
