"""AWM and phi_U on checkpoints in memory: the reference methods of modelkin, with all tokens and no limit."""

from __future__ import annotations

from dataclasses import dataclass

from modelkin import MemorySource, ReferenceOptions, ReferenceScore, reference_scores
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.reference.awm import STRANGERS_MEAN, STRANGERS_SPREAD

__all__ = ["WEAKEST_CHILD", "AwmScore", "PhiU", "Skipped", "awm", "phi_u"]

WEAKEST_CHILD = 12.1
"""The smallest absolute z that AWM reports of a true child (Llama-3.2-1B); strangers have about 1 at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """No score, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AwmScore:
    """What AWM says about two models."""

    score: float
    """Mean unbiased CKA; 1 is a copy."""
    n_tokens: int
    """Tokens in common, by their text."""
    layers: tuple[tuple[int, int], ...]
    """Which layer of the candidate was compared with which of the base."""

    @property
    def absolute_z(self) -> float:
        """The distance from AWM's own strangers in their standard deviations. It is not a p-value."""
        return abs(self.score - STRANGERS_MEAN) / STRANGERS_SPREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class PhiU:
    """What phi_U says about two models."""

    log10_p: float
    n_tests: int
    """Matched matrices: one per layer, or one per expert."""


def awm(candidate: Checkpoint, base: Checkpoint) -> AwmScore | Skipped:
    """Return AWM's score."""
    found = _asked("awm", candidate, base)
    if found.score is None:
        return Skipped(reason=str(found.reason))
    return AwmScore(score=found.score, n_tokens=int(found.details["tokens"]), layers=found.layers)


def phi_u(candidate: Checkpoint, base: Checkpoint) -> PhiU | Skipped:
    """Return phi_U, combined over layers (and experts) by Fisher's method."""
    found = _asked("phi-u", candidate, base)
    if found.score is None:
        return Skipped(reason=str(found.reason))
    return PhiU(log10_p=-found.score, n_tests=int(found.details["tests"]))


def _asked(method: str, candidate: Checkpoint, base: Checkpoint) -> ReferenceScore:
    (found,) = reference_scores(
        MemorySource(candidate.files("F32"), name="candidate"),
        MemorySource(base.files("F32"), name="base"),
        ReferenceOptions(methods=(method,), byte_limit=None),
    )
    return found
