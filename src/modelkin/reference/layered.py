"""Methods that read the same matrices of every layer."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from modelkin.architecture import Role
from modelkin.message import Message, say
from modelkin.model import Model

from ._interface import RawScore, ReferenceMethod, ReferencePair, Wanted
from .reading import RoleMatrix, SideReader, both_sides, layer_matrices_of, slices_of

ATTENTION = (Role.ATTENTION_QUERY, Role.ATTENTION_KEY, Role.ATTENTION_VALUE, Role.ATTENTION_OUTPUT)

Layers = tuple[list[tuple[RoleMatrix, ...]], list[tuple[RoleMatrix, ...]]]
"""Of candidate and base, layer by layer."""


class LayeredMethod(ReferenceMethod):
    """A method that needs some matrices of all layers of both models."""

    roles: ClassVar[tuple[Role, ...]] = ATTENTION
    fewest_layers: ClassVar[int] = 1

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Ask for these matrices of all layers."""
        layers = self.layers(pair)
        return layers if isinstance(layers, Message) else (slices_of(layers[0]), slices_of(layers[1]))

    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Find the layers and compare them."""
        layers = self.layers(pair)
        return layers if isinstance(layers, Message) else self.compared(pair, readers, layers)

    @abstractmethod
    def compared(
        self, pair: ReferencePair, readers: tuple[SideReader, SideReader], layers: Layers
    ) -> RawScore | Message:
        """Read the matrices and compute a score from them."""

    def layers(self, pair: ReferencePair) -> Layers | Message:
        """Return where the matrices of both models are, or why there are none."""

        def find(model: Model) -> list[tuple[RoleMatrix, ...]] | Message:
            found = model.architecture.layers
            if model.architecture.is_known and len(found) < self.fewest_layers:
                return say("reference-few-layers", n=len(found), m=self.fewest_layers)
            return layer_matrices_of(model, self.roles)

        return both_sides(pair.models, find)
