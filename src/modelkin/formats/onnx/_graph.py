"""What an ONNX file says, as values: operators, and where the numbers of each tensor lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """Names of values; empty for an optional one that is left out."""
    outputs: tuple[str, ...] = ()
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Integer attributes."""
    scopes: str = ""
    """Where newer exporters record the modules."""
    branches: tuple[int, ...] = ()
    """Numbers of the bodies that it runs: the branches of a condition, the inside of a loop."""

    def number(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        found = self.numbers.get(name)
        return found[0] if found else default

    def input(self, place: int) -> str:
        """Return the name of an input; empty if there is none."""
        return self.inputs[place] if place < len(self.inputs) else ""


@dataclass(frozen=True, kw_only=True)
class Body:
    """The operators of one graph, or of a branch or a function in it: one space of names."""

    nodes: tuple[Operator, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    is_function: bool = False

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
    """Those stored in an operator, not among the weights."""
    bodies: tuple[Body, ...]
    """The main graph first."""
    small: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Values of short lists of integers: shapes that the graph states."""
    sparse: tuple[str, ...] = ()
    """Sparse weights (only non-zero values are listed), which are not read."""
    notes: tuple[Message, ...] = ()

    def alive(self) -> tuple[Graph, frozenset[str]]:
        """Return the graph without operators whose results are unused, and the names that matter.

        A runtime drops such operators, and weights that only they use, or nothing does. If a graph does not
        state its outputs, no runtime accepts it, and everything in it matters.
        """
        if not self.bodies[0].outputs:
            return self, frozenset(self.tensors)
        wanted = _Wanted(self.bodies)
        roots = [0, *(number for number, body in enumerate(self.bodies) if body.is_function)]
        names = frozenset().union(*(wanted.by(number) for number in roots))
        bodies = tuple(
            replace(body, nodes=tuple(node for node in body.nodes if not kept.isdisjoint(node.outputs)))
            for number, body in enumerate(self.bodies)
            for kept in [wanted.known.get(number, frozenset[str]())]
        )
        return replace(self, bodies=bodies), names


class _Wanted:
    """Walks from the outputs of bodies back to their inputs, through each body once."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        self._bodies = bodies
        self.known: dict[int, frozenset[str]] = {}

    def by(self, number: int) -> frozenset[str]:
        if number not in self.known:
            body = self._bodies[number]
            waiting = list(body.outputs)
            found: set[str] = set()
            visited: set[int] = set()
            while waiting:
                name = waiting.pop()
                found.add(name)
                maker = body.makers.get(name)
                if maker is not None and id(maker) not in visited:
                    visited.add(id(maker))
                    waiting += maker.inputs
                    for branch in maker.branches:
                        waiting += self.by(branch)
            self.known[number] = frozenset(found)
        return self.known[number]
