"""Writes the small torch files next to it: ``python tests/data/formats/make_torch.py``. Needs torch.

Every number follows from `numbers`, which `tests/formats/test_torch_files.py` repeats.
"""

from __future__ import annotations

import argparse
import json
from collections import OrderedDict
from pathlib import Path

import torch

HERE = Path(__file__).parent
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")


def numbers(*shape: int) -> torch.Tensor:
    """Return numbers that every format here holds exactly."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) % 7 - 3) / 2).reshape(shape)


def state() -> OrderedDict[str, object]:
    """Return one tensor of each kind."""
    found: OrderedDict[str, object] = OrderedDict()
    for name in FLOATS:
        found[name] = numbers(2, 5).to(getattr(torch, name))
    for name in INTEGERS:
        found[name] = (torch.arange(10) % 5).reshape(2, 5).to(getattr(torch, name))
    found["bool"] = torch.arange(6) % 2 == 0
    found["complex64"] = torch.complex(numbers(4), numbers(4))
    wide = numbers(6, 8)
    found["wide"] = wide
    found["tied"] = wide
    found["transposed"] = wide.t()
    found["cut"] = wide[1:4, 2:7]
    found["rows"] = wide[2:5]
    found["column"] = wide[:, 3]
    found["stepped"] = wide[::2, ::3]
    found["expanded"] = numbers(1, 4).expand(3, 4)
    found["permuted"] = numbers(2, 3, 4).permute(2, 0, 1)
    found["bf16_transposed"] = numbers(3, 5).bfloat16().t()
    found["int_transposed"] = torch.arange(6).reshape(2, 3).t()
    found["scalar"] = torch.tensor(1.5)
    found["empty"] = torch.empty(0, 3)
    found["parameter"] = torch.nn.Parameter(numbers(3))
    found.__dict__["_metadata"] = OrderedDict({"": {"version": 1}})
    return found


def main() -> None:
    """Write all files."""
    torch.save(state(), HERE / "torch_zip.bin")
    torch.save(state(), HERE / "torch_zip_protocol5.bin", pickle_protocol=5)
    torch.save(state(), HERE / "torch_legacy.bin", _use_new_zipfile_serialization=False)
    unread = {"a": numbers(3), "z": torch.complex(numbers(2).double(), numbers(2).double())}
    torch.save(unread, HERE / "torch_complex128.bin")
    first, second = {"a": numbers(2, 3), "b": numbers(4)}, {"c": numbers(3, 2).half()}
    folder = HERE / "torch_sharded"
    folder.mkdir(exist_ok=True)
    names: dict[str, str] = {}
    for number, part in enumerate((first, second), start=1):
        file = f"pytorch_model-{number:05}-of-00002.bin"
        torch.save(part, folder / file)
        names |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 52}, "weight_map": names}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    model.load_state_dict({key: numbers(*value.shape) for key, value in model.state_dict().items()})
    torch.jit.save(torch.jit.script(model), HERE / "torch_script.pt")
    parameters = [torch.nn.Parameter(numbers(2, 3)), torch.nn.Parameter(numbers(2))]
    optimizer = torch.optim.AdamW(parameters)
    sum(item.sum() for item in parameters).backward()
    optimizer.step()
    weights = {"model.proj.weight": numbers(2, 3), "model.proj.bias": numbers(2)}
    checkpoint = {
        "epoch": 3,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": OrderedDict(weights),
        "optimizer_states": [optimizer.state_dict()],
        "hyper_parameters": {"args": argparse.Namespace(lr=0.1), "act": torch.nn.functional.gelu},
    }
    torch.save(checkpoint, HERE / "torch_lightning.ckpt")


if __name__ == "__main__":
    main()
