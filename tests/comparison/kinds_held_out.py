"""Rows of kinds on which no threshold was chosen: other bases and families, seeds, strengths and tools.

But for one: noise of 0.4 % was called neither noise nor levels, and the least size of these was raised since.

The quantisers here are separate implementations, as tools of different authors are; weights of width 4,096
are drawn (`tests.scale.lifelike`), since no model of the zoo is as wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from benchmarks.peers_subject import tokenizer_json
from tests.comparison.disguises import zoo_model
from tests.scale.lifelike import lifelike_rows
from tests.support import LlamaShape, llama_config

from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint, Floats, StoredAs, part_of
from modelkin.tensors import decode, encode

Change = Callable[[Checkpoint], Checkpoint]
Numbers = Mapping[str, Mapping[str, float | int | str]]
BASES = ("twin-1", "tied-1", "narrow", "shallow-1", "gemma-base", "bert-base", "gpt2-small-1", "moe16-7")
"""Of the zoo; none is a base of `tests.comparison.kinds`."""
WIDE = "drawn-4096"
_WIDE_SHAPE = LlamaShape(layers=2, hidden=4_096, mlp=1_536, heads=32, kv_heads=8, vocab=2_000)
_GATED = ("twin-1", "tied-1", "narrow", "shallow-1", WIDE)
"""Llamas: inputs can be scaled against gains, and residual dimensions taken out."""


_WIDE_ROWS = frozenset(
    {
        "noise of 3.0%",
        "adapter of rank 8, 1%",
        "adapter of rank 64, 15%",
        "adapter of queries alone",
        "direction 6 removed",
        "30% zeros at random",
        "2:4",
        "3 bits, groups of 64, asymmetric",
        "4 bits, groups of 128, symmetric",
        "6 bits, lines, symmetric",
        "table of 16 values",
        "as trained, 2%",
        "inputs scaled, then 4 bits",
    }
)
"""One of each change: a comparison at width 4,096 takes a hundred times as long as one of the zoo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutRow:
    """One pair of models and what was done."""

    name: str
    kind: str
    make: Callable[[], Checkpoint]
    base: Callable[[], Checkpoint]
    findings: frozenset[str] = frozenset()
    numbers: Numbers = field(default_factory=dict)
    """Numbers that findings must have: bits, groups, ranks."""
    stored: tuple[StoredAs, StoredAs] = ("F32", "F32")
    """Formats of candidate and base."""
    deep: bool = False


@cache
def wide_base() -> Checkpoint:
    """Draw a Llama of width 4,096 with two layers."""
    tensors = {}
    for name, extent in _WIDE_SHAPE.tensors():
        rows = lifelike_rows(11, name, extent, 0, extent[0]).reshape(extent)
        tensors[name] = decode(encode(rows, "BF16"), "BF16", rows.size).reshape(extent)
    return Checkpoint(
        config=llama_config(_WIDE_SHAPE, dtype="BF16"),
        tensors=tensors,
        tokenizer=tokenizer_json(_WIDE_SHAPE.vocab, seed=11).decode(),
    )


def _base(name: str) -> Checkpoint:
    return wide_base() if name == WIDE else zoo_model(name)


def _rng(*key: int) -> np.random.Generator:
    return np.random.default_rng([83, *key])


def _on_matrices(model: Checkpoint, change: Callable[[Floats], Floats]) -> Checkpoint:
    names = [
        name
        for name, array in model.tensors.items()
        if array.ndim == 2 and part_of(name) in ("attention", "mlp") and ".gate.weight" not in name
    ]
    return model.with_tensors({name: np.asarray(change(model.tensors[name]), np.float32) for name in names})


def on_grid(model: Checkpoint, *, bits: int, group: int, symmetric: bool) -> Checkpoint:
    """Put each group of neighbours in a line on evenly spaced levels; group 0 is the whole line."""

    def rounded(array: Floats) -> Floats:
        size = group or array.shape[1]
        if array.shape[1] % size:
            return array
        blocks = array.reshape(len(array), -1, size).astype(np.float64)
        if symmetric:
            scale = np.abs(blocks).max(axis=2, keepdims=True) / (2 ** (bits - 1) - 1)
            made = np.rint(blocks / np.maximum(scale, 1e-30)) * scale
        else:
            low = np.minimum(blocks.min(axis=2, keepdims=True), 0)
            high = np.maximum(blocks.max(axis=2, keepdims=True), 0)
            scale = np.maximum((high - low) / (2**bits - 1), 1e-30)
            zero = np.rint(-low / scale)
            made = (np.clip(np.rint(blocks / scale) + zero, 0, 2**bits - 1) - zero) * scale
        return np.asarray(made.reshape(array.shape), np.float32)

    return _on_matrices(model, rounded)


_NORMAL_FLOATS = np.array(
    [-1, -0.696, -0.525, -0.395, -0.284, -0.185, -0.091, 0, 0.08, 0.161, 0.246, 0.338, 0.441, 0.563, 0.723, 1]
)
"""Sixteen values that are as frequent as each other in normal numbers, as NF4 has them."""


def on_table(model: Checkpoint, *, group: int) -> Checkpoint:
    """Put each group on sixteen values of a table, scaled to its largest."""

    def rounded(array: Floats) -> Floats:
        blocks = array.reshape(len(array), -1, group).astype(np.float64)
        scale = np.abs(blocks).max(axis=2, keepdims=True)
        places = np.abs(blocks[..., None] / scale[..., None] - _NORMAL_FLOATS).argmin(axis=-1)
        return np.asarray((_NORMAL_FLOATS[places] * scale).reshape(array.shape), np.float32)

    return _on_matrices(model, rounded)


def pruned_at_random(model: Checkpoint, *, share: float, seed: int) -> Checkpoint:
    """Set random numbers to zero."""
    rng = _rng(seed)
    return _on_matrices(model, lambda array: np.where(rng.random(array.shape) < share, np.float32(0), array))


def as_trained(model: Checkpoint, *, size: float, seed: int) -> Checkpoint:
    """Change every matrix in all directions, the first of them most, as gradients do."""
    rng = _rng(seed)

    def changed(array: Floats) -> Floats:
        rank = min(array.shape)
        sizes = np.arange(1, rank + 1, dtype=np.float32) ** np.float32(-0.5)
        left = rng.standard_normal((array.shape[0], rank), dtype=np.float32) * sizes
        change = left @ rng.standard_normal((rank, array.shape[1]), dtype=np.float32)
        step = np.float32(size * np.linalg.norm(array) / np.linalg.norm(change))
        return np.asarray(array + step * change, dtype=np.float32)

    return _on_matrices(model, changed)


def _values(base: str) -> Iterator[tuple[str, Change, str, frozenset[str], Numbers]]:
    """Yield changes of values: name, change, kind, findings, numbers."""
    wide = base == WIDE
    for size, seed in ((0.004, 1), (0.03, 2), (0.3, 3)):
        noisy = partial(derive.add_noise, size=size, rng=_rng(seed))
        yield f"noise of {size:.1%}", noisy, "noise", frozenset({"noise"}), {}
    ranks = (1, 8, 64) if wide else (1, 3)
    for rank in ranks:
        for size in (0.01, 0.15):
            adapted = partial(derive.merge_low_rank, rank=rank, size=size, rng=_rng(rank, 4))
            numbers = {"low-rank": {"rank": rank}}
            yield f"adapter of rank {rank}, {size:.0%}", adapted, "low-rank", frozenset({"frozen"}), numbers
    if base in _GATED:
        part = partial(derive.merge_low_rank, rank=2, size=0.08, rng=_rng(5), only="q_proj")
        yield (
            "adapter of queries alone",
            part,
            "low-rank",
            frozenset({"frozen"}),
            {"low-rank": {"rank": 2, "modules": "attention_query"}},
        )
    for seed in (6, 7):
        edited = partial(derive.remove_direction, rng=_rng(seed))
        yield f"direction {seed} removed", edited, "low-rank", frozenset({"common-direction"}), {}
    for share, seed in ((0.3, 8), (0.7, 9)):
        thin = partial(pruned_at_random, share=share, seed=seed)
        yield f"{share:.0%} zeros at random", thin, "sparse-copy", frozenset({"sparse-copy"}), {}
    yield (
        "35% smallest zero",
        partial(derive.prune_by_magnitude, fraction=0.35),
        "sparse-copy",
        frozenset({"sparse-copy"}),
        {},
    )
    yield "2:4", derive.prune_two_of_four, "sparse-copy", frozenset({"sparse-two-of-four"}), {}
    yield from _quantisers(wide)
    yield "as trained, 2%", partial(as_trained, size=0.02, seed=10), "fine-tune", frozenset({"fine-tune"}), {}
    yield "as trained, 20%", partial(as_trained, size=0.2, seed=11), "fine-tune", frozenset({"fine-tune"}), {}
    if base in _GATED:
        yield (
            "inputs scaled",
            partial(derive.scale_inputs, spread=0.3, rng=_rng(12)),
            "copy",
            frozenset({"rescaled"}),
            {},
        )
        yield (
            "inputs scaled, then 4 bits",
            lambda model: on_grid(
                derive.scale_inputs(model, spread=0.4, rng=_rng(13)),
                bits=4,
                group=128 if wide else 8 * (model.config["hidden_size"] // 32),
                symmetric=False,
            ),
            "quantised-copy",
            frozenset({"quantised-copy"}),
            {"quantised-copy": {"bits": 4}},
        )


def _quantisers(wide: bool) -> Iterator[tuple[str, Change, str, frozenset[str], Numbers]]:
    found = frozenset({"quantised-copy"})
    groups = (128, 64, 0) if wide else (16, 0)
    for bits in (3, 4, 6) if wide else (3, 4, 5):
        for group in groups:
            for symmetric in (True, False):
                made = partial(on_grid, bits=bits, group=group, symmetric=symmetric)
                levels = "symmetric" if symmetric else "asymmetric"
                numbers: dict[str, float | int | str] = {"bits": bits, "levels": levels}
                if group:
                    numbers["group"] = group
                name = f"{bits} bits, {f'groups of {group}' if group else 'lines'}, {levels}"
                yield name, made, "quantised-copy", found, {"quantised-copy": numbers}
    if wide:
        table: Numbers = {"quantised-copy": {"bits": 4, "levels": "table"}}
        yield "table of 16 values", partial(on_table, group=64), "quantised-copy", found, table


def _shapes(base: str) -> Iterator[tuple[str, Change, str, frozenset[str]]]:
    """Yield changes of the shape."""
    n = len({name.split(".")[2] for name in _base(base).tensors if name.startswith("model.layers.")})
    more = partial(derive.extend_vocabulary, n_new=17, rng=_rng(14))
    yield "17 tokens more", more, "vocabulary-change", frozenset({"vocabulary-extended"})
    order = partial(derive.reorder_vocabulary, rng=_rng(15))
    yield "tokens reordered", order, "vocabulary-change", frozenset({"vocabulary-reordered"})
    if n > 2:
        fewer = partial(derive.reorder_layers, layers=list(range(n - 1)))
        yield "without the last layer", fewer, "depth-change", frozenset({"depth-change"})
        moved = partial(derive.reorder_layers, layers=[*range(n), n - 2, n - 1])
        yield "last layers twice", moved, "depth-change", frozenset({"depth-change"})


TRAINED = (
    ("finetune-sibling", "base", "fine-tune"),
    ("grandchild", "finetune-light", "fine-tune"),
    ("finetune-heavy", "finetune-light", "fine-tune"),
    ("finetune-sibling", "finetune-light", "fine-tune"),
    ("gemma-tuned", "gemma-base", "fine-tune"),
    ("bert-tuned", "bert-base", "fine-tune"),
    ("extended", "base", "vocabulary-change"),
    ("new-attention", "base", "parts-replaced"),
    ("half-of-layers", "base", "parts-replaced"),
    ("depth-up", "base", "depth-change"),
    ("fewer-layers", "deep-1", "depth-change"),
    ("fewer-dimensions", "base", "width-change"),
    ("fewer-units", "deep-1", "width-change"),
    ("scrambled-units", "deep-1", "width-change"),
    ("experts", "deep-1", "moe-upcycling"),
    ("new-embeddings", "deep-1", "parts-replaced"),
    ("gpt2-depth-up", "gpt2-base", "depth-change"),
    ("qwen2-depth-up", "qwen2-base", "depth-change"),
    ("moe-fewer-layers", "moe-base", "depth-change"),
)
"""Children that were really trained, their parents, and what was done besides training; none of these pairs
is in `tests.comparison.kinds`."""


@cache
def held_out_rows() -> tuple[HeldOutRow, ...]:
    """Return all rows."""
    rows = [
        HeldOutRow(
            name=f"{child} of {parent}",
            kind=kind,
            make=partial(zoo_model, child),
            base=partial(zoo_model, parent),
            deep=kind not in ("fine-tune", "vocabulary-change"),
            stored=("BF16", "BF16"),
        )
        for child, parent, kind in TRAINED
    ]
    for base in (*BASES, WIDE):
        made = partial(_base, base)
        changes = [row for row in _values(base) if base != WIDE or row[0] in _WIDE_ROWS]
        for number, (name, change, kind, findings, numbers) in enumerate(changes):
            # Every second row as it is published: levels and small adapters are blurred by it.
            half = number % 2 == 1
            rows.append(
                HeldOutRow(
                    name=f"{base}: {name}" + (", stored as BF16" if half else ""),
                    kind=kind,
                    make=partial(_made, change, made),
                    base=made,
                    findings=findings,
                    numbers=numbers,
                    stored=("BF16", "BF16") if half else ("F32", "F32"),
                )
            )
        rows += [
            HeldOutRow(
                name=f"{base}: {name}",
                kind=kind,
                make=partial(_made, change, made),
                base=made,
                findings=findings,
                deep=kind == "depth-change",
            )
            for name, change, kind, findings in _shapes(base)
        ]
    return tuple(rows)


def _made(change: Change, base: Callable[[], Checkpoint]) -> Checkpoint:
    return change(base())
