"""Two opened models, how methods see them, and how much of them may be read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from modelkin.comparison.adapters import bare_updates
from modelkin.comparison.methods import Pair, Side
from modelkin.comparison.positions import checked_architecture, without_sinusoid
from modelkin.comparison.tokens import VOCABULARY_BYTES, Tokens
from modelkin.model import MAX_TOKENIZER_BYTES, Model
from modelkin.options import READING, CompareOptions, Depth

_SAMPLED = 0.12
"""Share of the deep stage's bytes for the samples of earlier stages."""
_DEEP_WASTE = 2.0
"""Share of bytes that joining ranges may add when much is read anyway: rows of shared tokens are thousands of
nearby pieces, and a request for each takes longer than reading what lies between them."""
_DIFFERENCES, _DIFFERENCES_DEEP = 0.1, 0.2
"""Share of a depth's bytes for differences of related models: samples leave a sixth of them, the deep stage a
third."""
_DIFFERENCES_HERE = 64_000_000
"""Bytes for differences of local models."""
_INDEX_BYTES_A_TENSOR = 100
"""Of a shard index, roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPair:
    """Two opened models and how they are to be compared."""

    candidate: Model
    base: Model
    options: CompareOptions
    rehearsed: bool = False
    """Whether no tensor may be read: then the config's claims are not checked against tensors."""
    equal: bool | None = None
    """Whether all stored values are known to be equal; None if not all were compared."""
    differing: frozenset[str] = frozenset()
    """The candidate's tensors that are known to differ from those of the same name: none are known to unless
    values were counted or walked over."""

    @property
    def models(self) -> tuple[Model, Model]:
        """Candidate and base."""
        return self.candidate, self.base

    @property
    def is_deep(self) -> bool:
        """Whether facing parts are searched for."""
        return self.options.depth in ("deep", "full")

    @property
    def is_far(self) -> bool:
        """Whether one of the models has to be fetched."""
        return any(model.fetcher.source.remote for model in self.models)

    @property
    def max_waste(self) -> float:
        """Share of unneeded bytes that joining ranges may add."""
        allowed = self.options.fetch.max_waste
        return max(allowed, _DEEP_WASTE) if self.is_deep else allowed

    @property
    def has_guesses(self) -> bool:
        """Whether roles of tensors were guessed from shapes."""
        return any(model.architecture.guessed for model in self.models)

    def of(self, candidate: Model, base: Model) -> ModelPair:
        """Return two other models, compared in the same way."""
        return replace(self, candidate=candidate, base=base, equal=None, differing=frozenset())

    def to_depth(self, depth: Depth) -> ModelPair:
        """Return the same pair, compared to another depth."""
        return replace(self, options=replace(self.options, depth=depth))

    def sampled_bytes(self) -> int:
        """Return how many bytes of a model the samples of one stage may cost."""
        return int(self._room() * (_SAMPLED if self.is_deep else 1.0))

    def deep_bytes(self) -> int:
        """Return how many bytes of a model the deep stage may cost."""
        return int((1.0 - _SAMPLED) * self._room())

    def relation_bytes(self) -> int:
        """Return how many bytes of a model its differences from the other may cost.

        What the stages leave of a depth's bytes: determined by shapes alone, so always the same. If both
        models are local, more costs next to nothing.
        """
        ceiling, _ = READING[self.options.depth]
        share = _DIFFERENCES_DEEP if self.is_deep else _DIFFERENCES
        return int(ceiling * share) if self.is_far else max(ceiling // 4, _DIFFERENCES_HERE)

    def seen(self, tokens: Tokens, allowance: int) -> Pair:
        """Return the pair as methods see it."""
        return Pair(
            candidate=_side(self.candidate, self.base, rehearsed=self.rehearsed),
            base=_side(self.base, self.candidate, rehearsed=self.rehearsed),
            seed=self.options.seed,
            tokens=tokens,
            byte_allowance=allowance,
            n_layers=READING[self.options.depth][1],
        )

    def _room(self) -> int:
        """Return what headers, gains and tokenizer leave for samples: by shapes alone, so always the same."""
        ceiling, _ = READING[self.options.depth]
        taken = max(self.overhead(model) for model in self.models)
        taken += MAX_TOKENIZER_BYTES if self.is_deep else 0
        return max(ceiling // 5, int(0.96 * ceiling) - taken - VOCABULARY_BYTES)

    def overhead(self, model: Model) -> int:
        """Return the bytes of a model's headers, shard index, gains and biases."""
        index = model.index
        headers = len(index.files) * self.options.fetch.head_bytes + len(index) * _INDEX_BYTES_A_TENSOR
        return headers + sum(info.n_bytes for info in index.values() if len(info.shape) == 1)


def _side(model: Model, other: Model, *, rehearsed: bool) -> Side:
    architecture = model.architecture
    if architecture.positions == "sinusoidal":
        # A plan covers the costlier case, in which the config is wrong.
        architecture = without_sinusoid(architecture) if rehearsed else checked_architecture(model)
    return Side(
        name=model.location.ref,
        index=model.index,
        architecture=architecture,
        updates=bare_updates(model, other),
    )
