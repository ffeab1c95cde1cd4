"""The first stages, quick and standard: samples of parts with the same number, tested as they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from modelkin.comparison.methods import (
    EqualityCount,
    Evidence,
    Findings,
    Probe,
    Skipped,
    Stage,
    count_equal,
    head_views,
    load_cards,
    load_method,
)
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import Kept, Rehearsal, kept_of, price, read_together
from modelkin.comparison.tokens import Tokens
from modelkin.message import say
from modelkin.progress import Progress, Silent

_MARGIN = 0.98
"""Of the allowance that would fit if costs were proportional to it: blocks are rounded up, so a little
less."""
_MOST_FITTINGS = 6
"""Attempts to fit plans into the byte allowance; each removes the excess, and two are usually enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What samples show."""

    evidence: tuple[Evidence, ...] = ()
    equality: EqualityCount = field(default_factory=EqualityCount)
    kept: tuple[Kept, Kept] = field(default_factory=lambda: ({}, {}), repr=False)
    """What the deep stage need not read again, of candidate and base."""

    def __add__(self, other: Sampled) -> Sampled:
        return Sampled(
            evidence=(*self.evidence, *other.evidence),
            equality=self.equality + other.equality,
            kept=(self.kept[0] | other.kept[0], self.kept[1] | other.kept[1]),
        )


def read_samples(
    pair: ModelPair,
    stage: Stage,
    tokens: Tokens,
    rehearsal: Rehearsal | None = None,
    progress: Progress | None = None,
) -> Sampled:
    """Read the samples of a stage and test them."""
    probes, evidence = _fitting(pair, stage, tokens)
    equality, told = EqualityCount(), progress or Silent()
    kept: tuple[Kept, Kept] = {}, {}
    if rehearsal is not None:
        for probe in probes:
            _keep(kept, kept_of(probe, None))
    read = read_together(pair.models, probes, rehearsal, max_waste=pair.max_waste)
    for done, (probe, mine, theirs) in enumerate(read):
        told.count(done, len(probes), say("step-testing"))
        _keep(kept, kept_of(probe, (mine, theirs)))
        found = probe.evaluate(mine, theirs).evidence
        evidence += found
        # Tables that training never touches are equal even between strangers.
        if probe.same_parts and not any(isinstance(item, Skipped) for item in found):
            equality += count_equal(mine, theirs, dtypes=_dtypes(pair, probe))
    return Sampled(evidence=tuple(evidence), equality=equality, kept=kept)


def _keep(kept: tuple[Kept, Kept], more: tuple[Kept, Kept]) -> None:
    for held, new in zip(kept, more, strict=True):
        held.update(new)


def _fitting(pair: ModelPair, stage: Stage, tokens: Tokens) -> tuple[list[Probe[Findings]], list[Evidence]]:
    """Plan a stage so that it fits into the bytes of the depth: what to read, and what cannot be tested."""
    room = allowance = pair.sampled_bytes()
    methods = [load_method(name) for name, card in load_cards().items() if card.stage == stage]
    for _ in range(_MOST_FITTINGS):
        seen = pair.seen(tokens, allowance)
        plans = [
            method.plan(view)
            for method in methods
            for view in (head_views(seen) if method.card.component == "attention" else (seen,))
        ]
        probes = [probe for plan in plans for probe in plan.probes]
        cost = price(pair.models, probes, max_waste=pair.max_waste)
        if cost <= room:
            break
        # Methods ask for shares that add up to more than one where a model has dense and sparse layers.
        allowance = int(_MARGIN * allowance * room / cost)
    return probes, [skipped for plan in plans for skipped in plan.skipped]


def _dtypes(pair: ModelPair, probe: Probe[Findings]) -> tuple[str, str]:
    if not probe.candidate or not probe.base:
        return "", ""
    mine, theirs = probe.candidate[0].slices[0].name, probe.base[0].slices[0].name
    return pair.candidate.index[mine].dtype, pair.base.index[theirs].dtype
