"""Files of torch: what listing and reading one over the Hub costs, and how fast its pickle is read.

``python -m benchmarks.formats_torch [--mb 256] [--tensors 100000]``
"""

from __future__ import annotations

import argparse
import itertools
import pickletools
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from huggingface_hub import hf_hub_download
from tests.formats.torch_writer import Stored, integer, name, text, torch_file, whole
from tests.support import Delays, HubOptions, HubServer

import modelkin as mk
from modelkin.formats.torch.machine import Machine

LATENCY = 0.04
"""Seconds before each answer, as in docs/benchmarks.md."""
BANDWIDTH = 100e6
"""Bytes per second of each connection."""
WIDTH = 1024
FILE = "pytorch_model.bin"


def timed(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds that something takes."""
    began = clock()
    action()
    return clock() - began


def model(megabytes: int) -> dict[str, Stored]:
    """Return square matrices of 4 MB with a norm each."""
    square = np.zeros((WIDTH, WIDTH), np.float32)
    found: dict[str, Stored] = {}
    for layer in range(megabytes * 1_000_000 // square.nbytes):
        found[f"layers.{layer}.weight"] = Stored.of(square)
        found[f"layers.{layer}.norm"] = Stored.of(square[0])
    return found


def over_the_hub(megabytes: int, *, legacy: bool) -> None:
    """Print bytes, requests and seconds of listing and of one tensor, against the whole file."""
    tensors = model(megabytes)
    wanted = f"layers.{len(tensors) // 4}.weight"
    data = torch_file(tensors, legacy=legacy)
    options = HubOptions(delays=Delays(hub=LATENCY, cdn=LATENCY, bandwidth=BANDWIDTH))
    with HubServer({"org/a": {FILE: data}}, options) as hub, tempfile.TemporaryDirectory() as here:
        fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=Path(here) / "store")
        with mk.open_model("org/a", fetch) as opened:
            listing = timed(lambda: opened.index)
            listed = opened.totals()
            reading = timed(lambda: opened.tensor(wanted))
            total = opened.totals()
        download = timed(
            lambda: hf_hub_download("org/a", FILE, endpoint=hub.url, cache_dir=here, token=False)
        )
    layout = "older layout" if legacy else "archive"
    print(f"{layout}, {len(data):,} bytes, {len(tensors)} tensors")
    print(f"  list   {listed.bytes_fetched:>12,} bytes {listed.requests:>4} requests {listing:6.2f} s")
    n_bytes, n_requests = total.bytes_fetched - listed.bytes_fetched, total.requests - listed.requests
    print(f"  tensor {n_bytes:>12,} bytes {n_requests:>4} requests {reading:6.2f} s")
    print(f"  whole  {len(data):>12,} bytes, hf_hub_download  {download:6.2f} s")


def long_pickle(n_tensors: int) -> bytes:
    """Return the pickle of a large state dict with all that torch puts into it: names once, much memo."""
    count = itertools.count()

    def kept(value: bytes) -> bytes:
        return value + b"r" + struct.pack("<I", next(count))

    rebuild, kind, empty = (
        kept(name(*names)) + b"0"
        for names in (
            ("torch._utils", "_rebuild_tensor_v2"),
            ("torch", "FloatStorage"),
            ("collections", "OrderedDict"),
        )
    )
    words = kept(text("storage")) + b"0" + kept(text("cpu")) + b"0"
    items = []
    for number in range(n_tensors):
        place = kept(b"(h\x03h\x01" + kept(text(str(number))) + b"h\x04" + integer(64) + b"t") + b"Q"
        shape, strides = (kept(integer(8) + integer(last) + b"\x86") for last in (8, 1))
        hooks = kept(b"h\x02)R")
        arguments = kept(b"(" + place + integer(0) + shape + strides + b"\x89" + hooks + b"t")
        items.append(kept(text(f"model.layers.{number}.mlp.weight")) + kept(b"h\x00" + arguments + b"R"))
    return whole(rebuild + kind + empty + words + b"}(" + b"".join(items) + b"u")


def pickles(n_tensors: int) -> None:
    """Print the CPU seconds for a long pickle, against a walk over it with pickletools."""
    data = long_pickle(n_tensors)
    machine = timed(lambda: Machine(data, file="x").load(), time.process_time)
    walk = timed(lambda: sum(1 for _ in pickletools.genops(data)), time.process_time)
    print(f"{n_tensors:,} tensors, {len(data):,} bytes of pickle: {machine:.2f} s; pickletools {walk:.2f} s")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=256)
    parser.add_argument("--tensors", type=int, default=100_000)
    chosen = parser.parse_args()
    over_the_hub(chosen.mb, legacy=False)
    over_the_hub(chosen.mb, legacy=True)
    pickles(chosen.tensors)


if __name__ == "__main__":
    main()
