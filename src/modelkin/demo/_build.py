"""How the embedded model is made: ``python -m modelkin.demo._build`` writes it anew."""

from __future__ import annotations

import json
from pathlib import Path

from modelkin.testing import LlamaShape, llama_files

SHAPE = LlamaShape(layers=4, hidden=48, mlp=128, heads=6, kv_heads=2, vocab=128)
_SPECIAL = ("<s>", "</s>")
_PAIRS = "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve"


def build_files() -> dict[str, bytes]:
    """Return the files of ``tiny-llama``."""
    files = llama_files(SHAPE, seed=7, dtype="BF16", n_shards=2)
    files["tokenizer.json"] = _dump(_tokenizer())
    files["tokenizer_config.json"] = _dump(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    )
    return files


def _tokenizer() -> dict[str, object]:
    letters = [chr(code) for code in range(32, 127)]
    merges = _PAIRS.split()
    tokens = [*_SPECIAL, *letters, *merges]
    added = [
        {
            "id": number,
            "content": token,
            "special": True,
            "normalized": False,
            "lstrip": False,
            "rstrip": False,
        }
        for number, token in enumerate(_SPECIAL)
    ]
    vocab = {token: number for number, token in enumerate(tokens)}
    model = {"type": "BPE", "vocab": vocab, "merges": [" ".join(pair) for pair in merges]}
    return {"version": "1.0", "added_tokens": added, "model": model}


def _dump(document: object) -> bytes:
    return json.dumps(document, indent=1).encode()


if __name__ == "__main__":
    folder = Path(__file__).parent / "models" / "tiny-llama"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in build_files().items():
        (folder / name).write_bytes(data)
