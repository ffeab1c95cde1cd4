"""One row of the truth table of kinship, and the kept models that rows are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial

from tests.comparison.disguises import Hidden, model_type_of, zoo_model

from modelkin.casework.lab.checkpoint import Checkpoint

Model = Callable[[], Checkpoint]
Layers = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One pair of models and the truth about it."""

    name: str
    family: str
    """The ``model_type`` of the base."""
    candidate: Model
    base: Model
    layers: Layers | None
    """Pairs (layer of the candidate, layer of the base) that share weights; None if no layer does."""
    shared: frozenset[str]
    """Components, by the candidate's names, that are certainly shared, at least in some of those layers."""
    not_shared: frozenset[str]
    """Components that are not. One in neither set is partly shared, or shows nothing."""
    disguise: frozenset[Hidden] = frozenset()
    same_function: bool = False
    """Whether the candidate computes what the base computes, by arithmetic alone."""
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The kept models that the rows of a family are made of."""

    base: str
    tuned: str | None
    """A fine-tune of the base, if there is one."""
    stranger: str
    components: frozenset[str]
    n_layers: int
    fewer_units: int
    narrower: int | None
    """A width the base can be pruned to; None where heads have to add up to the width."""
    per_group: int | None
    """Query heads that are left in a KV group; None likewise."""

    @property
    def token_rows(self) -> frozenset[str]:
        """The components that hold token rows."""
        return self.components & {"embedding", "head"}


_DENSE = frozenset({"embedding", "attention", "mlp", "norms"})
_EXPERTS = frozenset({"embedding", "attention", "experts", "router", "norms"})

FAMILIES: dict[str, Family] = {
    "llama": Family(
        base="base",
        tuned="finetune-light",
        stranger="twin-1",
        components=_DENSE | {"head"},
        n_layers=4,
        fewer_units=112,
        narrower=72,
        per_group=2,
    ),
    "llama-deep": Family(
        base="deep-1",
        tuned=None,
        stranger="deep-2",
        components=_DENSE,
        n_layers=6,
        fewer_units=44,
        narrower=36,
        per_group=1,
    ),
    "qwen2": Family(
        base="qwen2-base",
        tuned="qwen2-tuned",
        stranger="qwen2-twin",
        components=_DENSE | {"head"},
        n_layers=3,
        fewer_units=112,
        narrower=72,
        per_group=2,
    ),
    "gpt2": Family(
        base="gpt2-base",
        tuned="gpt2-tuned",
        stranger="gpt2-twin",
        components=_DENSE,
        n_layers=3,
        fewer_units=180,
        narrower=None,
        per_group=None,
    ),
    "mixtral": Family(
        base="moe-base",
        tuned="moe-tuned",
        stranger="moe-twin",
        components=_EXPERTS,
        n_layers=3,
        fewer_units=32,
        narrower=48,
        per_group=1,
    ),
    "mixtral-16": Family(
        base="moe16-1",
        tuned="moe16-tuned",
        stranger="moe16-2",
        components=_EXPERTS,
        n_layers=2,
        fewer_units=16,
        narrower=36,
        per_group=1,
    ),
}
"""By the first word of the names of rows: one of each family, a Llama with more and smaller layers, and a
Mixtral with enough experts for a test of them."""
COMPONENTS = frozenset({"embedding", "attention", "mlp", "experts", "router", "norms", "head"})


def identity(n_layers: int) -> Layers:
    """Return the map of layers that stayed where they were."""
    return tuple((layer, layer) for layer in range(n_layers))


def row(
    name: str,
    family: Family,
    make: Model,
    how: str,
    *,
    layers: Layers | None = None,
    lost: Iterable[str] = (),
    unclear: Iterable[str] = (),
    disguise: Iterable[Hidden] = (),
    same_function: bool = False,
) -> Relation:
    """Return a row in which everything is shared except what is stated not to be."""
    lost, unclear = frozenset(lost) & family.components, frozenset(unclear) & family.components
    return Relation(
        name=name,
        family=model_type_of(family.base),
        candidate=partial(_built, make),
        base=partial(zoo_model, family.base),
        layers=identity(family.n_layers) if layers is None else layers or None,
        shared=family.components - lost - unclear,
        not_shared=lost,
        disguise=frozenset(disguise),
        same_function=same_function,
        how=how,
    )


@lru_cache(maxsize=16)
def _built(make: Model) -> Checkpoint:
    """Return a model that is cached for a while: all rows together would fill half a gigabyte."""
    return make()


def forget_built() -> None:
    """Drop the cached models: at the widths of large models each is gigabytes."""
    _built.cache_clear()
