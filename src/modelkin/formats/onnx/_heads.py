"""How many heads a model has, where no config says it: the graph states how queries are cut into heads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ._graph import Body, Graph, Node
from ._names import Named

_QUERY = re.compile(r"\.(query|q_proj|q_lin)\.weight$")
_KEY = re.compile(r"\.(key|k_proj|k_lin)\.weight$")
_ALONG = frozenset({"Add", "Mul", "Div", "Cast", "Identity"})
_MOST_STEPS = 16
_FUSED = frozenset({"Attention", "QAttention", "MultiHeadAttention", "GroupQueryAttention"})


def config_of(graph: Graph, named: Iterable[Named]) -> dict[str, object]:
    """Return what the graph says of a config: the numbers of heads, if all layers agree."""
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


def _heads(graph: Graph, item: Named) -> int | None:
    if item.use is None or not item.use.output:
        return None
    size = _head_size(item.use.body, item.use.output, graph.small)
    n_rows = item.weight.shape[0]
    return n_rows // size if size and n_rows % size == 0 else None


def _head_size(body: Body, value: str, small: Mapping[str, tuple[int, ...]]) -> int | None:
    """Follow a projection to where it is reshaped; the last length there is that of a head."""
    waiting, seen = [value], {value}
    for _ in range(_MOST_STEPS):
        if not waiting:
            return None
        name = waiting.pop(0)
        for node in body.readers.get(name, ()):
            if node.op == "Reshape" and node.input(0) == name:
                size = _last(body, node, small)
                return size if size and size > 0 else None
            if node.op in _ALONG:
                fresh = [output for output in node.outputs if output not in seen]
                seen.update(fresh)
                waiting += fresh
    return None


def _last(body: Body, node: Node, small: Mapping[str, tuple[int, ...]]) -> int | None:
    shape = node.input(1)
    if shape in small:
        return small[shape][-1] if len(small[shape]) >= 3 else None
    maker = body.makers.get(shape)
    if maker is None or maker.op != "Concat" or len(maker.inputs) < 3:
        return None
    last = small.get(maker.inputs[-1])
    return last[-1] if last else None
