"""Treatments that leave the same mark on every model: strangers with the same treatment stay strangers.

Each takes a Llama or a Mixtral of the zoo and returns it in an order, a basis or a code that follows from the
model alone, by a rule that both sides of a pair may have followed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint, layer_of
from modelkin.casework.lab.derive import layout

Order = NDArray[np.intp]
LAYER = "model.layers.{}."


def hadamard(n: int) -> NDArray[np.float64]:
    """Return an orthogonal matrix of signs, as large a block as fits, repeated along the diagonal."""
    side = n & -n
    places = np.bitwise_and.outer(np.arange(side), np.arange(side))
    signs = np.array([1 - 2 * (bin(int(number)).count("1") % 2) for number in places.ravel()])
    return np.kron(np.eye(n // side), signs.reshape(side, side) / np.sqrt(side))


def turned(model: Checkpoint, rotation: NDArray[np.float64]) -> Checkpoint:
    """Rotate the residual stream, with gains folded in."""
    folded = derive.fold_gains(model)
    return folded.with_tensors(
        layout.linear_on(folded, "residual", lambda rows: (rows @ rotation).astype(np.float32))
    )


def hadamard_turned(model: Checkpoint) -> Checkpoint:
    """Rotate the residual stream by the same Hadamard matrix, as QuaRot does."""
    return turned(model, hadamard(model.config["hidden_size"]))


def principal_axes(model: Checkpoint) -> Checkpoint:
    """Rotate the residual stream to the embedding's principal axes, as SliceGPT does for activations."""
    table = model.tensors["model.embed_tokens.weight"].astype(np.float64)
    values, axes = np.linalg.eigh(table.T @ table)
    axes = axes[:, np.argsort(-values)]
    return turned(model, axes * np.sign(axes.sum(axis=0)))


def by_units(
    score: Callable[[dict[str, NDArray[np.float32]]], NDArray[np.float64]],
) -> Callable[[Checkpoint], Checkpoint]:
    """Return a treatment that sorts the units of each MLP by a score of theirs."""

    def sort(model: Checkpoint) -> Checkpoint:
        changed: dict[str, NDArray[np.float32]] = {}
        table = model.tensors["model.embed_tokens.weight"]
        for names in layout.mlp_groups(model).values():
            parts = {
                name.rsplit(".", 2)[-2]: np.moveaxis(model.tensors[name], axis, 0)
                for name, axis in names.items()
            }
            parts["inputs"] = table / np.sqrt(np.mean(table**2, axis=1, keepdims=True))
            order = np.argsort(-score(parts), kind="stable")
            changed |= {name: np.take(model.tensors[name], order, axis=axis) for name, axis in names.items()}
        return model.with_tensors(changed)

    return sort


def _active(parts: dict[str, NDArray[np.float32]]) -> NDArray[np.float64]:
    gate, up = (parts["inputs"] @ parts[name].T for name in ("gate_proj", "up_proj"))
    return np.asarray(gate / (1 + np.exp(-gate)) * up, dtype=np.float64)


def _norms(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(rows.astype(np.float64), axis=1))


def by_dimensions(score: Callable[[Checkpoint], NDArray[np.float64]]) -> Callable[[Checkpoint], Checkpoint]:
    """Return a treatment that sorts the residual dimensions, as quantisers that sort channels leave them."""

    def sort(model: Checkpoint) -> Checkpoint:
        return model.with_tensors(layout.taken(model, {"residual": np.argsort(-score(model), kind="stable")}))

    return sort


def _first_gain(model: Checkpoint) -> NDArray[np.float64]:
    return np.asarray(model.tensors["model.layers.0.input_layernorm.weight"], dtype=np.float64)


def _second_moment(model: Checkpoint) -> NDArray[np.float64]:
    """Return the diagonal of the Hessian that GPTQ orders columns by, of what the first layer reads."""
    table = model.tensors["model.embed_tokens.weight"].astype(np.float64)
    scaled = table / np.sqrt(np.mean(table**2, axis=1, keepdims=True))
    return np.asarray(np.mean(scaled**2, axis=0) * _first_gain(model) ** 2)


def act_order(model: Checkpoint) -> Checkpoint:
    """Round to 4 bits column by column, in the order of second moments, errors passed on as GPTQ does."""
    inputs = model.tensors["model.embed_tokens.weight"].astype(np.float64)
    hessian = inputs.T @ inputs / len(inputs) + 0.01 * np.eye(inputs.shape[1])
    order = np.argsort(-np.diag(hessian))
    factor = np.linalg.cholesky(np.linalg.inv(hessian[np.ix_(order, order)])).T
    changed = {}
    for name, value in model.tensors.items():
        if layer_of(name) is None or value.ndim != 2 or value.shape[1] != len(order):
            continue
        rows = value[:, order].astype(np.float64)
        step = np.abs(rows).max(axis=1) / 7
        for column in range(rows.shape[1]):
            rounded = np.round(rows[:, column] / step) * step
            error = (rows[:, column] - rounded) / factor[column, column]
            rows[:, column:] -= np.outer(error, factor[column, column:])
            rows[:, column] = rounded
        changed[name] = rows[:, np.argsort(order)].astype(np.float32)
    return model.with_tensors(changed)


def factored(model: Checkpoint) -> Checkpoint:
    """Cut the rank of every matrix to a third, and order values of a head by their singular values."""
    sizes = layout.layout_of(model)
    changed: dict[str, NDArray[np.float32]] = {}
    for name, value in model.tensors.items():
        if layer_of(name) is not None and value.ndim == 2:
            left, sizes_of, right = np.linalg.svd(value, full_matrices=False)
            rank = max(1, len(sizes_of) // 3)
            changed[name] = ((left[:, :rank] * sizes_of[:rank]) @ right[:rank]).astype(np.float32)
    width, repeated = sizes.head_dim, sizes.heads_per_kv
    for layer in range(sizes.layers):
        reads = f"{LAYER.format(layer)}self_attn.v_proj.weight"
        writes = f"{LAYER.format(layer)}self_attn.o_proj.weight"
        values, outputs = changed[reads].copy(), changed[writes].copy()
        for group in range(sizes.kv_heads):
            rows = slice(group * width, (group + 1) * width)
            left, _, _ = np.linalg.svd(values[rows], full_matrices=False)
            values[rows] = left.T @ values[rows]
            for head in range(group * repeated, (group + 1) * repeated):
                columns = slice(head * width, (head + 1) * width)
                outputs[:, columns] = outputs[:, columns] @ left
        changed |= {reads: values, writes: outputs}
    return model.with_tensors(changed)


def public_projections(model: Checkpoint, *, rank: int = 32, size: float = 0.5) -> Checkpoint:
    """Add trained adapters between frozen random projections, as VeRA has them.

    One pair of projections serves all layers and all matrices. It is drawn from the default seed of a
    library, so that all users have the same; what is trained are two vectors for each matrix.
    """
    inside = {
        name: value for name, value in model.tensors.items() if layer_of(name) is not None and value.ndim == 2
    }
    widths = [max(value.shape[axis] for value in inside.values()) for axis in (0, 1)]
    public = np.random.default_rng(0)
    writes, reads = public.normal(size=(widths[0], rank)), public.normal(size=(rank, widths[1]))
    changed = {}
    for name, value in inside.items():
        own = np.random.default_rng(zlib.crc32(value.tobytes()))  # of this model alone
        outer = own.normal(size=(len(value), 1))
        inner = 1.0 + 0.3 * own.normal(size=(rank, 1))
        added = (outer * writes[: len(value)]) @ (inner * reads[:, : value.shape[1]])
        added *= size * np.linalg.norm(value) / np.linalg.norm(added)
        changed[name] = (value + added).astype(np.float32)
    return model.with_tensors(changed)


def public_bases(
    model: Checkpoint, *, rank: int = 32, size: float = 0.4, n_bases: int | None = None
) -> Checkpoint:
    """Add trained adapters between frozen random bases, as RandLoRA has them: factors belong to directions.

    Each pair of bases has a trained factor for every direction. If not told otherwise, there are enough of
    them for the full rank.
    """
    changed = {}
    for name, value in model.tensors.items():
        if layer_of(name) is None or value.ndim != 2:
            continue
        public, own = np.random.default_rng(0), np.random.default_rng(zlib.crc32(value.tobytes()))
        added = np.zeros(value.shape)
        for _ in range(n_bases or max(1, min(value.shape) // rank)):
            writes, reads = public.normal(size=(len(value), rank)), public.normal(size=(rank, value.shape[1]))
            added += (writes * own.normal(size=rank)) @ reads
        added *= size * np.linalg.norm(value) / np.linalg.norm(added)
        changed[name] = (value + added).astype(np.float32)
    return model.with_tensors(changed)


def experts_by_load(model: Checkpoint) -> Checkpoint:
    """Order the experts of each layer by how many tokens their router would send to them."""
    table = model.tensors["model.embed_tokens.weight"]
    changed: dict[str, NDArray[np.float32]] = {}
    for layer in range(model.config["num_hidden_layers"]):
        router = f"{LAYER.format(layer)}block_sparse_moe.gate.weight"
        scores = table @ model.tensors[router].T
        load = np.bincount(scores.argmax(axis=1), minlength=scores.shape[1])
        order = np.argsort(-load, kind="stable")
        changed[router] = model.tensors[router][order]
        prefix = f"{LAYER.format(layer)}block_sparse_moe.experts."
        for new, old in enumerate(order):
            for matrix in ("w1", "w2", "w3"):
                changed[f"{prefix}{new}.{matrix}.weight"] = model.tensors[f"{prefix}{old}.{matrix}.weight"]
    return model.with_tensors(changed)


def made_of_experts(model: Checkpoint) -> Checkpoint:
    """Cut the sorted units of each MLP into four experts, as MoE-fication by sorting does."""
    sort = by_units(lambda parts: _active(parts).var(axis=0))
    model = sort(model)
    changed = {name: value for name, value in model.tensors.items() if ".mlp." not in name}
    table = model.tensors["model.embed_tokens.weight"]
    for layer in range(model.config["num_hidden_layers"]):
        place = LAYER.format(layer)
        gate = model.tensors[f"{place}mlp.gate_proj.weight"]
        quarters = np.array_split(np.arange(len(gate)), 4)
        for number, rows in enumerate(quarters):
            prefix = f"{place}block_sparse_moe.experts.{number}."
            changed[f"{prefix}w1.weight"] = gate[rows]
            changed[f"{prefix}w3.weight"] = model.tensors[f"{place}mlp.up_proj.weight"][rows]
            changed[f"{prefix}w2.weight"] = model.tensors[f"{place}mlp.down_proj.weight"][:, rows]
        changed[f"{place}block_sparse_moe.gate.weight"] = np.stack(
            [gate[rows].mean(axis=0) for rows in quarters]
        )
    config = {
        **model.config,
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "intermediate_size": model.config["intermediate_size"] // 4,
    }
    assert table.shape[1] == config["hidden_size"]
    return Checkpoint(config=config, tensors=changed, tokenizer=model.tokenizer)


TREATMENTS: dict[str, Callable[[Checkpoint], Checkpoint]] = {
    "Hadamard rotation of both": hadamard_turned,
    "principal axes of the embedding in both": principal_axes,
    "units sorted by gate norm": by_units(lambda parts: _norms(parts["gate_proj"])),
    "units sorted by down norm": by_units(lambda parts: _norms(parts["down_proj"])),
    "units sorted by mean activation": by_units(lambda parts: np.abs(_active(parts)).mean(axis=0)),
    "units sorted by variance of activation": by_units(lambda parts: _active(parts).var(axis=0)),
    "units sorted by frequency of activation": by_units(lambda parts: (_active(parts) > 0.1).mean(axis=0)),
    "dimensions sorted by a gain": by_dimensions(_first_gain),
    "dimensions sorted by second moment": by_dimensions(_second_moment),
    "dimensions sorted by norm in the embedding": by_dimensions(
        lambda model: _norms(model.tensors["model.embed_tokens.weight"].T)
    ),
    "GPTQ in the order of activations": act_order,
    "a third of the rank, values by singular value": factored,
    "experts made of sorted units": made_of_experts,
    "adapters between public random projections": public_projections,
    "adapters between public random bases": public_bases,
}
"""For Llamas of the zoo."""

EXPERT_TREATMENTS: dict[str, Callable[[Checkpoint], Checkpoint]] = {
    "experts in the order of their load": experts_by_load,
    "units of experts sorted by norm": by_units(lambda parts: _norms(parts["w1"])),
    "adapters of experts between public random projections": public_projections,
}
"""For Mixtrals."""
