"""What a config says about quantisation. Anything in it may be wrong or of the wrong kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_PLACES = ("quantization_config", "compression_config", "quantization")
_INNER = ("text_config", "llm_config", "language_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The part of a config about quantisation, or nothing."""

    method: str | None = None
    """Name of the scheme, in lower case; None when the config declares none."""
    values: Mapping[str, object] = field(default_factory=dict, repr=False)

    def number(self, key: str) -> int | None:
        """Return a whole number, or None when there is none."""
        return _number(self.values.get(key))

    def word(self, key: str) -> str:
        """Return a word in lower case, or the empty string."""
        value = self.values.get(key)
        return value.lower()[:80] if isinstance(value, str) else ""

    def table(self, key: str) -> Mapping[str, object]:
        """Return an object of the config, or an empty one."""
        value = self.values.get(key)
        return value if isinstance(value, dict) else {}

    def pair(self, key: str) -> tuple[int, int] | None:
        """Return two whole numbers above zero, or None."""
        return _pair(self.values.get(key))

    def weights(self) -> Iterator[Settings]:
        """Yield what each group of a compressed-tensors config says of weights."""
        for group in self.table("config_groups").values():
            inner = group.get("weights") if isinstance(group, dict) else None
            if isinstance(inner, dict):
                yield Settings(method=self.method, values=inner)

    def of(self, module: str) -> Settings:
        """Return what holds for one module, where a config makes exceptions by name."""
        own = self.values.get(module)
        return Settings(method=self.method, values={**self.values, **own}) if isinstance(own, dict) else self


def read_settings(config: Mapping[str, object] | None) -> Settings:
    """Find what a config says about quantisation."""
    inner = [config[key] for key in _INNER if isinstance(config.get(key), dict)] if config else []
    for place in (config or {}, *inner):
        for key in _PLACES:
            found = place.get(key) if isinstance(place, dict) else None
            if isinstance(found, dict):
                return Settings(method=_method(found), values=found)
    return Settings()


def _method(found: Mapping[str, object]) -> str | None:
    method = found.get("quant_method")
    if isinstance(method, str):
        return method.lower()[:80]
    if found.get("load_in_4bit") is True or found.get("load_in_8bit") is True:
        return "bitsandbytes"
    if _number(found.get("bits")) and _number(found.get("group_size")):
        return "mlx"  # the only writer that gives no name
    return "compressed-tensors" if isinstance(found.get("config_groups"), dict) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _pair(value: object) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    first, second = _number(value[0]), _number(value[1])
    return (first, second) if first and second and first > 0 and second > 0 else None
