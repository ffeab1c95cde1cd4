"""What ``adapter_config.json`` says, checked: nothing in it is executed, no path is followed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.errors import ConfigError, UnsupportedFormat
from modelkin.message import Message, say
from modelkin.untrusted import JsonRefused, quoted, strict_object

from ._patterns import Patterns

CONFIG_FILE = "adapter_config.json"
MAX_CONFIG_BYTES = 16 << 20
"""The ranks of every module of a large mixture of experts take some hundreds of kB."""
MAX_RANK = 1 << 14
_MERGE_HINT = say("hint.merge-it")

# Each changes what A and B mean, or the base before they are added to it.
_UNREAD_FIELDS = {
    "layer_replication": say("problem.adapter-layer-replication"),
    "megatron_config": say("problem.adapter-megatron-config"),
    "use_qalora": say("problem.adapter-use-qalora"),
    "use_bdlora": say("problem.adapter-use-bdlora"),
    "alora_invocation_tokens": say("problem.adapter-alora-invocation-tokens"),
    "arrow_config": say("problem.adapter-arrow-config"),
    "kasa_config": say("problem.adapter-kasa-config"),
    "monteclora_config": say("problem.adapter-monteclora-config"),
    "trainable_token_indices": say("problem.adapter-trainable-token-indices"),
}
_HARMLESS_INITS = ("gaussian", "eva")
"""Ways of initialising A that leave the base as it is. All others subtract the initial product of A and B
from the base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterConfig:
    """A LoRA adapter's settings, as far as they decide what its matrices do."""

    rank: int
    alpha: float
    ranks: Patterns[int]
    """By module, where they differ from `rank`."""
    alphas: Patterns[float]
    by_root: bool = False
    """Whether alpha is divided by the root of the rank (rsLoRA) instead of the rank."""
    weight_norms: bool = False
    """Whether rows are scaled to trained lengths (DoRA)."""
    transposed: bool = False
    """Whether weights are stored with inputs first, as GPT-2's are."""
    parameters: tuple[str, ...] = ()
    """Parameters that are adapted as such, not as the weight of a linear layer."""
    base: str | None = None
    """The base it names: a claim, and possibly a path on someone else's machine."""
    base_revision: str | None = None

    def rank_of(self, module: str) -> int:
        """Return the rank of a module's update."""
        return self.ranks.of(module, self.rank)

    def scale_of(self, module: str) -> float:
        """Return what the product of B and A is multiplied by."""
        rank = self.rank_of(module)
        return self.alphas.of(module, self.alpha) / (math.sqrt(rank) if self.by_root else rank)


def parse_adapter_config(data: bytes, *, file: str = CONFIG_FILE) -> AdapterConfig:
    """Read an adapter's config.

    Raises `ConfigError` if it is not what it claims to be, and `UnsupportedFormat` for a kind of adapter that
    cannot be applied; the message says which, and why.
    """
    fields = _CheckedFields(_document(data, file), file)
    kind = fields.text("peft_type") or "(none)"
    if kind != "LORA":
        raise UnsupportedFormat(file, say("problem.adapter-type", kind=quoted(kind, 60)), hint=_MERGE_HINT)
    for name, what in _UNREAD_FIELDS.items():
        if fields.get(name):
            raise UnsupportedFormat(
                file, say("problem.adapter-cannot", what=what, name=name), hint=_MERGE_HINT
            )
    _check_initialisation(fields, file)
    bias = fields.text("bias") or "none"
    if bias not in ("none", "all", "lora_only"):
        raise ConfigError(file, say("problem.adapter-bias", got=quoted(bias, 60)))
    return AdapterConfig(
        rank=fields.rank("r", fields.get("r")),
        alpha=fields.number("lora_alpha", fields.get("lora_alpha")),
        ranks=Patterns.of_items(
            {key: fields.rank("rank_pattern", value) for key, value in fields.table("rank_pattern")}, file
        ),
        alphas=Patterns.of_items(
            {key: fields.number("alpha_pattern", value) for key, value in fields.table("alpha_pattern")}, file
        ),
        by_root=fields.flag("use_rslora"),
        weight_norms=fields.flag("use_dora"),
        transposed=fields.flag("fan_in_fan_out"),
        parameters=fields.texts("target_parameters"),
        base=fields.text("base_model_name_or_path"),
        base_revision=fields.text("revision"),
    )


def _document(data: bytes, file: str) -> Mapping[str, object]:
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(file, say("problem.config-bytes", most=MAX_CONFIG_BYTES, got=len(data)))
    try:
        return strict_object(data, as_python_writes=True)
    except JsonRefused as error:
        raise ConfigError(file, say("problem.json-object", why=error.reason)) from error


def _check_initialisation(fields: _CheckedFields, file: str) -> None:
    how = fields.get("init_lora_weights")
    if how is None or isinstance(how, bool) or how in _HARMLESS_INITS:
        return
    raise UnsupportedFormat(
        file,
        say("problem.adapter-initialisation", how=quoted(str(how), 60)),
        hint=say("hint.adapter-conversion"),
    )


@dataclass(frozen=True, slots=True)
class _CheckedFields:
    """Fields of a config, each checked when it is taken."""

    values: Mapping[str, object]
    file: str

    def get(self, name: str) -> object:
        return self.values.get(name)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is None or (isinstance(value, str) and 0 < len(value) <= 4096):
            return value
        raise self._wrong(name, say("part.text"), value)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values.get(name)
        listed = [] if value is None else value
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise self._wrong(name, say("part.list-of-names"), value)
        return tuple(listed)

    def flag(self, name: str) -> bool:
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self._wrong(name, say("part.true-false"), value)

    def table(self, name: str) -> list[tuple[str, object]]:
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, dict):
            raise self._wrong(name, say("part.an-object"), value)
        return list(value.items())

    def rank(self, name: str, value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_RANK:
            return value
        raise self._wrong(name, say("part.a-rank", most=MAX_RANK), value)

    def number(self, name: str, value: object) -> float:
        usable = isinstance(value, int | float) and not isinstance(value, bool)
        if usable and abs(value) < 1e9:  # type: ignore[arg-type]  # false for NaN, and no overflow for integers
            return float(value)  # type: ignore[arg-type]
        raise self._wrong(name, say("part.a-number"), value)

    def _wrong(self, name: str, expected: Message, value: object) -> ConfigError:
        return ConfigError(
            self.file,
            say("problem.adapter-field", name=name, expected=expected, got=quoted(str(value)[:100], 60)),
        )
