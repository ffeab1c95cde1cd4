"""Evidence of every kind as rows of one table, as JSON, CSV and reports list it; changed tensors as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeGuard

from modelkin.comparison import Comparison, ModelDiff
from modelkin.comparison.methods import (
    Agreement,
    Contrast,
    Effect,
    Evidence,
    Likeness,
    Mismatched,
    Rank,
    Skipped,
    Status,
    Tested,
)
from modelkin.comparison.relation import TensorChange, TensorCount
from modelkin.message import Message
from modelkin.untrusted import csv_text

EvidenceClass = Literal["exact", "own-layers", "rank", "none"]
"""What a p-value rests on: a null alone, mismatched layers of the same two models, or controls."""
REORDERED = "reordered"
"""Appears among the flags of a row, which are names; `Tested` has it as a field."""
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

_CONTRASTED = ("statistic", "log10_p", "effect", "n", "n_matched")


def evidence_class(test: Evidence) -> EvidenceClass:
    """Say what the p-value of a piece of evidence rests on, or would if it had been made."""
    match test:
        case Contrast():
            return "own-layers"
        case Agreement():
            return "rank" if test.rank else "none"
        case _:
            return "exact" if test.exact else "none"


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
        case Contrast():
            found |= {name: getattr(test, name) for name in _CONTRASTED}
        case Likeness():
            found |= {"n": test.n}
        case Skipped():
            found |= {"reason": test.reason}
    return EvidenceRow(**found, details=details_of(test))


def evidence_of(row: EvidenceRow) -> Evidence | None:
    """Return what a row was made from; None if its numbers belong to no kind of evidence."""
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
    if row.n_matched is not None:
        return _contrast_of(row)
    if row.effect is not None and row.statistic is not None and row.n is not None:
        rank = None
        if row.log10_p is not None:
            n_pairs, largest = rest.pop("control_pairs", None), rest.pop("largest_control", None)
            if not isinstance(n_pairs, int) or not isinstance(largest, float | int):
                return None
            packaged = rest.pop("packaged_pairs", 0)
            rank = Rank(
                log10_p=row.log10_p,
                control_pairs=n_pairs,
                largest_control=float(largest),
                packaged_pairs=packaged if isinstance(packaged, int) else 0,
            )
        return Agreement(
            **about, statistic=row.statistic, effect=row.effect, n=row.n, rank=rank, details=rest
        )
    found = [rest.get(name) for name in ("share_equal", "cosine", "pearson")]
    share, cosine, pearson = (float(item) if isinstance(item, float | int) else None for item in found)
    if row.n is None or share is None:
        return None
    return Likeness(**about, n=row.n, share_equal=share, cosine=cosine, pearson=pearson)


def _contrast_of(row: EvidenceRow) -> Contrast | None:
    rest = dict(row.details)
    if None in (row.statistic, row.log10_p, row.effect, row.n):
        return None
    own = [rest.pop(name, None) for name in ("mismatched_pairs", "largest_mismatched", "mismatched_limit")]
    n_pairs, largest, limit = own
    if not isinstance(n_pairs, int) or not _is_number(largest) or not _is_number(limit):
        return None
    same = rest.pop("same_numbers", None)
    if same is not None and not _is_number(same):
        return None
    could = rest.pop("could_agree", 1.0)
    if not _is_number(could):
        return None
    ranks = [_popped_rank(rest, names) for names in (_CONTROL_RANK, _ARCHIVE_RANK)]
    return Contrast(
        **{name: getattr(row, name) for name in (*_ABOUT, *_CONTRASTED)},
        mismatched=Mismatched(n_pairs=n_pairs, largest=float(largest), limit=float(limit)),
        rank=ranks[0],
        archive=ranks[1],
        could_agree=float(could),
        same_numbers=None if same is None else float(same),
        details=rest,
    )


_CONTROL_RANK = ("control_rank", "control_pairs", "largest_control")
_ARCHIVE_RANK = ("archive_rank", "archive_pairs", "largest_archived")


def _popped_rank(rest: dict[str, float | int | str | Message], names: tuple[str, str, str]) -> Rank | None:
    log10_p, n_pairs, largest = (rest.get(name) for name in names)
    if not _is_number(log10_p) or not isinstance(n_pairs, int) or not _is_number(largest):
        return None
    for name in names:
        del rest[name]
    return Rank(log10_p=float(log10_p), control_pairs=n_pairs, largest_control=float(largest))


def _rank_details(rank: Rank | None, names: tuple[str, str, str]) -> Details:
    if rank is None:
        return {}
    return dict(zip(names, (rank.log10_p, rank.control_pairs, rank.largest_control), strict=True))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, float | int)


def details_of(test: Evidence) -> Details:
    """Return what is reported with the numbers, by name."""
    match test:
        case Tested():
            return {**test.details, **({"sign_free": 1} if test.sign_free else {})}
        case Agreement():
            rank = test.rank
            if rank is None:
                return test.details
            about = {"control_pairs": rank.control_pairs, "largest_control": rank.largest_control}
            packaged = {"packaged_pairs": rank.packaged_pairs} if rank.packaged_pairs else {}
            return {**test.details, **about, **packaged}
        case Contrast():
            own = test.mismatched
            return {
                **({} if test.could_agree == 1 else {"could_agree": test.could_agree}),
                **test.details,
                "mismatched_pairs": own.n_pairs,
                "largest_mismatched": own.largest,
                "mismatched_limit": own.limit,
                **({} if test.same_numbers is None else {"same_numbers": test.same_numbers}),
                **_rank_details(test.rank, _CONTROL_RANK),
                **_rank_details(test.archive, _ARCHIVE_RANK),
            }
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
    """Write one row per piece of evidence, numbers unrounded; what was not measured is empty."""
    rows = []
    for test in result.evidence:
        row = evidence_row(test)
        effect = row.effect
        cells = {item.name: getattr(row, item.name) for item in fields(row)} | {
            "layers": " ".join(map(str, row.layers)),
            "effect": effect.value if effect else None,
            "low": effect.low if effect else None,
            "high": effect.high if effect else None,
            "exact": str(row.exact).lower(),
            "flags": "; ".join(row.flags),
        }
        rows.append([cells[name] for name in _COLUMNS])
    return csv_text(_COLUMNS, rows)


def changes_csv(result: ModelDiff) -> str:
    """Write one row per tensor, numbers unrounded: all values if they were counted, else samples."""
    rows: tuple[TensorCount, ...] | tuple[TensorChange, ...] = result.counts or result.tensors
    kind: type[TensorCount | TensorChange] = TensorCount if result.counts else TensorChange
    names = [item.name for item in fields(kind)]
    return csv_text(names, ([getattr(row, name) for name in names] for row in rows))
