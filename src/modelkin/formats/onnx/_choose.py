"""Which of many exported files is the model: the most precise one, the whole model before its parts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

ENDING = ".onnx"
_STEMS = ("model", "encoder_model", "decoder_model_merged", "decoder_model", "decoder_with_past_model")
_STEM = re.compile(rf"({'|'.join(sorted(_STEMS, key=len, reverse=True))})(?:[_.\-](.+))?")
_VARIANTS = (
    "",
    "fp32",
    "fp16",
    "bf16",
    "o1",
    "o2",
    "o3",
    "o4",
    "int8",
    "quantized",
    "uint8",
    "q8",
    "q4",
    "q4f16",
    "bnb4",
)
_DECODERS = ("decoder_model_merged", "decoder_model", "decoder_with_past_model")


def choose(files: Iterable[str]) -> str | None:
    """Return the file to begin with."""
    return min((name for name in files if name.endswith(ENDING)), key=_rank, default=None)


def partner(name: str, files: Iterable[str]) -> str | None:
    """Return the decoder that belongs to an encoder, in the same variant, or None."""
    folder, base = posixpath.split(name)
    if _parts(base)[0] != "encoder_model":
        return None
    beside = {posixpath.basename(other): other for other in files if posixpath.dirname(other) == folder}
    ending = base.removeprefix("encoder_model")
    return next(
        (beside[f"{decoder}{ending}"] for decoder in _DECODERS if f"{decoder}{ending}" in beside), None
    )


def others(name: str, files: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return the other exported files of a listing."""
    return sorted(other for other in files if other.endswith(ENDING) and other not in {name, *taken})


def _parts(base: str) -> tuple[str, str]:
    found = _STEM.fullmatch(base.removesuffix(ENDING))
    return (found[1], (found[2] or "").lower()) if found else ("", base.lower())


def _rank(name: str) -> tuple[int, int, int, str]:
    stem, variant = _parts(posixpath.basename(name))
    stem_rank = _STEMS.index(stem) if stem else len(_STEMS)
    variant_rank = _VARIANTS.index(variant) if variant in _VARIANTS else len(_VARIANTS)
    return stem_rank, variant_rank, name.count("/"), name
