"""One tensor of both models, subtracted: what became of it, from numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .facing import FacingTensors
from .lattice import Lattice, find_lattice, level_steps
from .result import TensorChange, Word
from .scales import mixed_in_heads, with_factors
from .spectrum import Spectrum, spectrum
from .steps import effective_format, stored_steps

Floats = npt.NDArray[np.float32]

UNLIKE = 0.2
"""Correlation below which two tensors are unlike. Chance alone stays far below it; output heads of strangers
trained on the same text reach 0.15."""
_ON_CODE = 0.9
"""Share of values that must be within one step of their level. Rounding leaves none outside; GPTQ compensates
its errors and leaves some."""
_STRUCTURED = 1.15
"""Above this, the largest singular value of a difference is not chance: random signs vary by two percent."""
_SPARSE, _BASE_SPARSE = 0.2, 0.05
"""Share of zeros from which a tensor is sparse, and up to which the base is not."""
_MOST_NOISE = 0.4
"""Largest change without structure that is called noise, relative to the weights: the table of kinds adds up
to 0.3 of them. The spectrum of a small matrix that was trained for long (0.5 to 0.8) can look as random."""
_MOST_TRAINED = 0.95
"""Largest change that is called training, relative to the weights: heavy fine-tunes of the zoo reach 0.88. A
change as large as the weights is also what units that were split or matched to others leave."""
_KEPT = 0.999
"""Share of values that must be within a step: converters treat a few tiny numbers in their own way."""
_FEWEST_ROWS = 12
"""Fewer rows or columns say nothing about directions."""
_STEP = 1.001
"""One step, with tolerance for rounding."""
_CODE_STEP = 1.02
"""One step of a code, with tolerance: it is found from the largest numbers, which BF16 rounds by 0.4 %."""
_CONSTANT = 1e-9
"""Of its size: numbers that vary less are a constant minus its mean, in double precision."""
_REFITTED = 2.0
"""Steps that a number may be off if factors were multiplied in or a rotation was undone: both round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some rows of one tensor in both models, in the same order, inputs along the lines."""

    facing: FacingTensors
    candidate: Floats = field(repr=False)
    base: Floats = field(repr=False)
    dtypes: tuple[str, str]
    whole: bool
    head: int = 0
    """Rows per head, if rows consist of heads; 0 otherwise."""
    reordered: bool = False
    levels: tuple[Lattice, Floats] | None = field(default=None, repr=False)
    """Levels of the candidate and their distances, if the order they were made in was undone."""
    steps: Floats | None = field(default=None, repr=False)
    """For numbers rotated into other coordinates: the rounding error at each place."""


def measure(block: Block, *, seed: int) -> TensorChange | None:
    """Say what became of a tensor; None if it has no finite numbers."""
    mine, theirs = block.candidate, block.base
    if not mine.size or not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
        return None
    formats = effective_format(mine, block.dtypes[0]), effective_format(theirs, block.dtypes[1])
    steps = block.steps
    if steps is None:
        steps = np.maximum(stored_steps(mine, formats[0]), stored_steps(theirs, formats[1]))
    return _Measured(block, formats, steps, seed).change()


class _Measured:
    def __init__(self, block: Block, formats: tuple[str, str], steps: Floats, seed: int) -> None:
        self.block, self.formats, self.steps, self.seed = block, formats, steps, seed
        self.mine, self.theirs = block.candidate, block.base
        self.matrix = self.mine.ndim == 2 and min(self.mine.shape) >= _FEWEST_ROWS
        self.lattice: Lattice | None = None
        self.spectrum: Spectrum | None = None
        self.refitted = False

    def change(self) -> TensorChange:
        block, mine, theirs = self.block, self.mine, self.theirs
        what = self._word()
        difference = self.difference
        size, step, change = _size(theirs), _size(self.steps), _size(difference)
        found, few = self.spectrum, self.lattice
        return TensorChange(
            tensor=block.facing.candidate,
            base_tensor=block.facing.base,
            role=block.facing.role,
            component=block.facing.component,
            layer=block.facing.layer,
            base_layer=block.facing.base_layer,
            expert=block.facing.expert,
            dtype=block.dtypes[0],
            base_dtype=block.dtypes[1],
            values=mine.size,
            whole=block.whole,
            what=what,
            share_equal=float(np.mean(mine == theirs)),
            share_within_a_step=float(np.mean(difference <= _STEP * self.steps)),
            relative_change=change / size if size else float(difference.any()),
            change_in_steps=change / step if step else 0.0,
            resolution=step / size if size else 0.0,
            cosine=self.correlation,
            zeros=self.zeros,
            base_zeros=float(np.mean(theirs == 0)),
            two_of_four=self._two_of_four(),
            kept_equal=self.kept,
            rank=found.rank if found else None,
            rank_most=found.most if found else None,
            left_in_steps=found.left if found and math.isfinite(found.left) else None,
            over_chance=found.over_chance if found else None,
            over_marchenko_pastur=found.over_marchenko_pastur if found else None,
            bits=few.bits if few else None,
            group=few.group if few else None,
            levels=few.levels if few else None,
            reordered=block.reordered,
            refitted=self.refitted,
        )

    def _word(self) -> Word:
        mine, theirs = self.mine, self.theirs
        if np.array_equal(mine, theirs):
            return "equal"
        if self.block.steps is not None:
            if self._is_rounded(theirs, slack=_REFITTED):
                return "turned"
        elif self._is_rounded(theirs):
            return "rounded"
        if self._is_sparse():
            return "sparse"
        if not self.matrix:
            if not self._is_alike():
                return "unlike"
            return "trained" if mine.ndim == 2 and self._relative(theirs) <= _MOST_TRAINED else "changed"
        if not self._is_alike():
            fitted, better = self._refitted()
            return self._word_of(fitted, better) if better else "unlike"
        return self._word_of(theirs, None)

    def _word_of(self, theirs: Floats, how: Word | None) -> Word:
        """Name the change of a matrix, apart from factors that were undone."""
        self.refitted = how is not None
        if how is not None and self._is_rounded(theirs, slack=_REFITTED):
            return how
        self.lattice, levels = self._levels()
        steps = self.steps
        if levels is not None:
            steps = np.maximum(steps, levels)
            within = np.mean(self._apart(theirs) <= _CODE_STEP * steps)
            if within >= _ON_CODE:
                return "quantised"
        if how is None:
            fitted, better = self._refitted()
            if better is not None:
                return self._word_of(fitted, better)
        self.spectrum = spectrum(self.mine - theirs, steps, seed=self.seed)
        if self.spectrum.rank:
            return "low-rank"
        size = self._relative(theirs)
        if self.spectrum.over_chance <= _STRUCTURED:
            return "noise" if size <= _MOST_NOISE else "changed"
        return "trained" if size <= _MOST_TRAINED else "changed"

    def _relative(self, theirs: Floats) -> float:
        """Return the size of the change over that of the base, which is as stored or has factors undone."""
        size = _size(theirs)
        return _size(self._apart(theirs)) / size if size else math.inf

    def _levels(self) -> tuple[Lattice | None, Floats | None]:
        """Look for levels along lines, and along columns if lines are stored input-first."""
        if self.block.levels is not None:
            return self.block.levels
        if self.block.steps is not None:
            return None, None
        for turned in (False, True) if self.block.facing.transposed[0] else (False,):
            mine = np.ascontiguousarray(self.mine.T if turned else self.mine)
            # From the candidate alone: a coarser base does not blur its levels.
            found = find_lattice(mine, lambda some: stored_steps(some, self.formats[0]))
            if found is not None:
                levels = level_steps(mine, found)
                return found, levels.T if turned else levels
        return None, None

    def _refitted(self) -> tuple[Floats, Word | None]:
        """Undo factors of rows and columns, or mixtures within heads, if that explains much."""
        fitted, better = with_factors(self.mine, self.theirs)
        if better:
            return fitted, "rescaled"
        fitted, better = mixed_in_heads(self.mine, self.theirs, self.block.head)
        return (fitted, "mixed") if better else (self.theirs, None)

    @cached_property
    def correlation(self) -> float | None:
        """Of both sides as they are; None if one of them is constant."""
        return _correlation(self.mine, self.theirs)

    def _is_alike(self) -> bool:
        return self.correlation is not None and self.correlation >= UNLIKE

    def _is_rounded(self, theirs: Floats, slack: float = 1.0) -> bool:
        """Say whether the formats alone explain the difference: no number is off by more than a step.

        Equal formats explain nothing, unless factors were multiplied in and rounded.
        """
        if slack == 1.0 and self.formats[0] == self.formats[1]:
            return False
        return bool(np.mean(self._apart(theirs) <= slack * _STEP * self.steps) >= _KEPT)

    @cached_property
    def difference(self) -> Floats:
        """How far both sides are apart at each place."""
        return np.asarray(np.abs(self.mine - self.theirs))

    def _apart(self, theirs: Floats) -> Floats:
        return self.difference if theirs is self.theirs else np.asarray(np.abs(self.mine - theirs))

    @cached_property
    def zeros(self) -> float:
        """The candidate's share of zeros."""
        return float(np.mean(self.mine == 0))

    def _is_sparse(self) -> bool:
        if self.zeros < _SPARSE or np.mean(self.theirs == 0) > _BASE_SPARSE:
            return False
        return self.kept is not None and self.kept >= _KEPT

    @cached_property
    def kept(self) -> float | None:
        """Share of the numbers left by zeros that are still those of the base; None without zeros."""
        held = self.mine != 0
        if held.all() or not held.any():
            return None
        return float(np.mean(self.difference[held] <= _STEP * self.steps[held]))

    def _two_of_four(self) -> float | None:
        if self.mine.ndim != 2:
            return None
        lines = self.mine.T if self.block.facing.transposed[0] else self.mine
        if lines.shape[1] % 4:
            return None
        zeros = (lines == 0).reshape(-1, 4).view(np.uint8)
        # Column by column: a sum along an axis of four is ten times as slow.
        return float(np.mean(zeros[:, 0] + zeros[:, 1] + zeros[:, 2] + zeros[:, 3] >= 2))


def _size(values: Floats) -> float:
    return math.sqrt(float(np.mean(np.square(values, dtype=np.float64))))


def _correlation(mine: Floats, theirs: Floats) -> float | None:
    left, right = (side.astype(np.float64) - side.mean(dtype=np.float64) for side in (mine, theirs))
    norm = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
    # Constants minus their mean are rounding errors, not zero.
    if norm <= _CONSTANT * float(np.linalg.norm(mine)) * float(np.linalg.norm(theirs)) or not norm:
        return None
    return float(left.ravel() @ right.ravel()) / norm
