"""The spaces that tensor axes live in, and which of them may be reordered without changing the model.

This is the closed table of spaces. How large a space is in a given model is up to `_sizes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from modelkin.message import Message, say

Scope = Literal["model", "layer", "layer-and-expert", "head", "none"]
"""How far one reordering reaches: a model-wide one moves every tensor at once, a layer-wide one a layer."""

Positions = Literal["rope", "learned", "sinusoidal", "alibi", "relative", "none"]
"""How a model tells positions apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What the entries along an axis are."""

    name: str
    """The word used in architecture files."""
    scope: Scope
    """The part of the model over which one reordering has to be the same."""
    exchangeable: bool
    """Whether any order gives the same model, so that two independent trainings end in unrelated orders."""
    why: Message
    measured: bool = False
    """Whether the size is read from the tensor and not from the config: vocabularies are padded, position
    tables are offset, and neither makes it a different tensor."""


def _table(*spaces: Space) -> dict[str, Space]:
    return {space.name: space for space in spaces}


_UNITS = say("space.units")
_RESIDUAL = say("space.residual")
_HEADS = say("space.heads")
_GIVEN = say("space.given")
_LATENT = say("space.latent")
_SINUSOID = say("sinusoid")

SPACES: Final = _table(
    Space(name="residual", scope="model", exchangeable=True, why=_RESIDUAL),
    Space(name="encoder_residual", scope="model", exchangeable=True, why=_RESIDUAL),
    Space(name="embedding_dim", scope="model", exchangeable=True, why=_RESIDUAL),
    Space(name="mlp", scope="layer", exchangeable=True, why=_UNITS),
    Space(name="encoder_mlp", scope="layer", exchangeable=True, why=_UNITS),
    Space(name="shared_mlp", scope="layer", exchangeable=True, why=_UNITS),
    Space(name="expert_mlp", scope="layer-and-expert", exchangeable=True, why=_UNITS),
    Space(name="experts", scope="layer", exchangeable=True, why=say("space.experts")),
    Space(name="heads", scope="layer", exchangeable=True, why=_HEADS),
    Space(name="encoder_heads", scope="layer", exchangeable=True, why=_HEADS),
    Space(name="kv_heads", scope="layer", exchangeable=True, why=_HEADS),
    Space(name="heads_per_kv", scope="layer", exchangeable=True, why=_HEADS),
    Space(name="qk_dim", scope="head", exchangeable=True, why=say("space.queries-keys")),
    Space(name="rope_dim", scope="head", exchangeable=False, why=say("rope-frequency")),
    Space(name="nope_dim", scope="head", exchangeable=True, why=say("space.no-positions")),
    Space(name="v_dim", scope="head", exchangeable=True, why=say("space.values")),
    Space(name="query_latent", scope="layer", exchangeable=True, why=_LATENT),
    Space(name="kv_latent", scope="layer", exchangeable=True, why=_LATENT),
    Space(name="mtp_input", scope="none", exchangeable=False, why=say("space.two-streams")),
    Space(name="vocab", scope="model", exchangeable=False, why=say("space.token"), measured=True),
    Space(name="positions", scope="model", exchangeable=False, why=say("space.position"), measured=True),
    Space(name="token_types", scope="model", exchangeable=False, why=_GIVEN, measured=True),
    Space(name="labels", scope="model", exchangeable=False, why=_GIVEN, measured=True),
    Space(name="buckets", scope="model", exchangeable=False, why=say("space.distance"), measured=True),
    Space(name="mel_bins", scope="model", exchangeable=False, why=say("space.frequency"), measured=True),
    Space(name="kernel", scope="model", exchangeable=False, why=say("space.time-step"), measured=True),
    Space(name="one", scope="none", exchangeable=False, why=say("space.single")),
    Space(name="table", scope="none", exchangeable=False, why=say("space.computed"), measured=True),
    Space(name="packed", scope="none", exchangeable=False, why=say("packed"), measured=True),
    Space(name="fused", scope="none", exchangeable=False, why=say("fused"), measured=True),
)

if TYPE_CHECKING:
    SpaceName = str
    SizeName = str
else:
    # Some sizes belong to no axis of any tensor.
    SpaceName = Literal[tuple(SPACES)]
    SizeName = Literal[*SPACES, "layers", "encoder_layers", "mtp_layers", "expert_groups", "rotary_dim"]

_RESIDUALS: Final = frozenset({"residual", "embedding_dim"})
_ALL_HEADS: Final = frozenset({"heads", "kv_heads", "heads_per_kv"})


def space_under(
    name: str, *, positions: Positions, encoder_positions: Positions, expert_groups: int = 1
) -> Space:
    """Return the space `name` as it is in a model with these positions.

    A fixed sinusoid added to the residual stream pins its dimensions, ALiBi gives every head its own slope,
    and RoPE gives every pair of a head its own frequency. A router that first picks groups of neighbouring
    experts (`expert_groups`) ties experts to their group.
    """
    space = SPACES[name]
    if name in _RESIDUALS and positions == "sinusoidal":
        return replace(space, exchangeable=False, why=_SINUSOID)
    if name == "encoder_residual" and encoder_positions == "sinusoidal":
        return replace(space, exchangeable=False, why=_SINUSOID)
    if name in _ALL_HEADS and positions == "alibi":
        return replace(space, exchangeable=False, why=say("alibi"))
    if name in _ALL_HEADS and positions == "relative":
        return replace(space, scope="model", why=say("space.head-biases"))
    if name == "experts" and expert_groups > 1:
        return replace(space, exchangeable=False, why=say("expert-groups"))
    if name == "qk_dim" and positions == "rope":
        return replace(space, exchangeable=False, why=SPACES["rope_dim"].why)
    return space
