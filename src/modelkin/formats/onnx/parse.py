"""From the fields of an ONNX file to its graph: operators are read, numbers only located."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from modelkin.message import Message, say
from modelkin.source import ByteRange
from modelkin.tensors import MAX_ELEMENTS, MAX_RANK
from modelkin.untrusted import quoted

from . import _schema
from ._graph import Body, Graph, Operator
from .stored import PACKED, TYPES, OnnxTensor, bits_of
from .wire import BYTES, FIXED32, FIXED64, VARINT, Field, Wire

MAX_TENSORS = 250_000
MAX_NODES = 1_000_000
MAX_DEPTH = 8
"""Of nested branches and loops; exporters write two levels."""
_MAX_ENDS = 4096
"""Inputs or outputs of an operator."""
_MAX_NUMBERS = 64
_MAX_SMALL = 8
"""Longest list of integers whose values are kept: a shape has no more."""
_MAX_TYPE = 0xFFFF
_INSIDE, _EXTERNAL = 0, 1
_SCOPES = "pkg.torch.onnx.name_scopes"

External = Callable[[str, Mapping[str, str], int], tuple[str, ByteRange]]
"""Name of a tensor, what it says of its data, bytes expected -> file and place."""


# Used for every operator and tensor, of which there are many thousands: made once.
_OUTPUT, _ENDS, _VALUE = say("part.name-of-output"), say("part.name-of-ends"), say("part.name-of-value")
_OPERATOR, _OPERATOR_TYPE = say("part.name-of-operator"), say("part.type-of-operator")
_DOMAIN, _MODULES = say("part.domain-of-operator"), say("part.modules-of-operator")
_ATTRIBUTE, _NUMBERS_OF_ATTRIBUTE = say("part.name-of-attribute"), say("part.attribute")
_TENSOR, _SHAPE, _INTEGERS = say("part.name-of-tensor"), say("part.a-shape"), say("part.list-of-integers")
_NOTE_KEY, _PLACE_KEY, _PLACE = say("part.key-of-note"), say("part.key-of-place"), say("part.place-of-tensor")


@dataclass(slots=True)
class _TensorMessage:
    """A TensorProto until it is complete."""

    shape: list[int] = field(default_factory=list)
    code: int = 0
    name: str = ""
    raw: Field | None = None
    typed: Field | None = None
    external: dict[str, str] = field(default_factory=dict)
    locations: list[int] = field(default_factory=list)

    @property
    def is_external(self) -> bool:
        """Whether its numbers are in another file."""
        return self.locations == [_EXTERNAL]


def parse(wire: Wire, external: External) -> Graph:
    """Walk over the fields of a whole file; `external` finds data in other files, and checks the location."""
    return _Parser(wire, external).model()


class _Parser:
    def __init__(self, wire: Wire, external: External) -> None:
        self._wire = wire
        self._external = external
        self._tensors: dict[str, OnnxTensor] = {}
        self._constants: set[str] = set()
        self._small: dict[str, tuple[int, ...]] = {}
        self._bodies: list[Body] = []
        self._sparse: set[str] = set()
        self._n_nodes = 0
        self._n_repeated = 0

    def model(self) -> Graph:
        wire = self._wire
        graph: Field | None = None
        functions: list[Field] = []
        for item in wire.fields(0, wire.size, _schema.MODEL):
            match item.number:
                case 7:
                    if graph is not None:
                        wire.fail(say("problem.onnx-two-graphs"))
                    graph = item
                    self._graph(graph, depth=0)
                case 25:
                    functions.append(item)
        if graph is None:
            wire.fail(say("problem.onnx-no-graph"))
        for item in functions:
            self._graph(item, depth=1, function=True)
        if twice := self._sparse & self._tensors.keys():
            wire.fail(say("problem.onnx-twice", name=quoted(min(twice))))
        repeated = say("format.repeated-weights", n=self._n_repeated)
        return Graph(
            tensors=self._tensors,
            constants=frozenset(self._constants),
            bodies=tuple(self._bodies),
            small=self._small,
            sparse=tuple(sorted(self._sparse)),
            notes=(repeated,) if self._n_repeated else (),
        )

    # -- graphs and operators ----------------------------------------------------------------------------

    def _graph(self, message: Field, *, depth: int, function: bool = False) -> int:
        """Read a graph and those nested in it; return its number."""
        if depth > MAX_DEPTH:
            self._wire.fail(say("problem.onnx-nested", most=MAX_DEPTH))
        place = len(self._bodies)
        self._bodies.append(Body(nodes=()))  # reserves the place before its branches
        nodes: list[Operator] = []
        inputs: list[str] = []
        outputs: list[str] = []
        kinds = _schema.FUNCTION if function else _schema.GRAPH
        for item in self._wire.fields(message.start, message.stop, kinds):
            if item.number == (7 if function else 1):
                nodes.append(self._node(item, depth))
            elif item.number == 5 and not function:
                self._keep(self._tensor(item), depth)
            elif item.number == 15 and not function:
                self._sparse.update(self._sparse_name(item))
            elif item.number == 11 and not function and len(inputs) < _MAX_ENDS:
                inputs += self._named(item)
            elif item.number == 12 and not function:
                outputs += self._named(item)
            elif item.number == 5:
                outputs.append(self._wire.text(item, _OUTPUT))
        self._bodies[place] = Body(
            nodes=tuple(nodes), inputs=tuple(inputs), outputs=tuple(outputs), is_function=function
        )
        return place

    def _named(self, message: Field) -> list[str]:
        return [
            self._wire.text(item, _ENDS)
            for item in self._wire.fields(message.start, message.stop, _schema.VALUE)
            if item.number == 1
        ]

    def _sparse_name(self, message: Field) -> Iterator[str]:
        """Yield the name of a sparse tensor; such weights are not read."""
        for item in self._wire.fields(message.start, message.stop, _schema.SPARSE_TENSOR):
            if item.number == 1:
                yield self._tensor(item).name

    def _node(self, message: Field, depth: int) -> Operator:
        wire = self._wire
        self._n_nodes += 1
        if self._n_nodes > MAX_NODES:
            wire.fail(say("problem.onnx-operators", most=MAX_NODES))
        inputs: list[str] = []
        outputs: list[str] = []
        name = op = domain = scopes = ""
        numbers: dict[str, tuple[int, ...]] = {}
        values: list[_TensorMessage] = []
        branches: list[int] = []
        for item in wire.fields(message.start, message.stop, _schema.NODE):
            match item.number:
                case 1 if len(inputs) < _MAX_ENDS:
                    inputs.append(wire.text(item, _VALUE))
                case 2 if len(outputs) < _MAX_ENDS:
                    outputs.append(wire.text(item, _VALUE))
                case 3:
                    name = wire.text(item, _OPERATOR)
                case 4:
                    op = wire.text(item, _OPERATOR_TYPE)
                case 5:
                    branches += self._attribute(item, depth, numbers, values)
                case 7:
                    domain = wire.text(item, _DOMAIN)
                case 9:
                    scopes = self._scopes(item) or scopes
        if op == "Constant" and len(values) == 1 and len(outputs) == 1:
            values[0].name = outputs[0]
            self._keep(values[0], max(depth, 1), constant=True)
        return Operator(
            op=op,
            name=name,
            domain=domain,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            numbers=numbers,
            scopes=scopes,
            branches=tuple(branches),
        )

    def _attribute(
        self, message: Field, depth: int, numbers: dict[str, tuple[int, ...]], values: list[_TensorMessage]
    ) -> list[int]:
        """Add what an attribute holds; return the numbers of the graphs in it."""
        wire = self._wire
        graphs: list[int] = []
        name = ""
        valued = False
        found: list[int] = []
        for item in wire.fields(message.start, message.stop, _schema.ATTRIBUTE):
            match item.number:
                case 1:
                    name = wire.text(item, _ATTRIBUTE)
                case 3:
                    found += wire.integers(item, limit=1, what=_NUMBERS_OF_ATTRIBUTE)
                case 8 if len(found) < _MAX_NUMBERS and item.stop - item.start <= _MAX_NUMBERS:
                    found += wire.integers(item, limit=_MAX_NUMBERS, what=_NUMBERS_OF_ATTRIBUTE)
                case 5:
                    if valued:
                        wire.fail(say("problem.onnx-two-tensors", start=item.start))
                    valued = True
                    values.append(self._tensor(item))
                case 6 | 11:
                    graphs.append(self._graph(item, depth=depth + 1))
        if found:
            numbers[name] = tuple(found)
        return graphs

    def _scopes(self, message: Field) -> str:
        key = value = ""
        for item in self._wire.fields(message.start, message.stop, _schema.ENTRY):
            if item.number == 1:
                key = self._wire.text(item, _NOTE_KEY)
            elif item.number == 2 and key == _SCOPES:
                value = self._wire.text(item, _MODULES)
        return value

    # -- tensors -----------------------------------------------------------------------------------------

    def _tensor(self, message: Field) -> _TensorMessage:
        wire = self._wire
        found = _TensorMessage()
        for item in wire.fields(message.start, message.stop, _schema.TENSOR):
            match item.number:
                case 1:
                    found.shape += wire.integers(item, limit=MAX_RANK, what=_SHAPE)
                    if len(found.shape) > MAX_RANK:
                        self._refuse(found, say("problem.onnx-axes", most=MAX_RANK))
                case 2:
                    found.code = item.value
                case 3:
                    self._refuse(found, say("problem.onnx-segments"))
                case 4 | 5 | 7 | 10 | 11:
                    if found.typed is not None:
                        self._refuse(found, say("problem.onnx-pieces"))
                    found.typed = item
                case 8:
                    found.name = wire.text(item, _TENSOR)
                case 9:
                    found.raw = item
                case 13:
                    self._external_entry(found, item)
                case 14:
                    found.locations.append(item.value)
        self._check_once(found)
        return found

    def _check_once(self, found: _TensorMessage) -> None:
        """Refuse a tensor that is stored in several places, or in one about which readers disagree."""
        if found.code > _MAX_TYPE:  # protobuf cuts off the higher bits, and sees another type
            self._refuse(found, say("problem.onnx-type", number=found.code))
        if found.locations not in ([], [_INSIDE], [_EXTERNAL]):
            self._refuse(found, say("problem.onnx-where"))
        if found.raw is not None and found.typed is not None:
            self._refuse(found, say("problem.onnx-numbers-twice"))
        if (found.is_external or found.external) and (found.raw or found.typed):
            self._refuse(found, say("problem.onnx-two-places"))

    def _external_entry(self, found: _TensorMessage, message: Field) -> None:
        key = value = ""
        for item in self._wire.fields(message.start, message.stop, _schema.ENTRY):
            if item.number == 1:
                key = self._wire.text(item, _PLACE_KEY)
            elif item.number == 2:
                value = self._wire.text(item, _PLACE)
        if key in found.external:
            self._refuse(found, say("problem.onnx-key-twice", key=quoted(key)))
        if len(found.external) >= 16:
            self._refuse(found, say("problem.onnx-place"))
        found.external[key] = value

    def _keep(self, message: _TensorMessage, depth: int, *, constant: bool = False) -> None:
        if message.name in self._tensors:
            if not depth:
                self._refuse(message, say("problem.is-twice"))
            self._n_repeated += not constant
            return
        stored = self._stored(message)
        if stored is None:
            return
        if len(self._tensors) >= MAX_TENSORS:
            self._wire.fail(say("problem.onnx-tensors", most=MAX_TENSORS))
        self._tensors[stored.name] = stored
        data = message.raw or message.typed
        if stored.dtype == "I64" and 0 < stored.n_elements <= _MAX_SMALL and data is not None:
            self._small[stored.name] = self._integers(stored, data)
        if constant:
            self._constants.add(stored.name)

    def _integers(self, stored: OnnxTensor, data: Field) -> tuple[int, ...]:
        if stored.varints:
            return tuple(self._wire.integers(data, limit=_MAX_SMALL, what=_INTEGERS))
        return struct.unpack(f"<{stored.n_elements}q", self._wire.data(data))

    def _stored(self, message: _TensorMessage) -> OnnxTensor | None:
        """Check one tensor; None for one that holds no numbers (text, and types we do not know)."""
        dtype = TYPES.get(message.code)
        if dtype is None:
            return None
        shape = tuple(message.shape)
        n_elements = math.prod(shape)
        if min(shape, default=0) < 0 or n_elements > MAX_ELEMENTS:
            self._refuse(message, say("problem.absurd-shape", shape=str(list(shape))))
        if not n_elements and math.prod(filter(None, shape)) > MAX_ELEMENTS:
            self._refuse(message, say("problem.absurd-shape", shape=str(list(shape))))
        n_bytes = (n_elements * bits_of(dtype) + 7) // 8
        if message.is_external:
            file, place = self._external(message.name, message.external, n_bytes)
            return self._place(message, dtype, shape, file, place.start, place.stop)
        data = message.raw or message.typed
        if data is None:
            if n_elements:
                self._refuse(message, say("problem.onnx-no-numbers"))
            return self._place(message, dtype, shape, self._wire.file, 0, 0)
        varints = message.raw is None and self._is_varints(message, data, dtype)
        if not varints and data.stop - data.start != n_bytes:
            self._refuse(
                message,
                say(
                    "problem.onnx-bytes",
                    dtype=dtype,
                    shape=str(list(shape)),
                    n_bytes=n_bytes,
                    got=data.stop - data.start,
                ),
            )
        if varints and not _can_hold(n_elements, dtype, data):
            self._refuse(
                message,
                say("problem.onnx-varints", shape=str(list(shape)), n=data.stop - data.start),
            )
        return self._place(message, dtype, shape, self._wire.file, data.start, data.stop, varints=varints)

    def _place(
        self,
        message: _TensorMessage,
        dtype: str,
        shape: tuple[int, ...],
        file: str,
        start: int,
        stop: int,
        *,
        varints: bool = False,
    ) -> OnnxTensor:
        return OnnxTensor(
            name=message.name, dtype=dtype, shape=shape, file=file, start=start, stop=stop, varints=varints
        )

    def _is_varints(self, message: _TensorMessage, data: Field, dtype: str) -> bool:
        """Say whether typed numbers are varints; 32- and 64-bit floats are plain. Refuse a mixture."""
        plain = {4: ("F32", "C64"), 10: ("F64",)}.get(data.number)
        if plain is not None:
            if dtype not in plain or data.wire not in (BYTES, FIXED32, FIXED64):
                self._refuse(message, say("problem.onnx-floats", dtype=dtype))
            return False
        fitting = {
            5: ("I32", "I16", "I8", "U16", "U8", "BOOL", "F16", "BF16", "F4", *PACKED),
            7: ("I64",),
            11: ("U32", "U64"),
        }[data.number]
        if not (dtype in fitting or (data.number == 5 and dtype.startswith("F8"))):
            self._refuse(message, say("problem.onnx-field", dtype=dtype, number=data.number))
        if data.wire not in (BYTES, VARINT):
            self._refuse(message, say("problem.onnx-wire", wire=data.wire))
        return True

    def _refuse(self, message: _TensorMessage, problem: Message) -> NoReturn:
        self._wire.fail(say("problem.tensor-is", name=quoted(message.name), problem=problem))


def _can_hold(n_elements: int, dtype: str, data: Field) -> bool:
    """Say whether a run of varints can hold that many elements: one takes between one byte and ten."""
    packed = PACKED.get(dtype) or (4 if dtype == "F4" else 0)
    count = -(-n_elements * packed // 8) if packed else n_elements
    length = data.stop - data.start
    return count <= length <= 10 * count
