"""Make the small quantised files next to this script, with the libraries that define the formats.

``python tests/data/formats/make_quantised.py`` where torch 2.13, transformers 5.22, bitsandbytes 0.50.2,
compressed-tensors 0.20, mlx 0.32 (CPU), hqq 0.2.8 and autoawq 0.2.9 can be imported; what cannot be is
left out. Each file holds the tensors of one module, the numbers that the library makes of them under
``expected``, and the config in its metadata. Numbers are made in float32, which is finer than what the
libraries use by default.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
Case = tuple[dict[str, Any], dict[str, torch.Tensor], torch.Tensor]


def weights(n_rows: int = 4, n_columns: int = 128) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    spread = torch.rand((n_rows, 1), generator=generator) + 0.5
    return torch.randn((n_rows, n_columns), generator=generator) * spread


def bnb_four_bits(kind: str, nested: bool) -> Case:
    import bitsandbytes.functional as bnb

    # Rows of 80 do not begin at blocks of 64.
    codes, state = bnb.quantize_4bit(
        weights(8, 80), blocksize=64, compress_statistics=nested, quant_type=kind
    )
    tensors = {f"weight.{name}": one for name, one in state.as_dict(packed=True).items()}
    return {"quant_method": "bitsandbytes"}, {"weight": codes, **tensors}, bnb.dequantize_4bit(codes, state)


def bnb_eight_bits() -> Case:
    import bitsandbytes.functional as bnb

    codes, scales, _ = bnb.int8_vectorwise_quant(weights().half())
    expected = bnb.int8_vectorwise_dequant(codes, scales)
    tensors = {"weight": codes, "SCB": scales, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return {"quant_method": "bitsandbytes"}, tensors, expected


def compressed(layout: str, **args: Any) -> Case:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    # Zero points run along the rows: enough of these for several integers.
    plain = weights() if args.get("symmetric", True) else weights(24, 64)
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
    strategy = scheme.weights.strategy
    group = args.get("group_size")
    if group:
        blocks = plain.reshape(len(plain), -1, group)
        low, high = blocks.amin(-1), blocks.amax(-1)
    elif strategy == "block":
        high_, wide = args["block_structure"]
        blocks = plain.reshape(len(plain) // high_, high_, -1, wide)
        low, high = blocks.amin((1, 3)), blocks.amax((1, 3))
    else:
        low, high = plain.amin(1, keepdim=True), plain.amax(1, keepdim=True)
    outer = None
    if strategy == "tensor_group":
        from compressed_tensors.quantization.utils import generate_gparam

        outer = generate_gparam(plain.amin(), plain.amax())
    scale, zero = calculate_qparams(low, high, scheme.weights, global_scale=outer)
    state = {"weight": plain, "weight_scale": scale.float()}
    if not scheme.weights.symmetric:
        state["weight_zero_point"] = zero
    if outer is not None:
        state["weight_global_scale"] = outer.float().reshape(1)
    compressor = BaseCompressor.get_value_from_registry(layout)
    stored = compressor.compress(dict(state), scheme)
    if outer is None:
        expected = compressor.decompress(dict(stored), scheme)["weight"]
    else:  # the same steps, but not in bfloat16
        from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
        from compressed_tensors.quantization.lifecycle.forward import dequantize

        codes = unpack_fp4_from_uint8(stored["weight_packed"], *plain.shape, dtype=torch.float32)
        scales = stored["weight_scale"].float()
        expected = dequantize(codes, scales, args=scheme.weights, global_scale=state["weight_global_scale"])
    said = {key: value for key, value in args.items() if isinstance(value, (int, str, list))}
    config = {
        "quant_method": "compressed-tensors",
        "format": layout,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": said}},
    }
    return config, {name: one for name, one in stored.items() if one is not None}, expected.float()


def mlx(bits: int, mode: str = "affine") -> Case:
    import mlx.core as mx
    import numpy as np

    group = 32 if mode == "mxfp4" else 64
    plain = mx.array(weights().numpy())
    parts = mx.quantize(plain, group_size=group, bits=bits, mode=mode)
    expected = mx.dequantize(*parts, group_size=group, bits=bits, mode=mode)
    names = ("weight", "scales", "biases")
    tensors = {name: torch.from_numpy(np.array(one).copy()) for name, one in zip(names, parts, strict=False)}
    config = {"bits": bits, "group_size": group, **({} if mode == "affine" else {"mode": mode})}
    return config, tensors, torch.from_numpy(np.array(expected.astype(mx.float32)).copy())


def hqq(bits: int, axis: int) -> Case:
    from hqq.core.quantize import Quantizer

    codes, meta = Quantizer.quantize(
        weights(10, 64), nbits=bits, group_size=32, axis=axis, compute_dtype=torch.float32, device="cpu"
    )
    meta["compute_dtype"] = torch.float32
    expected = Quantizer.dequantize(codes, meta)
    tensors = {
        "W_q": codes,
        "scale": meta["scale"],
        "zero": meta["zero"],
        "shape": torch.tensor(meta["shape"]),
        "nbits": torch.tensor(bits, dtype=torch.int32),
        "group_size": torch.tensor(32, dtype=torch.int32),
        "axis": torch.tensor(axis, dtype=torch.int32),
    }
    return {"quant_method": "hqq"}, tensors, expected


def awq() -> Case:
    from awq.utils.packing_utils import dequantize_gemm

    generator = torch.Generator().manual_seed(3)
    whole = {"low": -(2**31), "high": 2**31, "generator": generator, "dtype": torch.int64}
    codes, zeros = (torch.randint(size=(n, 2), **whole).to(torch.int32) for n in (64, 2))
    scales = torch.rand((2, 16), generator=generator).half()
    expected = dequantize_gemm(codes, zeros, scales.float(), 4, 32).T
    config = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}
    return config, {"qweight": codes, "qzeros": zeros, "scales": scales}, expected


def gpt_oss() -> Case:
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    generator = torch.Generator().manual_seed(4)
    codes = torch.randint(0, 256, (2, 6, 2, 16), generator=generator, dtype=torch.uint8)
    scales = torch.randint(118, 130, (2, 6, 2), generator=generator, dtype=torch.uint8)
    expected = convert_moe_packed_tensors(codes, scales, dtype=torch.float32)
    return {"quant_method": "mxfp4"}, {"weight_blocks": codes, "weight_scales": scales}, expected


CASES: dict[str, Callable[[], Case]] = {
    "bnb-nf4": partial(bnb_four_bits, "nf4", nested=True),
    "bnb-nf4-plain": partial(bnb_four_bits, "nf4", nested=False),
    "bnb-fp4": partial(bnb_four_bits, "fp4", nested=True),
    "bnb-8": bnb_eight_bits,
    "ct-int4": partial(
        compressed, "pack-quantized", num_bits=4, type="int", strategy="group", group_size=32, symmetric=True
    ),
    "ct-int4-zeros": partial(
        compressed, "pack-quantized", num_bits=4, type="int", strategy="group", group_size=32, symmetric=False
    ),
    "ct-int3-zeros": partial(
        compressed, "pack-quantized", num_bits=3, type="int", strategy="group", group_size=32, symmetric=False
    ),
    "ct-int8-packed": partial(compressed, "pack-quantized", num_bits=8, type="int", strategy="channel"),
    "ct-int8": partial(
        compressed, "int-quantized", num_bits=8, type="int", strategy="channel", symmetric=False
    ),
    "ct-fp8": partial(compressed, "float-quantized", num_bits=8, type="float", strategy="channel"),
    "ct-fp8-block": partial(
        compressed, "float-quantized", num_bits=8, type="float", strategy="block", block_structure=[2, 32]
    ),
    "ct-nvfp4": partial(
        compressed, "nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16
    ),
    "ct-mxfp4": partial(
        compressed, "mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32
    ),
    **{f"mlx-{bits}": partial(mlx, bits) for bits in (2, 3, 4, 5, 6, 8)},
    "mlx-mxfp4": partial(mlx, 4, "mxfp4"),
    **{f"hqq-{bits}-{axis}": partial(hqq, bits, axis) for bits in (2, 3, 4, 8) for axis in (0, 1)},
    "awq": awq,
    "gpt-oss": gpt_oss,
}


def main() -> None:
    for name, make in CASES.items():
        try:
            config, tensors, expected = make()
        except ImportError as error:
            print(f"{name}: left out, {error}")
            continue
        file = HERE / f"quantised-{name}.safetensors"
        data = {f"module.{key}": one.contiguous() for key, one in tensors.items()}
        data["expected"] = expected.float().contiguous()
        key = "quantization_config" if "quant_method" in config else "quantization"
        save_file(data, file, metadata={"config": json.dumps({key: config})})
        print(f"{name}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
