"""What a tensor is for, in plain words, and the coarse component a role belongs to."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

Component = Literal[
    "embedding", "attention", "mlp", "experts", "router", "norms", "head", "positions", "other"
]
"""The coarse groups that verdicts refer to."""

Part = Literal["weight", "bias", "packed", "scale"]
"""Which tensor of a role: `packed` and `scale` are the pieces of a quantised weight."""


class Role(Enum):
    """What a tensor, or a part of a fused tensor, does in the model.

    A norm is named by what it feeds or follows, not by what a checkpoint calls it: `attention_norm` is
    applied before attention, `attention_output_norm` to what attention returns (or, in post-norm models, to
    the sum of it and its input). Checkpoints use the name ``post_attention_layernorm`` for either.
    """

    EMBEDDING = "embedding"
    EMBEDDING_PROJECTION = "embedding_projection"
    POSITION_EMBEDDING = "position_embedding"
    TOKEN_TYPE_EMBEDDING = "token_type_embedding"  # noqa: S105
    RELATIVE_POSITION_BIAS = "relative_position_bias"
    AUDIO_CONVOLUTION = "audio_convolution"

    EMBEDDING_NORM = "embedding_norm"
    ATTENTION_NORM = "attention_norm"
    ATTENTION_OUTPUT_NORM = "attention_output_norm"
    ATTENTION_INNER_NORM = "attention_inner_norm"
    CROSS_ATTENTION_NORM = "cross_attention_norm"
    CROSS_ATTENTION_OUTPUT_NORM = "cross_attention_output_norm"
    MLP_NORM = "mlp_norm"
    MLP_OUTPUT_NORM = "mlp_output_norm"
    MLP_INNER_NORM = "mlp_inner_norm"
    QUERY_NORM = "query_norm"
    KEY_NORM = "key_norm"
    QUERY_LATENT_NORM = "query_latent_norm"
    KV_LATENT_NORM = "kv_latent_norm"
    FINAL_NORM = "final_norm"

    ATTENTION_QUERY = "attention_query"
    ATTENTION_KEY = "attention_key"
    ATTENTION_VALUE = "attention_value"
    ATTENTION_OUTPUT = "attention_output"
    ATTENTION_SINKS = "attention_sinks"
    CROSS_ATTENTION_QUERY = "cross_attention_query"
    CROSS_ATTENTION_KEY = "cross_attention_key"
    CROSS_ATTENTION_VALUE = "cross_attention_value"
    CROSS_ATTENTION_OUTPUT = "cross_attention_output"
    # Multi-head latent attention: down to a latent, then up to heads whose dimensions are split into a part
    # that rotates with the position (rope) and one that does not (nope).
    ATTENTION_QUERY_DOWN = "attention_query_down"
    ATTENTION_QUERY_UP_NOPE = "attention_query_up_nope"
    ATTENTION_QUERY_UP_ROPE = "attention_query_up_rope"
    ATTENTION_QUERY_NOPE = "attention_query_nope"
    ATTENTION_QUERY_ROPE = "attention_query_rope"
    ATTENTION_KV_DOWN = "attention_kv_down"
    ATTENTION_KEY_ROPE = "attention_key_rope"
    ATTENTION_KEY_UP = "attention_key_up"
    ATTENTION_VALUE_UP = "attention_value_up"
    UNSPLIT_ATTENTION = "unsplit_attention"

    MLP_GATE = "mlp_gate"
    MLP_UP = "mlp_up"
    MLP_DOWN = "mlp_down"
    UNSPLIT_MLP = "unsplit_mlp"

    ROUTER = "router"
    ROUTER_BIAS = "router_bias"
    EXPERT_GATE = "expert_gate"
    EXPERT_UP = "expert_up"
    EXPERT_DOWN = "expert_down"
    SHARED_EXPERT_GATE = "shared_expert_gate"
    SHARED_EXPERT_UP = "shared_expert_up"
    SHARED_EXPERT_DOWN = "shared_expert_down"
    SHARED_EXPERT_ROUTER = "shared_expert_router"
    UNSPLIT_EXPERTS = "unsplit_experts"

    OUTPUT_HEAD = "output_head"
    HEAD_TRANSFORM = "head_transform"
    HEAD_NORM = "head_norm"
    POOLER = "pooler"
    CLASSIFIER = "classifier"

    MTP_EMBEDDING = "mtp_embedding"
    MTP_EMBEDDING_NORM = "mtp_embedding_norm"
    MTP_HIDDEN_NORM = "mtp_hidden_norm"
    MTP_PROJECTION = "mtp_projection"
    MTP_FINAL_NORM = "mtp_final_norm"
    MTP_HEAD = "mtp_head"

    FIXED_TABLE = "fixed_table"

    @property
    def component(self) -> Component:
        """The coarse group of this role."""
        return _COMPONENTS[self]

    @property
    def is_mtp(self) -> bool:
        """Whether only a multi-token-prediction (MTP) layer has this role."""
        return self in _MTP


_EXACT: Final[dict[str, Component]] = {
    "embedding": "embedding",
    "embedding_projection": "embedding",
    "token_type_embedding": "embedding",
    "mtp_embedding": "embedding",
    "audio_convolution": "embedding",
    "position_embedding": "positions",
    "relative_position_bias": "positions",
    "router": "router",
    "router_bias": "router",
    "shared_expert_router": "router",
    "unsplit_attention": "attention",
    "unsplit_mlp": "mlp",
    "unsplit_experts": "experts",
    "output_head": "head",
    "head_transform": "head",
    "mtp_head": "head",
}

_BY_PREFIX: Final[tuple[tuple[str, Component], ...]] = (
    ("attention_", "attention"),
    ("cross_attention_", "attention"),
    ("mlp_", "mlp"),
    ("expert_", "experts"),
    ("shared_expert_", "experts"),
)


def _component(role: Role) -> Component:
    if role.value in _EXACT:
        return _EXACT[role.value]
    if role.value.endswith("_norm"):
        return "norms"
    return next((component for prefix, component in _BY_PREFIX if role.value.startswith(prefix)), "other")


_MTP: Final = frozenset(role for role in Role if role.value.startswith("mtp_"))
_COMPONENTS: Final[dict[Role, Component]] = {role: _component(role) for role in Role}
