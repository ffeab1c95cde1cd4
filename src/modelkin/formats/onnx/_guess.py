"""What only the graph tells: the number of heads, and the names of an encoder like BERT.

Nothing here is certain. Names are all or nothing: unless every layer has the same six products and two norms,
in their order and with shapes that fit, no name is proposed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ._graph import Body, Graph, Operator
from ._names import NamedWeight, bias_of, source_of
from .stored import OnnxTensor

_QUERY = re.compile(r"\.(query|q_proj|q_lin)\.weight$")
_KEY = re.compile(r"\.(key|k_proj|k_lin)\.weight$")
_CODES = frozenset({"QuantizeLinear", "DequantizeLinear"})
"""In a graph with static quantisation these stand before and after nearly every operator."""
_TO_RESHAPE = frozenset({"Add", "Mul", "Div", "Cast", "Identity"}) | _CODES
_MOST_HEAD_STEPS = 16
_FUSED = frozenset({"Attention", "QAttention", "MultiHeadAttention", "GroupQueryAttention"})


def config_of(graph: Graph, named: Iterable[NamedWeight]) -> dict[str, object]:
    """Return what the graph says about a config: the number of heads, if all layers agree."""
    items = list(named)
    queries, keys = (
        {found for item in items if pattern.search(item.name) and (found := _heads(graph, item)) is not None}
        for pattern in (_QUERY, _KEY)
    )
    fused = {
        (node.number("num_heads", 0), node.number("kv_num_heads", 0))
        for body in graph.bodies
        for node in body.nodes
        if node.op in _FUSED and node.domain
    }
    if not queries and len(fused) == 1:
        heads, kv_heads = fused.pop()
        return _config(heads, kv_heads or heads)
    if len(queries) != 1 or len(keys) > 1:
        return {}
    heads = queries.pop()
    return _config(heads, keys.pop() if keys else heads)


def _config(heads: int, kv_heads: int) -> dict[str, object]:
    if not 0 < kv_heads <= heads:
        return {}
    config: dict[str, object] = {"num_attention_heads": heads}
    return config if kv_heads == heads else config | {"num_key_value_heads": kv_heads}


def _heads(graph: Graph, item: NamedWeight) -> int | None:
    if item.use is None or not item.use.output:
        return None
    size = _head_size(item.use.body, item.use.output, graph.small)
    n_rows = item.weight.shape[0]
    return n_rows // size if size and n_rows % size == 0 else None


def _readers_along(
    body: Body, value: str, along: Collection[str], most: int
) -> Iterator[tuple[str, Operator]]:
    """Follow a value through operators that only rearrange it: yield each name of it with what reads it."""
    waiting, seen = [value], {value}
    for _ in range(most):
        if not waiting:
            return
        name = waiting.pop(0)
        for node in body.readers.get(name, ()):
            yield name, node
            if node.op in along:
                fresh = [output for output in node.outputs if output not in seen]
                seen.update(fresh)
                waiting += fresh


def _head_size(body: Body, value: str, small: Mapping[str, tuple[int, ...]]) -> int | None:
    """Follow a projection to where it is reshaped; the last axis there is the length of a head."""
    for name, node in _readers_along(body, value, _TO_RESHAPE, _MOST_HEAD_STEPS):
        if node.op == "Reshape" and node.input(0) == name:
            size = _last(body, node, small)
            return size if size and size > 0 else None
    return None


def _last(body: Body, node: Operator, small: Mapping[str, tuple[int, ...]]) -> int | None:
    shape = node.input(1)
    if shape in small:
        return small[shape][-1] if len(small[shape]) >= 3 else None
    maker = body.makers.get(shape)
    if maker is None or maker.op != "Concat" or len(maker.inputs) < 3:
        return None
    last = small.get(maker.inputs[-1])
    return last[-1] if last else None


_ALONG = _TO_RESHAPE | {"Sub", "Reshape", "Transpose", "Unsqueeze", "Squeeze"}
"""Operators between a projection and the product of attention."""
_MOST_STEPS = 64
_MOST_TYPES = 16
"""Token types; BERT has 2, and no model fewer positions than that."""
_PER_LAYER = 6


@dataclass(frozen=True, slots=True)
class _Norm:
    gain: str
    bias: str


def guess_names(graph: Graph, named: Sequence[NamedWeight]) -> Mapping[str, str]:
    """Return tensor -> proposed name; empty if the graph is not of such an encoder."""
    body = graph.bodies[0]
    products = _in_order(body, [item for item in named if _is(item, "product", "turned product")])
    tables = _in_order(body, [item for item in named if _is(item, "lookup")])
    norms = _norms(body, graph.tensors)
    n_layers = len(products) // _PER_LAYER
    if not n_layers or len(tables) not in (2, 3) or len(norms) != 2 * n_layers + 1:
        return {}
    names = _tables(tables)
    names |= _norm_names(norms[0], "embeddings.LayerNorm")
    for layer in range(n_layers):
        found = _layer(layer, products[_PER_LAYER * layer :][:_PER_LAYER], graph.tensors)
        if not found:
            return {}
        prefix = f"encoder.layer.{layer}."
        names |= found
        names |= _norm_names(norms[2 * layer + 1], f"{prefix}attention.output.LayerNorm")
        names |= _norm_names(norms[2 * layer + 2], f"{prefix}output.LayerNorm")
    rest = products[_PER_LAYER * n_layers :]
    if len(rest) == 1 and len(set(rest[0].weight.shape)) == 1:
        names |= _linear(rest[0], "pooler.dense", graph.tensors)
    elif rest:
        return {}
    return names if len(set(names.values())) == len(names) else {}


def _is(item: NamedWeight, *kinds: str) -> bool:
    return item.use is not None and item.use.kind in kinds


def _in_order(body: Body, items: Sequence[NamedWeight]) -> list[NamedWeight]:
    """Return weights in the order of the operators that use them."""
    places = {id(node): number for number, node in enumerate(body.nodes)}
    here = [item for item in items if item.use is not None and id(item.use.node) in places]
    return sorted(here, key=lambda item: places[id(item.use.node)] if item.use else 0)


def _tables(tables: Sequence[NamedWeight]) -> dict[str, str]:
    by_rows = sorted(tables, key=lambda item: -item.weight.shape[0])
    words = ["word_embeddings", "position_embeddings", "token_type_embeddings"]
    if len(by_rows) == 2 and by_rows[1].weight.shape[0] <= _MOST_TYPES:
        words.remove("position_embeddings")
    return {
        item.weight.stored.name: f"embeddings.{word}.weight"
        for item, word in zip(by_rows, words, strict=False)
    }


def _layer(layer: int, products: Sequence[NamedWeight], tensors: Mapping[str, OnnxTensor]) -> dict[str, str]:
    """Name the products of one layer, or none: three of one input, then three one after another."""
    first, output, up, down = products[:3], *products[3:]
    uses = [item.use for item in first if item.use is not None]
    heads = {item.weight.shape for item in first}
    width = first[0].weight.shape[1]
    if len({source_of(use) for use in uses}) != 1 or len(heads) != 1 or output.weight.shape[0] != width:
        return {}
    if up.weight.shape[1] != width or down.weight.shape != up.weight.shape[::-1]:
        return {}
    ways = [_attention_place(use.body, use.output) for use in uses]
    if None in ways:
        return {}
    scores = [way for way in ways if way is not None]
    parts = dict(zip((_part(way, scores) for way in scores), first, strict=True))
    if set(parts) != {"query", "key", "value"}:
        return {}
    prefix = f"encoder.layer.{layer}."
    names: dict[str, str] = {}
    for part, item in parts.items():
        names |= _linear(item, f"{prefix}attention.self.{part}", tensors)
    names |= _linear(output, f"{prefix}attention.output.dense", tensors)
    names |= _linear(up, f"{prefix}intermediate.dense", tensors)
    names |= _linear(down, f"{prefix}output.dense", tensors)
    return names


def _part(way: tuple[Operator, int], ways: Sequence[tuple[Operator, int]]) -> str:
    """Tell queries and keys (the left and right factor of one product) from values."""
    node, place = way
    together = sum(other is node for other, _ in ways)
    if together == 2:
        return "key" if place else "query"
    return "value" if place else ""


def _attention_place(body: Body, value: str) -> tuple[Operator, int] | None:
    """Follow a projection to the product of two computed values that it enters, and as which factor."""
    for name, node in _readers_along(body, value, _ALONG, _MOST_STEPS):
        if node.op == "MatMul":
            return node, node.inputs.index(name)
    return None


def _linear(item: NamedWeight, module: str, tensors: Mapping[str, OnnxTensor]) -> dict[str, str]:
    names = {item.weight.stored.name: f"{module}.weight"}
    bias = bias_of(item.use, tensors) if item.use is not None else ""
    if bias in tensors:
        names[bias] = f"{module}.bias"
    return names


def _norms(body: Body, tensors: Mapping[str, OnnxTensor]) -> list[_Norm]:
    """Return the norms in order: as one operator, or as a product with gains and a sum with biases."""
    found: list[_Norm] = []
    for node in body.nodes:
        if node.op == "LayerNormalization":
            found.append(_Norm(node.input(1), node.input(2)))
        elif node.op == "SkipLayerNormalization":
            found.append(_Norm(node.input(2), node.input(3)))
        elif node.op == "Mul" and (gain := _vector(node, tensors)) and node.outputs:
            after = body.only_reader(node.outputs[0])
            bias = _vector(after, tensors) if after is not None and after.op == "Add" else ""
            if bias:
                found.append(_Norm(gain, bias))
    return [norm for norm in found if norm.gain in tensors and norm.bias in tensors]


def _vector(node: Operator, tensors: Mapping[str, OnnxTensor]) -> str:
    vectors = [name for name in node.inputs if name in tensors and len(tensors[name].shape) == 1]
    return next((name for name in vectors if tensors[name].n_elements > 1), "")


def _norm_names(norm: _Norm, module: str) -> dict[str, str]:
    return {norm.gain: f"{module}.weight", norm.bias: f"{module}.bias"}
