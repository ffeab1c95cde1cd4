"""One tensor of both models, subtracted: what became of it, from numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from modelkin.stats import root_mean_square

from .directed import beside_a_direction
from .facing import FacingTensors
from .lattice import Lattice, find_lattice, level_steps
from .result import Side, TensorChange, Word
from .scales import mixed_in_heads, with_factors
from .spectrum import Spectrum, spectrum
from .steps import effective_format, stored_steps
from .ternary import follows

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]

UNLIKE = 0.2
"""Correlation below which two tensors are unlike. Chance alone stays far below it; output heads of strangers
trained on the same text reach 0.15."""
ALIKE = 0.7
"""Correlation from which two tensors are alike without any test: strangers reach 0.15 in matrices and 0.43 in
gains, heavy fine-tunes of the zoo have 0.73 and more."""
_ON_CODE = 0.9
"""Share of values that must be within one step of their level. Rounding leaves none outside; GPTQ compensates
its errors and leaves some."""
_STRUCTURED = 1.15
"""Above this, the largest singular value of a difference is not chance: random signs vary by two percent."""
_MORE_ZEROS = 0.02
"""Share of numbers that are zero on one side only, from which zeros were set: eight-bit levels, and the
smallest numbers of formats with few exponents, round one in a hundred to zero."""
_AT_ZEROS = 2.0
"""Size of the differences at the base's zeros over that of others, from which zeros were set there. Training
on from a base with zeros moves both alike; the smaller half of normal numbers has 0.35 of their size, three
times what fine-tunes of the zoo change."""
_AS_ROUNDED = 0.3
"""Size of differences that rounding to levels leaves, in units of a step over the square root of twelve: 1 on
even levels, 0.5 on those of tables. Smaller ones are changes of a model that was on levels before."""
_STILL_EQUAL = 0.2
"""Share of equal numbers, beyond what normal noise of the size of the changes leaves equal, from which it was
not noise: heavy-tailed noise (Laplace) of two steps has 0.1 more of them."""
_MOST_COUNTED = 1 << 18
"""Numbers on which that share is counted: its error is a thousandth then."""
_MOST_NOISE = 0.4
"""Largest change without structure that is called noise, relative to the weights: the table of kinds adds up
to 0.3 of them. The spectrum of a small matrix that was trained for long (0.5 to 0.8) can look as random."""
_MOST_TRAINED = 0.95
"""Largest change that is called training, relative to the weights: heavy fine-tunes of the zoo reach 0.88. A
change as large as the weights is also what units that were split or matched to others leave."""
KEPT = 0.999
"""Share of values that must be within a step: converters treat a few tiny numbers in their own way. None may
be further off than a step of the others."""
_FEW = 0.01
"""Share of values up to which they were changed one by one, if all others are as they were. Directions and
noise change all numbers, and whatever becomes of so few has few directions and random signs."""
_SOME = 0.1
"""The same, where the changes have no structure either."""
_MANY_STEPS = 4.0
"""Median of these changes, in steps, from which it was no change of all numbers that storing hid: such a
change shows where numbers are small, and moves half of them by a step."""
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
    levels: tuple[Lattice, Floats, Side] | None = field(default=None, repr=False)
    """Levels of one side and their distances, if the order or coordinates they were made in were undone."""
    steps: Floats | None = field(default=None, repr=False)
    """For numbers rotated into other coordinates: the rounding error at each place."""
    places: tuple[Places, Places] | None = None
    """Rows and columns of the base that these are, if that is known."""


def measure(block: Block, *, seed: int) -> TensorChange | None:
    """Say what became of a tensor; None if it has no finite numbers."""
    mine, theirs = block.candidate, block.base
    if not mine.size or not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
        return None
    formats = effective_format(mine, block.dtypes[0]), effective_format(theirs, block.dtypes[1])
    steps = block.steps
    if steps is None:
        steps = np.maximum(stored_steps(mine, formats[0]), stored_steps(theirs, formats[1]))
        if formats != block.dtypes:
            # A coarse number in a finer format still has its steps: those of F16 do not shrink.
            steps = np.maximum(steps, _finest(block))
    return _Measured(block, formats, steps, seed).change()


def _finest(block: Block) -> Floats:
    """Return the steps of the finer of both stored formats: what converting into it leaves."""
    mine, theirs = (
        stored_steps(values, dtype)
        for values, dtype in zip((block.candidate, block.base), block.dtypes, strict=True)
    )
    return np.asarray(np.minimum(mine, theirs))


class _Measured:
    def __init__(self, block: Block, formats: tuple[str, str], steps: Floats, seed: int) -> None:
        self.block, self.formats, self.steps, self.seed = block, formats, steps, seed
        self.mine, self.theirs = block.candidate, block.base
        self.matrix = self.mine.ndim == 2 and min(self.mine.shape) >= _FEWEST_ROWS
        self.lattice: Lattice | None = None
        self.spectrum: Spectrum | None = None
        self.refitted = False
        self.lost_in: Side | None = None

    def change(self) -> TensorChange:
        block, mine, theirs = self.block, self.mine, self.theirs
        what = self._word()
        difference = self.difference
        size, step, change = self.base_size, root_mean_square(self.steps), self.change_size
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
            share_equal=_share(mine == theirs),
            share_within_a_step=_share(difference <= _STEP * self.steps),
            relative_change=change / size if size else float(difference.any()),
            change_in_steps=change / step if step else 0.0,
            resolution=step / size if size else 0.0,
            cosine=self.correlation,
            zeros=self.zeros,
            base_zeros=self.base_zeros,
            two_of_four=self._two_of_four(),
            kept_equal=self.kept,
            rank=found.rank if found and what != "quantised" else None,
            rank_most=found.most if found and what != "quantised" else None,
            left_in_steps=found.left if found and math.isfinite(found.left) else None,
            over_chance=found.over_chance if found else None,
            over_marchenko_pastur=found.over_marchenko_pastur if found else None,
            bits=few.bits if few else None,
            group=few.group if few else None,
            levels=few.levels if few else None,
            reordered=block.reordered,
            refitted=self.refitted,
            lost_in=self.lost_in,
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
        elif self._is_edited(_FEW):
            return "edited"
        if self.thinned is not None and self.kept is not None and self.kept >= KEPT:
            self.lost_in = self.thinned
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
        self.lattice, levels, side = self._levels()
        word, steps = self._word_on_levels(theirs, levels, side)
        if word is not None:
            return word
        if side == "base":
            self.lattice = None  # what was done to a model on levels is told without them
        if how is None:
            fitted, better = self._refitted()
            if better is not None:
                return self._word_of(fitted, better)
        if how is None and not self._is_on_three() and self._is_thinned():
            # What became of the rest cannot be told from what makes up for zeros.
            self.lost_in = self.thinned
            return "sparse"
        self.spectrum = found = spectrum(self.mine - theirs, steps, seed=self.seed)
        # In small matrices, factors around one direction look like many of them.
        if found.over_chance > _STRUCTURED and found.rank not in (1, 2) and how is None:
            self._find_direction(steps)
        if self.spectrum.rank:
            return "low-rank"
        size = self._relative(theirs)
        if self.spectrum.over_chance <= _STRUCTURED:
            if how is None and self._is_edited(_SOME):
                return "edited"
            return "noise" if size <= _MOST_NOISE and not self._is_equal_beside() else "changed"
        return "trained" if size <= _MOST_TRAINED else "changed"

    def _find_direction(self, steps: Floats) -> None:
        """Undo factors of rows or columns that hide a change of one direction."""
        for difference in beside_a_direction(self.mine, self.theirs):
            found = spectrum(difference, steps, seed=self.seed)
            if found.rank == 1:
                self.spectrum, self.refitted = found, True
                return

    def _word_on_levels(
        self, theirs: Floats, levels: Floats | None, side: Side | None
    ) -> tuple[Word | None, Floats]:
        """Name a change that rounding to levels explains, and return the steps of what is left to explain."""
        ternary = self._is_on_three()
        if levels is None or (ternary and side == "candidate" and self._is_ternary(theirs)):
            return None, self.steps  # of two that are on so few levels, neither is the other one rounded
        steps = np.maximum(self.steps, levels)
        if root_mean_square(self._apart(theirs)) < _AS_ROUNDED * root_mean_square(steps) / math.sqrt(12):
            return None, self.steps
        if ternary:
            # Zero is one of the levels, and what they leave is as large as what training does.
            self.lost_in = side
            coarse, fine = (theirs, self.mine) if side == "base" else (self.mine, theirs)
            return ("quantised" if follows(coarse, fine, levels) else "changed"), steps
        if _share(self._apart(theirs) <= _CODE_STEP * steps) >= _ON_CODE:
            self.lost_in = side
            self.spectrum = spectrum(self.mine - theirs, steps, seed=self.seed)
            return "quantised", steps
        return None, steps

    def _is_on_three(self) -> bool:
        """Say whether one side is on three levels, one of which is zero: its zeros were not set."""
        return self.lattice is not None and self.lattice.levels == "ternary"

    def _is_ternary(self, theirs: Floats) -> bool:
        found, _ = self._levels_of(theirs, self.formats[1])
        return found is not None and found.levels == "ternary"

    def _relative(self, theirs: Floats) -> float:
        """Return the size of the change over that of the base, which is as stored or has factors undone."""
        as_stored = theirs is self.theirs
        size = self.base_size if as_stored else root_mean_square(theirs)
        change = self.change_size if as_stored else root_mean_square(self._apart(theirs))
        return change / size if size else math.inf

    def _levels(self) -> tuple[Lattice | None, Floats | None, Side | None]:
        """Look for levels along lines, and along columns if lines are stored input-first.

        In the candidate first, then in the base: either may be the one that was quantised.
        """
        if self.block.levels is not None:
            return self.block.levels
        if self.block.steps is not None:
            return None, None, None
        sides: tuple[Side, ...] = ("candidate",) if self.block.reordered else ("candidate", "base")
        for side in sides:
            held, format_ = (self.mine, self.formats[0])
            if side == "base":
                held, format_ = (self.theirs, self.formats[1])
            found, levels = self._levels_of(held, format_)
            if found is not None:
                return found, levels, side
        return None, None, None

    def _levels_of(self, values: Floats, stored: str) -> tuple[Lattice | None, Floats | None]:
        for turned in (False, True) if self.block.facing.transposed[0] else (False,):
            held = np.ascontiguousarray(values.T if turned else values)
            # From one side alone: a coarser other one does not blur its levels.
            found = find_lattice(held, lambda some: stored_steps(some, stored))
            if found is not None:
                levels = level_steps(held, found)
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

        Equal formats explain nothing, unless factors were multiplied in and rounded. Numbers as coarse as
        each other that are stored in two formats differ by what the finer one could not hold: BF16 has
        smaller numbers than F16.
        """
        steps = self.steps
        if slack == 1.0 and self.formats[0] == self.formats[1]:
            if self.block.dtypes[0] == self.block.dtypes[1]:
                return False
            steps = _finest(self.block)
        apart, most = self._apart(theirs), slack * _STEP * steps
        if _share(apart <= most) < KEPT:
            return False
        # Numbers that are further off are tiny: none by more than others may be.
        return bool(np.all(apart <= np.maximum(most, np.float32(root_mean_square(most)))))

    def _is_edited(self, most: float) -> bool:
        """Say whether few numbers of a matrix were changed, by much, and no others."""
        if self.mine.ndim != 2:
            return False
        moved = self.difference > _STEP * self.steps
        if not 0 < np.count_nonzero(moved) <= max(1.0, most * moved.size):
            return False
        held = self.difference[~moved]
        if self.formats[0] == self.formats[1] and 10 * np.count_nonzero(held) > np.count_nonzero(moved):
            return False
        return float(np.median(self.difference[moved] / self.steps[moved])) >= _MANY_STEPS

    @cached_property
    def difference(self) -> Floats:
        """How far both sides are apart at each place."""
        return np.asarray(np.abs(self.mine - self.theirs))

    @cached_property
    def change_size(self) -> float:
        """The root mean square of the difference."""
        return root_mean_square(self.difference)

    @cached_property
    def base_size(self) -> float:
        """The root mean square of the base."""
        return root_mean_square(self.theirs)

    def _apart(self, theirs: Floats) -> Floats:
        return self.difference if theirs is self.theirs else np.asarray(np.abs(self.mine - theirs))

    @cached_property
    def zeros(self) -> float:
        """The candidate's share of zeros."""
        return _share(self.mine == 0)

    @cached_property
    def base_zeros(self) -> float:
        """The base's share of zeros."""
        return _share(self.theirs == 0)

    @cached_property
    def thinned(self) -> Side | None:
        """The side that has zeros where the other one has none; None if neither has clearly more."""
        if abs(self.zeros - self.base_zeros) < _MORE_ZEROS:
            return None
        return "candidate" if self.zeros > self.base_zeros else "base"

    @cached_property
    def kept(self) -> float | None:
        """Share of the numbers left by zeros that are still those of the other side; None without zeros."""
        held = (self.theirs if self.thinned == "base" else self.mine) != 0
        if held.all() or not held.any():
            return None
        return _share(self.difference[held] <= _STEP * self.steps[held])

    def _is_thinned(self) -> bool:
        """Say whether zeros were set, while other numbers changed too.

        Zeros of the base alone may also have been there before: levels have them, and training moves them as
        far as other numbers.
        """
        if self.thinned != "base":
            return self.thinned is not None
        at = (self.theirs == 0) & (self.mine != 0)
        if at.all():
            return True
        zeros, others = (root_mean_square(self.difference[where]) for where in (at, ~at))
        return zeros >= _AT_ZEROS * others

    def _is_equal_beside(self) -> bool:
        """Say whether more numbers are equal than noise of the size of the changes would leave.

        Numbers of one power of two have one step, and noise of about one size: each power counts by itself.
        """
        if np.count_nonzero(self.difference == 0) <= _STILL_EQUAL * self.difference.size:
            return False
        some = np.random.default_rng([self.seed, 71]).permutation(len(self.mine))
        some = some[: max(1, _MOST_COUNTED // self.mine.shape[1])]
        powers = np.frexp(self.theirs[some])[1].ravel().astype(np.int16)
        order = np.argsort(powers, kind="stable")  # once, and each power is a slice
        starts = np.flatnonzero(np.diff(powers[order])) + 1
        more = 0.0
        for apart, steps in zip(
            *(np.split(values[some].ravel()[order], starts) for values in (self.difference, self.steps)),
            strict=True,
        ):
            size = root_mean_square(apart)
            half = float(np.median(steps)) / 2
            by_noise = math.erf(half / (math.sqrt(2) * size)) if size else 1.0
            more += float(np.count_nonzero(apart == 0)) - by_noise * apart.size
        return more > _STILL_EQUAL * order.size

    def _two_of_four(self) -> float | None:
        if self.mine.ndim != 2:
            return None
        held = self.theirs if self.lost_in == "base" else self.mine
        lines = held.T if self.block.facing.transposed[0] else held
        if lines.shape[1] % 4:
            return None
        zeros = (lines == 0).reshape(-1, 4).view(np.uint8)
        # Column by column: a sum along an axis of four is ten times as slow.
        return _share(zeros[:, 0] + zeros[:, 1] + zeros[:, 2] + zeros[:, 3] >= 2)


def _share(where: npt.NDArray[np.bool_]) -> float:
    return np.count_nonzero(where) / where.size  # a mean would make doubles of them first


def _correlation(mine: Floats, theirs: Floats) -> float | None:
    left, right = (np.atleast_2d(side - np.float32(side.mean(dtype=np.float64))) for side in (mine, theirs))
    norm = root_mean_square(left) * root_mean_square(right)
    # Constants minus their mean are rounding errors, not zero.
    if norm <= _CONSTANT * root_mean_square(mine) * root_mean_square(theirs) or not norm:
        return None
    products = float(np.einsum("ij,ij->i", left, right).sum(dtype=np.float64))
    return products / left.size / norm
