"""Evidence of every kind as rows of one table, as the JSON, the CSV and the reports list it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, fields

from modelkin.comparison import Comparison
from modelkin.comparison.methods import (
    Agreement,
    Effect,
    Evidence,
    Likeness,
    Rank,
    Skipped,
    Status,
    Tested,
)
from modelkin.message import Message

REORDERED = "reordered"
"""Stands among the flags of a row, which are names; `Tested` has it as a fact."""
Details = Mapping[str, float | int | str | Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """One piece of evidence, with None for what its kind does not have; the object of the JSON."""

    method: str
    version: str
    component: str
    axis: str
    role: str | None
    layers: tuple[int, ...]
    base_layers: tuple[int, ...]
    frame: str
    statistic: float | None = None
    z: float | None = None
    log10_p: float | None = None
    log10_p_extrapolated: float | None = None
    effect: Effect | None = None
    n: int | None = None
    n_features: int | None = None
    n_matched: int | None = None
    detection_limit: float | None = None
    exact: bool
    null: Message
    flags: tuple[str, ...] = ()
    status: Status
    reason: Message | None = None
    details: Details


_ABOUT = ("method", "version", "component", "axis", "role", "layers", "base_layers", "frame", "null")
_NUMBERS = (
    *("statistic", "z", "log10_p", "log10_p_extrapolated", "effect", "n", "n_features", "n_matched"),
    "detection_limit",
)


def evidence_row(test: Evidence) -> EvidenceRow:
    """Return the row of a piece of evidence."""
    found = {name: getattr(test, name) for name in (*_ABOUT, "exact", "status")}
    match test:
        case Tested():
            found |= {name: getattr(test, name) for name in _NUMBERS}
            found |= {"flags": (*test.flags, REORDERED) if test.reordered else test.flags}
        case Agreement():
            found |= {"statistic": test.statistic, "effect": test.effect, "n": test.n}
            found |= {"log10_p": test.rank.log10_p} if test.rank else {}
        case Likeness():
            found |= {"n": test.n}
        case Skipped():
            found |= {"reason": test.reason}
    return EvidenceRow(**found, details=details_of(test))


def evidence_of(row: EvidenceRow) -> Evidence | None:
    """Return what a row was made of; None where its numbers belong to no kind of evidence."""
    made = _evidence_of(row)
    return made if made is not None and evidence_row(made) == row else None


def _evidence_of(row: EvidenceRow) -> Evidence | None:
    about = {name: getattr(row, name) for name in _ABOUT}
    rest = dict(row.details)
    if row.status == "skipped":
        return None if row.reason is None else Skipped(**about, exact=row.exact, reason=row.reason)
    if row.exact:
        if None in (row.statistic, row.log10_p, row.effect, row.n, row.n_matched):
            return None
        sign_free = bool(rest.pop("sign_free", 0))
        numbers = {name: getattr(row, name) for name in _NUMBERS}
        return Tested(
            **about,
            **numbers,
            sign_free=sign_free,
            reordered=REORDERED in row.flags,
            flags=tuple(flag for flag in row.flags if flag != REORDERED),
            details=rest,
        )
    if row.effect is not None and row.statistic is not None and row.n is not None:
        rank = None
        if row.log10_p is not None:
            n_pairs, largest = rest.pop("control_pairs", None), rest.pop("largest_control", None)
            if not isinstance(n_pairs, int) or not isinstance(largest, float | int):
                return None
            rank = Rank(log10_p=row.log10_p, control_pairs=n_pairs, largest_control=float(largest))
        return Agreement(
            **about, statistic=row.statistic, effect=row.effect, n=row.n, rank=rank, details=rest
        )
    found = [rest.get(name) for name in ("share_equal", "cosine", "pearson")]
    share, cosine, pearson = (float(item) if isinstance(item, float | int) else None for item in found)
    if row.n is None or share is None:
        return None
    return Likeness(**about, n=row.n, share_equal=share, cosine=cosine, pearson=pearson)


def details_of(test: Evidence) -> Details:
    """Return what is told beside the numbers, by name."""
    match test:
        case Tested():
            return {**test.details, **({"sign_free": 1} if test.sign_free else {})}
        case Agreement():
            rank = test.rank
            if rank is None:
                return test.details
            about = {"control_pairs": rank.control_pairs, "largest_control": rank.largest_control}
            return {**test.details, **about}
        case Likeness():
            alike = {"share_equal": test.share_equal, "cosine": test.cosine, "pearson": test.pearson}
            known = {name: value for name, value in alike.items() if value is not None}
            return {"tensor": test.role or "", "values": test.n, **known}
        case Skipped():
            return {}


_COLUMNS = (
    *("method", "version", "component", "role", "layers", "axis", "n", "n_features", "statistic", "z"),
    *("log10_p", "log10_p_extrapolated", "effect", "low", "high", "n_matched", "detection_limit", "exact"),
    *("status", "reason", "flags"),
)


def tensors_csv(result: Comparison) -> str:
    """Write one row for each piece of evidence, numbers unrounded; what was not measured is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for test in result.evidence:
        row = evidence_row(test)
        effect = row.effect
        writer.writerow(
            {item.name: getattr(row, item.name) for item in fields(row)}
            | {
                "layers": " ".join(map(str, row.layers)),
                "effect": effect.value if effect else None,
                "low": effect.low if effect else None,
                "high": effect.high if effect else None,
                "exact": str(row.exact).lower(),
                "flags": "; ".join(row.flags),
            }
        )
    return text.getvalue()
