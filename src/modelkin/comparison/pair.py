"""Two opened models: how methods see them, and how much of them may be read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from modelkin.comparison.adapters import bare_updates
from modelkin.comparison.methods import Pair, Side
from modelkin.comparison.tokens import VOCABULARY_BYTES, Tokens
from modelkin.model import MAX_TOKENIZER_BYTES, Model
from modelkin.options import READING, CompareOptions, Depth

_SAMPLED = 0.12
"""Part of the bytes of the deep stage for the samples of the stages before it."""
_INDEX_BYTES_A_TENSOR = 100
"""Of a shard index, roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPair:
    """Two opened models and how they are to be compared."""

    candidate: Model
    base: Model
    options: CompareOptions

    @property
    def models(self) -> tuple[Model, Model]:
        """Candidate and base."""
        return self.candidate, self.base

    @property
    def is_deep(self) -> bool:
        """Whether parts are looked for that face each other."""
        return self.options.depth in ("deep", "full")

    @property
    def has_guesses(self) -> bool:
        """Whether roles of tensors were guessed from shapes."""
        return any(model.architecture.guessed for model in self.models)

    def of(self, candidate: Model, base: Model) -> ModelPair:
        """Return two other models, compared in the same way."""
        return replace(self, candidate=candidate, base=base)

    def to_depth(self, depth: Depth) -> ModelPair:
        """Return the same pair, compared to another depth."""
        return replace(self, options=replace(self.options, depth=depth))

    def sampled_bytes(self) -> int:
        """Return how many bytes of a model the samples of one stage may cost."""
        return int(self._room() * (_SAMPLED if self.is_deep else 1.0))

    def deep_bytes(self) -> int:
        """Return how many bytes of a model the deep stage may cost."""
        return int((1.0 - _SAMPLED) * self._room())

    def seen(self, tokens: Tokens, allowance: int) -> Pair:
        """Return the pair as methods see it."""
        return Pair(
            candidate=_side(self.candidate, self.base),
            base=_side(self.base, self.candidate),
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


def _side(model: Model, other: Model) -> Side:
    return Side(
        name=model.location.ref,
        index=model.index,
        architecture=model.architecture,
        updates=bare_updates(model, other),
    )
