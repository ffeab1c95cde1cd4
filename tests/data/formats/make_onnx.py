"""Make the ONNX files next to this one: small models with random weights, as real exporters write them.

``python make_onnx.py`` where torch, transformers, onnx, onnxscript and onnxruntime are installed. The weights
that a file must give are in the ``.npz`` that its name begins like.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import optimizer
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parent
BERT = BertConfig(
    vocab_size=24,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=20,
)
LLAMA = LlamaConfig(
    vocab_size=24,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    intermediate_size=12,
    max_position_embeddings=20,
    tie_word_embeddings=False,
)


def keep(name: str, model: onnx.ModelProto) -> None:
    """Write a file without notes that only name places on the machine that made it."""
    del model.metadata_props[:]
    for node in model.graph.node:
        node.doc_string = ""
        kept = [item for item in node.metadata_props if item.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    del model.graph.value_info[:]
    onnx.save(model, HERE / f"onnx_{name}.onnx")


def keep_values(name: str, values: Mapping[str, np.ndarray]) -> None:
    """Write what files must give."""
    np.savez_compressed(HERE / f"onnx_{name}.npz", **dict[str, Any](values))


def values_of(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """Return the weights under the names of transformers."""
    return {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}


def randomised(model: torch.nn.Module) -> torch.nn.Module:
    """Give every weight other numbers: norms and biases begin equal, and exporters store equal ones once."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def exported(model: torch.nn.Module, inputs: dict[str, object]) -> onnx.ModelProto:
    """Export a model for inputs of any length."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        tokens = [name for name, value in inputs.items() if isinstance(value, torch.Tensor)]
        axes = {name: {0: "batch", 1: "length"} for name in tokens}
        torch.onnx.export(
            model,
            (),
            path,
            kwargs=inputs,
            input_names=list(inputs),
            opset_version=18,
            dynamo=True,
            external_data=False,
            dynamic_shapes={**dict.fromkeys(inputs), **axes},
        )
        return onnx.load(path)


def bert() -> None:
    """BERT as torch exports it, fused by onnxruntime, quantised by it."""
    model = randomised(BertModel(BERT, add_pooling_layer=False))
    ids = torch.arange(6)[None]
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
    }
    keep_values("bert", values_of(model))
    keep("bert_dynamo", exported(model, inputs))
    with tempfile.TemporaryDirectory() as folder:
        source = HERE / "onnx_bert_dynamo.onnx"
        fused = optimizer.optimize_model(str(source), "bert", num_heads=2, hidden_size=8, opt_level=0)
        print(fused.get_fused_operator_statistics())
        keep("bert_fused", fused.model)
        target = str(Path(folder) / "q.onnx")
        quantize_dynamic(str(source), target, weight_type=QuantType.QInt8, per_channel=True)
        keep("bert_dynamic_int8", onnx.load(target))


def llama() -> None:
    """Llama, whose matrices have no biases to tell them by."""
    model = randomised(LlamaForCausalLM(LLAMA))
    ids = torch.arange(6)[None]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    keep_values("llama", values_of(model))
    keep("llama_dynamo", exported(model, inputs))


def n_bits(bits: int, block: int, *, symmetric: bool, width: int = 72, rows: int = 6) -> None:
    """A product whose weight onnxruntime packs into blocks, and what it then multiplies with."""
    rng = np.random.default_rng(bits + block)
    weight = rng.normal(size=(width, rows)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "weight"], ["y"], name="/model/layers.0/mlp/up_proj/MatMul")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", rows])],
        [numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    quantiser = MatMulNBitsQuantizer(
        model, bits=bits, block_size=block, is_symmetric=symmetric, quant_format=QuantFormat.QOperator
    )
    quantiser.process()
    packed = quantiser.model.model
    session = onnxruntime.InferenceSession(packed.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": np.eye(width, dtype=np.float32)})[0].T
    zero = "symmetric" if symmetric else "zeros"
    keep(f"nbits_{bits}_{block}_{zero}", packed)
    keep_values(f"nbits_{bits}_{block}_{zero}", {"model.layers.0.mlp.up_proj.weight": found})


def lookup() -> None:
    """A table of tokens in blocks of four bits."""
    rng = np.random.default_rng(1)
    table = rng.normal(size=(10, 64)).astype(np.float32)
    node = helper.make_node(
        "Gather", ["model.embed_tokens.weight", "ids"], ["y"], name="/model/embed_tokens/Gather"
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [numpy_helper.from_array(table, "model.embed_tokens.weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    quantiser = MatMulNBitsQuantizer(
        model,
        bits=4,
        block_size=32,
        is_symmetric=False,
        op_types_to_quantize=("Gather",),
        quant_axes=(("Gather", 1),),
    )
    quantiser.process()
    packed = quantiser.model.model
    session = onnxruntime.InferenceSession(packed.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"ids": np.arange(10)})[0]
    keep("lookup_blocks", packed)
    keep_values("lookup_blocks", {"model.embed_tokens.weight": found})


if __name__ == "__main__":
    bert()
    llama()
    n_bits(4, 32, symmetric=True)
    n_bits(4, 16, symmetric=False)
    n_bits(8, 32, symmetric=False)
    lookup()
