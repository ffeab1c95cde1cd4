"""What runs along each axis of a tensor, for the families that the lab trains.

`modelkin.architecture` knows the same and far more. The lab has its own short table so that a mistake there
is not repeated here: the tests of the lab run the changed models and compare their outputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from modelkin.casework.lab.checkpoint import Checkpoint, Floats, layer_of, part_of

Axis = Literal["vocab", "positions", "types", "residual", "mlp", "query", "key", "value", "qkv", "experts"]
Norm = Literal["gain", "one-plus-gain", "layer-norm"]

_AXES: Final[tuple[tuple[str, tuple[Axis, ...]], ...]] = (
    (r"(?:embed_tokens|wte|word_embeddings|lm_head|decoder)\.weight$", ("vocab", "residual")),
    (r"(?:wpe|position_embeddings)\.weight$", ("positions", "residual")),
    (r"token_type_embeddings\.weight$", ("types", "residual")),
    (r"predictions(?:\.decoder)?\.bias$", ("vocab",)),
    (r"(?:norm|ln_\w+)\.(?:weight|bias)$", ("residual",)),
    (r"(?:q_proj|self\.query)\.(?:weight|bias)$", ("query", "residual")),
    (r"(?:k_proj|self\.key)\.(?:weight|bias)$", ("key", "residual")),
    (r"(?:v_proj|self\.value)\.(?:weight|bias)$", ("value", "residual")),
    (r"(?:o_proj|attention\.output\.dense)\.(?:weight|bias)$", ("residual", "query")),
    (r"(?:gate_proj|up_proj|w1|w3|intermediate\.dense)\.(?:weight|bias)$", ("mlp", "residual")),
    (r"(?:down_proj|w2|\d\.output\.dense)\.(?:weight|bias)$", ("residual", "mlp")),
    (r"transform\.dense\.(?:weight|bias)$", ("residual", "residual")),
    (r"moe\.gate\.weight$", ("experts", "residual")),
    # GPT-2 stores its matrices input first, so the axis of the bias is the last.
    (r"attn\.c_attn\.weight$", ("residual", "qkv")),
    (r"attn\.c_attn\.bias$", ("qkv",)),
    (r"attn\.c_proj\.weight$", ("query", "residual")),
    (r"mlp\.c_fc\.weight$", ("residual", "mlp")),
    (r"mlp\.c_fc\.bias$", ("mlp",)),
    (r"mlp\.c_proj\.weight$", ("mlp", "residual")),
    (r"c_proj\.bias$", ("residual",)),
)

_NORMS: Final[Mapping[str, Norm]] = {
    "llama": "gain",
    "qwen2": "gain",
    "mixtral": "gain",
    "gemma": "one-plus-gain",
    "gpt2": "layer-norm",
    "bert": "layer-norm",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The sizes that axes are cut by."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    norm: Norm

    @property
    def heads_per_kv(self) -> int:
        """How many query heads share a key and value head."""
        return self.heads // self.kv_heads


def layout_of(checkpoint: Checkpoint) -> Layout:
    """Return the sizes of a model; raise ValueError for a family the lab does not train."""
    config = checkpoint.config
    if checkpoint.family not in _NORMS:
        raise ValueError(f"family must be one of {sorted(_NORMS)}, got {checkpoint.family!r}")
    hidden = int(_first(config, "hidden_size", "n_embd"))
    heads = int(_first(config, "num_attention_heads", "n_head"))
    return Layout(
        layers=int(_first(config, "num_hidden_layers", "n_layer")),
        hidden=hidden,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
        norm=_NORMS[checkpoint.family],
    )


def axes_of(name: str, ndim: int) -> tuple[Axis, ...]:
    """Return what runs along each axis of a tensor; a bias has the first axis of its weight."""
    for pattern, axes in _AXES:
        if re.search(pattern, name, flags=re.IGNORECASE):
            return axes[:ndim]
    raise ValueError(f"name must be a tensor of a family that the lab trains, got {name!r}")


def expert_of(name: str) -> int | None:
    """Return the number of the expert a tensor belongs to; None outside experts."""
    found = re.search(r"\.experts\.(\d+)\.", name)
    return int(found[1]) if found else None


def mlp_groups(checkpoint: Checkpoint) -> dict[tuple[int | None, int | None], dict[str, int]]:
    """Return the tensors that share MLP units, as name and axis, by layer and expert."""
    groups: dict[tuple[int | None, int | None], dict[str, int]] = {}
    for name, array in checkpoint.tensors.items():
        axes = axes_of(name, array.ndim)
        if "mlp" in axes:
            groups.setdefault((layer_of(name), expert_of(name)), {})[name] = axes.index("mlp")
    return groups


def taken(
    checkpoint: Checkpoint, index: Mapping[Axis, NDArray[np.intp]], *, layer: int | None = None
) -> dict[str, Floats]:
    """Return the tensors that have one of the axes, with the given old indices in their new order.

    With `layer`, only tensors of that layer.
    """
    changed: dict[str, Floats] = {}
    for name, array in checkpoint.tensors.items():
        if layer is not None and layer_of(name) != layer:
            continue
        for number, axis in enumerate(axes_of(name, array.ndim)):
            if axis in index:
                changed[name] = np.take(changed.get(name, array), index[axis], axis=number)
    return changed


def places(blocks: NDArray[Any], size: int) -> NDArray[np.intp]:
    """Return the indices of the elements of equal-sized blocks, in the order of the blocks."""
    return np.asarray(blocks[:, None] * size + np.arange(size), dtype=np.intp).ravel()


def linear_on(checkpoint: Checkpoint, axis: Axis, apply: Callable[[Floats], Floats]) -> dict[str, Floats]:
    """Return the tensors that have an axis, with a map applied along it as their last axis; norms stay."""
    changed: dict[str, Floats] = {}
    for name, array in checkpoint.tensors.items():
        if part_of(name) == "norms":
            continue
        for number, found in enumerate(axes_of(name, array.ndim)):
            if found == axis:
                moved = apply(np.moveaxis(changed.get(name, array), number, -1))
                changed[name] = np.ascontiguousarray(np.moveaxis(moved, -1, number))
    return changed


def require_rms(checkpoint: Checkpoint) -> Layout:
    """Return the layout of a model with RMS norms; raise ValueError for one that subtracts means."""
    layout = layout_of(checkpoint)
    if layout.norm == "layer-norm":
        raise ValueError(
            f"{checkpoint.family} has layer norms, which subtract a mean: this would change its outputs"
        )
    return layout


def rotary_layout(checkpoint: Checkpoint) -> Layout:
    """Return the layout of a model with rotary positions; raise ValueError for another."""
    layout = layout_of(checkpoint)
    if layout.norm == "layer-norm":
        raise ValueError(f"{checkpoint.family} has no rotary positions")
    return layout


def _first(config: Mapping[str, Any], *keys: str) -> Any:  # noqa: ANN401
    for key in keys:
        if key in config:
            return config[key]
    raise ValueError(f"config must have one of {keys}")
