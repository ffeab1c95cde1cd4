"""The answer: a conclusion in fixed words, its strength, and what it does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

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
        """True for a common origin, False for no evidence of one, None if nothing could be tested."""
        if self is Conclusion.NOT_TESTABLE:
            return None
        return self is not Conclusion.NO_EVIDENCE


Basis = Literal["exact", "own-layers", "rank"]
"""Exact tests; mismatched layers of the same two models; or a rank among pairs with unrelated models."""

Reading = Literal[
    "routers-only",
    "norm-gains-only",
    "norm-gains-alone",
    "token-tables-only",
    "tables-so-far",
    "tables-reordered",
    "coordinates-only",
    "coordinates-and-heads",
    "coordinates-so-far",
    "units-found-again",
    "layers-found-again",
    "single-layer",
    "zeros-alone",
    "beginning-alone",
]
"""Patterns of findings that have names of their own.

``routers-only``: only routers are shared, and experts were tested.
``norm-gains-only``: only norm gains are shared, and other parts were tested.
``norm-gains-alone``: only norm gains were tested, and they are shared.
``token-tables-only``: token tables are equal bit for bit, and no units are shared, reordered or not.
``tables-so-far``: the same, before moved layers and reordered units were looked for.
``tables-reordered``: token tables hold the same numbers in another order, and no units are shared.
``coordinates-only``: what runs along the residual stream is shared, and no units are, reordered or not.
``coordinates-and-heads``: the same, with heads that are alike: learned, or copied and trained on.
``coordinates-so-far``: coordinates without units, before moved layers and reordered units were looked for.
``units-found-again``: shared coordinates, and units in another order: copied, or learned block by block.
``layers-found-again``: the same in other coordinates, which were learned from other layers or tokens.
``single-layer``: one pair of layers and nothing outside it is shared: copied, or begun by one recipe.
``zeros-alone``: nothing is shared except the places of zeros.
``beginning-alone``: nothing is shared except what all layers of both models have in common.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentVerdict:
    """The answer for one component."""

    conclusion: Conclusion
    log10_p: float | None
    """Combined over its tests; not yet corrected for the number of components."""
    effect: Effect | None
    n_tests: int
    layers: tuple[int, ...] = ()
    """Tested layers in which the component is shared; empty if layers do not apply."""
    other_layers: tuple[int, ...] = ()
    """Tested layers in which it is not."""
    contrasted_layers: tuple[int, ...] = ()
    """Which of `layers` rest on the pair's own layers, beside others that were found by exact tests."""
    unfaced_base_layers: tuple[int, ...] = ()
    """Layers of the base that were compared with all of the candidate's and face none of them."""
    detection_limit: float | None = None
    """Smallest effect that its most sensitive test would have found, with unchanged numbering."""
    layer_detection_limit: float | None = None
    """The same for any one of the tested layers; None if layers are not tested one by one."""
    reason: Message | None = None
    """Why it is not testable."""
    basis: Basis = "exact"
    """What `log10_p` rests on, if anything was tested."""
    parameters: int | None = None
    """How many parameters of the candidate belong to it; None if they were not counted."""

    @property
    def is_exact(self) -> bool:
        """Whether `log10_p` rests only on the null of an exact test."""
        return self.basis == "exact"

    @property
    def share_found(self) -> float:
        """Share of the component that is shared, by the layers that were tested one by one."""
        if not self.conclusion.related:
            return 0.0
        tested = len(self.layers) + len(self.other_layers)
        return len(self.layers) / tested if self.other_layers else 1.0


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
    shared_parameters: float | None
    """Share of the candidate's parameters in components and tested layers found shared; None if unknown."""
    reading: Reading | None
    """A pattern of findings that is described separately."""
    headline: Message
    """The verdict in a few words, with how much it is about."""
    summary: Message
    limitations: tuple[Message, ...]
    rule: Message
    """Name and version of the decision rule."""
    stage: str
    """The last stage that was read for this verdict."""

    @property
    def deciding(self) -> str | None:
        """Name the component whose effect is the verdict's, the strongest if there are several."""
        found = [
            (item.log10_p, name)
            for name, item in self.components.items()
            if self.effect is not None and item.effect == self.effect and item.log10_p is not None
        ]
        return min(found)[1] if found else None

    @property
    def basis(self) -> Basis | None:
        """What `log10_p` rests on; None without a p-value."""
        if self.log10_p is None:
            return None
        return "exact" if self.deciding is None else self.components[self.deciding].basis
