"""Which weights a graph has: follows each stored tensor through what is done to it before it is used.

A weight can be stored as codes with separate scales, be cast or transposed, or be read by an operator that
takes codes. What remains is a list of uses: this operator reads that weight, as this input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ._graph import Body, Graph, Operator
from .storage import CodeFactors, factor_shape
from .stored import PACKED, NBitBlocks, OnnxTensor, is_float

MICROSOFT = "com.microsoft"
_INTEGERS = ("I8", "U8", "I16", "U16", "I32", *PACKED)
_PRODUCTS = {"MatMul": 1, "FusedMatMul": 1, "Gemm": 1, "MatMulInteger": 1, "DynamicQuantizeMatMul": 1}
_PRODUCTS |= {"MatMulIntegerToFloat": 1, "QLinearMatMul": 3, "QGemm": 3}
_LOOKUPS = {"Gather": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What one stored tensor stands for."""

    stored: OnnxTensor
    turned: bool = False
    scale: CodeFactors | None = None
    zero: CodeFactors | None = None
    block: int = 0
    rounded: str = "F32"
    blocks: NBitBlocks | None = None
    """Set instead of the others for rows of blocks."""

    @property
    def is_coded(self) -> bool:
        """Whether codes stand for the numbers."""
        return self.scale is not None or self.zero is not None or self.blocks is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """As the operators see it."""
        if self.blocks is not None:
            return (self.blocks.n_rows, self.blocks.width)
        return self.stored.shape[::-1] if self.turned else self.stored.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightUse:
    """One operator that reads a weight."""

    weight: Weight
    node: Operator
    place: int
    """Which input."""
    body: Body
    kind: str
    """``product`` (weight as inputs by outputs), ``turned product``, ``packed product`` (of queries, keys and
    values), ``lookup``, ``other``."""
    output: str = ""
    """The value that holds the complete result of a product, after scaling, and after codes on its way."""
    bias: str = ""
    """Name of the tensor that is added to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphUses:
    """All uses of the weights of a graph."""

    uses: tuple[WeightUse, ...]
    helpers: frozenset[str]
    """Names of tensors that are scales or zero points of others."""


def find_uses(graph: Graph) -> GraphUses:
    """Follow every stored tensor to where it is used."""
    uses: list[WeightUse] = []
    helpers: set[str] = set()
    for body in graph.bodies:
        finder = _WeightFinder(graph.tensors, body)
        uses += finder.uses()
        helpers |= finder.helpers
    return GraphUses(uses=tuple(uses), helpers=frozenset(helpers))


class _WeightFinder:
    def __init__(self, tensors: Mapping[str, OnnxTensor], body: Body) -> None:
        self._tensors = tensors
        self._body = body
        self._values: dict[str, Weight] = {}
        self.helpers: set[str] = set()

    def uses(self) -> Iterator[WeightUse]:
        # Operators are in execution order; where that is violated, a weight is not followed.
        for node in self._body.nodes:
            derived = self._derived(node)
            if derived is not None and node.outputs:
                self._values[node.outputs[0]] = derived
                continue
            yield from self._of(node)

    def _weight(self, name: str) -> Weight | None:
        if name in self._values:
            return self._values[name]
        return Weight(stored=self._tensors[name]) if name in self._tensors else None

    # -- what is done to a weight before it is used ------------------------------------------------------

    def _derived(self, node: Operator) -> Weight | None:
        weight = self._weight(node.input(0))
        match node.op:
            case "Identity" | "Cast":
                return weight
            case "DequantizeLinear" if weight is not None and not weight.is_coded:
                axis, block = node.number("axis", 1), node.number("block_size", 0)
                return self._scaled(weight, node.input(1), node.input(2), axis=axis, block=block)
            case "Transpose" if weight is not None and len(weight.shape) == 2:
                turns = node.numbers.get("perm", (1, 0)) == (1, 0)
                return replace(weight, turned=not weight.turned) if turns and weight.blocks is None else None
            case "Sub" if weight is not None and _are_codes(weight) and not weight.is_coded:
                zero = self._factors(node.input(1), weight, axis=None)
                return replace(weight, zero=zero) if zero is not None else None
            case "Mul":
                return self._multiplied(node)
        return None

    def _multiplied(self, node: Operator) -> Weight | None:
        """Codes times scales, written as a plain product."""
        for codes, scales in ((0, 1), (1, 0)):
            weight = self._weight(node.input(codes))
            if weight is None or weight.scale is not None or not _are_codes(weight):
                continue
            scale = self._factors(node.input(scales), weight, axis=None)
            if scale is not None and is_float(scale.stored.dtype):
                return replace(weight, scale=scale, rounded=_result_type(scale.stored))
        return None

    def _scaled(
        self, weight: Weight, scale: str, zero: str, *, axis: int | None, block: int = 0
    ) -> Weight | None:
        scales = self._factors(scale, weight, axis=axis, block=block)
        if scales is None or not is_float(scales.stored.dtype):
            return None
        zeros = self._factors(zero, weight, axis=axis, block=block) if zero else None
        if zero and zeros is None:
            return None
        return replace(weight, scale=scales, zero=zeros, block=block, rounded=_result_type(scales.stored))

    def _factors(self, name: str, weight: Weight, *, axis: int | None, block: int = 0) -> CodeFactors | None:
        found = self._weight(name)
        if found is None or found.is_coded or found.turned or weight.turned or not 0 <= block < 1 << 31:
            return None
        shape = factor_shape(found.stored, weight.stored.shape, axis=axis, block=block)
        if shape is None:
            return None
        self.helpers.add(found.stored.name)
        return CodeFactors(stored=found.stored, shape=shape)

    # -- uses --------------------------------------------------------------------------------------------

    def _of(self, node: Operator) -> Iterator[WeightUse]:
        special = self._special(node)
        if special is not None:
            yield special
        for place, name in enumerate(node.inputs):
            if special is not None and place == special.place:
                continue
            weight = self._weight(name)
            if weight is not None:
                yield WeightUse(weight=weight, node=node, place=place, body=self._body, kind="other")

    def _special(self, node: Operator) -> WeightUse | None:
        """Return the use of a weight in a product or a lookup."""
        if node.op == "MatMulNBits":
            return self._use(node, 1, self._n_bits(node), "turned product", bias=node.input(5))
        if node.op == "GatherBlockQuantized":
            return self._use(node, 0, self._lookup_blocks(node), "lookup")
        if node.op in _LOOKUPS:
            return self._use(node, 0, self._lookup(node), "lookup")
        if node.op == "ConvInteger":
            weight = self._weight(node.input(1))
            return self._use(node, 1, self._integer(node, weight, axis=0), "other")
        if node.op == "QLinearConv":
            weight = self._weight(node.input(3))
            scaled = weight and self._scaled(weight, node.input(4), node.input(5), axis=0)
            return self._use(node, 3, scaled, "other")
        if node.op in ("Attention", "QAttention") and node.domain == MICROSOFT:
            weight = self._weight(node.input(1))
            if weight is not None and node.op == "QAttention":
                weight = self._scaled(weight, node.input(4), node.input(7), axis=1)
            return self._use(node, 1, weight, "packed product") if weight and len(weight.shape) == 2 else None
        if node.op in _PRODUCTS:
            return self._product(node, _PRODUCTS[node.op])
        return None

    def _use(
        self, node: Operator, place: int, weight: Weight | None, kind: str, *, bias: str = ""
    ) -> WeightUse | None:
        if weight is None:
            return None
        output = node.outputs[0] if node.outputs else ""
        return WeightUse(
            weight=weight, node=node, place=place, body=self._body, kind=kind, output=output, bias=bias
        )

    def _product(self, node: Operator, place: int) -> WeightUse | None:
        weight = self._weight(node.input(place))
        if weight is None or len(weight.shape) != 2:
            return None
        bias, output = "", node.outputs[0] if node.outputs else ""
        turned = bool(node.number("transB", 0))
        match node.op:
            case "MatMul":
                output = self._after_codes(output)
            case "Gemm":
                bias = node.input(2)
            case "MatMulInteger":
                weight = self._integer(node, weight, axis=1)
                output = self._after_scaling(output)
            case "DynamicQuantizeMatMul":
                weight, bias = self._scaled(weight, node.input(2), node.input(3), axis=1), node.input(4)
            case "MatMulIntegerToFloat":
                weight, bias = self._scaled(weight, node.input(3), node.input(5), axis=1), node.input(6)
            case "QLinearMatMul":
                weight = self._scaled(weight, node.input(4), node.input(5), axis=1)
            case "QGemm":
                axis = 0 if turned else 1
                weight, bias = self._scaled(weight, node.input(4), node.input(5), axis=axis), node.input(6)
        found = self._use(node, place, weight, "turned product" if turned else "product", bias=bias)
        return replace(found, output=output) if found is not None else None

    # -- products of codes, whose scales come after ------------------------------------------------------

    def _integer(self, node: Operator, weight: Weight | None, *, axis: int) -> Weight | None:
        if weight is None or weight.is_coded or weight.stored.dtype not in _INTEGERS:
            return weight
        zero = node.input(3)
        scale = self._later_scale(node.outputs[0] if node.outputs else "") or self._scale_by_name(weight)
        return self._scaled(weight, scale, zero, axis=axis) if scale else None

    def _scaling(self, output: str) -> Operator | None:
        """Return the product that scales the result of a product of codes, after a cast."""
        cast = self._body.only_reader(output)
        if cast is None or cast.op != "Cast" or not cast.outputs:
            return None
        product = self._body.only_reader(cast.outputs[0])
        return product if product is not None and product.op == "Mul" else None

    def _later_scale(self, output: str) -> str:
        """Return the scale of the weight, which multiplies the product together with that of the input."""
        product = self._scaling(output)
        for name in product.inputs if product is not None else ():
            both = self._body.makers.get(name)
            if both is not None and both.op == "Mul":
                return next((item for item in both.inputs if item in self._tensors), "")
        return ""

    def _after_scaling(self, output: str) -> str:
        product = self._scaling(output)
        return product.outputs[0] if product is not None and product.outputs else output

    def _after_codes(self, output: str) -> str:
        """Return the value where a result has become numbers again, if it is turned into codes on its way."""
        for op in ("QuantizeLinear", "DequantizeLinear"):
            node = self._body.only_reader(output)
            if node is None or node.op != op or not node.outputs:
                break
            output = node.outputs[0]
        return output

    def _scale_by_name(self, weight: Weight) -> str:
        name = f"{weight.stored.name.removesuffix('_quantized')}_scale"
        return name if name in self._tensors else ""

    def _lookup(self, node: Operator) -> Weight | None:
        """Return a table; one of codes is scaled after its rows are taken."""
        weight = self._weight(node.input(0))
        if weight is None or len(weight.shape) != 2 or node.number("axis", 0) != 0:
            return None
        after = self._body.only_reader(node.outputs[0]) if node.outputs else None
        if after is not None and after.op == "DequantizeLinear" and not weight.is_coded:
            return self._scaled(weight, after.input(1), after.input(2), axis=None)
        return weight if weight.is_coded or is_float(weight.stored.dtype) else None

    # -- blocks of a few bits ----------------------------------------------------------------------------

    def _n_bits(self, node: Operator) -> Weight | None:
        """MatMulNBits: rows of outputs, each in blocks along the inputs."""
        if node.input(4) or node.number("weight_prepacked", 0):
            return None  # inputs in a special order, or a layout for one kind of hardware
        width, n_rows = node.number("K", 0), node.number("N", 0)
        return self._blocked(
            node, codes=node.input(1), scales=node.input(2), zeros=node.input(3), rows=n_rows, width=width
        )

    def _lookup_blocks(self, node: Operator) -> Weight | None:
        """GatherBlockQuantized: rows of a table, in blocks along each."""
        codes = self._tensors.get(node.input(0))
        if codes is None or len(codes.shape) != 2 or node.number("gather_axis", 0) != 0:
            return None
        if node.number("quantize_axis", 1) not in (1, -1):
            return None
        rows, stored_width = codes.shape
        bits = node.number("bits", 4)
        if codes.dtype in ("U4", "I4"):
            return self._scaled_blocks(node, codes)
        width = stored_width * 8 // bits if bits in (2, 4, 8) else 0
        return self._blocked(
            node, codes=codes.name, scales=node.input(2), zeros=node.input(3), rows=rows, width=width
        )

    def _scaled_blocks(self, node: Operator, codes: OnnxTensor) -> Weight | None:
        block = node.number("block_size", 128)
        return self._scaled(Weight(stored=codes), node.input(2), node.input(3), axis=1, block=block)

    def _blocked(
        self, node: Operator, *, codes: str, scales: str, zeros: str, rows: int, width: int
    ) -> Weight | None:
        bits, block = (
            node.number("bits", 4),
            node.number("block_size", 32 if node.op == "MatMulNBits" else 128),
        )
        stored, scale, zero = (self._tensors.get(name) for name in (codes, scales, zeros))
        sane = bits in (2, 4, 8) and 8 <= block <= 1 << 20 and not block & (block - 1) and rows > 0 < width
        if not sane or stored is None or scale is None or (zeros and zero is None):
            return None
        if stored.dtype != "U8" or stored.varints or scale.varints or not is_float(scale.dtype):
            return None
        blocks = NBitBlocks(
            codes=stored,
            scales=scale,
            zeros=zero,
            n_rows=rows,
            width=width,
            bits=bits,
            block=block,
            default_zero=1 << bits - 1,
        )
        if not _blocks_fit(blocks):
            return None
        self.helpers |= {scale.name} | ({zero.name} if zero is not None else set())
        return Weight(stored=stored, blocks=blocks)


def _blocks_fit(blocks: NBitBlocks) -> bool:
    """Say whether codes, scales and zero points have as many bytes as rows and blocks take."""
    n_blocks = blocks.n_rows * blocks.n_blocks
    if blocks.codes.n_bytes != n_blocks * blocks.block * blocks.bits // 8:
        return False
    if blocks.scales.n_elements != n_blocks:
        return False
    if blocks.zeros is None:
        return True
    if blocks.zeros.varints:
        return False
    if blocks.zeros.dtype == "U8":
        return blocks.zeros.n_bytes == blocks.n_rows * -(-blocks.n_blocks * blocks.bits // 8)
    return is_float(blocks.zeros.dtype) and blocks.zeros.n_elements == n_blocks


def _are_codes(weight: Weight) -> bool:
    return weight.stored.dtype in _INTEGERS and len(weight.stored.shape) >= 2


def _result_type(scale: OnnxTensor) -> str:
    return scale.dtype if scale.dtype in ("F16", "BF16") else "F32"
