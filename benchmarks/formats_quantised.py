"""Quantised weights: how fast they are decoded, and what a comparison of a 7B model reads of them.

``python -m benchmarks.formats_quantised [--quick]`` prints both as Markdown. The naive way takes one element
at a time; torch, where it is installed, uses its own types and the published formulas on one thread.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from tests.support import HubProcess, VirtualFile

from benchmarks.decode import best_cpu
from benchmarks.peers_subject import SEVEN_B, llama
from benchmarks.tables import Table, megabytes, times
from modelkin import compare
from modelkin.comparison.methods import Skipped
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.formats.safetensors.writing import safetensors_head
from modelkin.model import open_model
from modelkin.options import CompareOptions, FetchOptions
from modelkin.source import MemorySource
from modelkin.tensors import Array

NAME = "model.layers.0.mlp.up_proj.weight"
PREFIX = NAME.removesuffix("weight")
Layout = dict[str, tuple[str, tuple[int, ...]]]
"""Name of a part -> format and shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How one scheme stores a matrix of given outputs and inputs."""

    name: str
    config: Mapping[str, Any]
    layout: Callable[[int, int], Layout]
    one: Callable[[Mapping[str, Array], int, int], float]
    """The naive way: the weight of one output and input."""


_WIDTHS = {"I32": 4, "U32": 4, "F32": 4, "I64": 8, "F16": 2, "BF16": 2, "U8": 1, "I8": 1, "F8_E4M3": 1}
_NUMPY = {"I32": "<i4", "U32": "<u4", "F32": "<f4", "I64": "<i8", "F16": "<f2", "U8": "u1", "F8_E4M3": "u1"}
_STATE = b'{"quant_type": "nf4", "blocksize": 64, "dtype": "float16", "shape": [%d, %d]}'


def _gptq(n_out: int, n_in: int) -> Layout:
    groups = n_in // 128
    return {
        "qweight": ("I32", (n_in // 8, n_out)),
        "qzeros": ("I32", (groups, n_out // 8)),
        "scales": ("F16", (groups, n_out)),
        "g_idx": ("I32", (n_in,)),
    }


def _awq(n_out: int, n_in: int) -> Layout:
    groups = n_in // 128
    return {
        "qweight": ("I32", (n_in, n_out // 8)),
        "qzeros": ("I32", (groups, n_out // 8)),
        "scales": ("F16", (groups, n_out)),
    }


def _fp8(n_out: int, n_in: int) -> Layout:
    return {
        "weight": ("F8_E4M3", (n_out, n_in)),
        "weight_scale_inv": ("F32", (math.ceil(n_out / 128), math.ceil(n_in / 128))),
    }


def _nf4(n_out: int, n_in: int) -> Layout:
    return {
        "weight": ("U8", (n_out * n_in // 2, 1)),
        "weight.absmax": ("F32", (n_out * n_in // 64,)),
        "weight.quant_map": ("F32", (16,)),
        "weight.quant_state.bitsandbytes__nf4": ("U8", (len(_STATE % (n_out, n_in)),)),
    }


def _mlx(n_out: int, n_in: int) -> Layout:
    return {
        "weight": ("U32", (n_out, n_in // 8)),
        "scales": ("F16", (n_out, n_in // 64)),
        "biases": ("F16", (n_out, n_in // 64)),
    }


def _mxfp4(n_out: int, n_in: int) -> Layout:
    return {"weight_packed": ("U8", (n_out, n_in // 2)), "weight_scale": ("U8", (n_out, n_in // 32))}


def _code(word: int, place: int) -> int:
    return int(word) >> (4 * place) & 15


def _one_gptq(parts: Mapping[str, Array], out: int, at: int) -> float:
    group = int(parts["g_idx"][at])
    zero = _code(parts["qzeros"][group, out // 8], out % 8) + 1 & 15
    code = _code(parts["qweight"][at // 8, out], at % 8)
    return (code - zero) * float(parts["scales"][group, out])


def _one_awq(parts: Mapping[str, Array], out: int, at: int) -> float:
    group, place = at // 128, (0, 4, 1, 5, 2, 6, 3, 7)[out % 8]
    zero = _code(parts["qzeros"][group, out // 8], place)
    return (_code(parts["qweight"][at, out // 8], place) - zero) * float(parts["scales"][group, out])


def _one_fp8(parts: Mapping[str, Array], out: int, at: int) -> float:
    byte = int(parts["weight"][out, at])
    exponent, fraction = byte >> 3 & 15, byte & 7
    value = math.ldexp(fraction / 8 + bool(exponent), max(exponent, 1) - 7)
    return (-value if byte & 128 else value) * float(parts["weight_scale_inv"][out // 128, at // 128])


def _one_nf4(parts: Mapping[str, Array], out: int, at: int) -> float:
    number = out * parts["n_in"].item() + at
    byte = int(parts["weight"][number // 2, 0])
    code = byte & 15 if number % 2 else byte >> 4
    return float(parts["weight.quant_map"][code]) * float(parts["weight.absmax"][number // 64])


def _one_mlx(parts: Mapping[str, Array], out: int, at: int) -> float:
    code = _code(parts["weight"][out, at // 8], at % 8)
    return code * float(parts["scales"][out, at // 64]) + float(parts["biases"][out, at // 64])


def _one_mxfp4(parts: Mapping[str, Array], out: int, at: int) -> float:
    code = int(parts["weight_packed"][out, at // 2]) >> 4 * (at % 2) & 15
    value = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)[code & 7]
    return math.ldexp(-value if code & 8 else value, int(parts["weight_scale"][out, at // 32]) - 127)


def _declared(**values: str | int) -> dict[str, Any]:
    return {"quantization_config": values}


SCHEMES: Sequence[Scheme] = (
    Scheme(
        name="GPTQ, 4 bits",
        config=_declared(quant_method="gptq", bits=4, group_size=128),
        layout=_gptq,
        one=_one_gptq,
    ),
    Scheme(
        name="AWQ, 4 bits",
        config=_declared(quant_method="awq", bits=4, group_size=128, version="gemm"),
        layout=_awq,
        one=_one_awq,
    ),
    Scheme(name="FP8, blocks of 128", config=_declared(quant_method="fp8"), layout=_fp8, one=_one_fp8),
    Scheme(name="bitsandbytes NF4", config=_declared(quant_method="bitsandbytes"), layout=_nf4, one=_one_nf4),
    Scheme(
        name="MLX, 4 bits", config={"quantization": {"bits": 4, "group_size": 64}}, layout=_mlx, one=_one_mlx
    ),
    Scheme(name="MXFP4", config=_declared(quant_method="compressed-tensors"), layout=_mxfp4, one=_one_mxfp4),
)


def parts_of(scheme: Scheme, n_out: int, n_in: int) -> dict[str, Array]:
    """Return a matrix with random codes."""
    rng = np.random.default_rng(0)
    parts: dict[str, Array] = {}
    for name, (dtype, shape) in scheme.layout(n_out, n_in).items():
        if dtype.startswith("F") and dtype != "F8_E4M3":
            parts[name] = rng.uniform(0.01, 0.02, shape).astype(_NUMPY[dtype])
        elif name == "g_idx":
            parts[name] = np.arange(n_in, dtype=np.int32) // 128
        elif name.startswith("weight.quant_state"):
            parts[name] = np.frombuffer(_STATE % (n_out, n_in), np.uint8)
        else:
            top = 120 if dtype == "F8_E4M3" or name == "weight_scale" else 256  # no NaN
            data = rng.integers(0, top, math.prod(shape) * _WIDTHS[dtype], dtype=np.uint8)
            parts[name] = data.view(_NUMPY[dtype]).reshape(shape)
    return parts


def decoding(*, quick: bool = False) -> Table:
    """Measure how fast each scheme is decoded."""
    size, repeats = (512, 2) if quick else (4096, 5)
    has_torch = importlib.util.find_spec("torch") is not None
    rows = []
    for scheme in SCHEMES:
        parts = parts_of(scheme, size, size)
        stored = {
            PREFIX + name: one.view(ml_dtypes.float8_e4m3fn)
            if scheme.layout(size, size)[name][0] == "F8_E4M3"
            else one
            for name, one in parts.items()
        }
        files = {
            "config.json": json.dumps({"model_type": "llama", **scheme.config}).encode(),
            "model.safetensors": safetensors_bytes(stored),
        }
        with open_model(MemorySource(files)) as model:
            got = model.tensor(NAME)
            parts["n_in"] = np.array(size)
            naive = _naive_seconds(scheme, parts, got)
            ours = best_cpu(partial(model.tensor, NAME), repeats=repeats)
        theirs = _torch_seconds(scheme.name, parts, got, repeats) if has_torch else None
        rows.append(
            [
                scheme.name,
                f"{size * size / ours / 1e6:.0f}",
                times(naive * size * size / ours),
                "-" if theirs is None else times(theirs / ours),
            ]
        )
    return Table(["scheme", "million weights/s", "faster than one by one by", "than torch by"], rows)


def _naive_seconds(scheme: Scheme, parts: Mapping[str, Array], got: Array) -> float:
    """Return the seconds of one weight taken by itself, and check that the numbers agree."""
    places = [(7 * n % got.shape[0], 11 * n % got.shape[1]) for n in range(5000)]
    values = [scheme.one(parts, out, at) for out, at in places]
    np.testing.assert_allclose(values, [got[place] for place in places], rtol=1e-6, atol=1e-12)
    return best_cpu(lambda: [scheme.one(parts, out, at) for out, at in places], repeats=3) / len(places)


def _torch_seconds(name: str, parts: Mapping[str, Array], got: Array, repeats: int) -> float | None:
    import torch

    torch.set_num_threads(1)
    tensors = {key: torch.from_numpy(np.ascontiguousarray(one)) for key, one in parts.items() if one.ndim}
    shifts = torch.arange(0, 32, 4)

    def gptq() -> torch.Tensor:
        codes = (tensors["qweight"][:, None, :] >> shifts[None, :, None] & 15).reshape(got.shape[::-1])
        zeros = (tensors["qzeros"][:, :, None] >> shifts & 15).reshape(len(tensors["qzeros"]), -1) + 1 & 15
        group = tensors["g_idx"].long()
        return ((codes - zeros[group]) * tensors["scales"].float()[group]).T.contiguous()

    def fp8() -> torch.Tensor:
        codes = tensors["weight"].view(torch.float8_e4m3fn).float()
        scales = tensors["weight_scale_inv"].repeat_interleave(128, 0).repeat_interleave(128, 1)
        return codes * scales[: codes.shape[0], : codes.shape[1]]

    way = {"GPTQ, 4 bits": gptq, "FP8, blocks of 128": fp8}.get(name)
    if way is None:
        return None
    np.testing.assert_array_equal(way().numpy(), got)
    return best_cpu(way, repeats=repeats)


# -- bytes of a comparison ----------------------------------------------------------------------------


def virtual(scheme: Scheme, *, seed: int) -> dict[str, bytes | VirtualFile]:
    """Return a 7B model whose projections are stored by a scheme; its numbers mean nothing.

    Tensors that must make sense to be read (lists of groups, JSON) are in the file; codes and scales are
    whatever the virtual file holds.
    """
    files = dict(llama(SEVEN_B, seed=seed, vocabulary=1))
    small = {name: data for name, data in files.items() if isinstance(data, bytes) and "index" not in name}
    config = json.loads(small["config.json"])
    layout: dict[str, tuple[str, tuple[int, ...], int]] = {}
    told: dict[str, bytes] = {}
    for name, shape in SEVEN_B.tensors():
        parts: Layout = {name: ("BF16", shape)}
        if name.endswith("_proj.weight"):
            prefix = name.removesuffix("weight")
            parts = {prefix + part: kind for part, kind in scheme.layout(shape[0], shape[1]).items()}
        for part, (dtype, extent) in parts.items():
            layout[part] = dtype, extent, _WIDTHS[dtype] * math.prod(extent)
            if part.endswith(".g_idx"):
                told[part] = (np.arange(extent[0], dtype="<i4") // 128).tobytes()
            elif "quant_state" in part:
                told[part] = _STATE % (shape[0], shape[1])
    head, order = safetensors_head(layout)
    # What must make sense goes into a separate file of real bytes.
    real = {part: layout[part] for part in told}
    rest = {part: layout[part] for part in order if part not in told}
    head, _ = safetensors_head(rest)
    size = len(head) + sum(item[2] for item in rest.values())
    made: dict[str, bytes | VirtualFile] = {
        **small,
        "config.json": json.dumps({**config, **scheme.config}).encode(),
        "model.safetensors": VirtualFile(size=size, head=head, fill="F16", seed=seed),
    }
    if not told:
        return made
    beside, names = safetensors_head(real)
    made["model-00001-of-00002.safetensors"] = made.pop("model.safetensors")
    made["model-00002-of-00002.safetensors"] = beside + b"".join(told[part] for part in names)
    places = {
        **dict.fromkeys(rest, "model-00001-of-00002.safetensors"),
        **dict.fromkeys(real, "model-00002-of-00002.safetensors"),
    }
    made["model.safetensors.index.json"] = json.dumps({"weight_map": places}).encode()
    return made


def reading(*, quick: bool = False) -> Table:
    """Count what a comparison at standard depth reads of 7B models."""
    chosen = SCHEMES[:4:3] if quick else SCHEMES
    rows = [_read_row(scheme) for scheme in chosen]
    columns = ["candidate", "model, MB", "read, MB", "share", "requests", "left out: stored input-first"]
    return Table(columns, [_read_row(None), *rows])


def _read_row(scheme: Scheme | None) -> list[str]:
    plain = dict(llama(SEVEN_B, seed=2, vocabulary=1))
    repos = {
        "bench/base": dict(llama(SEVEN_B, seed=1, vocabulary=1)),
        "bench/candidate": plain if scheme is None else virtual(scheme, seed=2),
    }
    whole = sum(
        len(data) if isinstance(data, bytes) else data.size for data in repos["bench/candidate"].values()
    )
    with HubProcess(repos) as hub:
        fetch = FetchOptions(endpoint=hub.url, token=False, use_store=False)
        with open_model("bench/candidate", fetch) as candidate, open_model("bench/base", fetch) as base:
            result = compare(candidate=candidate, base=base, options=CompareOptions(fetch=fetch))
            totals = candidate.totals()
    left_out = [
        test for test in result.evidence if isinstance(test, Skipped) and "input-first" in str(test.reason)
    ]
    return [
        scheme.name if scheme is not None else "BF16",
        megabytes(whole),
        megabytes(totals.bytes_fetched),
        f"{100 * totals.bytes_fetched / whole:.2f} %",
        str(totals.requests),
        ", ".join(sorted({test.method for test in left_out})) or "-",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args(arguments).quick
    for table in _tables(quick):
        print(table.markdown(), end="\n\n")


def _tables(quick: bool) -> Iterator[Table]:
    yield decoding(quick=quick)
    yield reading(quick=quick)


if __name__ == "__main__":
    main()
