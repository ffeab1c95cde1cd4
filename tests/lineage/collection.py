"""A collection with known ancestry: models of the zoo, and what arithmetic makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.lineage.models import loaded
from tests.places import ZOO

from modelkin.casework.lab import Checkpoint, derive, load_zoo

TRAINED = (
    *("base", "finetune-light", "finetune-heavy", "finetune-sibling", "grandchild", "lora", "extended"),
    *("continued", "new-tokenizer", "new-attention", "half-of-layers", "embeddings-only", "depth-up"),
    *("fewer-dimensions", "same-initialisation", "norms-only"),
    *("deep-1", "fewer-layers", "fewer-units", "scrambled-units", "experts", "new-heads", "new-embeddings"),
    *("third-of-layers", "mlps-only", "rotated"),
    *("qwen2-base", "qwen2-tuned", "qwen2-depth-up", "gpt2-base", "gpt2-tuned", "gpt2-depth-up"),
    *("moe-base", "moe-tuned", "moe-fewer-layers", "gemma-base", "gemma-tuned", "bert-base", "bert-tuned"),
    *("moe16-1", "moe16-tuned"),
    *("twin-1", "twin-2", "corpus-1", "order-1", "tied-1", "tokenizer-1", "narrow", "distilled"),
    *("qwen2-twin", "gpt2-twin", "moe-twin", "heads8-1", "shallow-1"),
)
"""Sixteen relatives of one base, ten of another, five families more, thirteen strangers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is known about one model of the collection."""

    name: str
    parents: tuple[str, ...]
    """None for a stranger, several for a merge."""
    cluster: str
    """Models of one name share weights, along some path."""


@dataclass(frozen=True, slots=True)
class Made:
    """A model that is derived when it is needed."""

    parents: tuple[str, ...]
    make: Callable[[np.random.Generator], Checkpoint]


def _mixed(first: str, second: str, share: float) -> Checkpoint:
    return derive.merge_linear([loaded(first), loaded(second)], [share, 1 - share])


LIGHT, HEAVY, SIBLING = "finetune-light", "finetune-heavy", "finetune-sibling"
DERIVED: dict[str, Made] = {
    "light-int8": Made((LIGHT,), lambda rng: derive.round_to_int8(loaded(LIGHT))),
    "heavy-int4": Made((HEAVY,), lambda rng: derive.round_to_int4(loaded(HEAVY))),
    "gpt2-int8": Made(("gpt2-tuned",), lambda rng: derive.round_to_int8(loaded("gpt2-tuned"))),
    "grandchild-int8": Made(("grandchild",), lambda rng: derive.round_to_int8(loaded("grandchild"))),
    "lora-pruned": Made(("lora",), lambda rng: derive.prune_by_magnitude(loaded("lora"), fraction=0.5)),
    "bert-pruned": Made(
        ("bert-tuned",), lambda rng: derive.prune_by_magnitude(loaded("bert-tuned"), fraction=0.5)
    ),
    "base-noise": Made(("base",), lambda rng: derive.add_noise(loaded("base"), size=0.1, rng=rng)),
    "qwen2-noise": Made(
        ("qwen2-tuned",), lambda rng: derive.add_noise(loaded("qwen2-tuned"), size=0.05, rng=rng)
    ),
    "gemma-longer": Made(
        ("gemma-tuned",), lambda rng: derive.extend_vocabulary(loaded("gemma-tuned"), n_new=32, rng=rng)
    ),
    "light-experts": Made(
        (LIGHT,), lambda rng: derive.upcycle(loaded(LIGHT), n_experts=3, rng=rng, noise=0.05)
    ),
    "merge-linear": Made((LIGHT, HEAVY), lambda rng: _mixed(LIGHT, HEAVY, 0.4)),
    "merge-linear-int8": Made(("merge-linear",), lambda rng: derive.round_to_int8(_mixed(LIGHT, HEAVY, 0.4))),
    "merge-slerp": Made(
        (SIBLING, "lora"), lambda rng: derive.merge_slerp(loaded(SIBLING), loaded("lora"), t=0.5)
    ),
    "merge-ties": Made(
        ("lora", HEAVY),
        lambda rng: derive.merge_ties(loaded("base"), [loaded("lora"), loaded(HEAVY)], kept=0.3),
    ),
    "merge-dare": Made(
        ("lora", HEAVY),
        lambda rng: derive.merge_dare(
            loaded("base"), [(loaded("lora"), 0.5), (loaded(HEAVY), 0.5)], dropped=0.5, rng=rng
        ),
    ),
    "merge-strangers": Made(("twin-1", "corpus-1"), lambda rng: _mixed("twin-1", "corpus-1", 0.5)),
    "merge-gpt2": Made(("gpt2-base", "gpt2-tuned"), lambda rng: _mixed("gpt2-base", "gpt2-tuned", 0.5)),
    "franken": Made(
        (LIGHT, HEAVY), lambda rng: derive.copy_parts(loaded(LIGHT), loaded(HEAVY), layers=[2, 3])
    ),
}


def truths() -> dict[str, Truth]:
    """Return who comes from whom, in an order in which parents come first."""
    zoo = load_zoo(ZOO)
    parents: dict[str, tuple[str, ...]] = {}
    for name in TRAINED:
        # Of one initialisation, and no child: it belongs to the cluster and has no edge.
        real = zoo[name].parent if zoo[name].relation != "same-initialisation" else None
        parents[name] = (real,) if real else ()
    parents |= {name: made.parents for name, made in DERIVED.items()}
    links = [(child, parent) for child, of in parents.items() for parent in of]
    links.append(("same-initialisation", "base"))
    cluster = {name: name for name in parents}
    for first, second in links:
        kept, gone = cluster[second], cluster[first]
        cluster = {name: kept if own == gone else own for name, own in cluster.items()}
    return {name: Truth(name=name, parents=of, cluster=cluster[name]) for name, of in parents.items()}


def write_collection(folder: Path) -> dict[str, Path]:
    """Write what is derived, and return where every model lies."""
    found = {name: ZOO / name for name in TRAINED}
    for number, (name, made) in enumerate(DERIVED.items()):
        found[name] = made.make(np.random.default_rng(number)).write(folder / name)
    return found
