"""The first stages, quick and standard: samples of parts of equal number, tested as they are."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from modelkin.comparison.methods import (
    EqualityCount,
    Evidence,
    Skipped,
    Stage,
    Task,
    all_methods,
    count_equal,
)
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.tokens import Tokens
from modelkin.model import Model
from modelkin.tensors import Array, TensorSlice

_MOST_FITTINGS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What samples show."""

    evidence: tuple[Evidence, ...] = ()
    equality: EqualityCount = field(default_factory=EqualityCount)

    def __add__(self, other: Sampled) -> Sampled:
        return Sampled(evidence=(*self.evidence, *other.evidence), equality=self.equality + other.equality)


def plan_samples(pair: ModelPair, stage: Stage, tokens: Tokens) -> tuple[list[Task], list[Evidence]]:
    """Plan a stage so that it fits into the bytes of the depth: what to read, and what cannot be tested."""
    room = allowance = pair.sampled_bytes()
    methods = [method for method in all_methods() if method.card.stage == stage]
    for _ in range(_MOST_FITTINGS):
        plans = [method.plan(pair.seen(tokens, allowance)) for method in methods]
        tasks = [task for plan in plans for task in plan.tasks]
        cost = _cost(pair, tasks)
        if cost <= room:
            break
        # Methods ask for shares that add up to more than one where a model has dense and sparse layers.
        allowance = int(0.98 * allowance * room / cost)
    return tasks, [skipped for plan in plans for skipped in plan.skipped]


def _cost(pair: ModelPair, tasks: Sequence[Task]) -> int:
    mine = pair.candidate.plan([item for task in tasks for item in task.candidate])
    theirs = pair.base.plan([item for task in tasks for item in task.base])
    return max(mine.bytes_needed, theirs.bytes_needed)


def read_samples(pair: ModelPair, stage: Stage, tokens: Tokens) -> Sampled:
    """Read the samples of a stage, both models side by side, and test them."""
    tasks, skipped = plan_samples(pair, stage, tokens)
    mine, theirs = _read_both(
        (pair.candidate, [task.candidate for task in tasks]), (pair.base, [task.base for task in tasks])
    )
    evidence = list(skipped)
    equality = EqualityCount()
    for task, left, right in zip(tasks, mine, theirs, strict=True):
        found = task.evaluate(left, right)
        evidence.append(found)
        # Tables that training never touches are equal between strangers.
        if task.same_parts and not isinstance(found, Skipped):
            equality += count_equal(left, right, dtypes=_dtypes(pair, task))
    return Sampled(evidence=tuple(evidence), equality=equality)


def _read_both(*sides: tuple[Model, list[tuple[TensorSlice, ...]]]) -> tuple[list[list[Array]], ...]:
    """Read what all tasks want of both models, each in one pass, side by side."""

    def read(model: Model, wanted: list[tuple[TensorSlice, ...]]) -> list[list[Array]]:
        arrays = iter(model.read([item for slices in wanted for item in slices]))
        return [[next(arrays) for _ in slices] for slices in wanted]

    with ThreadPoolExecutor(len(sides)) as pool:
        return tuple(pool.map(lambda side: read(*side), sides))


def _dtypes(pair: ModelPair, task: Task) -> tuple[str, str]:
    if not task.candidate or not task.base:
        return "", ""
    mine, theirs = task.candidate[0].name, task.base[0].name
    return pair.candidate.index[mine].dtype, pair.base.index[theirs].dtype
