"""What is done to published weights at real width: each change takes a model of rules and returns another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

import numpy as np
from tests.scale.lazy import Floats, Lazy, Places, Rows, once

from modelkin.casework.lab.checkpoint import layer_of
from modelkin.casework.lab.derive.layout import axes_of, places
from modelkin.tensors import decode, encode

Change: TypeAlias = Callable[[Lazy], Lazy]
_READERS = {
    "input_layernorm.weight": r"self_attn\.[qkv]_proj\.weight$",
    "post_attention_layernorm.weight": r"(?:gate|up)_proj\.weight$",
    "model.norm.weight": r"^lm_head\.weight$",
}
"""Which matrices read the output of which norm, in models like Llama."""
_CONFIG_KEYS = {"vocab": "vocab_size", "residual": "hidden_size", "mlp": "intermediate_size"}


def chain(*changes: Change) -> Change:
    """Return one change after another."""

    def chained(model: Lazy) -> Lazy:
        for change in changes:
            model = change(model)
        return model

    return chained


def chance(*key: object) -> np.random.Generator:
    """Return a random generator that depends only on names and numbers."""
    return np.random.default_rng([byte for item in key for byte in str(item).encode()])


# -- numbers -------------------------------------------------------------------------------------------


def noise(size: float) -> Change:
    """Add Gaussian noise to every tensor, relative to its spread."""

    def noisy(name: str, tensor: Rows) -> Rows:
        spread = once(lambda: np.asarray(size * tensor.sample().std(), dtype=np.float32))

        def add(values: Floats, rows: Places) -> Floats:
            for number, row in enumerate(rows):
                rng = np.random.default_rng([7, *name.encode(), int(row)])
                values[number] += spread() * rng.standard_normal(values.shape[1], dtype=np.float32)
            return values

        return tensor.then(add)

    return lambda model: model.mapped(noisy)


def low_rank(rank: int, size: float) -> Change:
    """Add a matrix of low rank to every matrix of the layers, as an adapter that was merged does.

    Parameters
    ----------
    rank
        Of what is added.
    size
        Its length relative to that of the matrix.
    """

    def added(name: str, tensor: Rows) -> Rows:
        rng = chance("low-rank", name)
        left = rng.standard_normal((tensor.n_rows, rank), dtype=np.float32)
        right = rng.standard_normal((rank, tensor.n_columns), dtype=np.float32)
        scale = once(
            lambda: np.asarray(size * np.sqrt(np.square(tensor.sample()).mean() / rank), dtype=np.float32)
        )
        return tensor.then(lambda values, rows: values + scale() * (left[rows] @ right))

    return _on_matrices(added)


def int8(model: Lazy) -> Lazy:
    """Round each row of the layers' matrices to 255 levels."""

    def rounded(values: Floats, rows: Places) -> Floats:
        step = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
        return np.asarray(np.round(values / step) * step, dtype=np.float32)

    return _on_matrices(lambda name, tensor: tensor.then(rounded))(model)


def int4(model: Lazy) -> Lazy:
    """Round each group of 32 numbers of the layers' matrices to 16 levels."""

    def rounded(values: Floats, rows: Places) -> Floats:
        groups = values.reshape(len(values), -1, 32)
        low = groups.min(axis=2, keepdims=True)
        step = (groups.max(axis=2, keepdims=True) - low) / np.float32(15)
        made = np.round((groups - low) / step) * step + low
        return np.asarray(made, dtype=np.float32).reshape(values.shape)

    return _on_matrices(lambda name, tensor: tensor.then(rounded))(model)


def pruned(fraction: float) -> Change:
    """Set the smallest numbers of each matrix of the layers to zero, below a limit taken from a sample."""

    def thinned(name: str, tensor: Rows) -> Rows:
        limit = once(lambda: np.asarray(np.quantile(np.abs(tensor.sample()), fraction), dtype=np.float32))
        return tensor.then(lambda values, rows: np.where(np.abs(values) < limit(), np.float32(0), values))

    return _on_matrices(thinned)


def _on_matrices(change: Callable[[str, Rows], Rows]) -> Change:
    def changed(name: str, tensor: Rows) -> Rows:
        inside = layer_of(name) is not None and len(tensor.shape) == 2
        return change(name, tensor) if inside else tensor

    return lambda model: model.mapped(changed)


# -- orders and selections -----------------------------------------------------------------------------


def taken(tensor: Rows, axis: int, order: Places) -> Rows:
    """Return a tensor with these places of an axis, in this order."""
    if len(tensor.shape) == 2 and axis == 0:
        return Rows((len(order), tensor.n_columns), lambda rows: tensor.get(order[rows]))
    return Rows((*tensor.shape[:-1], len(order)), lambda rows: tensor.get(rows)[:, order])


def _ordered(model: Lazy, orders: Callable[[int | None], Mapping[str, Places]]) -> Lazy:
    """Take places along axes by their names; the orders may differ from layer to layer."""

    def change(name: str, tensor: Rows) -> Rows:
        wanted = orders(layer_of(name))
        for number, axis in enumerate(axes_of(name, len(tensor.shape))):
            if axis in wanted:
                tensor = taken(tensor, number, wanted[axis])
        return tensor

    return model.mapped(change)


def units(model: Lazy) -> Lazy:
    """Reorder the units of every MLP."""
    n_units = int(model.config["intermediate_size"])
    return _ordered(model, lambda layer: {"mlp": chance("units", layer).permutation(n_units)})


def heads(model: Lazy) -> Lazy:
    """Reorder KV groups so that none stays in its place, and the query heads in them."""
    n_heads = int(model.config["num_attention_heads"])
    kv_heads = int(model.config.get("num_key_value_heads") or n_heads)
    length = int(model.config.get("head_dim") or int(model.config["hidden_size"]) // n_heads)
    per_group = n_heads // kv_heads

    def orders(layer: int | None) -> dict[str, Places]:
        rng = chance("heads", layer)
        groups = _moved(kv_heads, rng)
        inside = np.stack([rng.permutation(per_group) for _ in groups])
        query = places((groups[:, None] * per_group + inside).ravel(), length)
        key = places(groups, length)
        return {"query": query, "key": key, "value": key}

    return _ordered(model, orders)


def turned_pairs(model: Lazy) -> Lazy:
    """Turn and scale every pair of dimensions of queries and keys, which rotary positions cannot see."""
    n_heads = int(model.config["num_attention_heads"])
    kv_heads = int(model.config.get("num_key_value_heads") or n_heads)
    length = int(model.config.get("head_dim") or int(model.config["hidden_size"]) // n_heads)
    half = length // 2

    def changed(name: str, tensor: Rows) -> Rows:
        is_query = name.endswith("q_proj.weight")
        if not is_query and not name.endswith("k_proj.weight"):
            return tensor
        rng = chance("pairs", layer_of(name))
        angle = rng.uniform(0, 2 * np.pi, (kv_heads, half))
        scale = np.exp(rng.normal(0, 0.3, (kv_heads, half)))
        group_rows = length * (n_heads // kv_heads if is_query else 1)

        def turn(rows: Places) -> Floats:
            at, group = rows % half, rows // group_rows
            second = rows % length >= half
            other = np.where(second, rows - half, rows + half)
            cosine, sine = np.cos(angle[group, at]), np.sin(angle[group, at])
            factor = 1.0 / scale[group, at] if is_query else scale[group, at]
            own, its = factor * cosine, factor * np.where(second, sine, -sine)
            return np.asarray(own[:, None] * tensor.get(rows) + its[:, None] * tensor.get(other), np.float32)

        return Rows(tensor.shape, turn)

    return model.mapped(changed)


def _moved(n: int, rng: np.random.Generator) -> Places:
    """Return an order in which nothing is in its place: of few groups one often would be, and be found."""
    while True:
        order = rng.permutation(n)
        if n < 2 or (order != np.arange(n)).all():
            return order


def fewer_units(share: float) -> Change:
    """Keep some randomly chosen units of every MLP, in another order."""

    def fewer(model: Lazy) -> Lazy:
        n_units = int(model.config["intermediate_size"])
        n_kept = int(share * n_units) // 64 * 64
        made = _ordered(model, lambda layer: {"mlp": chance("fewer", layer).permutation(n_units)[:n_kept]})
        return made.replaced(made.tensors, intermediate_size=n_kept)

    return fewer


def residual_order(model: Lazy) -> Lazy:
    """Reorder the dimensions of the residual stream."""
    order = chance("residual").permutation(int(model.config["hidden_size"]))
    return _ordered(model, lambda layer: {"residual": order})


def cut(shape: Mapping[str, int], *, first: float) -> Change:
    """Cut a model to the sizes of another, so that weights with nothing in common can face each other.

    Parameters
    ----------
    shape
        Length of the axes ``vocab``, ``residual``, ``mlp``, ``query``, ``key`` and ``value``; and ``heads``,
        ``kv_heads`` and ``head_dim`` of the config.
    first
        Where the cut begins on each axis but the vocabulary, as a share of what there is to spare.
    """

    def cut_out(model: Lazy) -> Lazy:
        def change(name: str, tensor: Rows) -> Rows:
            for number, axis in enumerate(axes_of(name, len(tensor.shape))):
                if axis in shape:
                    spare = tensor.shape[number] - shape[axis]
                    start = 0 if axis == "vocab" else int(first * spare)
                    tensor = taken(tensor, number, np.arange(start, start + shape[axis]))
            return tensor

        sizes = {key: shape[axis] for axis, key in _CONFIG_KEYS.items()}
        made = model.mapped(change)
        return made.replaced(
            made.tensors,
            **sizes,
            num_attention_heads=shape["heads"],
            num_key_value_heads=shape["kv_heads"],
            head_dim=shape["head_dim"],
        )

    return cut_out


# -- the residual stream -------------------------------------------------------------------------------


def rotation(model: Lazy) -> Lazy:
    """Multiply gains into what reads them, and turn the residual stream.

    The rotation is the Kronecker product of two drawn by chance, with signs: every dimension goes into all
    others, as with one drawn from all rotations, at a hundredth of the cost.
    """
    width = int(model.config["hidden_size"])
    rng = chance("rotation")
    signs = rng.choice(np.array([-1, 1], dtype=np.float32), size=width)
    small = max(n for n in range(1, 300) if width % n == 0)
    inner, outer = _orthogonal(small, rng), _orthogonal(width // small, rng)

    def turn(values: Floats) -> Floats:
        blocks = (values * signs).reshape(-1, width // small, small) @ inner
        mixed = np.swapaxes(np.swapaxes(blocks, 1, 2) @ outer, 1, 2)
        return np.ascontiguousarray(mixed).reshape(values.shape)

    def change(name: str, tensor: Rows) -> Rows:
        axes = axes_of(name, len(tensor.shape))
        if len(axes) == 1:
            return tensor
        if axes[1] == "residual":
            return tensor.then(lambda values, rows: turn(values))
        # Every row goes into all of them, so there is no less than the whole; it is held as it is stored.
        turned = cache(
            lambda: np.frombuffer(
                encode(turn(np.ascontiguousarray(tensor.whole().T)).T, "BF16"), dtype="<u2"
            ).reshape(tensor.shape)
        )

        def get(rows: Places) -> Floats:
            taken_rows = turned()[rows]
            values = decode(taken_rows.tobytes(), "BF16", taken_rows.size)
            return np.asarray(values, dtype=np.float32).reshape(taken_rows.shape)

        return Rows(tensor.shape, get)

    return fold_gains(model).mapped(change)


def fold_gains(model: Lazy) -> Lazy:
    """Multiply the gains of every norm into what reads them, and set them to one."""
    tensors = dict(model.tensors)
    for name, gain in model.tensors.items():
        pattern = next((found for end, found in _READERS.items() if name.endswith(end)), None)
        if pattern is None:
            continue
        values = gain.whole()
        for reader in model.tensors:
            if layer_of(reader) == layer_of(name) and re.search(pattern, reader):
                tensors[reader] = _scaled(tensors[reader], values)
        tensors[name] = gain.then(lambda values, rows: np.ones_like(values))
    return model.replaced(tensors)


def _scaled(tensor: Rows, by: Floats) -> Rows:
    return tensor.then(lambda values, rows: values * by)


def _orthogonal(n: int, rng: np.random.Generator) -> Floats:
    q, r = np.linalg.qr(rng.standard_normal((n, n)))
    return np.asarray(q * np.sign(np.diag(r)), dtype=np.float32)


def new_norms_and_embeddings(model: Lazy) -> Lazy:
    """Replace gains, embeddings and output head by random numbers with the mean and spread they have."""
    return _renewed(model, lambda name, tensor: len(tensor.shape) == 1 or layer_of(name) is None)


def new_tables(model: Lazy) -> Lazy:
    """Replace embeddings and output head alone."""
    return _renewed(model, lambda name, tensor: len(tensor.shape) == 2 and layer_of(name) is None)


def _renewed(model: Lazy, wanted: Callable[[str, Rows], bool]) -> Lazy:
    def renewed(name: str, tensor: Rows) -> Rows:
        if not wanted(name, tensor):
            return tensor
        found = once(lambda: np.array([tensor.sample().mean(), tensor.sample().std()], dtype=np.float32))

        def draw(rows: Places) -> Floats:
            mean, spread = found()
            drawn = [
                np.random.default_rng([5, *name.encode(), int(row)]).standard_normal(tensor.n_columns)
                for row in rows
            ]
            return np.asarray(mean + spread * np.array(drawn), dtype=np.float32)

        return Rows(tensor.shape, draw)

    return model.mapped(renewed)


# -- strangers -----------------------------------------------------------------------------------------


def shuffled(model: Lazy) -> Lazy:
    """Shuffle the rows and the columns of every tensor separately: sizes and tails stay, no place does."""

    def change(name: str, tensor: Rows) -> Rows:
        rng = chance("shuffled", name)
        for axis, length in enumerate(tensor.shape):
            tensor = taken(tensor, axis, rng.permutation(length))
        return tensor

    return model.mapped(change)


def merged_with(other: Change, share: float) -> Change:
    """Mix a model with what another change makes of it.

    Parameters
    ----------
    other
        Makes the other parent.
    share
        Of the other parent.
    """

    def merge(model: Lazy) -> Lazy:
        parent = other(model)

        def change(name: str, tensor: Rows) -> Rows:
            return Rows(tensor.shape, lambda rows: _mixed(tensor, parent.tensors[name], rows))

        return model.mapped(change)

    def _mixed(mine: Rows, theirs: Rows, rows: Places) -> Floats:
        return np.float32(1 - share) * mine.get(rows) + np.float32(share) * theirs.get(rows)

    return merge


def in_layers(layers: list[list[int]]) -> Change:
    """Choose, repeat, move or merge layers."""
    return lambda model: model.with_layers(layers)
