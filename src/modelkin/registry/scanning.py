"""One model against a whole registry: signs first, then the exact test, then `compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from modelkin.comparison import Comparison, compare
from modelkin.comparison.methods import Effect
from modelkin.errors import FormatError, ModelkinError
from modelkin.fingerprint import (
    BlockProduct,
    Fingerprint,
    FingerprintedModel,
    FingerprintProduct,
    FingerprintRows,
    FingerprintStack,
    fingerprint_product,
)
from modelkin.message import Message, say, told
from modelkin.model import Model
from modelkin.options import CompareOptions, Depth, FetchOptions
from modelkin.progress import Progress, Silent

from .coarse import LEAST_GRAM, LEAST_SCORE, CodeQuery, coarse_pass
from .segments import RegistryRow
from .store import Registry, RegistryCommit

SCAN_SCHEMA = "modelkin.scan/1"
LOG10_SIZE = 8.0
"""Every scan is corrected for a hundred million models. With the true number instead, a finding of today
could be none next year, only because the registry has grown."""
LOG10_FOUND = -6.0
"""What is left after that correction must be below this, as in `compare`."""
LEAST_COSINE = 0.6
"""Of Gram matrices of tokens, for a proposal. Unrelated models reach 0.46 on the zoo, students of one teacher
0.64, two trainings of one lab 0.59: it says where to look."""
_MOST_ROWS = 4_000
"""Most rows tested at 8 bits: those with the largest scores. Some bases have more descendants; then a scan
says so."""
_MOST_ALIKE = 1_000
"""Most rows tested because their tokens look alike, the most similar first. They have their own quota:
thousands of copies of one base would otherwise leave no room for weak relatives."""
_CAST_STEPS = 0.5
"""Root mean square difference of two fingerprints, in steps of 8 bits, up to which one is a cast of the
other: float16, bfloat16 and 8-bit blocks differ by 0.10 to 0.34, the lightest fine-tune of the zoo by 4.7."""
_NEAR = 32
"""Hits that one is compared with, to find out whether it is a cast."""
_AT_ONCE = 256
"""8-bit rows held at a time, 8 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """How a registry is scanned."""

    top: int = 20
    """Models that are listed."""
    verify: int = 5
    """Of those, how many are verified by `compare`."""
    verify_depth: Depth | None = "standard"
    """How much of each is read for that; None verifies nothing."""
    n_threads: int = 2
    log10_size: float = LOG10_SIZE
    fetch: FetchOptions = field(default_factory=FetchOptions)

    def __post_init__(self) -> None:
        if self.top < 1 or self.verify < 0 or self.n_threads < 1:
            raise ValueError("top, n_threads: expected at least 1; verify: expected at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What `compare` says about a hit, or why it was not run."""

    depth: Depth | None
    conclusion: str | None = None
    log10_p: float | None = None
    effect: Effect | None = None
    relation: str | None = None
    reason: Message | None = None
    comparison: Comparison | None = field(default=None, repr=False, metadata={"json": False})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanHit:
    """One model of the registry that is worth a look."""

    ref: str
    revision: str | None
    family: str | None
    parameters: int | None
    found: bool
    """Whether the fingerprints alone show a common origin."""
    proposed: bool
    """Whether the tokens look alike, up to a permutation or rotation: not evidence by itself."""
    log10_p: float
    """Corrected for all blocks of the pair and for the fixed size of the registry."""
    best: BlockProduct | None
    blocks: tuple[BlockProduct, ...]
    refused: tuple[str, ...]
    token_gram: float | None
    copies: tuple[str, ...]
    """Other models of the registry with the same fingerprint up to rounding: mirrors and casts."""
    verified: Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """What a scan found."""

    query: FingerprintedModel
    registry: str
    recipe: str
    n_models: int
    n_tested: int
    """Models that passed by their signs."""
    log10_size: float
    """The correction of every p-value for the registry's size."""
    threshold: float
    n_found: int
    n_proposed: int
    hits: tuple[ScanHit, ...]
    notes: tuple[Message, ...] = ()


def scan(
    query: Fingerprint,
    registry: Registry,
    options: ScanOptions | None = None,
    *,
    model: Model | None = None,
    progress: Progress | None = None,
) -> ScanResult:
    """Ask which models of a registry have a common origin with one model.

    Parameters
    ----------
    query
        The fingerprint of the model.
    model
        The model itself, for the verification of the best hits; without it nothing is verified.
    """
    options, told = options or ScanOptions(), progress or Silent()
    query.check(query.model.ref)
    damaged: dict[str, FormatError] = {}
    tested = _tested(query, registry, options, damaged)
    notes = tuple(
        say("scan-damaged", problem=say("error.said", where=name, problem=error.said))
        for name, error in damaged.items()
    )
    if tested.n_left:
        notes = (*notes, say("scan-many", n=tested.n_left + tested.n_tested, most=tested.n_tested))
    if not query.n_blocks:
        notes = (*notes, say("scan-nothing", model=query.model.ref))
    ranked = sorted(_hits(tested.found, log10_size=options.log10_size), key=_order)
    shown = _merged(ranked)[: options.top]
    hits = list(_verified(shown, model, options, told))
    return ScanResult(
        query=query.model,
        registry=registry.place.name,
        recipe=query.recipe,
        n_models=registry.n_rows - tested.n_unread,
        n_tested=tested.n_tested,
        log10_size=options.log10_size,
        threshold=LOG10_FOUND,
        n_found=sum(hit.found for hit, _ in ranked),
        n_proposed=sum(hit.proposed and not hit.found for hit, _ in ranked),
        hits=tuple(hits),
        notes=notes,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PassedRows:
    found: list[tuple[RegistryRow, FingerprintProduct]]
    """Rows whose blocks are worth the exact test."""
    n_tested: int
    n_left: int
    """Rows that passed by their signs but were too many to test."""
    n_unread: int


def _tested(
    query: Fingerprint, registry: Registry, options: ScanOptions, damaged: dict[str, FormatError]
) -> _PassedRows:
    """Test the rows that passed by their signs."""
    n_unread = 0

    def left_out(commit: RegistryCommit, error: FormatError) -> None:
        nonlocal n_unread
        n_unread += commit.n_rows
        damaged[commit.segment] = error

    seen = coarse_pass(CodeQuery(query), registry.codes(left_out), n_threads=options.n_threads)
    # Correlations of Gram matrices and scores have no common unit.
    scored, alike = seen.scores >= LEAST_SCORE, seen.grams >= LEAST_GRAM
    chosen = np.union1d(
        _largest(seen.rows, np.where(scored, seen.scores, 0.0), _MOST_ROWS),
        _largest(seen.rows, np.where(alike, seen.grams, 0.0), _MOST_ALIKE),
    )
    mine, stack = FingerprintRows(query), FingerprintStack([query])
    found: list[tuple[RegistryRow, FingerprintProduct]] = []
    n_tested = 0
    waiting = registry.each_row(chosen.tolist(), damaged=left_out)
    while rows := list(islice(waiting, _AT_ONCE)):
        n_tested += len(rows)
        made = [row.fingerprint() for row in rows]
        (worth,) = stack.worth(FingerprintStack(made), least_gram=LEAST_COSINE)
        found += [
            (rows[at], fingerprint_product(mine, FingerprintRows(made[at])))
            for at in np.flatnonzero(worth).tolist()
        ]
    return _PassedRows(found=found, n_tested=n_tested, n_left=len(seen.rows) - len(chosen), n_unread=n_unread)


def _largest(rows: npt.NDArray[np.intp], weights: npt.NDArray[np.float32], most: int) -> npt.NDArray[np.intp]:
    """Return the rows of largest weight, ties by order of addition; none if there are none."""
    order = np.argsort(-weights, kind="stable")[:most]
    return rows[order[weights[order] > 0.0]]


def _hits(
    tested: Sequence[tuple[RegistryRow, FingerprintProduct]], *, log10_size: float
) -> Iterator[tuple[ScanHit, RegistryRow]]:
    for row, product in tested:
        log10_p = min(0.0, product.log10_p + log10_size)
        hit = ScanHit(
            ref=row.ref,
            revision=row.revision,
            family=None if row.model is None else row.model.family,
            parameters=None if row.model is None else row.model.parameters,
            found=log10_p < LOG10_FOUND,
            proposed=product.token_gram is not None and product.token_gram >= LEAST_COSINE,
            log10_p=log10_p,
            best=product.best,
            blocks=product.blocks,
            refused=product.refused,
            token_gram=product.token_gram,
            copies=(),
            verified=Verification(depth=None, reason=say("scan-not-asked")),
        )
        if hit.found or hit.proposed:
            yield hit, row


def _merged(ranked: Sequence[tuple[ScanHit, RegistryRow]]) -> list[tuple[ScanHit, RegistryRow]]:
    """Merge all models with the same fingerprint up to rounding into one hit: mirrors and casts.

    Those have almost the same p, so each is compared with the hits just before it.
    """
    found: list[tuple[ScanHit, RegistryRow]] = []
    for hit, row in ranked:
        for at in range(len(found) - 1, max(-1, len(found) - 1 - _NEAR), -1):
            if _is_cast(found[at][1], row):
                first, kept = found[at]
                found[at] = replace(first, copies=(*first.copies, hit.ref)), kept
                break
        else:
            found.append((hit, row))
    return found


def _is_cast(one: RegistryRow, other: RegistryRow) -> bool:
    if one.data == other.data:
        return True
    if any(mine.n_units != theirs.n_units for mine, theirs in zip(one.slots, other.slots, strict=True)):
        return False
    mine, theirs = (np.frombuffer(row.data, np.int8).astype(np.float32) for row in (one, other))
    return float(np.sqrt(np.mean((mine - theirs) ** 2))) <= _CAST_STEPS


def _order(item: tuple[ScanHit, RegistryRow]) -> tuple[object, ...]:
    """Put the strongest first; of equal ones, such as mirrors, the one added first."""
    hit, _ = item
    strength = 0.0 if hit.best is None else abs(hit.best.effect)
    return not hit.found, hit.log10_p if hit.found else 0.0, -(hit.token_gram or 0.0), -strength


def _verified(
    shown: Sequence[tuple[ScanHit, RegistryRow]],
    model: Model | None,
    options: ScanOptions,
    progress: Progress,
) -> Iterator[ScanHit]:
    for number, (hit, row) in enumerate(shown):
        if model is None or options.verify_depth is None or number >= options.verify:
            yield hit
            continue
        progress.note(say("scan-verifying", model=hit.ref))
        yield replace(hit, verified=_verify(model, row, options.verify_depth, options.fetch))


def _verify(model: Model, row: RegistryRow, depth: Depth, fetch: FetchOptions) -> Verification:
    """Compare with the model itself, at the revision that the registry knows."""
    pin = row.kind == "hub" and row.revision is not None and "@" not in row.ref
    base = f"{row.ref}@{row.revision}" if pin else row.ref
    try:
        result = compare(candidate=model, base=base, options=CompareOptions(depth=depth, fetch=fetch))
    except ModelkinError as error:
        # A model that has vanished since must not lose what was found about the others.
        return Verification(depth=depth, reason=say("scan-unreadable", problem=told(error)))
    verdict = result.verdict
    return Verification(
        depth=depth,
        conclusion=verdict.conclusion.value,
        log10_p=verdict.log10_p,
        effect=verdict.effect,
        relation=result.relation.kind,
        comparison=result,
    )
