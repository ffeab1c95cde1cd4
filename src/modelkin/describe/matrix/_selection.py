"""What a user may write: layers as ``0-10,20,30-35``, roles as ``input-norm`` or ``attention_query.bias``."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from modelkin.architecture import Part, Role
from modelkin.errors import BadSelection

MAX_LAYER = 9_999
"""No model has as many layers; a typing error must not become a list of a billion numbers."""

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_PARTS: dict[str, Part] = {"weight": "weight", "bias": "bias", "packed": "packed", "scale": "scale"}
_ROLE = re.compile(r"(?P<mtp>mtp\.)?(?P<role>[a-z0-9_]+)(?:\.(?P<part>[a-z]+))?(?:#(?P<expert>\d{1,6}))?")
_ALIASES = {
    "input_norm": "attention_norm",
    "input_layernorm": "attention_norm",
    "post_norm": "mlp_norm",
    "post_attention_layernorm": "mlp_norm",
    "q_proj": "attention_query",
    "k_proj": "attention_key",
    "v_proj": "attention_value",
    "o_proj": "attention_output",
    "gate_proj": "mlp_gate",
    "up_proj": "mlp_up",
    "down_proj": "mlp_down",
    "lm_head": "output_head",
}
_MINUS = "_minus_"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChoice:
    """A role to compare, or the difference of two roles of the same layer."""

    role: Role
    minus: Role | None = None
    part: Part = "weight"
    expert: int | None = None
    """Which expert, for roles of experts."""
    mtp: bool = False
    """Whether next-token-prediction layers are meant instead of decoder layers."""

    @property
    def label(self) -> str:
        """How tables name it; `parse_role` reads it back."""
        text = ("mtp." if self.mtp else "") + self.role.value
        text += f"{_MINUS}{self.minus.value}" if self.minus else ""
        text += f".{self.part}" if self.part != "weight" else ""
        return text + (f"#{self.expert}" if self.expert is not None else "")


def parse_role(text: str) -> RoleChoice:
    """Read the name of a role.

    ``ROLE``, ``ROLE.bias``, ``ROLE#3`` for expert 3, ``mtp.ROLE`` for next-token-prediction layers,
    ``ROLE-minus-ROLE`` for the difference of two in each layer. Dashes count as underscores, and usual names
    of checkpoints (``q_proj``, ``input-norm``, ``post-norm``) are understood; ``input-minus-post`` is the
    difference of both norms.

    Examples
    --------
    >>> parse_role("input-norm").label, parse_role("input-minus-post").label, parse_role("expert-up#3").label
    ('attention_norm', 'attention_norm_minus_mlp_norm', 'expert_up#3')

    Raises
    ------
    BadSelection
        No such role.
    """
    plain = text.strip().lower().replace("-", "_")
    if plain == "input_minus_post":
        plain = f"attention_norm{_MINUS}mlp_norm"
    mtp = plain.startswith("mtp.")
    if _MINUS in plain:
        first, second = plain.removeprefix("mtp.").split(_MINUS, 1)
        return RoleChoice(role=_role(first, text), minus=_role(second, text), mtp=mtp)
    match = _ROLE.fullmatch(plain)
    if match is None or (match["part"] or "weight") not in _PARTS:
        raise BadSelection(
            "role", f"expected ROLE, ROLE.bias, ROLE#EXPERT or mtp.ROLE, got {text[:60]!r}", hint=_HINT
        )
    role = _role(match["role"], text)
    expert = match["expert"]
    if expert is None and role.value.startswith("expert_"):
        expert = "0"
    return RoleChoice(
        role=role,
        part=_PARTS[match["part"] or "weight"],
        expert=None if expert is None else int(expert),
        mtp=mtp or role.is_mtp,
    )


_HINT = "`modelkin inspect MODEL` lists the roles of a model."


def _role(name: str, text: str) -> Role:
    known = {role.value: role for role in Role}
    wanted = _ALIASES.get(name, name)
    if wanted in known:
        return known[wanted]
    close = difflib.get_close_matches(wanted, [*known, *_ALIASES], n=1)
    raise BadSelection(
        "role",
        f"there is none called {text[:60]!r}",
        hint=f"Did you mean {close[0].replace('_', '-')!r}? {_HINT}" if close else _HINT,
    )


def parse_layers(text: str) -> tuple[int, ...]:
    """Read a list of layers such as ``0-10,20,30-35``; ascending, each once.

    Examples
    --------
    >>> parse_layers("8,0-3, 2")
    (0, 1, 2, 3, 8)

    Raises
    ------
    BadSelection
        It is no such list.
    """
    return tuple(sorted(set(parse_layer_list(text))))


def parse_layer_list(text: str) -> tuple[int, ...]:
    """Read a list of layers in the order in which it is written: the first of each model are a pair."""
    found: dict[int, None] = {}
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise BadSelection("layers", f"expected a list such as 0-10,20,30-35, got {text[:60]!r}")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first or last > MAX_LAYER:
            raise BadSelection(
                "layers", f"expected ranges from low to high, at most {MAX_LAYER}, got {item.strip()[:60]!r}"
            )
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)
