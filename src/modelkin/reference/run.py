"""Published methods run on a pair: priced first, read within a limit, reported next to the verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from modelkin.comparison import Comparison, ReferenceScore
from modelkin.errors import BudgetExceeded, MissingExtra, UsageError
from modelkin.message import Message, say, told
from modelkin.model import Model, ModelLike, open_models
from modelkin.options import FetchOptions
from modelkin.progress import Progress, Silent

from ._interface import RawScore, ReferenceMethod, ReferencePair, RunMemory, Wanted
from .catalogue import ALL, chosen_references
from .reading import SideReader

_SILENT = Silent()
_FEWEST_PROMPTS = 4
"""Unbiased alignment divides by the number of samples minus three."""
_MOST_PROMPT_BYTES = 10_000_000
"""Nobody would wait for more prompts than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOptions:
    """What published methods may do."""

    methods: tuple[str, ...] = (ALL,)
    """By name; ``all`` means every method that reads weights."""
    byte_limit: int | None = 1_000_000_000
    """Most bytes of a model that one method may read, as much as `deep` does. None means no limit: some read
    a whole model."""
    seed: int = 0
    """Chooses samples."""
    prompts: tuple[str, ...] = ()
    """For methods that run the models; empty takes those that come with the package."""
    layers: tuple[int, int] | None = None
    """Which states `reef` compares, of candidate and base: 0 is the embedding, n follows layer n - 1. None
    means the published depth."""


def read_prompts(path: Path) -> tuple[str, ...]:
    """Read at least four prompts, one per line; empty lines are left out."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_PROMPT_BYTES + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(str(path), say("problem.prompts-text")) from error
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not len(found) >= _FEWEST_PROMPTS or len(text) > _MOST_PROMPT_BYTES:
        problem = say("problem.prompts-few", least=_FEWEST_PROMPTS, n=len(found))
        raise UsageError(str(path), problem)
    return found


def reference_scores(
    candidate: ModelLike,
    base: ModelLike,
    options: ReferenceOptions | None = None,
    *,
    controls: Sequence[ModelLike] = (),
    fetch: FetchOptions | None = None,
    progress: Progress | None = None,
) -> tuple[ReferenceScore, ...]:
    """Run published methods on two models. Nothing they say is evidence.

    Parameters
    ----------
    candidate, base
        Model references, sources, or opened models.
    options
        Which methods, and how much each may read.
    controls
        Unrelated models, for the method that ranks behaviour among them.
    fetch
        How models that are not open yet are read.
    progress
        Told which method begins.
    """
    options = options or ReferenceOptions()
    chosen_references(options.methods)  # a wrong name is reported before anything is opened
    with open_models((candidate, base, *controls), fetch or FetchOptions(), progress=progress) as opened:
        mine, theirs, *others = opened
        return tuple(each_reference_score(mine, theirs, options, controls=others, progress=progress))


def each_reference_score(
    candidate: Model,
    base: Model,
    options: ReferenceOptions,
    *,
    controls: Sequence[Model] = (),
    of_controls: RunMemory | None = None,
    progress: Progress | None = None,
) -> Iterator[ReferenceScore]:
    """Run published methods on two opened models, one by one; a model is run once for all of them.

    `of_controls` keeps what was computed from controls, for pairs that share them.
    """
    heard = progress or _SILENT
    pair = ReferencePair(
        candidate,
        base,
        seed=options.seed,
        controls=controls,
        prompts=options.prompts,
        layers=options.layers,
        of_controls=of_controls,
    )
    for method in chosen_references(options.methods):
        heard.note(say("step-reference", name=method.card.name))
        yield _asked(method, pair, options.byte_limit)


def with_references(comparison: Comparison, scores: Iterable[ReferenceScore]) -> Comparison:
    """Return a comparison with what published methods say; its verdict is unchanged."""
    return replace(comparison, reference=tuple(scores))


def _asked(method: ReferenceMethod, pair: ReferencePair, limit: int | None) -> ReferenceScore:
    begun = time.perf_counter()
    readers = SideReader(pair.candidate), SideReader(pair.base)
    try:
        # Hostile weights may make any formula overflow; the result is then not a score.
        with np.errstate(all="ignore"):
            found = _measured(method, pair, readers, limit)
    except (BudgetExceeded, MissingExtra) as error:
        found = told(error)
    except np.linalg.LinAlgError:
        found = say("reference-not-finite")
    if not isinstance(found, Message) and not _is_finite(found):
        found = say("reference-not-finite")
    seconds = time.perf_counter() - begun
    n_bytes = readers[0].n_bytes, readers[1].n_bytes
    if method.uses_tokens and max(n_bytes) and not isinstance(pair.rows, Message):
        n_bytes = n_bytes[0] + pair.rows.n_bytes[0], n_bytes[1] + pair.rows.n_bytes[1]
    card = method.card
    score = None if isinstance(found, Message) else found.score
    return ReferenceScore(
        method=card.name,
        version=card.version,
        score=score,
        level=card.level,
        says=None if score is None else method.says(score),
        details={} if isinstance(found, Message) else dict(found.details),
        layers=() if isinstance(found, Message) else found.layers,
        bytes_read=n_bytes,
        seconds=seconds,
        reason=found if isinstance(found, Message) else None,
    )


def _is_finite(found: RawScore) -> bool:
    return all(math.isfinite(value) for value in (found.score, *found.details.values()))


def _measured(
    method: ReferenceMethod, pair: ReferencePair, readers: tuple[SideReader, SideReader], limit: int | None
) -> RawScore | Message:
    wanted = method.wanted(pair)
    if isinstance(wanted, Message):
        return wanted
    price = max(_costs(pair.models, wanted))
    if limit is not None and price > limit:
        return say("reference-limit", n=price, m=limit)
    return method.measure(pair, readers)


def _costs(models: tuple[Model, Model], wanted: Wanted) -> tuple[int, int]:
    mine, theirs = (model.cost(slices) for model, slices in zip(models, wanted, strict=True))
    return mine, theirs


def reference_costs(
    candidate: Model, base: Model, methods: Iterable[str], *, seed: int = 0
) -> dict[str, tuple[int, int] | Message]:
    """Return the bytes that each method would read of both models, or why it would read none."""
    pair = ReferencePair(candidate, base, seed=seed)
    found: dict[str, tuple[int, int] | Message] = {}
    for method in chosen_references(methods):
        try:
            wanted = method.wanted(pair)
        except MissingExtra as error:
            wanted = told(error)
        found[method.card.name] = wanted if isinstance(wanted, Message) else _costs(pair.models, wanted)
    return found
