"""Models of the zoo under names that say nothing, or little."""

from __future__ import annotations

import re
from collections.abc import Callable

from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import MemorySource

_FIRST = re.compile(r"embed|wte|wpe")


def in_order_of_use(names: list[str]) -> list[str]:
    """Put tables first, then layer after layer as transformers keeps them, then the rest."""
    inside = [
        "ln_1",
        "q_proj",
        "query",
        "k_proj",
        "key",
        "v_proj",
        "value",
        "o_proj",
        "attention.output.dense",
    ]
    inside += ["c_attn", "attn.c_proj", "attention.output.LayerNorm", "ln_2", "gate_proj", "up_proj"]
    inside += ["down_proj", "c_fc", "mlp.c_proj", "intermediate", "output.dense", "output.LayerNorm"]
    inside += ["input_layernorm", "post_attention_layernorm"]

    def key(name: str) -> tuple[int, int, int, bool, str]:
        number = re.search(r"\.(\d+)\.", name)
        place = next((at for at, part in enumerate(inside) if number and part in name), 0)
        stage = 1 if number else 0 if _FIRST.search(name) else 2
        return stage, int(number[1]) if number else 0, place, name.endswith("bias"), name

    return sorted(names, key=key)


def anonymous(model: Checkpoint, *, order: Callable[[list[str]], list[str]] = sorted) -> Checkpoint:
    """Call tensors ``w_0``, ``w_1`` and so on."""
    names = {name: f"w_{number}" for number, name in enumerate(order(list(model.tensors)))}
    return renamed(model, names.__getitem__)


def own_words(model: Checkpoint) -> Checkpoint:
    """Call tensors what their author may have called them."""
    words = {"model.layers": "blk", "self_attn.": "attn.", "_proj.weight": "", "mlp.": "ffn."}
    words |= {"input_layernorm.weight": "ln1", "post_attention_layernorm.weight": "ln2"}

    def change(name: str) -> str:
        for old, new in words.items():
            name = name.replace(old, new)
        return name

    return renamed(model, change)


def renamed(model: Checkpoint, change: Callable[[str], str]) -> Checkpoint:
    """Change all names."""
    tensors = {change(name): array for name, array in model.tensors.items()}
    assert len(tensors) == len(model.tensors)
    return Checkpoint(config=model.config, tensors=tensors, tokenizer=model.tokenizer)


def source(model: Checkpoint, name: str, *, config: bool = True) -> MemorySource:
    """Hold a model in memory, with or without its config."""
    files = model.files()
    if not config:
        del files["config.json"]
    return MemorySource(files, name=name)
