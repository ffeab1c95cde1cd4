"""What arithmetic can make of a trained model, in numpy alone: from a `Checkpoint` to a new one.

Randomness comes from the caller's generator, so every derived model is reproducible. Those in
`FUNCTION_PRESERVING` leave the outputs as they were, up to rounding; the others change the model.
"""

from ._merges import copy_parts, merge_linear, merge_slerp, merge_tasks
from ._numbers import add_noise, cast, prune_by_magnitude, round_to_int4, round_to_int8
from ._surgery import extend_vocabulary, insert_idle_layer, prune_mlp_units, prune_residual, reorder_layers
from ._symmetries import (
    flip_residual_signs,
    fold_gains,
    mix_values,
    permute_experts,
    permute_heads,
    permute_mlp_units,
    permute_residual,
    rotate_residual,
    scale_mlp_units,
    turn_rope_pairs,
)

__all__ = [
    "FUNCTION_PRESERVING",
    "add_noise",
    "cast",
    "copy_parts",
    "extend_vocabulary",
    "flip_residual_signs",
    "fold_gains",
    "insert_idle_layer",
    "merge_linear",
    "merge_slerp",
    "merge_tasks",
    "mix_values",
    "permute_experts",
    "permute_heads",
    "permute_mlp_units",
    "permute_residual",
    "prune_by_magnitude",
    "prune_mlp_units",
    "prune_residual",
    "reorder_layers",
    "rotate_residual",
    "round_to_int4",
    "round_to_int8",
    "scale_mlp_units",
    "turn_rope_pairs",
]

FUNCTION_PRESERVING = frozenset(
    {
        "extend_vocabulary",
        "flip_residual_signs",
        "fold_gains",
        "insert_idle_layer",
        "mix_values",
        "permute_experts",
        "permute_heads",
        "permute_mlp_units",
        "permute_residual",
        "rotate_residual",
        "scale_mlp_units",
        "turn_rope_pairs",
    }
)
"""Names of the functions here that do not change what a model computes (of its old tokens)."""
