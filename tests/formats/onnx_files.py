"""Small ONNX files: graphs from a few operators, and whole models as exporters write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper
from tests.places import FORMATS

import modelkin as mk

Array = npt.NDArray[Any]
MICROSOFT = "com.microsoft"
N_HEADS = 4
"""Of the encoders in the zoo."""


def node(op: str, inputs: Iterable[str], outputs: Iterable[str], name: str = "", **attributes: Any) -> Any:
    """Make an operator; those of onnxruntime's own domain are known by name."""
    domain = attributes.pop("domain", "")
    return helper.make_node(op, list(inputs), list(outputs), name=name, domain=domain, **attributes)


def tensor(name: str, values: npt.ArrayLike) -> Any:
    """Make a weight."""
    return numpy_helper.from_array(np.asarray(values), name)


def model_bytes(nodes: Sequence[Any], tensors: Sequence[Any]) -> bytes:
    """Make a file of operators and weights."""
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    graph = helper.make_graph(list(nodes), "main", [ids], [], list(tensors))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    made: bytes = helper.make_model(graph, opset_imports=opsets).SerializeToString()
    return made


def opened(data: bytes, **files: bytes) -> mk.Model:
    """Open a file held in memory, with others beside it."""
    return mk.open_model(mk.MemorySource({"model.onnx": data, **files}))


def golden(name: str) -> tuple[bytes, dict[str, Array]]:
    """Return a file of a real exporter, and the weights it must give."""
    data = (FORMATS / f"onnx_{name}.onnx").read_bytes()
    values = next(
        path for stem in (name, name.split("_")[0]) if (path := FORMATS / f"onnx_{stem}.npz").is_file()
    )
    with np.load(values) as found:
        return data, dict(found)


def folder_files(folder: Path, data: bytes) -> dict[str, bytes]:
    """Return the files of a model with its weights replaced by an ONNX file."""
    kept = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".json"}
    return {**kept, "onnx/model.onnx": data}


def tensors_of(folder: Path) -> dict[str, Array]:
    """Return the weights of a folder in full."""
    with mk.open_model(str(folder)) as model:
        return {name: np.array(model.tensor(name)) for name in model.index}


class BertGraph:
    """A BERT as exporters write it: not to be run, but with every weight where it belongs.

    Parameters
    ----------
    tensors
        Under the names of transformers.
    style
        ``plain`` (matrices are turned and lose their names), ``int8`` (codes with scales made on the way),
        ``qdq`` (codes and DequantizeLinear), ``anonymous`` (nothing has a name), ``fused`` (one operator for
        attention, biases in others), ``static`` (as ``qdq``, and every result becomes codes for a moment),
        ``static anonymous``.
    """

    def __init__(self, tensors: Mapping[str, Array], style: str = "plain") -> None:
        self._weights = tensors
        self._style = style.removesuffix(" anonymous")
        self._anonymous = style.endswith("anonymous")
        self._nodes: list[Any] = []
        self._tensors: dict[str, Any] = {}
        self._count = 0
        self._body = next(name for name in tensors if name.endswith("word_embeddings.weight")).split("embed")[
            0
        ]

    def to_bytes(self) -> bytes:
        """Make the file."""
        value = self._embeddings()
        layers = {name.split(".layer.")[1].split(".")[0] for name in self._weights if ".layer." in name}
        for layer in range(len(layers)):
            value = self._layer(f"{self._body}encoder.layer.{layer}.", value)
        return model_bytes(self._nodes, list(self._tensors.values()))

    def _new(self) -> str:
        self._count += 1
        return f"v_{self._count}"

    def _op(self, op: str, inputs: Iterable[str], module: str = "", **attributes: Any) -> str:
        output = self._new()
        named = not self._anonymous
        name = "/" + module.replace(".layer.", "/layer^").replace(".", "/").replace("^", ".") + "/" + op
        self._nodes.append(node(op, inputs, [output], name=name if named and module else "", **attributes))
        return output

    def _store(self, name: str, values: Array) -> str:
        if name in self._tensors:
            return str(self._tensors[name].name)
        known = f"t{len(self._tensors)}" if self._anonymous else name
        self._tensors[name] = tensor(known, values)
        return known

    def _weight(self, name: str) -> str:
        return self._store(name, self._weights[name])

    def _codes(self, name: str, values: Array, axis: int | None) -> tuple[str, str, str]:
        largest = np.abs(values).max(axis=None if axis is None else tuple({0, 1} - {axis}))
        scale = np.maximum(largest / np.float32(127), np.float32(1e-8)).astype(np.float32)
        spread = scale if axis is None else np.expand_dims(scale, 1 - axis)
        codes = np.clip(np.rint(values / spread), -127, 127).astype(np.int8)
        return (
            self._store(f"{name}_quantized", codes),
            self._store(f"{name}_scale", scale),
            self._store(f"{name}_zero_point", np.zeros_like(scale, np.int8)),
        )

    def _lookup(self, name: str, ids: str) -> str:
        if self._style != "int8":
            return self._op("Gather", [self._weight(name), ids], name.removesuffix(".weight"))
        codes, scale, zero = self._codes(name, self._weights[name], None)
        rows = self._op("Gather", [codes, ids], name.removesuffix(".weight"))
        return self._op("DequantizeLinear", [rows, scale, zero])

    def _embeddings(self) -> str:
        prefix = f"{self._body}embeddings."
        words, types, places = (
            self._lookup(f"{prefix}{word}_embeddings.weight", ids)
            for word, ids in (("word", "input_ids"), ("token_type", "types"), ("position", "places"))
        )
        value = self._op("Add", [self._op("Add", [words, types]), places])
        return self._norm(f"{prefix}LayerNorm", value)

    def _norm(self, module: str, value: str) -> str:
        gain, bias = (self._weight(f"{module}.{part}") for part in ("weight", "bias"))
        if self._anonymous:  # written out, as older opsets have it
            return self._op("Add", [self._op("Mul", [self._op("Div", [value, value]), gain]), bias])
        return self._op("LayerNormalization", [value, gain, bias], module)

    def _product(self, module: str, value: str) -> str:
        turned = np.ascontiguousarray(self._weights[f"{module}.weight"].T)
        name = f"onnx::MatMul_{700 + len(self._tensors)}"
        match self._style:
            case "int8":
                codes, scale, zero = self._codes(name, turned, 1)
                self._nodes.append(
                    node("DynamicQuantizeLinear", [value], [f"{value}_q_{name}", f"{name}_s", f"{name}_z"])
                )
                whole = self._op("MatMulInteger", [f"{value}_q_{name}", codes, f"{name}_z", zero], module)
                both = self._op("Mul", [f"{name}_s", scale])
                return self._op("Mul", [self._op("Cast", [whole], to=TensorProto.FLOAT), both])
            case "qdq" | "static":
                codes, scale, zero = self._codes(name, turned, 1)
                weight = self._op("DequantizeLinear", [codes, scale, zero], axis=1)
                return self._through_codes(self._op("MatMul", [value, weight], module))
        return self._op("MatMul", [value, self._store(name, turned)], module)

    def _through_codes(self, value: str) -> str:
        if self._style != "static":
            return value
        pair = [
            self._store("activation_scale", np.array(0.1, np.float32)),
            self._store("activation_zero_point", np.array(128, np.uint8)),
        ]
        return self._op("DequantizeLinear", [self._op("QuantizeLinear", [value, *pair]), *pair])

    def _linear(self, module: str, value: str) -> str:
        return self._op("Add", [self._product(module, value), self._weight(f"{module}.bias")], module)

    def _heads(self, value: str) -> str:
        size = self._weights[f"{self._body}embeddings.LayerNorm.bias"].size // N_HEADS
        shape = self._store("/Constant_output_0", np.array([0, 0, -1, size]))
        turned = self._op("Transpose", [self._op("Reshape", [value, shape])], perm=[0, 2, 1, 3])
        return self._through_codes(turned)

    def _attention(self, prefix: str, value: str) -> str:
        # Values first: the order of the operators must not decide which is which.
        third = self._heads(self._linear(f"{prefix}self.value", value))
        first = self._heads(self._linear(f"{prefix}self.query", value))
        second = self._heads(self._linear(f"{prefix}self.key", value))
        scores = self._op("MatMul", [first, self._op("Transpose", [second], perm=[0, 1, 3, 2])])
        mixed = self._op("MatMul", [self._op("Softmax", [scores]), third])
        return self._op("Reshape", [self._op("Transpose", [mixed], perm=[0, 2, 1, 3]), "shape"])

    def _fused_attention(self, prefix: str, value: str) -> str:
        parts = ("query", "key", "value")
        weight = np.concatenate([self._weights[f"{prefix}self.{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self._weights[f"{prefix}self.{part}.bias"] for part in parts])
        number = len(self._tensors)
        names = [
            self._store(f"Attention_{number}_qkv_{part}", values)
            for part, values in (("weight", weight), ("bias", bias))
        ]
        return self._op("Attention", [value, *names], domain=MICROSOFT, num_heads=N_HEADS)

    def _layer(self, prefix: str, value: str) -> str:
        if self._style == "fused":
            return self._fused_layer(prefix, value)
        mixed = self._linear(f"{prefix}attention.output.dense", self._attention(f"{prefix}attention.", value))
        middle = self._norm(f"{prefix}attention.output.LayerNorm", self._op("Add", [mixed, value]))
        inner = self._op("Relu", [self._linear(f"{prefix}intermediate.dense", middle)])
        outer = self._linear(f"{prefix}output.dense", inner)
        return self._norm(f"{prefix}output.LayerNorm", self._op("Add", [outer, middle]))

    def _fused_layer(self, prefix: str, value: str) -> str:
        mixed = self._product(
            f"{prefix}attention.output.dense", self._fused_attention(f"{prefix}attention.", value)
        )
        middle = self._skip(f"{prefix}attention.output.", mixed, value)
        inner = self._product(f"{prefix}intermediate.dense", middle)
        bias = self._weight(f"{prefix}intermediate.dense.bias")
        inner = self._op("BiasGelu", [inner, bias], domain=MICROSOFT)
        return self._skip(f"{prefix}output.", self._product(f"{prefix}output.dense", inner), middle)

    def _skip(self, prefix: str, value: str, skipped: str) -> str:
        names = ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")
        weights = [self._weight(f"{prefix}{name}") for name in names]
        return self._op("SkipLayerNormalization", [value, skipped, *weights], domain=MICROSOFT)
