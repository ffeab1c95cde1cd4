"""What arithmetic can turn a trained model into, in numpy alone: from a `Checkpoint` to a new one.

Randomness comes from the caller's generator, so every derived model is reproducible. Recipes name these
functions; ``docs/zoo.md`` says which of them leave what a model computes as it was.
"""

from ._edits import merge_low_rank, prune_two_of_four, remove_direction, scale_inputs
from ._merges import copy_parts, merge_dare, merge_linear, merge_slerp, merge_tasks, merge_ties
from ._numbers import add_noise, cast, prune_by_magnitude, round_to_int4, round_to_int8
from ._scales import flip_mlp_signs, insert_gains, scale_heads, scale_mlp_units, scale_residual
from ._surgery import insert_idle_layer, prune_heads, prune_mlp_units, prune_residual, reorder_layers, upcycle
from ._symmetries import (
    flip_residual_signs,
    fold_gains,
    mix_values,
    permute_experts,
    permute_heads,
    permute_mlp_units,
    permute_residual,
    rotate_residual,
    turn_rope_pairs,
)
from ._vocabulary import extend_vocabulary, pad_vocabulary, renew_embeddings, reorder_vocabulary

__all__ = [
    "add_noise",
    "cast",
    "copy_parts",
    "extend_vocabulary",
    "flip_mlp_signs",
    "flip_residual_signs",
    "fold_gains",
    "insert_gains",
    "insert_idle_layer",
    "merge_dare",
    "merge_linear",
    "merge_low_rank",
    "merge_slerp",
    "merge_tasks",
    "merge_ties",
    "mix_values",
    "pad_vocabulary",
    "permute_experts",
    "permute_heads",
    "permute_mlp_units",
    "permute_residual",
    "prune_by_magnitude",
    "prune_heads",
    "prune_mlp_units",
    "prune_residual",
    "prune_two_of_four",
    "remove_direction",
    "renew_embeddings",
    "reorder_layers",
    "reorder_vocabulary",
    "rotate_residual",
    "round_to_int4",
    "round_to_int8",
    "scale_heads",
    "scale_inputs",
    "scale_mlp_units",
    "scale_residual",
    "turn_rope_pairs",
    "upcycle",
]
