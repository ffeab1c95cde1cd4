"""What a caller of `matrix` may set: measures, roles, layers as ``0-10,20,30-35``, baselines."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from modelkin.architecture import Part, Role
from modelkin.describe.measures import DEFAULT, PAIRINGS, LayerPairing, chosen_measures
from modelkin.errors import BadSelection, UsageError
from modelkin.message import say
from modelkin.options import FetchOptions

MAX_LAYER = 9_999
"""No model has that many layers; a typo must not become a list of a billion numbers."""

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
_HINT = say("hint.roles")
BASELINES = (
    *("expectation", "shuffle", "random", "mismatched", "layer-0", "within", "independent", "derived"),
    *("groups", "random-tokens", "permuted-tokens"),
)
"""What numbers can be compared with: docs/measures.md says what each is, and `modelkin matrix --help`."""
RELATIONS = ("independent", "derived")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChoice:
    """A role to compare, or the difference of two roles of the same layer."""

    role: Role
    minus: Role | None = None
    part: Part = "weight"
    expert: int | None = None
    """Which expert, for roles of experts."""
    mtp: bool = False
    """Whether multi-token-prediction layers are meant instead of decoder layers."""

    @property
    def label(self) -> str:
        """How tables name it; `parse_role` reads it back."""
        text = ("mtp." if self.mtp else "") + self.role.value
        text += f"{_MINUS}{self.minus.value}" if self.minus else ""
        text += f".{self.part}" if self.part != "weight" else ""
        return text + (f"#{self.expert}" if self.expert is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelation:
    """A relation of two models that the caller knows from elsewhere."""

    relation: str
    """``independent`` or ``derived``."""
    model_a: str
    model_b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixOptions:
    """What is measured, over what, and against which baselines."""

    measures: tuple[str, ...] = DEFAULT
    """Names, or ``all``. The cosine never comes without rho x rho and r."""
    roles: tuple[str, ...] = ("attention_norm", "mlp_norm")
    """See `parse_role`."""
    layers: str | None = None
    """Such as ``0-10,20``; None means all decoder layers."""
    layers_of: Mapping[str, str] = field(default_factory=dict)
    """Name of a model -> its own layers, for mixed pairs."""
    pairs: tuple[LayerPairing, ...] = ("same",)
    baselines: tuple[str, ...] = ("expectation", "shuffle")
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a group -> names of models."""
    known: tuple[KnownRelation, ...] = ()
    truncation: bool = False
    """Whether tensors of different sizes are compared with the larger one cut to the smaller."""
    mtp: bool = False
    """Whether multi-token-prediction layers are measured too, apart from decoder layers."""
    sample: int = 65_536
    """Most values of a tensor that are read: larger ones are sampled in seeded blocks, each value once."""
    windows: int = 0
    """If not 0: this many windows of `sample` values each, at the places of the published probe of attention
    weights, which differ between layers. Then only layers of the same number can be compared."""
    draws: int = 100
    """Draws per random baseline; fewer for large data, as stated in the result."""
    tokens: int = 256
    """Shared tokens whose rows are read for the baselines of tokens."""
    seed: int = 0
    fetch: FetchOptions = field(default_factory=FetchOptions, repr=False, metadata={"json": False})

    def __post_init__(self) -> None:
        chosen_measures(self.measures)
        for role in self.roles:
            parse_role(role)
        for text in (*([self.layers] if self.layers is not None else []), *self.layers_of.values()):
            parse_layer_list(text)
        _one_of("pairs", self.pairs, PAIRINGS)
        _one_of("baseline", self.baselines, tuple(BASELINES))
        _one_of("relation", tuple(item.relation for item in self.known), RELATIONS)
        across = {"mismatched", "layer-0", "within"} & set(self.baselines)
        if self.windows and (self.pairs != ("same",) or across):
            raise UsageError("windows", say("problem.windows-layers"))
        for name, least in (("sample", 16), ("windows", 0), ("draws", 1), ("tokens", 2), ("seed", 0)):
            value = getattr(self, name)
            if not least <= value < 2**32:
                raise UsageError(name, say("problem.whole-from", least=least, got=value))
        for name in ("measures", "roles", "pairs"):
            if not getattr(self, name):
                raise UsageError(name, say("problem.one-needed"))


def parse_role(text: str) -> RoleChoice:
    """Read the name of a role.

    ``ROLE``, ``ROLE.bias``, ``ROLE#3`` for expert 3, ``mtp.ROLE`` for multi-token-prediction layers,
    ``ROLE-minus-ROLE`` for the difference of two in each layer. Dashes count as underscores, and usual names
    of checkpoints (``q_proj``, ``input-norm``, ``post-norm``) are understood; ``input-minus-post`` is the
    difference of both norms.

    Raises `BadSelection` if there is no such role.

    Examples
    --------
    >>> parse_role("input-norm").label, parse_role("input-minus-post").label, parse_role("expert-up#3").label
    ('attention_norm', 'attention_norm_minus_mlp_norm', 'expert_up#3')
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
        raise BadSelection("role", say("problem.role-form", got=repr(text[:60])), hint=_HINT)
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


def parse_layer_list(text: str) -> tuple[int, ...]:
    """Read a list of layers such as ``0-10,20,30-35``; the order matters if layers are paired by position.

    Raises `BadSelection` if it is not such a list.

    Examples
    --------
    >>> parse_layer_list("8,0-3, 2")
    (8, 0, 1, 2, 3)
    """
    found: dict[int, None] = {}
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise BadSelection("layers", say("problem.layer-list", got=repr(text[:60])))
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first or last > MAX_LAYER:
            raise BadSelection(
                "layers", say("problem.layer-ranges", most=MAX_LAYER, got=repr(item.strip()[:60]))
            )
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)


def _role(name: str, text: str) -> Role:
    known = {role.value: role for role in Role}
    wanted = _ALIASES.get(name, name)
    if wanted in known:
        return known[wanted]
    close = difflib.get_close_matches(wanted, [*known, *_ALIASES], n=1)
    raise BadSelection(
        "role",
        say("problem.none-called", name=repr(text[:60])),
        hint=say("sentences", said=(say("hint.did-you-mean", name=repr(close[0].replace("_", "-"))), _HINT))
        if close
        else _HINT,
    )


def _one_of(what: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(
                what, say("problem.none-called-known", name=repr(name[:60]), known=", ".join(known))
            )
