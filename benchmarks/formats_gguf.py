"""GGUF: opening a file with a large vocabulary, decoding each type, and comparing without reading it all.

``python -m benchmarks.formats_gguf`` prints three tables. The rival is the `gguf` package in the same run.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

import modelkin as mk
from benchmarks.machine import touch_memory
from benchmarks.tables import Table, megabytes, times
from modelkin.formats.gguf.types import TYPES, decode_rows

N_TOKENS, N_MERGES = 128_256, 280_147
"""As Llama 3 has them."""
N_NUMBERS = 1 << 22


def best(work: Callable[[], object], *, repeats: int) -> float:
    """Return the smallest CPU time of several runs."""
    took = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


def run(*, quick: bool = False) -> str:
    """Measure; return it as Markdown."""
    touch_memory(1 << 28)
    with tempfile.TemporaryDirectory() as folder:
        parts = [_opening(Path(folder)), _decoding(quick=quick), _comparing(Path(folder))]
    return "\n\n".join(parts)


def _opening(folder: Path) -> str:
    path = folder / "vocabulary.gguf"
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"token{number}" for number in range(N_TOKENS)])
    writer.add_token_types([1] * N_TOKENS)
    writer.add_token_merges([f"token{number} {number}" for number in range(N_MERGES)])
    writer.add_tensor("token_embd.weight", rng.normal(size=(64, 64)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ours = best(lambda: mk.open_model(str(path)).index, repeats=5)
    theirs = best(lambda: gguf.GGUFReader(path), repeats=1)
    rows = [["gguf.GGUFReader", f"{theirs:.2f}", "1"], ["modelkin", f"{ours:.3f}", times(theirs / ours)]]
    return Table(["opening a vocabulary of Llama 3's size", "CPU seconds", "faster by"], rows).markdown()


def _decoding(*, quick: bool) -> str:
    rng = np.random.default_rng(0)
    rows = []
    for kind in TYPES.values():
        if kind.plain is not None:
            continue
        coded = rng.integers(0, 256, (N_NUMBERS // kind.block, kind.block_bytes), dtype=np.uint8)
        data, official = coded.tobytes(), gguf.GGMLQuantizationType(kind.number)
        repeats = 2 if quick else 7
        with np.errstate(all="ignore"):
            theirs = best(partial(gguf.quants.dequantize, coded.reshape(1024, -1), official), repeats=repeats)
        decode = partial(decode_rows, data, kind, n_rows=1024, width=N_NUMBERS // 1024)
        ours = best(decode, repeats=repeats)
        rates = [f"{N_NUMBERS / 1e6 / took:.0f}" for took in (theirs, ours)]
        rows.append([kind.name, *rates, f"{len(data) / ours / 1e9:.2f}", times(theirs / ours)])
    columns = ["type", "gguf.quants, M numbers/s", "modelkin, M numbers/s", "GB/s stored", "faster by"]
    return Table(columns, rows).markdown()


def _comparing(folder: Path) -> str:
    """Compare two quantisations of one random model: what is read, relative to both whole files."""
    width, mlp, layers = 1024, 2816, 6
    rng = np.random.default_rng(0)
    shapes = {"token_embd.weight": (8192, width), "output_norm.weight": (width,)}
    for layer in range(layers):
        stem = f"blk.{layer}."
        shapes |= {f"{stem}attn_{part}.weight": (width, width) for part in ("q", "k", "v", "output")}
        shapes |= {f"{stem}ffn_gate.weight": (mlp, width), f"{stem}ffn_up.weight": (mlp, width)}
        shapes |= {f"{stem}ffn_down.weight": (width, mlp)}
        shapes |= {f"{stem}attn_norm.weight": (width,), f"{stem}ffn_norm.weight": (width,)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    paths = [_quantised(folder / f"m.{quant}.gguf", arrays, quant, layers, mlp) for quant in ("Q8_0", "Q4_0")]

    def whole() -> None:
        for path in paths:
            for tensor in gguf.GGUFReader(path).tensors:
                gguf.quants.dequantize(tensor.data, tensor.tensor_type)

    began = time.process_time()
    result = mk.compare(candidate=str(paths[0]), base=str(paths[1]))
    ours = time.process_time() - began
    reading = best(whole, repeats=1)
    size = sum(path.stat().st_size for path in paths)
    verdict = f"modelkin compare: {result.verdict.conclusion.value}"
    rows = [
        ["reading and decoding both files with gguf", megabytes(size), f"{reading:.1f}"],
        [verdict, megabytes(result.ledger.bytes_fetched), f"{ours:.1f}"],
    ]
    return Table(["Q8_0 against Q4_0 of one model", "MB read", "CPU seconds"], rows).markdown()


def _quantised(
    path: Path, arrays: Mapping[str, npt.NDArray[np.float32]], quant: str, layers: int, mlp: int
) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_embedding_length(1024)
    writer.add_feed_forward_length(mlp)
    writer.add_head_count(16)
    writer.add_head_count_kv(16)
    kind = gguf.GGMLQuantizationType[quant]
    for name, values in arrays.items():
        if values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


if __name__ == "__main__":
    print(run(quick="--quick" in sys.argv))
