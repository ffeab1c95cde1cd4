"""What is known of an adapter once it is opened."""

from __future__ import annotations

from dataclasses import dataclass, field

from modelkin.message import Message

from ._config import AdapterConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRecord:
    """How a model came to be from an adapter: by construction, not by any test."""

    config: AdapterConfig = field(repr=False)
    base: str | None = None
    """Canonical address of the base it was put on; None for an adapter without its base."""
    base_revision: str | None = None
    why_bare: Message | None = None
    """Why there is no base."""
    ranks: tuple[int, ...] = ()
    """Ranks of its updates that occur, rising."""
    n_updated: int = 0
    """Tensors with an update of low rank."""
    n_replaced: int = 0
    """Tensors that the adapter holds whole."""

    @property
    def is_bare(self) -> bool:
        """Whether only the adapter's own matrices are there."""
        return self.base is None

    @property
    def claim(self) -> str | None:
        """The base that the adapter's config names, which nobody has checked."""
        return self.config.base
