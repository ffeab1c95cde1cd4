"""From the names of exporters to those of transformers: without wrappers, projections out of their packs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

BODIES = frozenset(
    {
        *("albert", "bart", "bert", "camembert", "deberta", "decoder", "distilbert", "electra", "encoder"),
        *("gpt_neox", "language_model", "longformer", "model", "mpnet", "roberta", "transformer"),
    }
)
"""First words that names of transformers have; any other word that all names begin with is a wrapper's."""

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
    """Return the prefix that all names have and no model of transformers has; perhaps none.

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
    """Translate a name of onnxruntime's model builder, which differs in few."""
    if final := _FINAL_NORM.fullmatch(name):
        return f"model.norm.{final[1]}"
    if layer := _BUILDER_LAYER.fullmatch(name):
        return f"{layer[1]}self_attn.{layer[2].replace('_norm.layernorm.', '_norm.')}"
    return name


def packed_slices(name: str, n_rows: int, config: Mapping[str, object] | None) -> tuple[Slice, ...]:
    """Return queries, keys and values of a projection that the model builder packs; none for other tensors.

    Families that have it packed themselves keep it so.
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
