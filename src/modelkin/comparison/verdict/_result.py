"""The answer: a conclusion in fixed words, its strength, and what it does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from modelkin.comparison.methods import Effect
from modelkin.message import Message


class Conclusion(Enum):
    """The only words a verdict may use."""

    IDENTICAL = "identical"
    SHARED = "shared"
    SHARED_PARTIAL = "shared-partial"
    SHARED_REPARAMETRISED = "shared-reparametrised"
    NO_EVIDENCE = "no-evidence"
    NOT_TESTABLE = "not-testable"

    @property
    def related(self) -> bool | None:
        """True for a common origin, False for no evidence of one, None when nothing could be tested."""
        if self is Conclusion.NOT_TESTABLE:
            return None
        return self is not Conclusion.NO_EVIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentVerdict:
    """The answer for one component."""

    conclusion: Conclusion
    log10_p: float | None
    """Combined over its tests; not yet corrected for the number of components."""
    effect: Effect | None
    n_tests: int
    layers: tuple[int, ...] = ()
    """Tested layers in which the component is shared; empty where layers do not apply."""
    other_layers: tuple[int, ...] = ()
    """Tested layers in which it is not."""
    detection_limit: float | None = None
    reason: Message | None = None
    """Why it is not testable."""
    calibrated: bool = False
    """Whether it rests on controls: then `log10_p` is a rank among them, not an exact p-value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer for two models."""

    conclusion: Conclusion
    related: bool | None
    log10_p: float | None
    log10_p_extrapolated: float | None
    effect: Effect | None
    detection_limit: float | None
    components: Mapping[str, ComponentVerdict]
    summary: Message
    limitations: tuple[Message, ...]
    rule: Message
    """Name and version of the decision rule."""
    stage: str
    """The last stage that was read for this verdict."""
