"""What the weights of a graph are called in the model it was exported from, and in transformers.

Exporters keep the names of most tensors. Those of matrices are lost: they are transposed for the product and
renamed. But the product is named after its module, and a bias that kept its name is added to it. Wrapper
prefixes are stripped, and packed projections are split.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile

from modelkin.untrusted import name_problem

from ._graph import Body, Graph, Operator
from ._weights import GraphUses, Weight, WeightUse
from .stored import OnnxTensor, is_float

BODIES = frozenset(
    {
        *("albert", "bart", "bert", "camembert", "deberta", "decoder", "distilbert", "electra", "encoder"),
        *("gpt_neox", "language_model", "longformer", "model", "mpnet", "roberta", "transformer"),
    }
)
"""First words of names in transformers; any other word that all names begin with is a wrapper's."""

_LISTS = frozenset({"block", "blocks", "h", "layer", "layers"})
"""Words for the list of layers: what comes after them is the model's own."""
_FINAL_NORM = re.compile(r"model\.layers\.\d+\.final_norm_layernorm\.(\w+)")
_BUILDER_LAYER = re.compile(r"(model\.layers\.\d+\.)attn\.(?=(?:[qkvo]|qkv)_(?:proj|norm)\.)(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A part of a packed projection."""

    name: str
    start: int
    stop: int


def without_wrapper(names: Sequence[str]) -> str:
    """Return the prefix that all names share and no model of transformers has; possibly empty.

    Sentence transformers are exported as ``model.0.auto_model.encoder...``, others inside another class.
    """
    if len(names) < 2:
        return ""
    shared = list(takewhile(lambda word: word not in _LISTS, names[0].split(".")[:-2]))
    for name in names[1:]:
        parts = name.split(".")
        length = next(
            (n for n, (left, right) in enumerate(zip(shared, parts, strict=False)) if left != right),
            min(len(shared), len(parts)),
        )
        shared = shared[:length]
    strange = [number for number, word in enumerate(shared) if word not in BODIES]
    return ".".join(shared[: strange[-1] + 1]) + "." if strange else ""


def builder_name(name: str) -> str:
    """Translate a name of onnxruntime's model builder; only a few differ."""
    if final := _FINAL_NORM.fullmatch(name):
        return f"model.norm.{final[1]}"
    if layer := _BUILDER_LAYER.fullmatch(name):
        return f"{layer[1]}self_attn.{layer[2].replace('_norm.layernorm.', '_norm.')}"
    return name


def packed_slices(name: str, n_rows: int, config: Mapping[str, object] | None) -> tuple[Slice, ...]:
    """Return queries, keys and values of a projection that the model builder packs; none for other tensors.

    Families that pack it themselves keep it packed.
    """
    owner, middle, part = name.rpartition("attention.self.qkv.")
    if middle and n_rows % 3 == 0:
        return cut(f"{owner}attention.self.", part, dict.fromkeys(("query", "key", "value"), 1), n_rows // 3)
    owner, middle, part = name.partition(".self_attn.qkv_proj.")
    if not middle or config is None or str(config.get("model_type")).startswith("phi"):
        return ()
    heads, kv_heads = (_number(config, key) for key in ("num_attention_heads", "num_key_value_heads"))
    heads_in_all = heads + 2 * (kv_heads or heads)
    if not heads or n_rows % heads_in_all:
        return ()
    size = n_rows // heads_in_all
    return cut(
        f"{owner}.self_attn.",
        part,
        {"q_proj": heads, "k_proj": kv_heads or heads, "v_proj": kv_heads or heads},
        size,
    )


def cut(owner: str, part: str, shares: Mapping[str, int], size: int) -> tuple[Slice, ...]:
    """Return consecutive slices, each of a number of heads."""
    found: list[Slice] = []
    start = 0
    for word, heads in shares.items():
        stop = start + heads * size
        found.append(Slice(name=f"{owner}{word}.{part}", start=start, stop=stop))
        start = stop
    return tuple(found)


def _number(config: Mapping[str, object], key: str) -> int:
    value = config.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 20 else 0


_ENDING = re.compile(r"(_quantized|_quant|_q|_Q[248](G\d+)?|_merged_\d+|_initializer|_fp16|_transposed)$")
_PARAMETER = re.compile(r"[A-Za-z_][\w\-]*(\.[\w\-]+)+")
_CONV1D = re.compile(r"(^|\.)(c_attn|c_proj|c_fc|q_attn)\.weight$")
"""Modules of GPT-2 that store a matrix as inputs by outputs."""
_SUMS = {"Add": (0, 1), "BiasGelu": (1,), "FastGelu": (1,), "SkipLayerNormalization": (4,)}
"""Operators that add a bias, and where it stands."""
_NORMS = {
    "LayerNormalization": ("weight", "bias"),
    "SimplifiedLayerNormalization": ("weight", "bias"),
    "RMSNormalization": ("weight",),
}
_ANONYMOUS_LEAST = 2
_TABLE_LEAST = 64
_KINDS = ("lookup", "product", "turned product", "packed product", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedWeight:
    """One weight under its name, in the orientation that the name stands for."""

    name: str
    weight: Weight
    use: WeightUse | None
    how: str
    """``own``, ``bias``, ``module``, or ``none`` for a name of the graph that says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """All weights of a graph, named as far as it goes."""

    weights: tuple[NamedWeight, ...]
    unused: tuple[str, ...] = ()
    """Weights that the graph does nothing with: a runtime drops them, and their names may be anything."""
    n_tables: int = 0
    """Tables of floats that appear not to be weights: masks, sines, precomputed values."""


def name_weights(graph: Graph, found: GraphUses, used: Container[str]) -> Naming:
    """Name every weight whose own name is among those that are used."""
    uses: dict[str, list[WeightUse]] = {}
    for use in found.uses:
        uses.setdefault(use.weight.stored.name, []).append(use)
    aliases = _aliases(graph)
    named: list[NamedWeight] = []
    unused: list[str] = []
    n_tables = 0
    for stored in graph.tensors.values():
        if stored.name in found.helpers:
            continue
        item = _named(stored, uses.get(stored.name, []), graph.tensors)
        if stored.name not in used:
            unused += [stored.name] if _is_weight(item, graph) else []
        elif _is_weight(item, graph):
            named.append(item)
            named += [replace(item, name=alias, how="own") for alias in aliases.get(stored.name, ())]
        else:
            n_tables += is_float(stored.dtype) and stored.n_elements >= _TABLE_LEAST
    return Naming(weights=tuple(_unique(_sayable(named))), unused=tuple(unused), n_tables=n_tables)


def own_name(name: str) -> str:
    """Return a tensor's name without what quantisers, mergers and builders added to it."""
    before = None
    while name != before:
        before, name = name, _ENDING.sub("", name)
    return re.sub(r"\.(MatMul|MatMulNBits|Add)\.(\w+)$", r".\2", name)


def is_parameter(name: str) -> bool:
    """Say whether a name looks like that of a module's parameter."""
    return _PARAMETER.fullmatch(name) is not None


def module_of(node: Operator) -> str:
    """Return the module that an operator came from, or nothing.

    ``/encoder/layer.0/output/dense/MatMul`` came from ``encoder.layer.0.output.dense``. A list of modules
    that is itself called appears twice: ``/model/model.0/dense``.
    """
    if node.scopes:
        listed = re.findall(r"'([^']*)'", node.scopes)
        return listed[-2] if len(listed) >= 2 else ""
    parts = node.name.strip("/").split("/")[:-1]
    if not parts:
        return ""
    kept = [
        part for part, after in zip(parts, [*parts[1:], ""], strict=True) if not after.startswith(f"{part}.")
    ]
    return ".".join(kept)


def source_of(use: WeightUse) -> str:
    """Return the value that a product multiplies, as it was before quantisation on the way."""
    place = 1 if use.place == 0 else 0
    name = use.node.input(place)
    for _ in range(4):
        maker = use.body.makers.get(name)
        if maker is None or maker.op not in (
            "DynamicQuantizeLinear",
            "QuantizeLinear",
            "DequantizeLinear",
            "Cast",
        ):
            break
        name = maker.input(0)
    return name


def bias_of(use: WeightUse, tensors: Mapping[str, OnnxTensor]) -> str:
    """Return the name of the tensor that is added to a product."""
    if use.bias:
        return use.bias
    for node in use.body.readers.get(use.output, ()):
        for place in _SUMS.get(node.op, ()):
            name = node.input(place)
            if name != use.output and _tensor_behind(name, use.body, tensors) is not None:
                return name
    return ""


def _tensor_behind(name: str, body: Body, tensors: Mapping[str, OnnxTensor]) -> OnnxTensor | None:
    for _ in range(4):
        if name in tensors:
            return tensors[name]
        maker = body.makers.get(name)
        if maker is None or maker.op not in ("Identity", "Cast", "DequantizeLinear"):
            return None
        name = maker.input(0)
    return None


def _named(stored: OnnxTensor, uses: Sequence[WeightUse], tensors: Mapping[str, OnnxTensor]) -> NamedWeight:
    ranked = sorted(uses, key=lambda use: _KINDS.index(use.kind))
    use = ranked[0] if ranked else None
    # A table of codes that is also a factor has its scales where it is looked up.
    coded = next((item.weight for item in ranked if item.weight.is_coded), None)
    weight = use.weight if use is not None else Weight(stored=stored)
    if coded is not None and not weight.is_coded:
        weight = replace(coded, turned=weight.turned)
    name, how = own_name(stored.name), "own"
    if not is_parameter(name):
        name, how = _from_graph(stored, ranked, tensors)
    if use is None or use.kind == "other":
        weight = replace(weight, turned=False)
    elif use.kind in ("product", "packed product") and not _CONV1D.search(name):
        weight = replace(weight, turned=not weight.turned)
    return NamedWeight(name=name, weight=weight, use=use, how=how)


def _from_graph(
    stored: OnnxTensor, uses: Iterable[WeightUse], tensors: Mapping[str, OnnxTensor]
) -> tuple[str, str]:
    for use in uses:
        if use.kind in ("product", "turned product"):
            bias = own_name(bias_of(use, tensors))
            if is_parameter(bias) and bias.endswith(".bias"):
                return f"{bias.removesuffix('.bias')}.weight", "bias"
        if use.node.op in ("Attention", "QAttention") and use.place in (1, 2):
            owner = _attention_of(use, tensors)
            if owner:
                return f"{owner}attention.self.qkv.{'weight' if use.place == 1 else 'bias'}", "bias"
            continue
        module = module_of(use.node)
        part = _part_of(use, stored)
        if module and part:
            return f"{module}.{part}", "module"
    return own_name(stored.name), "none"


def _attention_of(use: WeightUse, tensors: Mapping[str, OnnxTensor]) -> str:
    """Return the layer of a fused attention: the product that follows it has a bias with a name."""
    for name in use.node.outputs[:1]:
        for node in use.body.readers.get(name, ()):
            after = replace(use, node=node, output=node.outputs[0] if node.outputs else "")
            bias = own_name(bias_of(after, tensors))
            if is_parameter(bias) and bias.endswith("attention.output.dense.bias"):
                return bias.removesuffix("attention.output.dense.bias")
    return ""


def _part_of(use: WeightUse, stored: OnnxTensor) -> str:
    """Return what a weight is in its module, if the operator says so."""
    node = use.node
    if use.kind != "other" or node.op in ("Conv", "ConvInteger", "QLinearConv"):
        return "weight"
    if node.op in _NORMS:
        parts = _NORMS[node.op]
        return parts[use.place - 1] if 1 <= use.place <= len(parts) else ""
    module = module_of(node).rpartition(".")[2].lower()
    if len(stored.shape) == 1 and ("norm" in module or module.startswith("ln")):
        return {"Mul": "weight", "Add": "bias"}.get(node.op, "")
    return ""


def _is_weight(item: NamedWeight, graph: Graph) -> bool:
    """Say whether a tensor is a weight, not a shape, a mask or an epsilon."""
    stored = item.weight.stored
    if item.how == "none":
        if stored.name in graph.constants or stored.n_elements < _ANONYMOUS_LEAST:
            return False
        if len(stored.shape) != 1 and (item.use is None or item.use.kind == "other"):
            return False  # tables of sines, masks and other precomputed values
        return item.weight.is_coded or is_float(stored.dtype)
    if stored.name in graph.constants and item.how == "own" and stored.n_elements < _ANONYMOUS_LEAST:
        return False
    return item.weight.is_coded or is_float(stored.dtype) or not stored.varints


def _aliases(graph: Graph) -> dict[str, list[str]]:
    """Return other names of tensors: exporters store equal ones once, and alias the others by an operator."""
    found: dict[str, list[str]] = {}
    for node in graph.bodies[0].nodes:
        if node.op == "Identity" and len(node.outputs) == 1 and node.input(0) in graph.tensors:
            alias = node.outputs[0]
            if is_parameter(alias) and alias not in graph.tensors:
                found.setdefault(node.input(0), []).append(alias)
    return found


def _sayable(named: Sequence[NamedWeight]) -> list[NamedWeight]:
    """Give numbers to weights with unprintable names: a runtime accepts any name."""
    taken = {item.name for item in named}
    free = (name for number in count() if (name := f"unnamed-{number}") not in taken)
    return [replace(item, name=next(free), how="none") if name_problem(item.name) else item for item in named]


def _unique(named: Sequence[NamedWeight]) -> Iterable[NamedWeight]:
    """Withdraw names that were given twice: a module may have more than one product."""
    counts = Counter(item.name for item in named)
    taken = {item.name for item in named if item.how in ("own", "none") or counts[item.name] == 1}
    for item in named:
        if counts[item.name] == 1 or item.how in ("own", "none"):
            yield item
        elif (own := own_name(item.weight.stored.name)) not in taken:
            yield replace(item, name=own, how="none")
            taken.add(own)
        else:
            yield replace(item, name=item.weight.stored.name, how="none")
