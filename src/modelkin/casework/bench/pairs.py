"""Labelled pairs from a table, or those of published benchmarks that come with the package."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from modelkin.errors import StudyError, UsageError
from modelkin.message import said_by, say

COLUMNS = ("source", "model_a", "model_b", "label", "relation", "note")
PUBLIC = "public"
"""Word for the pairs that come with the package; ``public:AWM`` takes those of one benchmark."""
_MOST_BYTES = 50_000_000
"""Half a million pairs; nothing longer is a table of pairs."""

Truth = Literal["related", "independent", "unclear"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPair:
    """Two models and what is known about them."""

    source: str
    """Who says so: the benchmark."""
    base: str
    candidate: str
    label: str
    """``related``, ``independent``, or another word for pairs that are not counted."""
    relation: str
    note: str = ""

    @property
    def truth(self) -> Truth:
        """Whether the pair counts as related or independent, or does not count."""
        return self.label if self.label in ("related", "independent") else "unclear"  # type: ignore[return-value]

    @property
    def group(self) -> str:
        """What it is counted under."""
        return self.relation or ("independent" if self.truth == "independent" else "unnamed relation")


def read_pairs(place: str) -> tuple[LabelledPair, ...]:
    """Read a table with the columns source, model_a (base), model_b (candidate), label, relation and note.

    ``public`` stands for all pairs that come with the package, ``public:NAME`` for those of one benchmark.
    Raises `UsageError` if there is no such file or benchmark, and `StudyError` with the line that breaks the
    rules of the table.
    """
    word, _, source = place.partition(":")
    if word == PUBLIC and not Path(place).exists():
        return _public(source)
    try:
        with Path(place).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        hint = say("hint.public-pairs", names=(PUBLIC, *(f"{PUBLIC}:{name}" for name in public_sources())))
        raise UsageError(place, say("problem.pairs-unread", why=said_by(error)), hint=hint) from error
    if len(data) > _MOST_BYTES:
        raise StudyError(place, say("problem.most-bytes", most=_MOST_BYTES))
    return parse_pairs(data, where=place)


def parse_pairs(data: bytes, *, where: str) -> tuple[LabelledPair, ...]:
    """Read the contents of a table."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StudyError(where, say("problem.not-utf8-at", start=error.start)) from error
    lines = csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    found: list[LabelledPair] = []
    for number, cells in enumerate(lines, start=1):
        if number == 1:
            if tuple(cells[:5]) != COLUMNS[:5]:
                raise StudyError(where, say("problem.first-line-columns", columns=", ".join(COLUMNS)))
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if not 5 <= len(cells) <= 6:
            raise StudyError(where, say("problem.line-columns", number=number, n=len(COLUMNS), m=len(cells)))
        source, base, candidate, label, relation, *note = (cell.strip() for cell in cells)
        if not base or not candidate or not label:
            raise StudyError(where, say("problem.line-pair", number=number))
        found.append(
            LabelledPair(
                source=source,
                base=base,
                candidate=candidate,
                label=label,
                relation=relation,
                note="".join(note),
            )
        )
    if not found:
        raise StudyError(where, say("problem.one-pair"))
    return tuple(found)


def public_sources() -> dict[str, int]:
    """Return the published benchmarks that come with the package, and how many pairs each has."""
    return dict(Counter(pair.source for pair in _all_public()))


def _all_public() -> tuple[LabelledPair, ...]:
    file = resources.files("modelkin.casework.bench").joinpath("data", "public_pairs.tsv")
    return parse_pairs(file.read_bytes(), where="public pairs")


def _public(source: str) -> tuple[LabelledPair, ...]:
    found = tuple(pair for pair in _all_public() if source in ("", pair.source))
    if not found:
        raise UsageError(
            source, say("problem.no-benchmark"), hint=say("hint.known", names=tuple(public_sources()))
        )
    return found
