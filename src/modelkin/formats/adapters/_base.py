"""Which base an adapter names, and whether that name may be followed.

The name comes from a file that may be a stranger's. Followed is only an id at the Hub, at the endpoint that
the user has chosen: never a path, which would make files of this machine part of a model that did not come
from it, and never an address elsewhere. The user can name what is not followed: ``ADAPTER::BASE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from modelkin.errors import BadReference, ModelkinError
from modelkin.message import Message, say
from modelkin.source import FileInfo, ModelRef
from modelkin.untrusted import path_problem, quoted

from ._config import CONFIG_FILE, AdapterConfig

WEIGHT_FILES = ("adapter_model.safetensors", "adapter_model.bin")
"""In the order of preference."""
_MODEL_ENDINGS = (".safetensors", ".safetensors.index.json", ".gguf", ".onnx")
_MODEL_BEGINNINGS = ("pytorch_model", "consolidated", "model")


def is_adapter(files: Mapping[str, FileInfo], entry: str | None = None) -> bool:
    """Say whether a model's files are those of an adapter and of nothing else.

    A folder that holds a whole model beside the adapter is that model: what was merged counts.
    """
    if CONFIG_FILE not in files or not any(name in files for name in WEIGHT_FILES):
        return False
    return entry in (*WEIGHT_FILES, CONFIG_FILE) if entry else not any(map(_is_model, files))


def _is_model(name: str) -> bool:
    if "/" in name or name.startswith("adapter_"):
        return False
    old = name.startswith(_MODEL_BEGINNINGS) and name.endswith((".bin", ".pth", ".pt", ".bin.index.json"))
    return old or name.endswith(_MODEL_ENDINGS)


def named_base(config: AdapterConfig) -> ModelRef | Message:
    """Return the base that a config names, or why its name is not followed."""
    name, revision = config.base, config.base_revision
    if not name:
        return say("adapter.no-base")
    shown = quoted(name, 80)
    if Path(name).is_absolute() or name[0] in "./~\\" or "\\" in name or ":" in name or "@" in name:
        return say("adapter.base-path", name=shown)
    if path_problem(name):
        return say("adapter.base-no-id", name=shown)
    if _exists(name):
        return say("adapter.base-folder", name=shown)
    if revision is not None and ("::" in revision or not revision.isprintable()):
        return say("adapter.base-revision", name=shown)
    try:
        ref = ModelRef.parse(f"hf://{name}" + (f"@{revision}" if revision else ""))
    except (BadReference, ModelkinError):
        return say("adapter.base-no-id", name=shown)
    return ref


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:
        return False
