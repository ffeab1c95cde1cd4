"""Published models in other formats than safetensors, held in memory under the names of transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.real.formats import published
from tests.real.onnx_file import Graph, read_onnx
from tests.real.published import MINILM, PARAPHRASE, files_of, folder_of, from_npm

import modelkin as mk
from modelkin.testing import safetensors_bytes

Array = NDArray[Any]


@cache
def minilm_onnx() -> mk.MemorySource:
    """all-MiniLM-L6-v2 once more: the same weights as the package `MINILM`, from ONNX."""
    return _bert_from_npm("all-MiniLM-L6-v2")


@cache
def gte_small() -> mk.MemorySource:
    """gte-small: 12 layers, fine-tuned from MiniLM-L12."""
    return _bert_from_npm("gte-small")


@cache
def paraphrase_l3() -> mk.MemorySource:
    """paraphrase-MiniLM-L3-v2: 3 layers of MiniLM-L12, fine-tuned.

    The package has weights only. Its tokenizer is BERT's uncased one, as all-MiniLM-L6-v2 has it.
    """
    (weights,) = files_of(PARAPHRASE, ".onnx")
    tensors = bert_tensors(read_onnx(weights.read_bytes()))
    tokenizer = (folder_of(MINILM) / "tokenizer.json").read_bytes()
    return _model("paraphrase-MiniLM-L3-v2", tensors, _bert_config(tensors), tokenizer)


def whisper_tiny() -> str:
    """Whisper tiny, the multilingual one: a file of whisper.cpp."""
    return str(published("whisper_ggml"))


def whisper_tiny_en() -> str:
    """Whisper tiny.en: the same architecture, trained on English alone, from another initialisation."""
    return str(published("whisper_en_ct2"))


def _model(
    name: str, tensors: Mapping[str, Array], config: Mapping[str, object] | bytes, tokenizer: bytes
) -> mk.MemorySource:
    files = {
        "model.safetensors": safetensors_bytes(tensors),
        "config.json": config if isinstance(config, bytes) else json.dumps(config).encode(),
        "tokenizer.json": tokenizer,
    }
    return mk.MemorySource(files, name=name)


def _bert_from_npm(name: str) -> mk.MemorySource:
    tensors = bert_tensors(read_onnx(from_npm(f"{name}/model.onnx").read_bytes()))
    config, tokenizer = (
        from_npm(f"{name}/{file}").read_bytes() for file in ("config.json", "tokenizer.json")
    )
    return _model(name, tensors, config, tokenizer)


def bert_tensors(graph: Graph) -> dict[str, Array]:
    """Name the weights of a graph that PyTorch exported.

    Vectors and embeddings keep their names. Matrices lose theirs and are stored transposed; the product that
    uses one is called after the module that owned it.
    """
    anonymous = {name for name in graph.tensors if name.startswith("onnx::MatMul_")}
    tensors = {
        _bert_name(name): array
        for name, array in graph.tensors.items()
        if name not in anonymous and array.ndim
    }
    for node in graph.nodes:
        for name in anonymous & set(node.inputs):
            assert node.operator == "MatMul", f"{node.name} is no product"
            assert node.inputs[1] == name, f"{node.name} multiplies from the other side"
            owner = _bert_name(node.name.removesuffix("/MatMul").replace("/", ".") + ".weight")
            assert owner not in tensors, f"{owner} is there twice"
            tensors[owner] = np.ascontiguousarray(graph.tensors[name].T)
    assert len(tensors) == sum(array.ndim > 0 for array in graph.tensors.values())
    return tensors


def _bert_name(name: str) -> str:
    found = re.fullmatch(r"[\w.]*?\b((?:embeddings|encoder\.layer\.\d+)\..+)", name)
    assert found is not None, f"{name}: neither of the embeddings nor of a layer"
    return found[1]


def _bert_config(tensors: Mapping[str, Array]) -> dict[str, object]:
    vocab_size, width = tensors["embeddings.word_embeddings.weight"].shape
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": width,
        "intermediate_size": len(tensors["encoder.layer.0.intermediate.dense.bias"]),
        "num_attention_heads": 12,  # of the whole family; the shapes do not say
        "num_hidden_layers": _count_layers(tensors, r"encoder\.layer\.(\d+)\."),
        "max_position_embeddings": len(tensors["embeddings.position_embeddings.weight"]),
        "type_vocab_size": len(tensors["embeddings.token_type_embeddings.weight"]),
        "vocab_size": vocab_size,
    }


def _count_layers(names: Iterable[str], pattern: str) -> int:
    return len({found[1] for name in names if (found := re.match(pattern, name))})
