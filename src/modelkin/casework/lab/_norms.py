"""The norm experiment: whether gains are alike because models are kin, or because of how gains begin.

A published experiment trained two pairs of tiny models and looked at cosines. Here every arm has several
seeds, really different corpora, known relatives as positive controls, and exact tests beside the cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from ._checkpoint import Checkpoint
from ._norms_measure import measure_pair
from ._norms_records import (
    RELATIONS,
    SCHEMA,
    GainInit,
    ModelRun,
    NormsOptions,
    NormsResult,
    PairRelation,
    PairResult,
)
from ._norms_train import Trainer
from ._norms_words import conclude

__all__ = ["norms_experiment"]


def norms_experiment(
    options: NormsOptions | None = None, *, report: Callable[[str], None] = lambda line: None
) -> NormsResult:
    """Train the models of all arms, compare all pairs with a known relation, and say what follows.

    Parameters
    ----------
    options
        Size and arms; `NormsOptions.small` of them takes seconds.
    report
        Called with a line after each model and each arm.

    Raises
    ------
    MissingExtra
        torch or transformers is not installed.
    """
    options = options or NormsOptions()
    trainer = Trainer(options, report=report)
    versions = trainer.versions
    runs: list[ModelRun] = []
    pairs: list[PairResult] = []
    for init in options.inits:
        arm = trainer.arm(init)
        runs += [run for run, _ in arm.values()]
        pairs += _compared(options, init, arm)
        report(f"{init}: {len(pairs)} pairs compared so far")
    order = {relation: place for place, relation in enumerate(RELATIONS)}
    pairs.sort(key=lambda pair: (options.inits.index(pair.init), order[pair.relation]))
    return conclude(
        NormsResult(
            schema=SCHEMA,
            options=options,
            versions=versions,
            chance_losses=trainer.chance_losses(),
            models=tuple(runs),
            pairs=tuple(pairs),
            conclusion=(),
            limits=(),
        )
    )


def _compared(
    options: NormsOptions, init: GainInit, arm: dict[str, tuple[ModelRun, Checkpoint]]
) -> Iterator[PairResult]:
    for first, second, relation in _known_pairs([run for run, _ in arm.values()]):
        yield measure_pair(
            arm[first.name][1],
            arm[second.name][1],
            names=(first.name, second.name),
            init=init,
            relation=relation,
            n_permutations=options.n_permutations,
            seed=options.seed,
        )


def _known_pairs(runs: list[ModelRun]) -> Iterator[tuple[ModelRun, ModelRun, PairRelation]]:
    """Yield candidate, base and relation: all pairs of bases, and each base with what comes of it."""
    bases = [run for run in runs if run.relation == "base"]
    for first, second in combinations(bases, 2):
        same = first.corpus == second.corpus
        yield second, first, "unrelated, same data" if same else "unrelated, other data"
    for base in bases:
        for run in runs:
            if run.number == base.number and run.relation == "same start":
                yield run, base, "same start"
            elif run.number == base.number and run.relation == "fine-tuned":
                yield run, base, "fine-tuned"
