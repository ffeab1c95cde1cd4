"""Weights in every format that is read, and folders that loaders could read in several ways."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tests.formats.adapters_support import adapter_files, base_files
from tests.formats.gguf_bytes import small
from tests.formats.hostile.fuzz import FRAGMENTS, check_file, check_index, some_file, some_index
from tests.formats.small_files import ggml_whisper, llama2c_file
from tests.formats.torch_writer import archive, members_of, one_tensor
from tests.places import FORMATS
from tests.support import LlamaShape, llama_config, llama_files, llama_tensors

import modelkin as mk
from modelkin.errors import FormatError, ModelkinError, NotFound
from modelkin.formats.torch.machine import Machine
from modelkin.formats.torch.stack import PickleEnds
from modelkin.model import Model
from modelkin.options import FetchOptions
from modelkin.source import Fetcher, MemorySource, ModelRef

from .engine import Target

_TINY = LlamaShape(layers=1, hidden=8, mlp=8, heads=2, kv_heads=1, vocab=16)
_MOST_READ = 1 << 16


def opened(files: Mapping[str, bytes], name: str | None = None) -> bool:
    """Open a model and read a little of every tensor; a refusal is fine, anything else is not."""
    ref = None if name is None else ModelRef(kind="hub", text=name, target="org/name", path=name)
    try:
        model = Model(Fetcher(MemorySource(files), FetchOptions()), FetchOptions(), ref=ref)
        index = model.index
        _ = model.architecture, model.config, model.tokenizer
    except (FormatError, NotFound) as error:
        checked(error)
        return False
    for tensor, info in list(index.items())[:8]:
        if 0 < info.n_elements <= _MOST_READ:
            try:
                values = model.tensor(tensor)
            except FormatError as error:
                checked(error)
                return False
            assert values.shape == info.shape
    return True


def checked(error: ModelkinError) -> None:
    """A refusal must neither flood nor act on a terminal."""
    assert str(error).isprintable(), str(error)
    assert len(str(error)) < 2000


def _file(name: str) -> Callable[[bytes], bool]:
    return lambda data: opened({name: data}, name)


def _data(*patterns: str) -> Callable[[], Sequence[bytes]]:
    def read() -> list[bytes]:
        found = [path for pattern in patterns for path in sorted(FORMATS.glob(pattern))]
        return [path.read_bytes() for path in found if path.stat().st_size < 32_000]

    return read


def _safetensors() -> Sequence[bytes]:
    rng = random.Random(0)
    made = [some_file(rng) for _ in range(12)]
    return [len(text).to_bytes(8, "little") + text + data for text, data in made]


def _llama2c() -> Sequence[bytes]:
    tensors = {name: np.asarray(value) for name, value in llama_tensors(_TINY).items()}
    config = {**llama_config(_TINY), "max_position_embeddings": 16}
    return [llama2c_file(config, tensors, version=version, group=8) for version in (0, 1, 2)]


def _torch() -> Sequence[bytes]:
    pickle, storages = one_tensor()
    return [*_data("torch_*.bin", "torch_*.pt", "torch_*.ckpt")(), archive(members_of(pickle, storages))]


_OPCODES = (
    *(bytes([code]) for code in b"N\x88\x89()tqh]}aesub\x85\x86\x87R\x81\x92\x93\x94\x8f\x90\x910Q1."),
    *(b"K\x01", b"\x8c\x01a", b"X\x01\x00\x00\x00b", b"q\x00", b"h\x00", b"\x8a\x08" + b"\xff" * 7 + b"\x1f"),
    *(b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n"),
    *(b"ctorch._tensor\n_rebuild_from_type_v2\n", b"ctorch._utils\n_rebuild_parameter_with_state\n"),
    *(b"cos\nsystem\n", b"cbuiltins\neval\n", b"ctorch\nSize\n", b"cargparse\nNamespace\n"),
    b"(\x8c\x07storagectorch\nFloatStorage\n\x8c\x010\x8c\x03cpuK\x06tQ",
)


def _pickle(data: bytes) -> bool:
    try:
        Machine(b"\x80\x04" + data, file="x").load()
    except (FormatError, PickleEnds):
        return False
    return True


def _config(data: bytes) -> bool:
    return opened({**_FILES, "config.json": data})


_FILES = llama_files(_TINY)
_JSON = (*FRAGMENTS, b'"model_type"', b'"llama"', b'"architectures"', b'"hidden_size"', b"-1", b"1e400")
_QUANTISATION = (b'"quantization_config"', b'"quant_method"', b'"gptq"', b'"bits"', b'"group_size"', b'"awq"')


def _adapter(data: bytes) -> bool:
    """The first line is the config, the rest the weights."""
    config, _, weights = data.partition(b"\n")
    files = {"adapter_config.json": config, "adapter_model.safetensors": weights}
    folder = MemorySource({**base_files(), **{f"{name}": part for name, part in files.items()}})
    try:
        model = mk.open_model(folder)
        _ = model.index
    except ModelkinError as error:
        checked(error)
        return False
    return True


def _adapters() -> Sequence[bytes]:
    files = adapter_files()
    return [files["adapter_config.json"] + b"\n" + files["adapter_model.safetensors"]]


# -- folders ---------------------------------------------------------------------------------------------

_OTHER = llama_files(_TINY, seed=1)
_PARTS: Mapping[str, bytes] = {
    "model.safetensors": _FILES["model.safetensors"],
    "consolidated.safetensors": _OTHER["model.safetensors"],
    "pytorch_model.bin": archive(members_of(*one_tensor())),
    "consolidated.00.pth": archive(members_of(*one_tensor())),
    "model.gguf": small().build(),
    "model-q4.gguf": small().build(),
    "onnx/model.onnx": (FORMATS / "onnx_nbits_4_32_symmetric.onnx").read_bytes(),
    "adapter_config.json": adapter_files()["adapter_config.json"],
    "adapter_model.safetensors": adapter_files()["adapter_model.safetensors"],
    "config.json": _FILES["config.json"],
    "model.safetensors.index.json": json.dumps(
        {"weight_map": {name: "model-1.safetensors" for name in llama_tensors(_TINY)}}
    ).encode(),
    "model-1.safetensors": _OTHER["model.safetensors"],
    "pytorch_model.bin.index.json": b'{"weight_map": {"a": "pytorch_model-1.bin"}}',
    "pytorch_model-1.bin": archive(members_of(*one_tensor())),
    "params.json": b'{"dim": 8}',
    "Screenshot 12:30.png": b"\x89PNG",
    "sub/model.safetensors": _OTHER["model.safetensors"],
    "model.bin": b"lmgg",
    "README.md": b"---\nbase_model: org/base\n---\n",
}
_NAMES = tuple(_PARTS)


def _folder(data: bytes) -> bool:
    """Two bytes say which files are there; the rest replaces fields of the config."""
    chosen = int.from_bytes(data[:3].ljust(3, b"\0"), "little")
    files = {name: part for place, (name, part) in enumerate(_PARTS.items()) if chosen >> place & 1}
    if len(data) > 3:
        files["config.json"] = data[3:]
    reversed_ = dict(reversed(files.items()))
    found = [_reading(listed) for listed in (files, reversed_)]
    assert found[0] == found[1], "the order of a listing must not decide"
    return found[0] is not None


def _reading(files: Mapping[str, bytes]) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    try:
        model = mk.open_model(MemorySource(files))
        weights = model.weights
    except ModelkinError as error:
        checked(error)
        return None
    return weights.format, weights.index.files, tuple(map(str, weights.notes))


def _folders() -> Sequence[bytes]:
    single = [(1 << place).to_bytes(3, "little") for place in range(len(_PARTS))]
    pairs = [(1 << a | 1 << b | 1 << _NAMES.index("config.json")) for a in range(6) for b in range(a)]
    config = b'{"transformers_weights": "consolidated.safetensors", "model_type": "llama"}'
    every = (1 << len(_PARTS)) - 1
    return [
        *single,
        *(number.to_bytes(3, "little") for number in pairs),
        every.to_bytes(3, "little") + config,
    ]


TARGETS = (
    Target(
        name="safetensors",
        run=lambda data: check_file(data) is not None,
        seeds=_safetensors,
        words=tuple(FRAGMENTS),
        watched=("formats/safetensors", "untrusted"),
    ),
    Target(
        name="shard-index",
        run=lambda data: check_index(data) is not None,
        seeds=lambda: [some_index(random.Random(seed)) for seed in range(8)],
        words=tuple(FRAGMENTS),
        watched=("formats/shards", "untrusted"),
    ),
    Target(
        name="torch",
        share=3.0,
        run=_file("pytorch_model.bin"),
        seeds=_torch,
        words=_OPCODES,
        watched=("formats/torch",),
    ),
    Target(
        name="pickle",
        run=_pickle,
        seeds=lambda: [one_tensor()[0] + b"."],
        words=_OPCODES,
        watched=("formats/torch",),
    ),
    Target(
        name="gguf",
        share=3.0,
        run=_file("model.gguf"),
        seeds=lambda: [small().build()],
        words=(b"GGUF", b"general.architecture", b"llama.", b"tokenizer.ggml.tokens", b"\xff" * 8),
        watched=("formats/gguf",),
    ),
    Target(
        name="onnx", share=3.0, run=_file("model.onnx"), seeds=_data("onnx_*.onnx"), watched=("formats/onnx",)
    ),
    Target(
        name="ctranslate2",
        share=2.0,
        run=_file("model.bin"),
        seeds=_data("ctranslate2-*.bin"),
        watched=("formats/ctranslate2",),
    ),
    Target(
        name="ggml",
        share=2.0,
        run=_file("model.bin"),
        seeds=lambda: [ggml_whisper()[0]],
        watched=("formats/ggml",),
    ),
    Target(name="llama2.c", share=2.0, run=_file("model.bin"), seeds=_llama2c, watched=("formats/llama2c",)),
    Target(
        name="quantised",
        share=3.0,
        run=_file("model.safetensors"),
        seeds=_data("quantised-*.safetensors"),
        words=(
            b".SCB",
            b".W_q",
            b"_blocks",
            b".qweight",
            b".weight_packed",
            b".quant_state",
            *FRAGMENTS[:20],
        ),
        watched=("formats/quantised",),
    ),
    Target(
        name="adapter",
        share=2.0,
        run=_adapter,
        seeds=_adapters,
        words=(*_JSON, b'"target_modules"', b'"rank_pattern"', b'"use_dora"', b'"lora_alpha"', b".*"),
        watched=("formats/adapters",),
    ),
    Target(
        name="config",
        share=3.0,
        run=_config,
        seeds=lambda: [_FILES["config.json"]],
        words=(*_JSON, *_QUANTISATION),
        watched=("architecture", "model.py", "formats/quantised"),
    ),
    Target(
        name="folder",
        share=3.0,
        run=_folder,
        seeds=_folders,
        words=(*_JSON, b'"transformers_weights"', *(f'"{name}"'.encode() for name in _NAMES)),
        watched=("formats", "model.py"),
    ),
)
