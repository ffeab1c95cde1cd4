"""Files, options and checks that several tests of sources use."""

from __future__ import annotations

import random
import traceback
from pathlib import Path
from typing import Any

from modelkin.options import FetchOptions

WEIGHTS = random.Random(0).randbytes(300_000)
FILES: dict[str, bytes] = {
    "config.json": b'{"model_type": "llama"}',
    "empty.txt": b"",
    "model.safetensors": WEIGHTS,
    "sub/tokenizer.json": b'{"version": "1.0"}',
}
TOKEN = "hf_verysecrettokenvalue"


def quick(**changes: Any) -> FetchOptions:
    """Options that give up in fractions of a second."""
    settings: dict[str, Any] = {
        "token": False,
        "retries": 2,
        "connect_timeout": 5.0,
        "stall_timeout": 0.4,
        "max_wait": 5.0,
        "connections": 4,
    }
    return FetchOptions(**(settings | changes))


def everything_said(error: BaseException) -> str:
    """Return an exception as a person or a log could ever see it, its causes and attributes included."""
    seen: list[str] = ["".join(traceback.format_exception(error))]
    cause: BaseException | None = error
    while cause is not None:
        seen += [str(cause), repr(cause), repr(vars(cause)), repr(cause.args)]
        cause = cause.__cause__ or cause.__context__
    return "\n".join(seen)


def bytes_below(folder: Path) -> bytes:
    """Return all names and contents below a folder, to look for what must not be there."""
    found = [path for path in folder.rglob("*")]
    return b"\n".join(
        str(path).encode() + b"\n" + (path.read_bytes() if path.is_file() else b"") for path in sorted(found)
    )
