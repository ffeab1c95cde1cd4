"""Which of several files a loader takes, and which it ignores: by names alone, nothing is read.

What transformers takes comes first, because that is what most people run; docs/formats.md has the table.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from modelkin.errors import UnsupportedFormat
from modelkin.message import Message, say
from modelkin.untrusted import path_problem, plain, quoted

CONFIG_KEY: Final = "transformers_weights"
"""Key of ``config.json`` that names the weights, since transformers 5."""
ADAPTER_FILES: Final = ("adapter_model.safetensors", "adapter_model.bin")
"""The weights of an adapter, in order of preference."""
_SAFETENSORS: Final = (".safetensors", ".safetensors.index.json")
# Other formats and the state of a training run end in .bin too: only names that torch's files have count.
_TORCH: Final = re.compile(r"(?:.*/)?(?:[^/]*pytorch_model[^/]*\.bin|[^/]+\.(?:pt|pth|ckpt))")
_NOT_WEIGHTS: Final = re.compile(
    r"(?:.*/)?(?:optimizer|scheduler|scaler|training_args|rng_state|random_states|args|trainer_state)[^/]*"
)
_TAKEN: Final = ("model.safetensors", "model.safetensors.index.json")
_TAKEN_TORCH: Final = ("pytorch_model.bin", "pytorch_model.bin.index.json")
"""The names that transformers looks for, in this order; no other file is loaded unless it is named."""
_SLICES: Final = re.compile(r"shard-[0-9]{5}-model-[0-9]{5}-of-[0-9]{5}\.safetensors")


def is_torch_weights(name: str) -> bool:
    """Say whether a file is named like torch weights, and not like an optimizer or arguments."""
    return bool(_TORCH.fullmatch(name)) and not _NOT_WEIGHTS.fullmatch(name)


def is_of_adapter(name: str) -> bool:
    """Say whether a file is named like the weights of an adapter."""
    return posixpath.basename(name) in ADAPTER_FILES


def takes_torch(files: Collection[str]) -> bool:
    """Say whether transformers loads a torch file despite safetensors, because those have other names."""
    if "config.json" not in files or any(name in files for name in _TAKEN):
        return False
    return any(name in files for name in _TAKEN_TORCH)


def left_unread(files: Iterable[str], read: Collection[str]) -> list[str]:
    """Return the weight files that a safetensors loader could have taken but that were not read."""
    return sorted(
        name
        for name in files
        if name not in read and (is_safetensors(name) or is_torch_weights(name) or is_of_adapter(name))
    )


def named_by_config(
    config: Mapping[str, object] | None, files: Collection[str], odd_names: Collection[str] = ()
) -> str | Message | None:
    """Return the file that a config tells transformers to load, or why it cannot; None if it says nothing.

    Raises `UnsupportedFormat` if transformers could load the file, but modelkin does not read files of that
    name.
    """
    named = None if config is None else config.get(CONFIG_KEY)
    if named is None:
        return None
    if not isinstance(named, str):
        return say("format.config-names-none", key=CONFIG_KEY, name=type(named).__name__)
    path = posixpath.normpath(named)
    if path in odd_names:
        raise UnsupportedFormat(
            "config.json", say("problem.named-weights", name=quoted(named, 80), why=path_problem(path))
        )
    usable = is_safetensors(named) or named == ADAPTER_FILES[1]
    if not usable or path_problem(path) or path not in files:
        return say("format.config-names-none", key=CONFIG_KEY, name=quoted(named, 80))
    return path


def followed(named: str, other: str) -> Message:
    """Say that the config's choice was followed."""
    return say("format.config-names", key=CONFIG_KEY, file=plain(named), other=plain(other))


def is_safetensors(name: str) -> bool:
    """Say whether a file is named like safetensors or their index."""
    return name.endswith(_SAFETENSORS)


def slices_of_tensors(files: Iterable[str]) -> str | None:
    """Return a file that holds a slice of every tensor: transformers takes these before all others."""
    return next((name for name in files if _SLICES.fullmatch(name)), None)
