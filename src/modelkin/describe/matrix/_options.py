"""What a caller of `matrix` may set, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelkin.describe.measures import DEFAULT, PAIRINGS, LayerPairing, chosen_measures
from modelkin.errors import UsageError
from modelkin.options import FetchOptions

from ._selection import parse_layer_list, parse_role

BASELINES: Mapping[str, str] = {
    "expectation": "the exact mean over all reorderings of one tensor's values, averaged over layers",
    "shuffle": "the mean over layers when the places of one model are reordered, the same way in all layers",
    "random": "normal numbers with the mean and standard deviation of each tensor",
    "mismatched": "layers of both models that are equally far apart, by distance",
    "layer-0": "layer 0 of each model with its other layers, beside every two others",
    "within": "every two layers of one model",
    "independent": "pairs of models that you declare independent (--known)",
    "derived": "pairs of models of which you declare one to be derived from the other (--known)",
    "groups": "pairs of models inside groups and between them (--group)",
    "random-tokens": "rows of two different tokens of one model, for embedding and output head",
    "permuted-tokens": "rows of shared tokens, each with the row of another token of the other model",
}
"""Name -> what it is."""
RELATIONS = ("independent", "derived")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelation:
    """A relation of two models that the caller knows from elsewhere."""

    relation: str
    """``independent`` or ``derived``."""
    model_a: str
    model_b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixOptions:
    """What is measured, over what, and beside which baselines."""

    measures: tuple[str, ...] = DEFAULT
    """Names, or ``all``. The cosine never comes without rho x rho and r."""
    roles: tuple[str, ...] = ("attention_norm", "mlp_norm")
    """See `parse_role`."""
    layers: str | None = None
    """Such as ``0-10,20``; None is all decoder layers."""
    layers_of: Mapping[str, str] = field(default_factory=dict)
    """Name of a model -> its own layers, for mixed pairs."""
    pairs: tuple[LayerPairing, ...] = ("same",)
    baselines: tuple[str, ...] = ("expectation", "shuffle")
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a group -> names of models."""
    known: tuple[KnownRelation, ...] = ()
    truncation: bool = False
    """Whether tensors of different sizes are compared with the larger one cut to the smaller."""
    mtp: bool = False
    """Whether next-token-prediction layers are measured too, apart from decoder layers."""
    sample: int = 65_536
    """Most values of a tensor that are read: larger ones are sampled in seeded blocks, each value once."""
    draws: int = 100
    """Of the baselines that are drawn; fewer of large data, as stated in the result."""
    tokens: int = 256
    """Shared tokens whose rows are read for the baselines of tokens."""
    seed: int = 0
    fetch: FetchOptions = field(default_factory=FetchOptions, repr=False)

    def __post_init__(self) -> None:
        chosen_measures(self.measures)
        for role in self.roles:
            parse_role(role)
        for text in (*([self.layers] if self.layers is not None else []), *self.layers_of.values()):
            parse_layer_list(text)
        _one_of("pairs", self.pairs, PAIRINGS)
        _one_of("baseline", self.baselines, tuple(BASELINES))
        _one_of("relation", tuple(item.relation for item in self.known), RELATIONS)
        for name, least in (("sample", 16), ("draws", 1), ("tokens", 2), ("seed", 0)):
            value = getattr(self, name)
            if not least <= value < 2**32:
                raise UsageError(name, f"expected a whole number from {least} on, got {value}")
        for name in ("measures", "roles", "pairs"):
            if not getattr(self, name):
                raise UsageError(name, "expected at least one")


def _one_of(what: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(what, f"there is none called {name[:60]!r}; there are {', '.join(known)}")
