"""Writers of quantised weights, after the published layouts: slow, bit by bit, and unlike the decoders.

Each takes a matrix and returns the tensors of a module and what they stand for.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
Tensors = dict[str, npt.NDArray[Any]]
Written = tuple[Tensors, Matrix]

# The table of the NF4 paper (QLoRA, appendix E).
NF4 = [
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
]
FP4_VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
FP4_VALUES += [-value for value in FP4_VALUES]
# AWQ packs the outputs 0 2 4 6 1 3 5 7 of each eight, lowest bits first.
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def packed(codes: npt.NDArray[Any], bits: int, kind: str = "<i4") -> npt.NDArray[Any]:
    """Pack codes along the last axis as one little-endian stream, padded to whole integers."""
    spread = (codes[..., None].astype(np.int64) >> np.arange(bits)) & 1
    stream = spread.reshape(*codes.shape[:-1], -1).astype(np.uint8)
    width = 8 * np.dtype(kind).itemsize
    padding = [(0, 0)] * (stream.ndim - 1) + [(0, -stream.shape[-1] % width)]
    return np.packbits(np.pad(stream, padding), axis=-1, bitorder="little").view(kind)


def grouped(weights: Matrix, bits: int, group: int) -> tuple[npt.NDArray[Any], Matrix, npt.NDArray[Any]]:
    """Quantise each group of a row: codes [out, in], scales and zero points [out, groups]."""
    blocks = weights.reshape(len(weights), -1, group)
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    top = (1 << bits) - 1
    scales = np.maximum((high - low) / top, 1e-8).astype(np.float16).astype(np.float32)
    scales = np.maximum(scales, np.float32(6e-8))
    zeros = np.clip(np.rint(-low / scales), 0, top).astype(np.int64)
    codes = np.clip(np.rint(blocks / scales[..., None]) + zeros[..., None], 0, top).astype(np.int64)
    return codes.reshape(weights.shape), scales, zeros


def spread(values: npt.NDArray[Any], group: int) -> npt.NDArray[Any]:
    return np.repeat(values, group, axis=1)


def gptq(
    weights: Matrix, *, bits: int = 4, group: int = 32, v2: bool = False, order: bool = False
) -> Written:
    n_inputs = weights.shape[1]
    place = np.random.default_rng(5).permutation(n_inputs) if order else np.arange(n_inputs)
    # Groups are of inputs in the order `place`; the tensor keeps the inputs' own order.
    codes, scales, zeros = grouped(weights[:, place], bits, group)
    inverse = np.argsort(place)
    codes, groups = codes[:, inverse], (np.arange(n_inputs) // group)[inverse]
    stored = zeros if v2 else (zeros - 1) % (1 << bits)
    tensors = {
        "qweight": np.ascontiguousarray(packed(codes, bits).T),
        "qzeros": packed(stored.T, bits),
        "scales": scales.T.astype(np.float16),
        "g_idx": groups.astype(np.int32),
    }
    expected = (codes - zeros[:, groups]).astype(np.float32) * scales[:, groups]
    return tensors, expected


def compensated(weights: Matrix, *, bits: int = 4, group: int = 32) -> Written:
    """Quantise as GPTQ itself does: the error of each input is made up for by the inputs after it."""
    rng = np.random.default_rng(9)
    n_inputs = weights.shape[1]
    mixed = rng.normal(size=(n_inputs, n_inputs // 4)) @ rng.normal(size=(n_inputs // 4, 2000))
    inputs = mixed + 0.3 * rng.normal(size=mixed.shape)
    hessian = inputs @ inputs.T / 2000
    hessian += 0.01 * np.diag(hessian).mean() * np.eye(n_inputs)
    upper = np.linalg.cholesky(np.linalg.inv(hessian)).T
    left, top = weights.astype(np.float64), (1 << bits) - 1
    codes = np.zeros(weights.shape, np.int64)
    scales = np.zeros((len(weights), n_inputs // group), np.float32)
    zeros = np.zeros(scales.shape, np.int64)
    for at in range(n_inputs):
        number = at // group
        if at % group == 0:
            block = np.asarray(left[:, at : at + group], np.float32)
            _, one, zero = grouped(block, bits, group)
            scales[:, number], zeros[:, number] = one[:, 0], zero[:, 0]
        scale, zero = scales[:, number].astype(np.float64), zeros[:, number]
        codes[:, at] = np.clip(np.rint(left[:, at] / scale) + zero, 0, top)
        error = (left[:, at] - (codes[:, at] - zero) * scale) / upper[at, at]
        left[:, at:] -= np.outer(error, upper[at, at:])
    tensors = {
        "qweight": np.ascontiguousarray(packed(codes, bits).T),
        "qzeros": packed(((zeros - 1) % (1 << bits)).T, bits),
        "scales": np.ascontiguousarray(scales.T.astype(np.float16)),
        "g_idx": (np.arange(n_inputs) // group).astype(np.int32),
    }
    return tensors, (codes - spread(zeros, group)).astype(np.float32) * spread(scales, group)


def awq(weights: Matrix, *, group: int = 32) -> Written:
    codes, scales, zeros = grouped(weights, 4, group)

    def shuffled(by_input: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return packed(by_input.reshape(len(by_input), -1, 8)[..., AWQ_ORDER].reshape(by_input.shape), 4)

    tensors = {
        "qweight": shuffled(codes.T),
        "qzeros": shuffled(zeros.T),
        "scales": np.ascontiguousarray(scales.T.astype(np.float16)),
    }
    return tensors, (codes - spread(zeros, group)).astype(np.float32) * spread(scales, group)


def awq_gemv(weights: Matrix, *, group: int = 32) -> Written:
    codes, scales, zeros = grouped(weights, 4, group)
    n_words = -(-zeros.shape[1] // 8) + 1  # rows are padded for the kernel
    padding = ((0, 0), (0, 8 * n_words - zeros.shape[1]))
    tensors = {
        "qweight": packed(codes, 4),
        "qzeros": packed(np.pad(zeros, padding), 4),
        "scales": np.pad(scales, padding).astype(np.float16),
    }
    return tensors, (codes - spread(zeros, group)).astype(np.float32) * spread(scales, group)


def bnb4(weights: Matrix, *, block: int = 64, nested: bool = True, kind: str = "nf4") -> Written:
    table = np.array(NF4, np.float32) if kind == "nf4" else np.array(FP4_VALUES, np.float32) / 6
    flat = weights.reshape(-1)
    blocks = np.pad(flat, (0, -flat.size % block)).reshape(-1, block)
    absmax = np.maximum(np.abs(blocks).max(1), np.float32(1e-8)).astype(np.float32)
    state: dict[str, Any] = {"quant_type": kind, "blocksize": block, "dtype": "float16"}
    state["shape"] = list(weights.shape)
    tensors: Tensors = {"weight.quant_map": table}
    if nested:
        inner, offset = 256, float(np.float32(absmax.mean()))
        table2 = np.linspace(-1, 1, 256).astype(np.float32)
        rest = np.pad(absmax - np.float32(offset), (0, -absmax.size % inner)).reshape(-1, inner)
        absmax2 = np.maximum(np.abs(rest).max(1), np.float32(1e-8)).astype(np.float32)
        codes2 = np.abs(rest[..., None] / absmax2[:, None, None] - table2).argmin(-1).astype(np.uint8)
        absmax = (table2[codes2] * absmax2[:, None] + np.float32(offset)).reshape(-1)[: absmax.size]
        tensors["weight.absmax"] = codes2.reshape(-1)[: absmax.size]
        tensors["weight.nested_absmax"], tensors["weight.nested_quant_map"] = absmax2, table2
        state |= {"nested_blocksize": inner, "nested_dtype": "float32", "nested_offset": offset}
    else:
        tensors["weight.absmax"] = absmax
    codes = np.abs(blocks[..., None] / absmax[:, None, None] - table).argmin(-1)
    expected = (table[codes] * absmax[:, None]).reshape(-1)[: flat.size].reshape(weights.shape)
    codes = codes.reshape(-1)[: flat.size]
    codes = np.pad(codes, (0, codes.size % 2)).reshape(-1, 2)
    tensors["weight"] = (codes[:, :1] << 4 | codes[:, 1:]).astype(np.uint8)
    text = json.dumps(state).encode()
    tensors[f"weight.quant_state.bitsandbytes__{kind}"] = np.frombuffer(text, np.uint8)
    return tensors, expected


def bnb8(weights: Matrix) -> Written:
    largest = np.abs(weights).max(1)
    codes = np.rint(weights * (127 / largest[:, None])).astype(np.int8)
    tensors: Tensors = {"weight": codes, "SCB": largest, "weight_format": np.array(0, np.uint8)}
    return tensors, codes.astype(np.float32) * largest[:, None] * np.float32(7.874015718698502e-3)


def fp8(weights: Matrix, *, block: tuple[int, int] | None = None, by: str = "tensor") -> Written:
    """Return FP8 with scales of blocks, rows or the whole tensor."""
    n_rows, n_columns = weights.shape
    high, wide = block or ((1, n_columns) if by == "row" else (n_rows, n_columns))
    padded = np.pad(weights, ((0, -n_rows % high), (0, -n_columns % wide)))
    blocks = padded.reshape(len(padded) // high, high, -1, wide)
    scales = (np.maximum(np.abs(blocks).max((1, 3)), 1e-8) / 448).astype(np.float32)
    full = np.repeat(np.repeat(scales, high, 0), wide, 1)[:n_rows, :n_columns]
    codes = (weights / full).astype(ml_dtypes.float8_e4m3fn)
    name = "weight_scale_inv" if block else "weight_scale"
    stored: npt.NDArray[Any] = scales if by == "row" or block else scales.reshape(())
    tensors: Tensors = {"weight": codes, name: stored}
    return tensors, codes.astype(np.float32) * full


def int8(weights: Matrix) -> Written:
    codes, scales, zeros = grouped(weights, 8, weights.shape[1])
    tensors: Tensors = {
        "weight": (codes - 128).astype(np.int8),
        "weight_scale": scales,
        "weight_zero_point": (zeros - 128).astype(np.int8),
    }
    return tensors, (codes - zeros).astype(np.float32) * scales


def compressed(weights: Matrix, *, bits: int = 4, group: int = 32, zeros: bool = False) -> Written:
    if zeros:
        codes, scales, points = grouped(weights, bits, group)
    else:
        half = 1 << (bits - 1)
        blocks = weights.reshape(len(weights), -1, group)
        scales = (np.abs(blocks).max(-1) / (half - 0.5)).astype(np.float16).astype(np.float32)
        codes = np.clip(np.rint(blocks / scales[..., None]), -half, half - 1).astype(np.int64) + half
        codes, points = codes.reshape(weights.shape), np.full(scales.shape, half)
    tensors = {
        "weight_packed": packed(codes, bits),
        "weight_scale": scales.astype(np.float16),
        "weight_shape": np.array(weights.shape, np.int64),
    }
    if zeros:
        tensors["weight_zero_point"] = np.ascontiguousarray(packed(points.T, bits).T)
    return tensors, (codes - spread(points, group)).astype(np.float32) * spread(scales, group)


def _fp4(values: Matrix) -> npt.NDArray[Any]:
    distance = np.abs(values[..., None] - np.array(FP4_VALUES, np.float32))
    return np.asarray(distance.argmin(-1))


def nvfp4(weights: Matrix, *, modelopt: bool = False) -> Written:
    blocks = weights.reshape(len(weights), -1, 16)
    largest = np.maximum(np.abs(blocks).max(-1), 1e-6)
    outer = np.float32(448 * 6 / largest.max())
    scales = (largest / 6 * outer).astype(ml_dtypes.float8_e4m3fn)
    one = np.float32(1) / outer if modelopt else outer
    wide = scales.astype(np.float32)
    actual = wide * one if modelopt else wide / one
    codes = _fp4(blocks / np.maximum(actual, 1e-12)[..., None])
    expected = (np.array(FP4_VALUES, np.float32)[codes] * actual[..., None]).reshape(weights.shape)
    data = packed(codes.reshape(weights.shape), 4, "u1")
    if modelopt:
        return {"weight": data, "weight_scale": scales, "weight_scale_2": np.array(one)}, expected
    return {"weight_packed": data, "weight_scale": scales, "weight_global_scale": np.array([one])}, expected


def mxfp4(weights: Matrix) -> Written:
    blocks = weights.reshape(*weights.shape[:-1], -1, 32)
    powers = np.floor(np.log2(np.maximum(np.abs(blocks).max(-1), 1e-12))).astype(np.int64) - 2
    codes = _fp4(np.ldexp(blocks, -powers[..., None]).astype(np.float32))
    expected = np.ldexp(np.array(FP4_VALUES, np.float32)[codes], powers[..., None]).astype(np.float32)
    data = packed(codes.reshape(weights.shape), 4, "u1")
    scales = (powers + 127).astype(np.uint8)
    return {"weight_packed": data, "weight_scale": scales}, expected.reshape(weights.shape)


def mlx(weights: Matrix, *, bits: int = 4, group: int = 32) -> Written:
    blocks = weights.reshape(len(weights), -1, group)
    low, high = blocks.min(-1).astype(np.float16), blocks.max(-1)
    scales = np.maximum((high - low) / ((1 << bits) - 1), 1e-4).astype(np.float16)
    wide = scales.astype(np.float32), low.astype(np.float32)
    codes = np.rint((blocks - wide[1][..., None]) / wide[0][..., None])
    codes = np.clip(codes, 0, (1 << bits) - 1).astype(np.int64)
    expected = codes.astype(np.float32) * wide[0][..., None] + wide[1][..., None]
    tensors = {
        "weight": packed(codes.reshape(weights.shape), bits, "<u4"),
        "scales": scales,
        "biases": low,
    }
    return tensors, expected.reshape(weights.shape)


def hqq(weights: Matrix, *, bits: int = 4, group: int = 32, axis: int = 1) -> Written:
    flat = weights.reshape(-1, group) if axis == 1 else weights.reshape(group, -1).T
    codes, scales, zeros = grouped(np.ascontiguousarray(flat), bits, group)
    scales, points = scales.astype(np.float16), zeros.astype(np.float16)
    numbers = (codes.astype(np.float32) - points.astype(np.float32)) * scales.astype(np.float32)
    rows, numbers = (codes, numbers) if axis == 1 else (codes.T, numbers.T)
    per = {8: 1, 4: 2, 2: 4, 3: 10}[bits]
    rows = np.pad(rows, ((0, -len(rows) % per), (0, 0)))
    step = len(rows) // per
    folded = np.zeros((step, rows.shape[1]), np.int64)
    for fold in range(per):
        folded |= rows[fold * step : (fold + 1) * step] << bits * (per - 1 - fold)
    tensors = {
        "W_q": folded.astype(np.int32 if bits == 3 else np.uint8),
        "scale": scales if axis == 1 else scales.T,
        "zero": points if axis == 1 else points.T,
        "shape": np.array(weights.shape, np.int64),
        "nbits": np.array(bits, np.int32),
        "group_size": np.array(group, np.int32),
        "axis": np.array(axis, np.int32),
        "packing": np.frombuffer(b"4bit_u8", np.uint8),
    }
    return tensors, np.ascontiguousarray(numbers).reshape(weights.shape)


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A writer with the config that goes with it."""

    label: str
    write: Callable[[Matrix], Written]
    config: Mapping[str, Any] = field(default_factory=dict)


def _declared(**values: Any) -> dict[str, Any]:
    return {"quantization_config": values}


_GPTQ = partial(_declared, quant_method="gptq", group_size=32)
_CT = partial(_declared, quant_method="compressed-tensors")
SCHEMES = {
    **{
        f"gptq-{bits}": Scheme(label=f"GPTQ-{bits}", write=partial(gptq, bits=bits), config=_GPTQ(bits=bits))
        for bits in (2, 3, 4, 8)
    },
    "gptq-itself": Scheme(label="GPTQ-4", write=compensated, config=_GPTQ(bits=4)),
    "gptq-v2": Scheme(
        label="GPTQ-4", write=partial(gptq, v2=True), config=_GPTQ(bits=4, checkpoint_format="gptq_v2")
    ),
    "gptq-act-order": Scheme(
        label="GPTQ-4", write=partial(gptq, order=True), config=_GPTQ(bits=4, desc_act=True)
    ),
    "auto-round": Scheme(
        label="GPTQ-4",
        write=gptq,
        config=_declared(
            quant_method="auto-round", bits=4, group_size=32, packing_format="auto_round:auto_gptq"
        ),
    ),
    "awq": Scheme(
        label="AWQ-4", write=awq, config=_declared(quant_method="awq", bits=4, group_size=32, version="gemm")
    ),
    "awq-gemv": Scheme(
        label="AWQ-4",
        write=awq_gemv,
        config=_declared(quant_method="awq", bits=4, group_size=32, version="gemv"),
    ),
    "nf4": Scheme(label="NF4", write=bnb4, config=_declared(quant_method="bitsandbytes", load_in_4bit=True)),
    "nf4-plain": Scheme(label="NF4", write=partial(bnb4, nested=False)),
    "fp4": Scheme(label="FP4", write=partial(bnb4, kind="fp4", block=128)),
    "bnb-8": Scheme(label="BNB-8", write=bnb8, config=_declared(quant_method="bitsandbytes")),
    "fp8-block": Scheme(
        label="FP8-block",
        write=partial(fp8, block=(32, 32)),
        config=_declared(quant_method="fp8", weight_block_size=[32, 32]),
    ),
    "fp8-tensor": Scheme(label="FP8", write=fp8, config=_declared(quant_method="modelopt", quant_algo="FP8")),
    "fp8-row": Scheme(label="FP8", write=partial(fp8, by="row"), config=_declared(quant_method="fbgemm_fp8")),
    "int8": Scheme(label="INT8", write=int8, config=_CT(format="int-quantized")),
    "int4": Scheme(
        label="INT4",
        write=compressed,
        config=_CT(format="pack-quantized", config_groups={"g": {"weights": {"num_bits": 4}}}),
    ),
    "int4-zeros": Scheme(
        label="INT4",
        write=partial(compressed, zeros=True),
        config=_CT(format="pack-quantized", config_groups={"g": {"weights": {"num_bits": 4}}}),
    ),
    "int3": Scheme(
        label="INT3",
        write=partial(compressed, bits=3, zeros=True),
        config=_CT(format="pack-quantized", config_groups={"g": {"weights": {"num_bits": 3}}}),
    ),
    "nvfp4": Scheme(label="NVFP4", write=nvfp4, config=_CT(format="nvfp4-pack-quantized")),
    "nvfp4-modelopt": Scheme(
        label="NVFP4", write=partial(nvfp4, modelopt=True), config=_declared(quant_method="modelopt")
    ),
    "mxfp4": Scheme(label="MXFP4", write=mxfp4, config=_CT(format="mxfp4-pack-quantized")),
    **{
        f"mlx-{bits}": Scheme(
            label=f"MLX-{bits}",
            write=partial(mlx, bits=bits),
            config={"quantization": {"bits": bits, "group_size": 32}},
        )
        for bits in (2, 3, 4, 5, 6, 8)
    },
    **{
        f"hqq-{bits}-{axis}": Scheme(
            label=f"HQQ-{bits}",
            write=partial(hqq, bits=bits, axis=axis),
            config=_declared(quant_method="hqq"),
        )
        for bits, axis in ((8, 1), (4, 1), (4, 0), (3, 1), (3, 0), (2, 1))
    },
}
