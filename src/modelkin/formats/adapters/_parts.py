"""Which tensor of an adapter's file belongs to which module, and in which part it plays there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from modelkin.errors import UnsupportedFormat
from modelkin.tensors import TensorIndex, TensorInfo

_PREFIX = "base_model.model."
_PARTS = {
    "lora_A.weight": "a",
    "lora_B.weight": "b",
    "lora_B.bias": "b_bias",
    "lora_embedding_A": "embedding_a",
    "lora_embedding_B": "embedding_b",
    "lora_magnitude_vector": "magnitude",
    "lora_magnitude_vector.weight": "magnitude",
}
_ADAPTER_NAME = "default"
"""What PEFT calls an adapter unless told otherwise; old versions left it in the names."""
_NESTED = ".base_layer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One adapted module: its matrices by part."""

    name: str
    parts: Mapping[str, TensorInfo] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterTensors:
    """An adapter's file, sorted out."""

    modules: tuple[Module, ...]
    replaced: Mapping[str, TensorInfo]
    """Whole tensors that take the place of the base's, by name there."""


def sort_out(index: TensorIndex) -> AdapterTensors:
    """Say what each tensor of an adapter's file is for.

    Raises
    ------
    UnsupportedFormat
        A tensor has a name that no LoRA adapter gives, or one half of a pair is missing.
    """
    found: dict[str, dict[str, TensorInfo]] = {}
    replaced: dict[str, TensorInfo] = {}
    for name, info in index.items():
        plain = name.removeprefix(_PREFIX)
        module, part = _split(plain)
        if part is not None:
            if part in found.setdefault(module, {}):
                raise _refused(info, f"module {module} has two of its kind")
            found[module][part] = info
            continue
        target = plain.replace(".modules_to_save", "").replace(_NESTED, "").replace(".original_module", "")
        if "lora_" in plain or not target.endswith((".weight", ".bias")):
            raise _refused(info, "no part of a LoRA adapter has such a name")
        if target in replaced:
            raise _refused(info, f"{target} stands there twice")
        replaced[target] = info
    modules = tuple(Module(name=name, parts=parts) for name, parts in sorted(found.items()))
    _check_pairs(modules)
    return AdapterTensors(modules=modules, replaced=replaced)


def _split(name: str) -> tuple[str, str | None]:
    """Return the module and the part of a tensor; None for the part of whole tensors."""
    words = name.split(".")
    without = [word for word in words if word != _ADAPTER_NAME]
    for length in (1, 2):
        part = _PARTS.get(".".join(without[-length:]))
        if part is not None and len(without) > length:
            return ".".join(without[:-length]), part
    return name, None


def _check_pairs(modules: Iterable[Module]) -> None:
    for module in modules:
        given = module.parts.keys()
        if (
            not ({"a", "b"} <= given) ^ ({"embedding_a", "embedding_b"} <= given)
            or len(given & {"a", "b", "embedding_a", "embedding_b"}) != 2
        ):
            info = next(iter(module.parts.values()))
            raise _refused(info, f"module {module.name} has {', '.join(sorted(given))}, not one A and one B")


def _refused(info: TensorInfo, why: str) -> UnsupportedFormat:
    return UnsupportedFormat(
        info.file,
        f"tensor {info.name} cannot be applied: {why}",
        hint="Merge the adapter into its base with the library that made it, and give the merged model.",
    )
