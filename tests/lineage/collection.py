"""Collections with known ancestry: trained models of a zoo, and models derived from them by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from tests.places import ZOO

from modelkin.casework.lab import derive, load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint, StoredAs
from modelkin.casework.lab.zoo import Zoo

Load = Callable[[str], Checkpoint]
Make = Callable[[Load, np.random.Generator], Checkpoint]


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
    make: Make


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Trained models, and derived ones."""

    folder: Path
    """Of the zoo."""
    trained: tuple[str, ...]
    derived: Mapping[str, Made]

    @cached_property
    def zoo(self) -> Zoo:
        """The trained models."""
        return load_zoo(self.folder)

    def truths(self) -> dict[str, Truth]:
        """Return which model comes from which, in an order in which parents come first."""
        parents: dict[str, tuple[str, ...]] = {}
        links = []
        for name in self.trained:
            # Of one initialisation, and no child: it belongs to the cluster and has no edge.
            begun = self.zoo[name].relation == "same-initialisation"
            real = None if begun else self.zoo[name].parent
            parents[name] = (real,) if real else ()
            if begun:
                links.append((name, str(self.zoo[name].parent)))
        parents |= {name: made.parents for name, made in self.derived.items()}
        links += [(child, parent) for child, of in parents.items() for parent in of]
        cluster = {name: name for name in parents}
        for first, second in links:
            kept, gone = cluster[second], cluster[first]
            cluster = {name: kept if own == gone else own for name, own in cluster.items()}
        return {name: Truth(name=name, parents=of, cluster=cluster[name]) for name, of in parents.items()}

    def load(self, name: str) -> Checkpoint:
        """Return a trained model, or what is derived."""
        if name in self.trained:
            return self.zoo[name].load()
        number = list(self.derived).index(name)
        return self.derived[name].make(self.load, np.random.default_rng(number))

    def write(self, folder: Path) -> dict[str, Path]:
        """Write missing derived models, and return where every model is."""
        found = {name: self.folder / name for name in self.trained}
        for name in self.derived:
            found[name] = folder / name
            if not (folder / name / "model.safetensors").exists():
                self.load(name).write(folder / name)
        return found


def int8(parent: str) -> Made:
    """Round a model to 8 bits."""
    return Made((parent,), lambda load, rng: derive.round_to_int8(load(parent)))


def int4(parent: str) -> Made:
    """Round a model to 4 bits."""
    return Made((parent,), lambda load, rng: derive.round_to_int4(load(parent)))


def pruned(parent: str, fraction: float) -> Made:
    """Zero out the smallest values."""
    return Made((parent,), lambda load, rng: derive.prune_by_magnitude(load(parent), fraction=fraction))


def noisy(parent: str, size: float) -> Made:
    """Add noise."""
    return Made((parent,), lambda load, rng: derive.add_noise(load(parent), size=size, rng=rng))


def longer(parent: str, n_new: int) -> Made:
    """Add tokens."""
    return Made((parent,), lambda load, rng: derive.extend_vocabulary(load(parent), n_new=n_new, rng=rng))


def experts(parent: str, n: int) -> Made:
    """Make experts of every MLP."""
    return Made((parent,), lambda load, rng: derive.upcycle(load(parent), n_experts=n, rng=rng, noise=0.05))


def linear(first: str, second: str, share: float) -> Made:
    """Mix two models."""
    return Made(
        (first, second),
        lambda load, rng: derive.merge_linear([load(first), load(second)], [share, 1 - share]),
    )


def slerp(first: str, second: str, t: float) -> Made:
    """Mix two models along an arc."""
    return Made((first, second), lambda load, rng: derive.merge_slerp(load(first), load(second), t=t))


def ties(base: str, first: str, second: str, kept: float) -> Made:
    """Add the largest differences of two children."""
    return Made(
        (first, second),
        lambda load, rng: derive.merge_ties(load(base), [load(first), load(second)], kept=kept),
    )


def dare(base: str, first: str, second: str, dropped: float) -> Made:
    """Add randomly chosen differences of two children."""
    return Made(
        (first, second),
        lambda load, rng: derive.merge_dare(
            load(base), [(load(first), 0.5), (load(second), 0.5)], dropped=dropped, rng=rng
        ),
    )


def stacked(first: str, second: str, layers: list[int]) -> Made:
    """Put layers of one model into another."""
    return Made(
        (first, second), lambda load, rng: derive.copy_parts(load(first), load(second), layers=layers)
    )


LIGHT, HEAVY, SIBLING = "finetune-light", "finetune-heavy", "finetune-sibling"
DEVELOPMENT = Collection(
    folder=ZOO,
    trained=(
        *("base", LIGHT, HEAVY, SIBLING, "grandchild", "lora", "extended"),
        *("continued", "new-tokenizer", "new-attention", "half-of-layers", "embeddings-only", "depth-up"),
        *("fewer-dimensions", "same-initialisation", "norms-only"),
        *("deep-1", "fewer-layers", "fewer-units", "scrambled-units", "experts", "new-heads"),
        *("new-embeddings", "third-of-layers", "mlps-only", "rotated"),
        *("qwen2-base", "qwen2-tuned", "qwen2-depth-up", "gpt2-base", "gpt2-tuned", "gpt2-depth-up"),
        *("moe-base", "moe-tuned", "moe-fewer-layers", "gemma-base", "gemma-tuned", "bert-base"),
        *("bert-tuned", "moe16-1", "moe16-tuned"),
        *("twin-1", "twin-2", "corpus-1", "order-1", "tied-1", "tokenizer-1", "narrow", "distilled"),
        *("qwen2-twin", "gpt2-twin", "moe-twin", "heads8-1", "shallow-1"),
    ),
    derived={
        "light-int8": int8(LIGHT),
        "heavy-int4": int4(HEAVY),
        "gpt2-int8": int8("gpt2-tuned"),
        "grandchild-int8": int8("grandchild"),
        "lora-pruned": pruned("lora", 0.5),
        "bert-pruned": pruned("bert-tuned", 0.5),
        "base-noise": noisy("base", 0.1),
        "qwen2-noise": noisy("qwen2-tuned", 0.05),
        "gemma-longer": longer("gemma-tuned", 32),
        "light-experts": experts(LIGHT, 3),
        "merge-linear": linear(LIGHT, HEAVY, 0.4),
        "merge-linear-int8": int8("merge-linear"),
        "merge-slerp": slerp(SIBLING, "lora", 0.5),
        "merge-ties": ties("base", "lora", HEAVY, 0.3),
        "merge-dare": dare("base", "lora", HEAVY, 0.5),
        "merge-strangers": linear("twin-1", "corpus-1", 0.5),
        "merge-gpt2": linear("gpt2-base", "gpt2-tuned", 0.5),
        "franken": stacked(LIGHT, HEAVY, [2, 3]),
    },
)
"""What thresholds were set on: relatives of two bases, five families more, thirteen strangers."""


def permuted(model: Checkpoint, rng: np.random.Generator) -> Checkpoint:
    """Reorder units, heads and the residual stream: the model computes the same."""
    for change in (derive.permute_mlp_units, derive.permute_heads, derive.permute_residual):
        model = change(model, rng=rng)
    return model


DISGUISES: dict[str, tuple[Callable[[Checkpoint, np.random.Generator], Checkpoint], StoredAs]] = {
    "int8": (lambda model, rng: derive.round_to_int8(model), "BF16"),
    "float16": (lambda model, rng: model, "F16"),
    "permuted": (permuted, "BF16"),
}
"""What is done to every model that has a parent, and how it is stored; as they are, all are bfloat16."""


def write_disguised(
    places: Mapping[str, Path], known: Mapping[str, Truth], how: str, folder: Path
) -> dict[str, Path]:
    """Write the models that have a parent in a disguise, and return where every model is."""
    change, stored = DISGUISES[how]
    found = dict(places)
    for number, (name, truth) in enumerate(known.items()):
        if truth.parents:
            model = change(Checkpoint.read(places[name]), np.random.default_rng([7, number]))
            found[name] = model.write(folder / name, stored)
    return found
