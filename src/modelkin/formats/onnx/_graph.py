"""What an ONNX file says, as values: operators, and where the numbers of each tensor lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from modelkin.message import Message

from .stored import OnnxTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator."""

    op: str
    name: str
    """Often the path of the module it came from: ``/encoder/layer.0/output/dense/MatMul``."""
    domain: str = ""
    inputs: tuple[str, ...] = ()
    """Names of values; an optional one that is left out is empty."""
    outputs: tuple[str, ...] = ()
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Integer attributes."""
    scopes: str = ""
    """Where newer exporters note the modules."""

    def number(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        found = self.numbers.get(name)
        return found[0] if found else default

    def input(self, place: int) -> str:
        """Return the name of an input, empty when there is none."""
        return self.inputs[place] if place < len(self.inputs) else ""


@dataclass(frozen=True, kw_only=True)
class Body:
    """The operators of one graph, or of a branch or a function in it: one space of names."""

    nodes: tuple[Operator, ...]
    inputs: tuple[str, ...] = ()

    @cached_property
    def readers(self) -> Mapping[str, tuple[Operator, ...]]:
        """Name of a value -> the operators that read it."""
        found: dict[str, list[Operator]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def makers(self) -> Mapping[str, Operator]:
        """Name of a value -> the operator that makes it."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def only_reader(self, name: str) -> Operator | None:
        """Return the one operator that reads a value."""
        found = self.readers.get(name, ())
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """One file."""

    tensors: Mapping[str, OnnxTensor]
    """Weights and constants by name."""
    constants: frozenset[str]
    """Those that stand in an operator, not among the weights."""
    bodies: tuple[Body, ...]
    """The main graph first."""
    small: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Values of short lists of integers: shapes that the graph states."""
    notes: tuple[Message, ...] = ()
