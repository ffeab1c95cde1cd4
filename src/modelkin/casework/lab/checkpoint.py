"""A model in numpy: config, tensors and their parts. Read from and written to a folder, without torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from modelkin.formats.safetensors import RawTensor, header_length, parse_header, safetensors_bytes
from modelkin.tensors import decode, encode

Floats = NDArray[np.float32]
StoredAs = Literal["F32", "BF16", "F16"]

_DTYPE_NAMES: dict[StoredAs, str] = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checkpoint:
    """Config, tensors and tokenizer of a model. Arrays are never written to: changes make new ones."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Floats]
    """As float32, by the names of the file."""
    tokenizer: str | None = None
    """The content of ``tokenizer.json``."""

    def __repr__(self) -> str:
        return f"Checkpoint({self.family}, {len(self.tensors)} tensors)"

    @property
    def family(self) -> str:
        """The ``model_type`` of the config."""
        return str(self.config["model_type"])

    def with_tensors(self, changed: Mapping[str, Floats], **config: object) -> Checkpoint:
        """Return a copy with some tensors, and some keys of the config, replaced."""
        return Checkpoint(
            config={**self.config, **config},
            tensors={**self.tensors, **changed},
            tokenizer=self.tokenizer,
        )

    def files(self, dtype: StoredAs = "BF16") -> dict[str, bytes]:
        """Return the files of the model as the Hub would hold them, each tensor rounded to `dtype`."""
        stored = {
            name: RawTensor(dtype, array.shape, encode(array, dtype)) for name, array in self.tensors.items()
        }
        config = {**self.config, "dtype": _DTYPE_NAMES[dtype]}
        files = {
            "config.json": (json.dumps(config, indent=2, sort_keys=True) + "\n").encode(),
            "model.safetensors": safetensors_bytes(stored),
        }
        if self.tokenizer is not None:
            files["tokenizer.json"] = self.tokenizer.encode()
        return files

    def write(self, folder: Path, dtype: StoredAs = "BF16") -> Path:
        """Write the files into a folder, made if need be, and return it."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.files(dtype).items():
            (folder / name).write_bytes(data)
        return folder

    @classmethod
    def read(cls, folder: Path) -> Checkpoint:
        """Read a folder with ``config.json``, ``model.safetensors`` and maybe ``tokenizer.json``."""
        tokenizer = folder / "tokenizer.json"
        return cls(
            config=json.loads((folder / "config.json").read_text(encoding="utf-8")),
            tensors=read_safetensors(folder / "model.safetensors"),
            tokenizer=tokenizer.read_text(encoding="utf-8") if tokenizer.exists() else None,
        )


def read_safetensors(path: Path) -> dict[str, Floats]:
    """Return all tensors of a file as float32."""
    data = path.read_bytes()
    end = header_length(data, file=path.name, file_size=len(data))
    header = parse_header(data[:end], file=path.name, file_size=len(data))
    return {
        info.name: decode(data[info.start : info.stop], info.dtype, info.n_elements)
        .reshape(info.shape)
        .astype(np.float32)
        for info in header.tensors
    }


# The lab makes these models itself, so tensor names are enough to know their parts; other models
# are read by `modelkin.architecture`.
Part = Literal["embeddings", "head", "norms", "attention", "mlp"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)

# The first matching pattern decides: `attn.c_proj` before `mlp`, norms before everything.
_PATTERNS: Final[tuple[tuple[Part, str], ...]] = (
    ("norms", r"norm|\bln_"),
    ("head", r"^lm_head\.|^cls\."),
    ("embeddings", r"embed|\bwte\.|\bwpe\."),
    ("attention", r"attn|attention"),
    ("mlp", r"mlp|block_sparse_moe|intermediate|\boutput\."),
)


def part_of(name: str) -> Part:
    """Return the part of a tensor; raise ValueError for a name no family of the lab has."""
    for part, pattern in _PATTERNS:
        if re.search(pattern, name, flags=re.IGNORECASE):
            return part
    raise ValueError(f"name must be a tensor of a family that the lab trains, got {name!r}")


def layer_of(name: str) -> int | None:
    """Return the number of the layer a tensor is in; None outside layers."""
    found = re.search(r"\b(?:layers|layer|h)\.(\d+)\.", name)
    return int(found[1]) if found else None
