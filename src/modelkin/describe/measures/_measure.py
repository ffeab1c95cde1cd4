"""What a measure is: a name, bounds, a function over stacked vectors; and how it is applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, Phrase, phrase, say

from ._functions import Expectation, Function
from ._pairs import Pairs
from .stack import PART_VALUES, Fault, Stack

USELESS = Fault.EMPTY | Fault.NOT_FINITE


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of two vectors."""

    name: str
    """In options and tables."""
    function: Function = field(repr=False)
    """From two stacks and pairs of rows to one number per pair."""
    expectation: Expectation | None = field(repr=False)
    """Its mean over all reorderings of one vector's values, and its standard deviation if that is known
    exactly; None if neither is known."""
    low: float
    high: float | None
    """Upper bound of its values; None means none."""
    _: KW_ONLY
    refuses: Fault = USELESS
    """Rows for which it has no meaning: the result is then a reason."""
    symmetric: bool = True
    """Whether swapping the vectors leaves it unchanged."""
    same_format: bool = False
    """Whether it is about stored numbers, so that both rows must be stored alike."""
    undefined: str = "measure-no-number"
    """What is reported if the function returns NaN."""

    def __call__(self, a: Stack, b: Stack, pairs: Pairs | None = None) -> MeasuredPairs:
        """Measure pairs of rows, by default all of them (row by row of the first stack)."""
        return measured(self, a, b, Pairs.grid(len(a), len(b)) if pairs is None else pairs)

    def grid(self, a: Stack, b: Stack) -> np.ma.MaskedArray[Any, Any]:
        """Measure all pairs; rows of `a` are rows of the matrix. What was not measured is masked."""
        return self(a, b).values.reshape(len(a), len(b))

    @property
    def title(self) -> Phrase:
        """What headings call it."""
        return phrase(f"measures.{self.name}.title")

    @property
    def meaning(self) -> Message:
        """What the number is."""
        return say(f"measures.{self.name}.meaning")

    @property
    def cannot_say(self) -> Message:
        """What does not follow from it."""
        return say(f"measures.{self.name}.cannot_say")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredPairs:
    """Numbers for pairs of rows; what was not measured is masked and has a reason."""

    values: np.ma.MaskedArray[Any, Any] = field(repr=False)
    reasons: npt.NDArray[np.object_] = field(repr=False)
    """A message if the value is masked, else None."""
    expected: np.ma.MaskedArray[Any, Any] = field(repr=False)
    """Mean over all reorderings of one vector's values; masked if unknown."""
    expected_sd: np.ma.MaskedArray[Any, Any] = field(repr=False)
    """Standard deviation over them; masked if not known exactly."""

    def __len__(self) -> int:
        return len(self.reasons)


def measured(measure: Measure, a: Stack, b: Stack, pairs: Pairs, *, expect: bool = False) -> MeasuredPairs:
    """Apply a measure to pairs of rows of `a` and `b`.

    Vectors of different lengths are not an error; they are not measured. With `expect`, the expectation under
    reordering is computed too; for some measures it costs more than they do.
    """
    if a.n != b.n:
        return _none(len(pairs), say("measure-lengths", n=a.n, m=b.n))
    reasons = _reasons(a.faults & measure.refuses, b.faults & measure.refuses, pairs)
    if measure.same_format:
        _add_formats(reasons, a, b, pairs)
    usable = _free(reasons)
    chosen = Pairs.of(pairs.first[usable], pairs.second[usable])
    values, spread = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    expected = np.full(len(pairs), np.nan)
    if len(chosen):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values[usable] = measure.function(a, b, chosen)
            if expect and measure.expectation is not None:
                mean, sd = measure.expectation(a, b, chosen)
                expected[usable] = mean
                if sd is not None:
                    spread[usable] = sd
    reasons[usable & np.isnan(values)] = say(measure.undefined)
    reasons[usable & np.isinf(values)] = say("measure-too-large")
    return MeasuredPairs(
        values=np.ma.masked_invalid(values),
        reasons=reasons,
        expected=np.ma.masked_invalid(expected),
        expected_sd=np.ma.masked_invalid(spread),
    )


@dataclass(frozen=True, slots=True, eq=False)
class PairsPart:
    """Some rows of two stacks, and the pairs among these rows."""

    a: Stack
    b: Stack
    pairs: Pairs
    at: npt.NDArray[np.intp]
    """Their places among all pairs."""


def parts_of(a: Stack, b: Stack, pairs: Pairs) -> Iterator[PairsPart]:
    """Yield pairs in parts whose features fit into memory, however long vectors are: usually one part."""
    step = min(a.rows_at_once, b.rows_at_once)
    if max(len(a), len(b)) <= step:
        yield PairsPart(a, b, pairs, np.arange(len(pairs)))
        return
    tiles = np.stack([pairs.first // step, pairs.second // step], axis=1)
    for one, other in np.unique(tiles, axis=0):
        at = np.flatnonzero((tiles[:, 0] == one) & (tiles[:, 1] == other))
        rows = [slice(int(number) * step, (int(number) + 1) * step) for number in (one, other)]
        inside = Pairs.of(pairs.first[at] - rows[0].start, pairs.second[at] - rows[1].start)
        yield PairsPart(a.part(rows[0]), b.part(rows[1]), inside, at)


def measured_all(
    measures: Sequence[Measure], a: Stack, b: Stack, pairs: Pairs, *, expect: bool = False
) -> dict[str, MeasuredPairs]:
    """Apply several measures to pairs of rows, part by part: what they share is computed once, then freed."""
    places: list[npt.NDArray[np.intp]] = []
    found: dict[str, list[MeasuredPairs]] = {measure.name: [] for measure in measures}
    for part in parts_of(a, b, pairs):
        places.append(part.at)
        sides = (part.a, part.b) if part.a.n > PART_VALUES else ()
        for side in sides:
            # What is wrong with rows is the same for all measures, and takes longer than any of them.
            _ = side.faults
            side.forget()
        for measure in measures:
            found[measure.name].append(measured(measure, part.a, part.b, part.pairs, expect=expect))
            for side in sides:
                side.forget()
    if not places:
        return {measure.name: measured(measure, a, b, pairs) for measure in measures}
    order = np.argsort(np.concatenate(places), kind="stable")
    return {name: _in_order(some, order) for name, some in found.items()}


def _in_order(parts: Sequence[MeasuredPairs], order: npt.NDArray[np.intp]) -> MeasuredPairs:
    if len(parts) == 1:
        return parts[0]

    def joined(name: str) -> np.ma.MaskedArray[Any, Any]:
        found = [getattr(part, name).filled(np.nan) for part in parts]
        return np.ma.masked_invalid(np.concatenate(found)[order])

    return MeasuredPairs(
        values=joined("values"),
        reasons=np.concatenate([part.reasons for part in parts])[order],
        expected=joined("expected"),
        expected_sd=joined("expected_sd"),
    )


def _none(n: int, reason: Message) -> MeasuredPairs:
    nothing = np.ma.masked_invalid(np.full(n, np.nan))
    reasons = _same(n, reason)
    return MeasuredPairs(values=nothing, reasons=reasons, expected=nothing, expected_sd=nothing)


def _reasons(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], pairs: Pairs) -> npt.NDArray[np.object_]:
    """Say why each pair cannot be measured; None if it can."""
    reasons = _same(len(pairs), None)
    first, second = pairs.pick(a, b)
    for at in np.flatnonzero(first | second):
        both = {"a": Fault(int(first[at])).message, "b": Fault(int(second[at])).message}
        said = [say("text.of_side", side=side, text=fault) for side, fault in both.items() if fault]
        if both["a"] == both["b"]:
            reasons[at] = say("fault.both", what=both["a"])
        else:
            reasons[at] = said[0] if len(said) == 1 else say("joined", parts=tuple(said))
    return reasons


def _same(n: int, reason: Message | None) -> npt.NDArray[np.object_]:
    return np.array([reason] * n, dtype=np.object_)


def _free(reasons: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
    return np.fromiter((reason is None for reason in reasons), dtype=np.bool_, count=len(reasons))


def _add_formats(reasons: npt.NDArray[np.object_], a: Stack, b: Stack, pairs: Pairs) -> None:
    mine = np.array([name or "" for name in a.formats], dtype=np.object_)[pairs.first]
    theirs = np.array([name or "" for name in b.formats], dtype=np.object_)[pairs.second]
    for at in np.flatnonzero((mine != theirs) & _free(reasons)):
        names = [name or say("word.unknown") for name in (mine[at], theirs[at])]
        reasons[at] = say("measure-formats", a=names[0], b=names[1])
