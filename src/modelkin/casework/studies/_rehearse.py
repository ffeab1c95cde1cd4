"""A dry run of a study: what its comparison and its experiments would read of each model, together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from modelkin.comparison import wanted_by_comparison
from modelkin.describe.matrix import MAX_WASTE
from modelkin.errors import ModelkinError
from modelkin.message import Message, say
from modelkin.options import CompareOptions, FetchOptions
from modelkin.progress import Progress
from modelkin.source import BytePlan
from modelkin.tensors import TensorSlice

from ._run import missing_models, open_study_models, skipped_step
from .bench import Bench, NotDone
from .folder import Folder
from .result import MissingModel, Step
from .spec import Study, replace_models

Wanted = Mapping[str, Sequence[TensorSlice]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """What a study would read at most."""

    schema: str = "modelkin.study-plan/1"
    study: str
    models: Mapping[str, BytePlan]
    """By alias. Bytes that several experiments use are counted once."""
    differences: Mapping[str, int]
    """Of these, bytes that are needed only if models turn out to be relatives, by alias."""
    missing: tuple[MissingModel, ...]
    skipped: tuple[Step, ...]
    """Experiments that would not be done."""


def plan_study(
    study: Study,
    *,
    models: Mapping[str, str] | None = None,
    seed: int = 0,
    fetch: FetchOptions | None = None,
    progress: Progress | None = None,
) -> StudyPlan:
    """Say what `run_study` would request. Headers, configs and tokenizers are read, no tensor."""
    chosen, options = replace_models(study, models or {}), fetch or FetchOptions()
    skipped: list[Step] = []
    with ExitStack() as stack:
        opened, missing = open_study_models(chosen, options, progress, stack)
        bench = Bench(
            study=chosen,
            folder=Folder(Path()),  # nothing is written
            models=opened,
            missing=missing,
            seed=seed,
            fetch=options,
            replaced=frozenset(models or {}),
        )
        slices: dict[str, list[TensorSlice]] = {alias: [] for alias in opened}
        of_relatives: dict[str, list[TensorSlice]] = {alias: [] for alias in opened}
        for name, wanted, differences in _steps(bench, skipped):
            if progress is not None:
                progress.note(say("step-planning", name=name))
            for listed, by_alias in ((slices, wanted), (of_relatives, differences)):
                for alias, items in by_alias.items():
                    listed[alias] += items
        plans, further = {}, {}
        for alias, model in opened.items():
            # Ranges are joined as experiments join them: most bytes are read by these.
            every = dict.fromkeys((*slices[alias], *of_relatives[alias]))
            plans[alias] = model.plan(every, max_waste=MAX_WASTE)
            certain = model.plan(dict.fromkeys(slices[alias])).bytes_needed
            further[alias] = plans[alias].bytes_needed - certain
        gone = missing_models(bench)
    return StudyPlan(
        study=study.name, models=plans, differences=further, missing=gone, skipped=tuple(skipped)
    )


def _steps(bench: Bench, skipped: list[Step]) -> Iterator[tuple[str | Message, Wanted, Wanted]]:
    """Yield what each step reads, and what it also reads if models are relatives."""
    for pair, is_control in _pairs(bench):
        yield say("step-comparison"), *_compared(bench, *pair, is_control=is_control)
    for item in bench.study.experiments:
        bench.id = item.id
        try:
            yield item.id, item.wanted(bench), {}
        except (NotDone, ModelkinError) as error:
            skipped.append(skipped_step(item.id, item.kind, error))


def _pairs(bench: Bench) -> Iterator[tuple[tuple[str, str], bool]]:
    """Yield the pairs that are compared: the main one, each side with each control, known relatives."""
    main = bench.study.compare
    if main is None:
        return
    wanted: list[tuple[tuple[str, str], bool]] = [((main.candidate, main.base), False)]
    wanted += [((side, control), True) for control in main.controls for side in (main.candidate, main.base)]
    wanted += [((b, a), False) for a, b in main.relatives]
    yield from ((pair, is_control) for pair, is_control in wanted if set(pair) <= set(bench.models))


def _compared(bench: Bench, candidate: str, base: str, *, is_control: bool) -> tuple[Wanted, Wanted]:
    main = bench.study.compare
    assert main is not None
    options = CompareOptions(depth=main.depth, seed=bench.seed, fetch=bench.fetch)
    wanted = wanted_by_comparison(bench.models[candidate], bench.models[base], options)
    stages = dict(zip((candidate, base), wanted.stages, strict=True))
    # Only weights of candidate and base are subtracted, never those of a control.
    return stages, {} if is_control else dict(zip((candidate, base), wanted.differences, strict=True))
